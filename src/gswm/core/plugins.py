"""Extensions by installed packages, through Python entry points."""

import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any


class PlugInWarning(UserWarning):
    """An extension of an installed package was skipped."""


def load_plug_ins(group: str, what: str, add: Callable[[Any], None]) -> None:
    """Add the value of every entry point of a group; broken ones are skipped with a warning."""
    for point in entry_points(group=group):
        try:
            add(point.load())
        except Exception as error:
            why = " ".join(str(error).split()) or type(error).__name__
            text = f"the {what} '{point.name}' of {point.value} is skipped: {why}"
            warnings.warn(text, PlugInWarning, stacklevel=2)
