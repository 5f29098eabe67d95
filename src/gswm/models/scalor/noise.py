"""All that is random in a step, drawn before it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import logistic_noise, normal_noise
from gswm.models.base import Noise
from gswm.models.scalor.objects import ScalorSizes
from gswm.models.scalor.propagation import ObjectNoise


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

        def of(num: int) -> ObjectNoise:
            where, depth, what = (normal(num, n) for n in (4, 1, sizes.what))
            return ObjectNoise(where, depth, what, logistic(num, 1))

        def normal(*more: int) -> Tensor:
            if isinstance(source, torch.Generator):
                return normal_noise((*shape, *more), source)
            return torch.zeros((), device=source).expand(*shape, *more)

        def logistic(*more: int) -> Tensor:
            if isinstance(source, torch.Generator):
                return logistic_noise((*shape, *more), source)
            return normal(*more)

        known, found = of(slots), of(cells)
        return ScalorNoise(normal(sizes.context), known, found)
