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
        source: torch.Generator | torch.device,
    ) -> "SilotNoise":
        """For so many videos and frames; discovery is always in the first frame.

        With a device in place of a generator all are 0, and there is discovery in every frame.
        """
        known, found = (ObjectNoise.draw((*shape, num), num_what, source) for num in (slots, cells))
        if not isinstance(source, torch.Generator):
            return SilotNoise(known, found, torch.ones((*shape, 1, 1), device=source))
        chance = torch.rand((*shape, 1, 1), generator=source, device=source.device)
        first = torch.arange(shape[1], device=source.device)[:, None, None] == 0
        return SilotNoise(known, found, ((chance >= dropout) | first).float())
