"""All random numbers of a training step, drawn in advance."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import normal_noise
from gswm.models.base import Noise


@dataclass(frozen=True)
class Op3Noise(Noise):
    """Noise for each sample of s: one before the first refinement, and one after each step."""

    s: Float[Tensor, "batch step object state"]

    @staticmethod
    def draw(shape: tuple[int, int, int, int], generator: torch.Generator) -> "Op3Noise":
        """Draw noise for a number of videos, samples and slots."""
        return Op3Noise(normal_noise(shape, generator))


def first_noise(num: int, state: int) -> Float[Tensor, "num state"]:
    """Noise that separates the slots in inference by means, the same for every video.

    All slots start with the same λ; without noise they would stay equal forever.
    """
    return torch.randn(num, state, generator=torch.Generator().manual_seed(0))
