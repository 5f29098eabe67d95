"""Bounds on numbers that users provide."""

import math
import operator
import sys
from collections.abc import Mapping
from typing import TypeGuard

from gswm.core.errors import UserError

Number = int | float
SEEDS = (0, 2**64 - 1)
MINUTES = (0, 10_000_000)
"""At most 19 years, close to the limit of the system's timer."""
STEPS = 10**12
WORKERS = 1_024
LARGEST_SIDE = 4_096
"""Largest side of a model's frames in pixels."""
LARGEST_SCALE = 16
"""Largest factor by which frames are enlarged."""
LARGEST_DEPTH = 1_000
"""Largest absolute depth of an edited object; some models bound depths to 8, others not at all."""
MOST_FPS = 1_000
"""Largest frame rate of an animation."""
MOST_TAKEN = 1_000_000
"""Largest frame rate at which a video is sampled."""


def is_number(value: object) -> TypeGuard[Number]:
    """Whether this is a number other than a bool, and fits into 64 bits if it is an integer."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**64
    return isinstance(value, float)


def check_range(
    settings: Mapping[str, Number | None], least: Number, most: Number = math.inf
) -> None:
    """Raise a UserError for NaN, a number out of range, or no number; None passes.

    Without `most`, a number must still fit the machine's integers.
    """
    for name, value in settings.items():
        if isinstance(value, str | list | tuple | dict):
            raise UserError(f"{name} is {value!r}; it must be a number")
        if value is not None and not least <= value <= most:
            limits = f"from {least} to {most:,}" if most < math.inf else f"at least {least}"
            raise UserError(f"{name} is {value}; it must be {limits}")
        if value is not None and most == math.inf and value > sys.maxsize:
            raise UserError(f"{name} is {value}; it must be at most {sys.maxsize:,}")


def check_integers(**values: object) -> None:
    """Raise a UserError for a value that is not an integer; those of numpy and torch pass."""
    for name, value in values.items():
        try:
            operator.index(value)  # pyright: ignore[reportArgumentType]
        except (TypeError, RuntimeError) as error:
            raise UserError(f"{name} is {value!r}; it must be an integer") from error


def check_seed(seed: int, name: str = "--seed", most: int = SEEDS[1]) -> None:
    """Raise a UserError for a seed that a generator does not accept."""
    check_integers(**{name: seed})
    check_range({name: seed}, SEEDS[0], most)
