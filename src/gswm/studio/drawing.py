"""Draw one file under limits: `python -m gswm.studio.drawing FOLDER`.

A process of its own, so that no page waits for it, and that can be killed. It reads what
`exports.write` has written, and writes `file` beside it, or says in one line on stderr why it
cannot.
"""

import os
import sys
from pathlib import Path

from gswm.core.errors import UserError
from gswm.studio import exports
from gswm.studio.limits import limit

MEMORY = 1 << 30
"""Bytes beyond what the process has when it begins: a GIF is whole in memory, a byte a pixel."""
SECONDS = 600
"""Of a processor."""
MOST_BYTES = 1 << 28
"""Of a file."""


def main(args: list[str]) -> int:
    """Read FOLDER, draw the file."""
    folder = Path(args[0])
    if hasattr(os, "nice"):
        os.nice(10)  # the page that somebody is working with comes first
    limit(MEMORY, SECONDS, MOST_BYTES)
    try:
        kind, view = exports.read(folder)
        exports.save(kind, view, folder / f"export.{kind}")
    except (UserError, OSError, ValueError, MemoryError) as error:
        said = str(error) if isinstance(error, UserError) else type(error).__name__
        print(said, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
