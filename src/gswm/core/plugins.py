"""Extensions by installed packages, through Python entry points."""

import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from threading import RLock
from typing import Any


class PlugInWarning(UserWarning):
    """An extension of an installed package was skipped."""


class Once:
    """A function that runs at its first call only; calls in other threads wait for it.

    A call from within returns at once. If the function fails, the next call repeats it.
    """

    def __init__(self, make: Callable[[], None]) -> None:
        self.make, self.lock = make, RLock()
        self.done = self.running = False

    def __call__(self) -> None:
        """Run the function, unless it has run."""
        if self.done:
            return
        with self.lock:
            if self.done or self.running:
                return
            self.running = True
            try:
                self.make()
                self.done = True
            finally:
                self.running = False


def load_plug_ins(group: str, what: str, add: Callable[[Any], None]) -> None:
    """Add the value of every entry point of a group; broken ones are skipped with a warning."""
    for point in entry_points(group=group):
        try:
            add(point.load())
        except Exception as error:
            why = " ".join(str(error).split()) or type(error).__name__
            text = f"the {what} '{point.name}' of {point.value} is skipped: {why}"
            warnings.warn(text, PlugInWarning, stacklevel=2)
