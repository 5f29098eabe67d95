"""Draw one file under limits: `python -m gswm.studio.drawing FOLDER`.

It runs in a separate process, so that no page waits for it and it can be killed. It reads the
output of `exports.write` and writes `export.KIND` beside it, or prints an error in one line on
stderr.
"""

import os
import sys
from pathlib import Path

from gswm.core.errors import UserError
from gswm.studio.limits import limit

MEMORY = 1 << 30
"""Bytes of memory beyond the initial ones; a GIF takes one byte per pixel."""
SECONDS = 600
"""Seconds of processor time."""
MOST_BYTES = 1 << 28
"""Maximum file size in bytes."""


def main(args: list[str]) -> int:
    """Read FOLDER and draw the file."""
    folder = Path(args[0])
    if hasattr(os, "nice"):
        os.nice(10)  # pages that are in use come first, also while torch is imported
    from gswm.studio import exports

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
