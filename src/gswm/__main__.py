"""`python -m gswm` is the command `gswm`."""

import sys

from gswm.cli import main

sys.exit(main())
