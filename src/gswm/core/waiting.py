"""Messages on stderr while a command works."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

SECONDS = 5.0
"""Delay before the message of a slow operation."""


def tell(text: str) -> None:
    """Print a line at once."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def explained(what: str, *, silent: bool = False) -> Iterator[None]:
    """Print `what` if the operation takes longer than `SECONDS`."""
    timer = Timer(SECONDS, lambda: tell(f"{what} ..."))
    timer.daemon = True
    if not silent:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
