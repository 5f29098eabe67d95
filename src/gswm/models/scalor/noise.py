"""All random numbers of a step, drawn in advance."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import normal_noise
from gswm.models.base import Noise
from gswm.models.objects import ObjectNoise
from gswm.models.scalor.objects import ScalorSizes


@dataclass(frozen=True)
class ScalorNoise(Noise):
    """Random numbers for several frames of several videos."""

    context: Float[Tensor, "*batch context"]
    known: ObjectNoise
    found: ObjectNoise

    @staticmethod
    def draw(
        shape: tuple[int, int],
        sizes: ScalorSizes,
        slots: int,
        cells: int,
        source: torch.Generator | torch.device,
    ) -> "ScalorNoise":
        """Draw noise for a number of videos and frames; zeros if `source` is a device."""
        known, found = (
            ObjectNoise.draw((*shape, num), sizes.what, source) for num in (slots, cells)
        )
        if isinstance(source, torch.Generator):
            context = normal_noise((*shape, sizes.context), source)
        else:
            context = torch.zeros((), device=source).expand(*shape, sizes.context)
        return ScalorNoise(context, known, found)
