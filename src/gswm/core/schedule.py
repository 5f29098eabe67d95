"""Curriculum and annealing (§3.4.2, B.1), as pure functions of the step."""

import math
from dataclasses import dataclass, replace
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor

from gswm.core.errors import UserError


@dataclass(frozen=True)
class Anneal:
    """A number that changes linearly from `start` to `end` between two steps.

    If the two steps are equal, it jumps. The `flag` of a check is the option that sets it.
    """

    start: float
    end: float
    from_step: int = 0
    to_step: int = 1
    geometric: bool = False
    """Change geometrically instead of linearly."""

    @property
    def is_zero(self) -> bool:
        """Whether it is always 0."""
        return self.start == self.end == 0

    def at(self, step: Tensor) -> Float[Tensor, ""]:
        """The value at `step`, which may be on any device and is not copied to the host."""
        if self.from_step == self.to_step:
            share = (step >= self.to_step).float()
        else:
            share = ((step - self.from_step) / (self.to_step - self.from_step)).clamp(0, 1)
        if self.geometric:
            return self.start * (self.end / self.start) ** share
        return self.start + (self.end - self.start) * share

    def check(self, flag: str) -> None:
        """Raise a UserError unless it has a finite value at every step."""
        if not (math.isfinite(self.start) and math.isfinite(self.end)):
            raise UserError(f"{flag} goes from {self.start} to {self.end}; both must be finite")
        if self.to_step < self.from_step:
            raise UserError(
                f"{flag}.to-step is {self.to_step}; it must not be less than {flag}.from-step, "
                f"which is {self.from_step}"
            )
        if self.geometric:
            self.check_positive(flag)

    def check_probability(self, flag: str) -> None:
        """Raise a UserError unless it is always above 0 and below 1."""
        self.check_positive(flag)
        if not (self.start < 1 and self.end < 1):
            raise UserError(
                f"{flag} goes from {self.start} to {self.end}; a probability must be below 1"
            )

    def check_positive(self, flag: str) -> None:
        """Raise a UserError unless it is always positive."""
        if not (self.start > 0 and self.end > 0):
            raise UserError(
                f"{flag} goes from {self.start} to {self.end}; {flag}.start and {flag}.end must "
                "be positive"
            )


@dataclass(frozen=True)
class Stage:
    """The form of the loss; it changes only a few times during training."""

    length: int
    """T: frames per video."""
    background_only: bool = False
    """Train the background only."""
    repeats: int = 0
    """Period, in steps, after which the same windows repeat. Default: 0 (never).

    A model with such a stage implements `WorldModel.observe` and `WorldModel.loss_of`.
    """
    batch: int = 0
    """Windows per step while they repeat, rounded up to a multiple of the batch. Default: 0 (the
    batch)."""

    @property
    def through_frames(self) -> bool:
        """Whether gradients pass through the methods of `WorldModel.recurrent`."""
        return True


@dataclass(frozen=True)
class PriorStage(Stage):
    """A stage in which only the prior may learn, from inferred tracks."""

    prior_only: bool = False

    @property
    def through_frames(self) -> bool:
        """See `Stage`."""
        return not self.prior_only


AnyCurriculum = TypeVar("AnyCurriculum", bound="Curriculum")


@dataclass(frozen=True)
class Curriculum:
    """The part of a schedule that all models share; schedules of models extend it."""

    lengths: tuple[tuple[int, int], ...] = ((0, 10),)
    """The curriculum as pairs: (first step, T)."""
    background_only: int = 0
    """Number of initial steps that train only the background."""

    def stage(self, step: int) -> Stage:
        """The stage of `step`."""
        return Stage(self.length_at(step), step < self.background_only)

    def length_at(self, step: int) -> int:
        """T of `step`."""
        return [length for start, length in self.lengths if start <= step][-1]

    @property
    def longest(self) -> int:
        """The largest T."""
        return max(length for _, length in self.lengths)

    def needed(self, steps: int) -> int:
        """The number of frames per video that training for this many steps needs."""
        return self.longest

    @property
    def anew(self) -> int | None:
        """The step at which the optimizer and the learning rate restart.

        Default: None (never).
        """
        return None

    @property
    def rate_anew(self) -> float:
        """Factor on the learning rates from then on."""
        return 1.0

    def steady(self: AnyCurriculum, length: int) -> AnyCurriculum:
        """The same schedule with a constant T, and without special first or last stages."""
        return replace(self, lengths=((0, length),), background_only=0)
