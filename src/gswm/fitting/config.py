"""Settings of a fit, as a user gives them, and their bounds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.limits import (
    LARGEST_SIDE,
    MINUTES,
    STEPS,
    check_integers,
    check_range,
    check_seed,
)
from gswm.core.networks import Trunk
from gswm.core.words import no_such
from gswm.fitting.decisions import NEW, Decisions

Learn = Literal["all", "motion"]
"""Whether a fit trains all networks, or the prior alone."""

SMALLEST = 64
"""Lowest resolution of a model."""
RANGES = {
    "stride": ("--stride", 1, math.inf),
    "image_size": ("--size", 1, LARGEST_SIDE),
    "num_objects": ("--objects", 1, math.inf),
    "grid": ("--grid", 1, math.inf),
    "object_size": ("--object-size", 1e-3, 1),
    "likelihood_std": ("--sigma", 1e-3, 1),
    "motion_threshold": ("--threshold", 0, 1),
}
"""The flag and the bounds of each decision that a user can make."""
WHOLE = ("stride", "image_size", "num_objects", "grid")
"""The decisions that are integers."""
OF_MOTION = ("start", "stride", "fps", "image_size")
"""The decisions that matter if the prior alone is trained."""


@dataclass(frozen=True)
class FitConfig:
    """Settings of a fit."""

    minutes: float = 8.0
    steps: int | None = None
    """Number of steps, instead of a time limit."""
    batch: int = 16
    seed: int = 0
    device: str = "auto"
    learn: Learn = "all"
    prepare: bool = False
    """Stop when the video is measured and imported."""
    region: str | None = None
    allow_damaged: bool = False
    """Use videos that FFmpeg reports as damaged, or that lack frames."""
    force: bool = False
    """Replace an earlier fit, or files in a folder that gswm did not create."""
    start: str | None = None
    """Initial weights, or "none"; see `starting.find_start`."""
    keep_fit: bool = False
    """Keep the fit even if its initial weights are better; see `keeping`."""
    decided: Mapping[str, Any] = field(default_factory=dict)
    """Values of `Decisions` that the user sets, by name; `object_size` is a fraction."""

    def asked(self) -> dict[str, Any]:
        """Settings that an interrupted fit must have in common with the one that resumes it."""
        names = ("minutes", "steps", "batch", "seed", "region", "allow_damaged", "start")
        decided = {name: value for name, value in self.decided.items() if value is not None}
        learn = {} if self.learn == "all" else {"learn": self.learn}  # as in earlier versions
        return {name: getattr(self, name) for name in names} | {"decided": decided} | learn

    def check(self) -> None:
        """Raise a UserError for numbers out of range, or a device that this machine lacks."""
        find_device(self.device)
        check_seed(self.seed)
        check_range({"--minutes": self.minutes}, *MINUTES)
        check_range({"--steps": self.steps}, 1, STEPS)
        check_range({"--batch": self.batch}, 1)
        check_names(self.decided)
        if self.learn not in get_args(Learn):
            raise UserError(f"learn is {self.learn!r}: it must be 'all' or 'motion'")
        if self.learn == "motion":
            self.check_motion()
        for name, (flag, least, most) in RANGES.items():
            if name in WHOLE and self.decided.get(name) is not None:
                check_integers(**{flag: self.decided[name]})
            check_range({flag: self.decided.get(name)}, least, most)
        if (size := self.decided.get("image_size")) is not None:
            check_size(size)
            check_grid(self.decided.get("grid"), size)

    def check_motion(self) -> None:
        """Raise a UserError for settings that a training of the prior alone does not use."""
        flags = {name: flag for name, (flag, _, _) in RANGES.items() if name not in OF_MOTION}
        own = [flags[n] for n, value in self.decided.items() if n in flags and value is not None]
        if self.start == NEW:
            own.append(f"--start {NEW}")
        if own:
            raise UserError(
                f"{own[0]} has no effect with --learn motion, which keeps how the initial weights "
                "find objects: leave one of the two out"
            )


def check_names(asked: Mapping[str, Any]) -> None:
    """Raise a UserError for a decision that does not exist."""
    known = {each.name for each in fields(Decisions)} - {"trained"} | {"object_size"}
    if wrong := sorted(asked.keys() - known):
        raise UserError(no_such("decision", wrong[0], sorted(known)))


def check_size(size: int) -> None:
    """Raise a UserError for a --size that no model takes."""
    if size < SMALLEST or size & (size - 1):
        raise UserError(f"--size is {size}: it must be 64, 128 or a larger power of 2")


def check_grid(grid: int | None, size: int) -> None:
    """Raise a UserError for a --grid that does not divide the features of the frames."""
    finest = size // Trunk.STRIDE
    if grid is None or finest % grid == 0:
        return
    *few, last = [n for n in range(1, finest + 1) if finest % n == 0]
    larger = Trunk.STRIDE * grid
    fits = SMALLEST <= larger <= LARGEST_SIDE and not larger & (larger - 1)
    more = f", or --size {larger}" if fits else ""
    raise UserError(
        f"--grid {grid} does not fit --size {size}: use --grid {', '.join(map(str, few))} or "
        f"{last}{more}"
    )
