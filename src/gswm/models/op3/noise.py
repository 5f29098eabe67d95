"""The random numbers of a training step, drawn before it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import normal_noise
from gswm.models.base import Noise


@dataclass(frozen=True)
class Op3Noise(Noise):
    """For every sample of s: one before the first refinement, and one after each step."""

    s: Float[Tensor, "batch step object state"]

    @staticmethod
    def draw(shape: tuple[int, int, int, int], generator: torch.Generator) -> "Op3Noise":
        """For so many videos, samples and slots, of so many numbers."""
        return Op3Noise(normal_noise(shape, generator))


def first_noise(num: int, state: int) -> Float[Tensor, "num state"]:
    """Noise that separates the slots in inference by means: the same in every video.

    All slots begin with the same λ, and without any noise they would stay equal forever.
    """
    return torch.randn(num, state, generator=torch.Generator().manual_seed(0))
