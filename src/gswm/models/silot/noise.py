"""All random numbers of a step, drawn in advance."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.models.base import Noise
from gswm.models.objects import ObjectNoise


@dataclass(frozen=True)
class SilotNoise(Noise):
    """Random numbers for several frames of several videos."""

    known: ObjectNoise
    found: ObjectNoise
    looks: Float[Tensor, "*batch 1 1"]
    """1 in frames with discovery, else 0."""

    @staticmethod
    def draw(
        shape: tuple[int, int],
        num_what: int,
        slots: int,
        cells: int,
        dropout: float,
        source: torch.Generator | torch.device,
    ) -> "SilotNoise":
        """Draw noise for a number of videos and frames; discovery always runs in the first frame.

        With a device in place of a generator, all numbers are 0, and discovery runs in every frame.
        """
        known, found = (ObjectNoise.draw((*shape, num), num_what, source) for num in (slots, cells))
        if not isinstance(source, torch.Generator):
            return SilotNoise(known, found, torch.ones((*shape, 1, 1), device=source))
        chance = torch.rand((*shape, 1, 1), generator=source, device=source.device)
        first = torch.arange(shape[1], device=source.device)[:, None, None] == 0
        return SilotNoise(known, found, ((chance >= dropout) | first).float())
