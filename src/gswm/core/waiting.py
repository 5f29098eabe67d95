"""Progress messages on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from typing import IO, Any, cast

from gswm.core.words import duration

SECONDS = 5.0
"""Seconds before a slow operation prints its message."""
QUIET = 30.0
"""Seconds between progress lines if there is no progress bar."""


def tell(text: str) -> None:
    """Print a line and flush it."""
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


class EnduringStream:
    """A stream that silently discards output once its other end is closed."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write if possible."""
        with suppress(OSError):  # the signal of a lost terminal may arrive later
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if possible."""
        with suppress(OSError):
            self.stream.flush()


@contextmanager
def progress_bar(what: str, unit: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if stderr is a terminal; otherwise print a line every `QUIET` seconds.

    The bar disappears at the end. Call the yielded function with the number of units done so far.

        with progress_bar("tracking film.mp4", "frames", 600) as advance:
            advance(128)

    Args:
        what: A description of the work.
        unit: The unit of progress, as a plural.
        total: The number of units, or None if unknown.
    """
    from rich.console import Console  # importing rich takes 50 ms, and most commands do not need it
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=cast(IO[str], EnduringStream(sys.stderr)))
    of_all = f" of {total:,}" if total else ""
    if not console.is_terminal:
        began = spoke = time.monotonic()

        def say(done: int) -> None:
            nonlocal spoke
            now = time.monotonic()
            if not done or now - spoke < QUIET:
                return
            spoke, pace = now, (now - began) / done
            left = f", {duration((total - done) * pace)} left" if total and done < total else ""
            tell(f"{what}: {done:,}{of_all} {unit}, {1 / pace:,.1f} {unit}/s{left}")

        yield say
        return
    count = f"{{task.completed:,.0f}}{of_all} {unit}"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(count),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(what), total=total, rate="")

        def advance(done: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, rate=f"{speed:,.1f} {unit}/s" if speed else "")

        yield advance
