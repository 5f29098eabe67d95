"""What is said to who waits."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

SECONDS = 5.0
"""How long nobody minds."""


@contextmanager
def explained(what: str, *, silent: bool = False) -> Iterator[None]:
    """Say what goes on, if it takes longer than one waits without asking."""
    timer = Timer(SECONDS, lambda: print(f"{what} ...", file=sys.stderr, flush=True))
    timer.daemon = True
    if not silent:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
