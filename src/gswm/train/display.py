"""What a person sees of a training: a bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class EnduringStream:
    """A stream that may be closed at its other end: what is written then is lost, and no error."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write it if that is possible."""
        with suppress(OSError):  # the signal that tells of a lost terminal may come later
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush it if that is possible."""
        with suppress(OSError):
            self.stream.flush()


class Display:
    """Reports of a run."""

    def __init__(self, steps: int, batch: int, *, silent: bool = False) -> None:
        self.steps, self.batch, self.silent = steps, batch, silent
        self.console = Console(file=cast(IO[str], EnduringStream(sys.stderr)))
        self.bar: Progress | None = None
        self.since, self.last_step = time.perf_counter(), 0

    @contextmanager
    def running(self, step: int) -> Iterator[None]:
        """While steps are taken."""
        self.since, self.last_step = time.perf_counter(), step
        if self.silent or not self.console.is_terminal:
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        with Progress(*columns, console=self.console) as self.bar:
            self.bar.add_task("training", total=self.steps, completed=step, left="")
            yield
        self.bar = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While something else is done, the time of which no step has taken."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.since += time.perf_counter() - began

    def report(
        self, step: int, length: int, values: dict[str, float], batch: int | None = None
    ) -> float:
        """Say how it goes; frames per second since the last report.

        `batch` is the number of videos a step, if it is not the usual one.
        """
        now = time.perf_counter()
        seconds = max(now - self.since, 1e-9)
        speed = (step - self.last_step) * (batch or self.batch) * length / seconds
        minutes = (self.steps - step) * seconds / max(1, step - self.last_step) / 60
        left = f"{minutes:.1f} min left"
        self.since, self.last_step = now, step
        order = ["loss", *[n for n in values if n == "nll" or n.startswith(("kl", "aux"))]]
        parts = [f"{name} {short(values[name])}" for name in order if name in values]
        parts += [f"{name} {values[name]:.2f}" for name in ("objects", "width") if name in values]
        text = f"step {step:>7}  T {length:>2}  {'  '.join(parts)}  {speed:,.0f} frames/s"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=step, left=left, refresh=True)
            self.tell(text)
        else:
            self.tell(f"{text}  {left}")
        return speed

    def tell(self, text: str) -> None:
        """One line."""
        if not self.silent:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def short(value: float) -> str:
    """A loss, large or small, in a few digits."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.4g}"
