"""Numbers that users give, and how small and large they may be."""

import math
import sys
from collections.abc import Mapping
from typing import TypeGuard

from gswm.core.errors import UserError

Number = int | float
SEEDS = (0, 2**64 - 1)
MINUTES = (0, 10_000_000)
"""Nineteen years; the timer of a system takes little more."""
STEPS = 10**12
WORKERS = 1_024
LARGEST_SIDE = 4_096
"""Pixels on a side of the frames that a model sees."""
LARGEST_SCALE = 16
"""Times that frames are enlarged."""
MOST_FPS = 1_000
"""Frames per second of a moving picture."""
MOST_TAKEN = 1_000_000
"""Frames per second that are taken of a video."""


def is_number(value: object) -> TypeGuard[Number]:
    """Whether this is a number, with at most 64 bits if it is whole, and no truth value."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**64
    return isinstance(value, float)


def check_range(
    settings: Mapping[str, Number | None], least: Number, most: Number = math.inf
) -> None:
    """Refuse a number out of a range, and NaN; one that is not given is not.

    Where there is no `most`, a number must still fit the machine's integers.
    """
    for name, value in settings.items():
        if value is not None and not least <= value <= most:
            limits = f"from {least} to {most:,}" if most < math.inf else f"at least {least}"
            raise UserError(f"{name} is {value}; it must be {limits}")
        if value is not None and most == math.inf and value > sys.maxsize:
            raise UserError(f"{name} is {value}; it must be at most {sys.maxsize:,}")


def check_seed(seed: int) -> None:
    """Refuse a seed that a generator does not take."""
    check_range({"--seed": seed}, *SEEDS)
