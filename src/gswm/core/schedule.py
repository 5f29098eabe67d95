"""Curriculum and annealing (§3.4.2, B.1), as functions of the step and of nothing else."""

from dataclasses import dataclass, fields, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Anneal:
    """A number that goes in a straight line from `start` to `end`, or stays if they are equal.

    Where `from_step` is `to_step`, it jumps there.
    """

    start: float
    end: float
    from_step: int = 0
    to_step: int = 1

    def at(self, step: Tensor) -> Float[Tensor, ""]:
        """Its value; `step` may be on any device, and is not brought to the host."""
        if self.from_step == self.to_step:
            share = (step >= self.to_step).float()
        else:
            share = ((step - self.from_step) / (self.to_step - self.from_step)).clamp(0, 1)
        return self.start + (self.end - self.start) * share


@dataclass(frozen=True)
class Stage:
    """What does not change from one step to the next, but a few times in a training."""

    length: int
    """T: frames a video."""
    background_only: bool = False
    """Whether the objects are left out."""
    repeats: int = 0
    """See `world_model.Stage`."""

    @property
    def through_frames(self) -> bool:
        """See `world_model.Stage`."""
        return True


@dataclass(frozen=True)
class Schedule:
    """What changes with the step."""

    lengths: tuple[tuple[int, int], ...] = ((0, 2), (1_500, 6), (4_000, 12), (9_000, 20))
    """The curriculum: (from which step, T)."""
    background_only: int = 0
    """For so many steps only the background learns."""
    likelihood_std: Anneal = Anneal(0.2, 0.2)
    """σ of the pixels. The paper's table calls 0.2 a variance; it is used as a deviation."""
    hw_prior_mean: Anneal = Anneal(-1.5, -1.5)
    """Mean of the prior of z̄_hw, before its sigmoid."""

    def stage(self, step: int) -> Stage:
        """The stage of `step`."""
        return Stage(length_at(self.lengths, step), step < self.background_only)


def length_at(lengths: tuple[tuple[int, int], ...], step: int) -> int:
    """T at a step of a curriculum."""
    return [length for start, length in lengths if start <= step][-1]


def only(schedule: Any, length: int) -> Any:
    """Any model's schedule, at one T, without what is special about the first steps or the last."""
    usual = {"background_only": 0, "detached": 0, "prior_only": None, "prior_repeats": 0}
    there = {f.name: usual[f.name] for f in fields(schedule) if f.name in usual}
    return replace(schedule, lengths=((0, length),), **there)
