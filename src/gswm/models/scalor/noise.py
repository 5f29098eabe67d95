"""All that is random in a step, drawn before it."""

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
    """All that is random, for some frames of some videos."""

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
        """Of videos and frames of a number; on a device, with no generator, all of it is 0."""
        known, found = (
            ObjectNoise.draw((*shape, num), sizes.what, source) for num in (slots, cells)
        )
        if isinstance(source, torch.Generator):
            context = normal_noise((*shape, sizes.context), source)
        else:
            context = torch.zeros((), device=source).expand(*shape, sizes.context)
        return ScalorNoise(context, known, found)
