"""All random numbers of a step, drawn in advance."""

from dataclasses import dataclass

import torch

from gswm.models.base import Noise
from gswm.models.objects import ObjectNoise


@dataclass(frozen=True)
class SqairNoise(Noise):
    """Random numbers for K known and K new objects in each frame of each sample of each video."""

    known: ObjectNoise
    found: ObjectNoise

    @staticmethod
    def draw(
        shape: tuple[int, ...], num_what: int, source: torch.Generator | torch.device
    ) -> "SqairNoise":
        """Draw noise for objects of any shape; with a device in place of a generator, zeros."""
        known, found = (ObjectNoise.draw(shape, num_what, source) for _ in range(2))
        return SqairNoise(known, found)
