"""Data augmentation: mirrored, shifted and recolored videos.

A video of a fixed camera is its background plus a difference, x = b + d, and the difference is
large only at objects. With the difference recolored, b + R d, a white car becomes a dark or a green
one on the same road. A model trained on few objects then learns what objects are in general.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.core.shapes import Frame, Video
from gswm.data.background import match_light
from gswm.data.labels import ENTERED, UNCLEAR, Labels

FARTHEST = 0.15
"""Largest shift, as a fraction of the side."""
GAINS = (0.5, 1.5)
"""Bounds of the factor on a difference."""
PLAIN = 0.3
"""Fraction of the videos that keep their colors."""


@dataclass(frozen=True)
class AugmentNoise:
    """Random numbers of an augmentation."""

    mirrored: Bool[Tensor, " batch"]
    shift: Float[Tensor, "batch 2"]
    """Shift down and to the right, as fractions of the side."""
    mix: Float[Tensor, "batch 3 3"]
    """R: the matrix that recolors a difference."""

    @staticmethod
    def draw(batch: int, generator: torch.Generator) -> "AugmentNoise":
        """Permuted channels, each with its own sign and gain; some videos keep their colors."""

        def rand(*shape: int) -> Tensor:
            return torch.rand(batch, *shape, generator=generator, device=generator.device)

        order = rand(3).argsort(dim=1)
        sign = torch.where(rand(1) < 0.5, -1.0, 1.0)
        gain = GAINS[0] + (GAINS[1] - GAINS[0]) * rand(3)
        one = torch.eye(3, device=generator.device)
        mix = one[order] * (sign * gain)[..., None]
        mix = torch.where(rand(1, 1) < PLAIN, one, mix)
        return AugmentNoise(rand() < 0.5, FARTHEST * (2 * rand(2) - 1), mix)


@torch.no_grad()
def augmented(video: Video, background: Frame, noise: AugmentNoise) -> tuple[Video, Frame]:
    """The augmented video and its background."""
    lit = match_light(background[:, None], video).on(background[:, None]).clamp(0, 1)
    other = torch.einsum("bij,btjhw->btihw", noise.mix, video - lit)
    video = (lit + other).clamp(0, 1)
    rows, columns = places(video.shape[-1], noise)
    frames = taken(video.flatten(1, 2), rows, columns).unflatten(1, video.shape[1:3])
    return frames, taken(background, rows, columns)


def moved(labels: Labels, noise: AugmentNoise, size: int) -> Labels:
    """The boxes of the augmented video."""
    sign = torch.where(noise.mirrored, -1.0, 1.0)
    flip = torch.stack([sign, torch.ones_like(sign)], dim=-1)
    by = 2 * (size * noise.shift).round().flip(-1) / size
    xy = labels.xy * flip[:, None, None] + by[:, None, None]
    cut, share = replace(labels, xy=xy).cut()
    entered = share >= ENTERED
    visibility = torch.where(entered, labels.visibility, labels.visibility.clamp(max=UNCLEAR))
    return replace(cut, visibility=visibility)


def places(size: int, noise: AugmentNoise) -> tuple[Int[Tensor, "batch y"], Int[Tensor, "batch x"]]:
    """Source row and column of each pixel; pixels beyond the edge repeat it."""
    at = torch.arange(size, device=noise.shift.device)
    by = (size * noise.shift).round().long()
    rows, columns = ((at - by[:, i : i + 1]).clamp(0, size - 1) for i in range(2))
    return rows, torch.where(noise.mirrored[:, None], size - 1 - columns, columns)


def taken(
    pixels: Float[Tensor, "batch channel height width"],
    rows: Int[Tensor, "batch y"],
    columns: Int[Tensor, "batch x"],
) -> Float[Tensor, "batch channel y x"]:
    """A selection of rows and columns of each picture."""
    channels, width = pixels.shape[1], pixels.shape[3]
    down = rows[:, None, :, None].expand(-1, channels, -1, width)
    across = columns[:, None, None, :].expand(-1, channels, rows.shape[1], -1)
    return pixels.gather(2, down).gather(3, across)
