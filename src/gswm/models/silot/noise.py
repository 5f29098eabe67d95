"""The random numbers of a step, drawn before it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import logistic_noise, normal_noise
from gswm.models.base import Noise
from gswm.models.silot.objects import SilotSizes
from gswm.models.silot.propagation import SilotDraws


@dataclass(frozen=True)
class SilotNoise(Noise):
    """For some frames of some videos."""

    known: SilotDraws
    found: SilotDraws
    looks: Float[Tensor, "*batch 1 1"]
    """1 in the frames in which there is discovery, else 0."""

    @staticmethod
    def draw(
        shape: tuple[int, int],
        sizes: SilotSizes,
        slots: int,
        cells: int,
        dropout: float,
        generator: torch.Generator,
    ) -> "SilotNoise":
        """For so many videos and frames; discovery is always in the first frame."""

        def of(num: int) -> SilotDraws:
            normal = (normal_noise((*shape, num, n), generator) for n in (4, sizes.what, 1))
            return SilotDraws(*normal, logistic_noise((*shape, num, 1), generator))

        chance = torch.rand((*shape, 1, 1), generator=generator, device=generator.device)
        first = torch.arange(shape[1], device=generator.device)[:, None, None] == 0
        return SilotNoise(of(slots), of(cells), ((chance >= dropout) | first).float())

    @staticmethod
    def none(
        shape: tuple[int, int],
        sizes: SilotSizes,
        slots: int,
        cells: int,
        looks: Float[Tensor, " time"],
    ) -> "SilotNoise":
        """No noise: every distribution gives its mean."""
        zero = torch.zeros((), device=looks.device)

        def of(num: int) -> SilotDraws:
            return SilotDraws(*(zero.expand(*shape, num, n) for n in (4, sizes.what, 1, 1)))

        return SilotNoise(of(slots), of(cells), looks[:, None, None].expand(*shape, 1, 1))
