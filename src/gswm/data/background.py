"""The background of a fixed camera: one picture per video, and the light of each frame.

A frame without objects is the background under another light, channel by channel:

    frame ≈ gain · background + offset
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from scipy import ndimage
from torch import Tensor

Picture = Float[Tensor, "*any 3 height width"]

SCALES = (0.3, 0.1, 0.05, 0.03, 0.03)
"""Scale of the residuals in each round of the fit; pixels far above it count as objects."""
SIDE = 64
"""Number of rows and columns of pixels that the fit uses."""
RIDGE = (2 / 255) ** 2
"""Ridge term that pulls the gain towards 1, so that a uniform picture has a gain of 1."""
GAINS = (0.2, 5.0)
"""Bounds of the gain."""
DARKEST, BRIGHTEST = 0.01, 0.99
"""Pixels beyond these values are ignored in the fit: black bars and saturated ones."""
FRAMES = 256
"""Largest number of frames of a median."""
ALIKE, MOST = 0.05, 0.7
"""Two scenes are the same if more than a fraction `MOST` of the pixels differ by less than `ALIKE`.
"""


@dataclass(frozen=True)
class Light:
    """Gain and offset per channel that map a background to the light of a frame."""

    gain: Float[Tensor, "*batch 3 1 1"]
    offset: Float[Tensor, "*batch 3 1 1"]

    def on(self, background: Float[Tensor, "*#batch 3 height width"]) -> Picture:
        """The background in this light; black bars stay black."""
        lit = self.gain * background + self.offset
        return torch.where(background.amax(dim=-3, keepdim=True) > 0, lit, 0)

    def off(self, frame: Float[Tensor, "*#batch 3 height width"]) -> Picture:
        """The frame in the light of the background."""
        return (frame - self.offset) / self.gain


def as_float(pixels: Float[Tensor, "*any"] | UInt8[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Pixels from 0 to 1."""
    return pixels / 255 if pixels.dtype == torch.uint8 else pixels


@torch.no_grad()
def static_background(video: Shaped[Tensor, "*batch time 3 height width"]) -> Picture:
    """The median of each pixel over time, with all frames in the light of the median frame.

    Args:
        video: bytes, or floats from 0 to 1. An object vanishes if it covers each pixel in less
            than half of the frames, so use frames from the whole video.
    """
    every = -(-video.shape[-4] // FRAMES)
    frames = as_float(video[..., ::every, :, :, :])
    first = frames.median(dim=-4).values
    return alike(first.unsqueeze(-4), frames).median(dim=-4).values


def alike(
    background: Float[Tensor, "*#frame 3 height width"],
    frames: Float[Tensor, "*frame 3 height width"],
) -> Float[Tensor, "*frame 3 height width"]:
    """Frames in the light of the background; black bars stay black."""
    lit = match_light(background, frames).off(frames).clamp(0, 1)
    return torch.where(frames.amax(dim=-3, keepdim=True) > 0, lit, 0)


@torch.no_grad()
def match_light(
    background: Shaped[Tensor, "*#batch 3 height width"],
    frame: Shaped[Tensor, "*#batch 3 height width"],
) -> Light:
    """The light of each frame, by least squares over the pixels that show the background.

    Each round weights pixels by their residuals r in the last one, (1 + (r / s)²)⁻², at a scale s
    that shrinks: objects and shadows drop out, for any change of light.

    Args:
        background: bytes, or floats from 0 to 1; its batch axes broadcast against the frame's.
        frame: likewise. Objects may cover up to 40 % of it.
    """
    b, x = torch.broadcast_tensors(*(some(as_float(each)) for each in (background, frame)))
    dark, bright = (b < DARKEST) & (x < DARKEST), (b > BRIGHTEST) & (x > BRIGHTEST)
    usable = (~(dark | bright)).to(x.dtype)
    known = usable.sum(dim=-1, keepdim=True) > 0
    gain, offset = torch.ones_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for scale in SCALES:
        off = x - gain * b - offset
        weight = usable * (1 + (off / scale).square()) ** -2
        weight = weight / weight.sum(dim=-1, keepdim=True).clamp_min(1e-6)
        mean_b, mean_x = ((weight * each).sum(dim=-1, keepdim=True) for each in (b, x))
        both = (weight * (b - mean_b) * (x - mean_x)).sum(dim=-1, keepdim=True)
        alone = (weight * (b - mean_b).square()).sum(dim=-1, keepdim=True)
        gain = torch.where(known, ((both + RIDGE) / (alone + RIDGE)).clamp(*GAINS), 1)
        offset = torch.where(known, mean_x - gain * mean_b, 0)
    return Light(gain[..., None], offset[..., None])


def some(picture: Picture) -> Float[Tensor, "*batch 3 pixel"]:
    """Evenly spaced pixels, in about `SIDE` rows and columns."""
    height, width = picture.shape[-2:]
    step = max(1, min(height, width) // SIDE)
    return picture[..., step // 2 :: step, step // 2 :: step].flatten(-2)


@torch.no_grad()
def shows(
    background: Float[Tensor, "3 height width"], video: Shaped[Tensor, "time 3 height width"]
) -> bool:
    """Whether a background shows the scene of a video, regardless of the light.

    Most pixels must agree, since half of them may do so by chance after matching the light. Black
    bars agree in any two videos, and do not count.
    """
    frames = as_float(video[:: -(-len(video) // FRAMES)])
    lit = match_light(background, frames).on(background).clamp(0, 1)
    off = (frames - lit).abs().amax(dim=-3)
    in_bars = (background.amax(dim=0) < DARKEST) & (frames.amax(dim=(0, 1)) < DARKEST)
    if in_bars.all():
        return True
    return bool((off[:, ~in_bars] < ALIKE).float().mean(dim=1).median() > MOST)


def components(
    mask: Bool[np.ndarray, "height width"],
) -> tuple[Int[np.ndarray, "height width"], int]:
    """The number of each pixel's connected region, 0 for none, and the number of regions."""
    return cast(tuple[np.ndarray, int], ndimage.label(mask, np.ones((3, 3), bool)))
