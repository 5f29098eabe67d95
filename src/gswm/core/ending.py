"""Signals that end a command: Ctrl-C, SIGTERM, and the SIGHUP of a lost connection.

The first one raises `EndedBySignal`, which undoes what is half done on its way out. Code that
calls Python from C may swallow an exception: loops therefore call `check_signals` in each round.
"""

import os
import signal
import sys
import time
from typing import Any

from gswm.core.files import remove_parts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN = 0.5
"""Seconds in which further signals are one with the first: a terminal may send several."""


class EndedBySignal(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, which: int) -> None:
        super().__init__(which)
        self.which = which


class Ending:
    """Handlers of signals while a command runs."""

    now: "Ending | None" = None
    """Those of this process."""

    def __init__(self) -> None:
        self.which: int | None = None
        """The first signal that came."""
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
        """Hear the signals; those that the process was started to ignore stay ignored."""
        Ending.now = self
        for one in heard_signals():
            try:
                self.before[one] = signal.signal(one, self.hear)
            except ValueError:  # not the main thread, which has no signals to hear
                return
        self.unraisable, sys.unraisablehook = sys.unraisablehook, self.swallow

    def swallow(self, lost: "sys.UnraisableHookArgs") -> None:
        """Print nothing of a signal that came in a finalizer: `check_signals` raises it again."""
        if not isinstance(lost.exc_value, EndedBySignal):
            self.unraisable(lost)

    def hear(self, which: int, *_: Any) -> None:
        """Raise, unless it has just been done."""
        self.which = self.which or which
        leave_hung_up(self.terminals)
        if time.monotonic() - self.last >= AGAIN:
            self.last = time.monotonic()
            raise EndedBySignal(which)

    def finish(self, *, process: bool) -> None:
        """Remove what is half written; a `process` that ends now ignores signals from here on."""
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
    """Those that end this process; nohup, for one, has it ignore SIGHUP."""
    return [one for one in SIGNALS if signal.getsignal(one) not in (signal.SIG_IGN, None)]


def check_signals() -> None:
    """Raise if a signal has come, and its exception was lost."""
    if Ending.now is not None and Ending.now.which is not None:
        raise EndedBySignal(Ending.now.which)


def terminals() -> list[int]:
    """Which of input, output and errors are a terminal's."""
    return [handle for handle in (0, 1, 2) if is_terminal(handle)]


def leave_hung_up(handles: list[int]) -> None:
    """Discard what would be written to a terminal that is gone: it would be an error each time."""
    for handle in [handle for handle in handles if not is_terminal(handle)]:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, handle)
        os.close(nowhere)


def is_terminal(handle: int) -> bool:
    """Whether this is a terminal, and it is still there."""
    try:
        return os.isatty(handle)
    except OSError:
        return False


def ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
