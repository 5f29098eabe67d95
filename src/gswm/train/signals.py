"""Stop requests by Ctrl-C, SIGTERM, SIGHUP or the time limit, handled at once if that is safe."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gswm.core.ending import heard_signals, leave_hung_up, terminals


class Stopped(Exception):  # noqa: N818
    """Raised to abandon the current work."""


class Signals:
    """Whether the run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.asked = False
        self.by: int | None = None
        """The signal that asked first; None for the time limit."""
        self.at_once = True
        self.terminals = terminals()
        self.since = time.perf_counter()
        """Start of the time limit."""

    @contextmanager
    def heard(self, max_minutes: float | None = None) -> Iterator[None]:
        """Treat signals as stop requests; the time limit adds one `max_minutes` after `since`."""
        which = (*heard_signals(), signal.SIGALRM)
        try:
            before = [signal.signal(one, self.hear) for one in which]
        except ValueError:  # only the main thread can handle signals
            yield
            return
        try:
            if max_minutes:
                left = self.since + 60 * max_minutes - time.perf_counter()
                signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3))  # 0 would mean never
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for one, old in zip(which, before, strict=True):
                signal.signal(one, old)

    @property
    def exit_code(self) -> int:
        """Exit code: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP; else 0."""
        return 0 if self.by is None else 128 + self.by

    def hear(self, which: int, *_: Any) -> None:
        """Handle a signal."""
        leave_hung_up(self.terminals)
        self.asked = True
        if self.by is None and which != signal.SIGALRM:
            self.by = which
        if self.at_once:
            raise Stopped

    @contextmanager
    def waiting(self, *, at_once: bool) -> Iterator[None]:
        """Let signals interrupt the current work, or defer them to its end."""
        before, self.at_once = self.at_once, at_once
        try:
            if at_once and self.asked:
                raise Stopped
            yield
        finally:
            self.at_once = before
