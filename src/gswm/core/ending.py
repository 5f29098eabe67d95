"""Signals that end a command: Ctrl-C, SIGTERM, and the SIGHUP of a lost connection.

The first one raises `EndedBySignal`, which cleans up unfinished work as it propagates. Code that
calls Python from C may swallow an exception, so loops call `check_signals` in each iteration.
"""

import os
import signal
import sys
import time
from typing import Any

from gswm.core.files import remove_parts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN = 0.5
"""Seconds during which repeated signals count as one; a terminal may send several."""


class EndedBySignal(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, which: int) -> None:
        super().__init__(which)
        self.which = which


class Ending:
    """Signal handlers while a command runs."""

    now: "Ending | None" = None
    """The handlers of this process."""

    def __init__(self) -> None:
        self.which: int | None = None
        """The first signal received."""
        self.last = -AGAIN
        self.before: dict[int, Any] = {}
        self.terminals = terminals()
        self.unraisable = sys.unraisablehook

    @property
    def code(self) -> int:
        """The exit code that shells expect after a signal."""
        return 128 + (self.which or signal.SIGINT)

    @property
    def reason(self) -> str:
        """Why the command ends."""
        by_hand = self.which in (None, signal.SIGINT)
        return "interrupted" if by_hand else f"ended by {signal.Signals(self.which).name}"

    def begin(self) -> None:
        """Install the handlers, except for signals that the process inherited as ignored."""
        Ending.now = self
        for one in heard_signals():
            try:
                self.before[one] = signal.signal(one, self.hear)
            except ValueError:  # only the main thread can handle signals
                return
        self.unraisable, sys.unraisablehook = sys.unraisablehook, self.swallow

    def swallow(self, lost: "sys.UnraisableHookArgs") -> None:
        """Suppress the traceback of a signal in a finalizer; `check_signals` re-raises it."""
        if not isinstance(lost.exc_value, EndedBySignal):
            self.unraisable(lost)

    def hear(self, which: int, *_: Any) -> None:
        """Raise `EndedBySignal`, unless it was raised a moment ago."""
        self.which = self.which or which
        leave_hung_up(self.terminals)
        if time.monotonic() - self.last >= AGAIN:
            self.last = time.monotonic()
            raise EndedBySignal(which)

    def finish(self, *, process: bool) -> None:
        """Remove partially written files; if the `process` exits now, ignore further signals."""
        self.last = float("inf")
        for one in self.before:
            signal.signal(one, signal.SIG_IGN)
        remove_parts()
        Ending.now = None
        if not process:
            sys.unraisablehook = self.unraisable
            for one, handler in self.before.items():
                signal.signal(one, handler)


def heard_signals() -> list[signal.Signals]:
    """The signals that end this process; nohup, for example, makes it ignore SIGHUP."""
    return [one for one in SIGNALS if signal.getsignal(one) not in (signal.SIG_IGN, None)]


def check_signals() -> None:
    """Raise `EndedBySignal` if a signal was received but its exception was swallowed."""
    if Ending.now is not None and Ending.now.which is not None:
        raise EndedBySignal(Ending.now.which)


def terminals() -> list[int]:
    """Whether input, output and errors are terminals."""
    return [handle for handle in (0, 1, 2) if is_terminal(handle)]


def leave_hung_up(handles: list[int]) -> None:
    """Discard output to a terminal that no longer exists, where each write would fail."""
    for handle in [handle for handle in handles if not is_terminal(handle)]:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, handle)
        os.close(nowhere)


def is_terminal(handle: int) -> bool:
    """Whether this is a terminal that still exists."""
    try:
        return os.isatty(handle)
    except OSError:
        return False


def ignore_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to child processes too; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
