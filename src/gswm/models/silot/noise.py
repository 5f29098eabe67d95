"""The random numbers of a step, drawn before it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.models.base import Noise
from gswm.models.objects import ObjectNoise


@dataclass(frozen=True)
class SilotNoise(Noise):
    """For some frames of some videos."""

    known: ObjectNoise
    found: ObjectNoise
    looks: Float[Tensor, "*batch 1 1"]
    """1 in the frames in which there is discovery, else 0."""

    @staticmethod
    def draw(
        shape: tuple[int, int],
        num_what: int,
        slots: int,
        cells: int,
        dropout: float,
        generator: torch.Generator,
    ) -> "SilotNoise":
        """For so many videos and frames; discovery is always in the first frame."""
        known, found = (
            ObjectNoise.draw((*shape, num), num_what, generator) for num in (slots, cells)
        )
        chance = torch.rand((*shape, 1, 1), generator=generator, device=generator.device)
        first = torch.arange(shape[1], device=generator.device)[:, None, None] == 0
        return SilotNoise(known, found, ((chance >= dropout) | first).float())

    @staticmethod
    def none(
        shape: tuple[int, int],
        num_what: int,
        slots: int,
        cells: int,
        looks: Float[Tensor, " time"],
    ) -> "SilotNoise":
        """No noise: every distribution gives its mean."""
        known, found = (
            ObjectNoise.draw((*shape, num), num_what, looks.device) for num in (slots, cells)
        )
        return SilotNoise(known, found, looks[:, None, None].expand(*shape, 1, 1))
