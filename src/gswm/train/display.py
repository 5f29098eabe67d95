"""Training progress: a bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from gswm.core.waiting import QUIET, EnduringStream
from gswm.core.words import duration

REDRAWN = 0.2
"""Seconds between two updates of the bar."""


class Display:
    """Displays the progress of a run."""

    def __init__(self, steps: int, batch: int, *, silent: bool = False) -> None:
        self.steps, self.batch, self.silent = steps, batch, silent
        self.console = Console(file=cast(IO[str], EnduringStream(sys.stderr)))
        self.bar: Progress | None = None
        self.since, self.last_step = time.perf_counter(), 0
        self.pace: float | None = None
        """Seconds per step, up to the last report."""
        self.spoke = 0.0
        """Time of the last line or update of the bar."""

    @contextmanager
    def running(self, step: int) -> Iterator[None]:
        """Display a bar while steps are taken."""
        self.since, self.last_step = time.perf_counter(), step
        self.pace, self.spoke = None, -QUIET  # the first step is reported
        if self.silent or not self.console.is_terminal:
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        with Progress(*columns, console=self.console) as self.bar:
            self.bar.add_task("training", total=self.steps, completed=step, left="first step")
            yield
        self.bar = None

    def advance(self, step: int) -> None:
        """Show the progress: in the bar, or in a line after some time without one."""
        now = time.perf_counter()
        if self.silent or now - self.spoke < (QUIET if self.bar is None else REDRAWN):
            return
        pace = self.pace or (now - self.since) / max(1, step - self.last_step)
        if self.bar is None:
            self.tell(f"step {step:>7} of {self.steps:,}  {rate(pace)}  {self.left(step, pace)}")
        else:
            self.show(step, pace)

    def show(self, step: int, pace: float) -> None:
        """Update the bar."""
        assert self.bar is not None
        said = f"step {step:,} of {self.steps:,}  {rate(pace)}  {self.left(step, pace)}"
        self.bar.update(self.bar.task_ids[0], completed=step, left=said, refresh=True)
        self.spoke = time.perf_counter()

    def left(self, step: int, pace: float) -> str:
        """The remaining time, at a pace in seconds per step."""
        return f"{duration((self.steps - step) * pace)} left"

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Exclude the time of other work from the time per step."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.since += time.perf_counter() - began

    def report(
        self, step: int, length: int, values: dict[str, float], batch: int | None = None
    ) -> float:
        """Print a report, with frames per second since the last one.

        `batch` is the number of videos per step, if it differs from the usual one.
        """
        now = time.perf_counter()
        seconds = max(now - self.since, 1e-9)
        speed = (step - self.last_step) * (batch or self.batch) * length / seconds
        pace = self.pace = seconds / max(1, step - self.last_step)
        self.since, self.last_step = now, step
        order = ["loss", *[n for n in values if n == "nll" or n.startswith(("kl", "aux"))]]
        parts = [f"{name} {short(values[name])}" for name in order if name in values]
        parts += [f"{name} {values[name]:.2f}" for name in ("objects", "width") if name in values]
        text = f"step {step:>7}  T {length:>2}  {'  '.join(parts)}  {speed:,.0f} frames/s"
        if self.bar is not None:
            self.show(step, pace)
            self.tell(text)
        else:
            self.tell(f"{text}  {self.left(step, pace)}")
        return speed

    def tell(self, text: str) -> None:
        """Print one line."""
        self.spoke = time.perf_counter()
        if not self.silent:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def rate(pace: float) -> str:
    """Seconds per step, or steps per second, whichever is above 1."""
    return f"{pace:.1f} s/step" if pace >= 1 else f"{1 / max(pace, 1e-9):.1f} steps/s"


def short(value: float) -> str:
    """A loss in a few digits."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.4g}"
