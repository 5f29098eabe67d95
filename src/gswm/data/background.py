"""The background of a fixed camera: one picture per video, and the light of each frame.

A frame without objects is the background under another light, channel by channel:

    frame ≈ gain · background + offset

Objects cover part of the frame, so the fit is a least trimmed squares: it starts from several
guesses, refits each to the half of the pixels that it explains best, and keeps the best one.
"""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from scipy import ndimage
from torch import Tensor

PIXELS = 1024
"""Pixels of a frame that the fit looks at, evenly spaced."""
ROUNDS = 4
"""Refits to the better half of the pixels."""
RIDGE = (2 / 255) ** 2
"""Variance that pulls the gain towards 1, so that a plain picture has no gain but 1."""
GAINS = (0.2, 5.0)
"""Least and largest gain."""
CONSISTENT = 1.4826
"""Standard deviation of a Gaussian, by the median of its distance to 0."""
OTHER = 0.06
"""From which difference on a pixel shows something else, of 1; less if it is the same thing."""
SHARES = (0.25, 0.15, 0.08)
"""Shares of the frames in which a region must show something else: compact regions first."""
MARGIN = 6
"""Pixels around a region that are looked at."""
CLEARLY = 1.3
"""How much weaker the edges of an empty region are than those of an object."""

Picture3 = Float[Tensor, "*batch 3 height width"]
Lit = Float[Tensor, "*lit 3 height width"]


@dataclass(frozen=True)
class Light:
    """Gain and offset of each channel, which take a background to the light of a frame."""

    gain: Float[Tensor, "*batch 3 1 1"]
    offset: Float[Tensor, "*batch 3 1 1"]

    def on(self, background: Picture3) -> Lit:
        """The background as it looks in this light."""
        return self.gain * background + self.offset

    def off(self, frame: Picture3) -> Lit:
        """The frame as it would look in the light of the background."""
        return (frame - self.offset) / self.gain


def as_float(pixels: Float[Tensor, "*any"] | UInt8[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Pixels from 0 to 1."""
    return pixels.float() / 255 if pixels.dtype == torch.uint8 else pixels


@torch.no_grad()
def static_background(video: Shaped[Tensor, "*batch time 3 height width"]) -> Picture3:
    """The median of each pixel over time, of all frames in the light of the median frame.

    Args:
        video: uint8, or floats from 0 to 1. An object vanishes if it covers each pixel in less
            than half of the frames, so take frames from all of the video.
    """
    frames = as_float(video)
    first = frames.median(dim=-4).values
    alike = match_light(first.unsqueeze(-4), frames).off(frames)
    return alike.median(dim=-4).values.clamp(0, 1)


@torch.no_grad()
def match_light(
    background: Shaped[Tensor, "*#batch 3 height width"],
    frame: Shaped[Tensor, "*#batch 3 height width"],
) -> Light:
    """The light of each frame, by the pixels that show the background.

    Args:
        background: uint8, or floats from 0 to 1; its batch axes broadcast against the frame's.
        frame: Likewise. Objects may cover up to 40 % of it.
    """
    b, f = torch.broadcast_tensors(some(as_float(background)), some(as_float(frame)))
    difference = (f - b).median(dim=-1, keepdim=True).values
    ratio = (f / b.clamp_min(0.02)).median(dim=-1, keepdim=True).values
    stretch = spread(f) / spread(b).clamp_min(0.02)
    middle = b.median(dim=-1, keepdim=True).values
    one, zero = torch.ones_like(ratio), torch.zeros_like(ratio)
    guesses = [
        (one, zero),
        (one, difference),
        (ratio, zero),
        (stretch, f.median(dim=-1, keepdim=True).values - stretch * middle),
        fit(b, f, torch.ones_like(f[..., :1, :])),
    ]
    gain, offset = (torch.stack(each) for each in zip(*guesses, strict=True))
    gain = gain.clamp(*GAINS)
    for _ in range(ROUNDS):
        error = distance(b, f, gain, offset)
        half = error <= error.median(dim=-1, keepdim=True).values
        gain, offset = fit(b, f, half.to(f.dtype))
    error = distance(b, f, gain, offset)
    middling = error.median(dim=-1, keepdim=True).values
    cost = (error * (error <= middling)).mean(dim=-1, keepdim=True)
    best = cost.argmin(dim=0, keepdim=True)
    gain, offset, middling, error = (
        torch.take_along_dim(each, best, dim=0).squeeze(0)
        for each in (gain, offset, middling, error)
    )
    # Half of the pixels is a small sample: end with all that differ by no more than noise.
    near = error <= 3 * CONSISTENT * middling + 1 / 255
    gain, offset = fit(b, f, near.to(f.dtype))
    return Light(gain[..., None], offset[..., None])


def some(picture: Float[Tensor, "*batch 3 height width"]) -> Float[Tensor, "*batch 3 pixel"]:
    """Evenly spaced pixels, no more than `PIXELS` of them."""
    height, width = picture.shape[-2:]
    step = max(1, math.ceil((height * width / PIXELS) ** 0.5))
    return picture[..., step // 2 :: step, step // 2 :: step].flatten(-2)


def spread(pixels: Float[Tensor, "*batch pixel"]) -> Float[Tensor, "*batch 1"]:
    """Median distance to the median."""
    middle = pixels.median(dim=-1, keepdim=True).values
    return (pixels - middle).abs().median(dim=-1, keepdim=True).values


def fit(
    b: Float[Tensor, "*batch 3 pixel"],
    f: Float[Tensor, "*batch 3 pixel"],
    weight: Float[Tensor, "*guess 1 pixel"],
) -> tuple[Float[Tensor, "*guess 3 1"], Float[Tensor, "*guess 3 1"]]:
    """Gain and offset by weighted least squares."""
    weight = weight / weight.sum(dim=-1, keepdim=True).clamp_min(1)
    mean_b = (weight * b).sum(dim=-1, keepdim=True)
    mean_f = (weight * f).sum(dim=-1, keepdim=True)
    both = (weight * (b - mean_b) * (f - mean_f)).sum(dim=-1, keepdim=True)
    alone = (weight * (b - mean_b).square()).sum(dim=-1, keepdim=True)
    gain = ((both + RIDGE) / (alone + RIDGE)).clamp(*GAINS)
    return gain, mean_f - gain * mean_b


def distance(b: Tensor, f: Tensor, gain: Tensor, offset: Tensor) -> Tensor:
    """How far each pixel is from the background in a light: the mean of its channels."""
    return (f - gain * b - offset).abs().mean(dim=-2, keepdim=True)


@torch.no_grad()
def without_standing(
    background: Float[Tensor, "3 height width"], video: Shaped[Tensor, "time 3 height width"]
) -> Float[Tensor, "3 height width"]:
    """A median background without the objects that stand in it for most of the video.

    Where an object stood and went, pixels have a second, steady state. Of two states of a region,
    the empty one has the weaker edges along the region's rim.

    Args:
        background: Of `static_background`.
        video: The frames it is of.
    """
    frames = as_float(video)
    alike = match_light(background, frames).off(frames)
    for share in SHARES:
        background = emptied(background, alike, share)
    return background


def emptied(
    background: Float[Tensor, "3 height width"],
    frames: Float[Tensor, "time 3 height width"],
    rarely: float,
) -> Float[Tensor, "3 height width"]:
    """A background without objects that are away in a share of more than `rarely` of the frames."""
    away = (frames - background).abs().amax(dim=1)
    other = away > OTHER + 2 * away.median(dim=0).values.median()
    often = other.float().mean(dim=0) > rarely
    pixels, then = frames[:, :, often], other[:, often]
    state = torch.where(then[:, None], pixels, math.nan).nanmedian(dim=0).values
    wobble = torch.where(then, (pixels - state).abs().amax(dim=1), math.nan).nanmedian(0).values
    twofold = torch.zeros_like(often).masked_scatter(often, wobble < OTHER)
    mask = ndimage.binary_closing(np.pad(twofold.numpy(), 2), iterations=2)[2:-2, 2:-2]
    mask = np.asarray(ndimage.binary_fill_holes(ndimage.binary_opening(mask)))
    labels, _ = components(mask)
    found = background.clone()
    for label, box in enumerate(ndimage.find_objects(labels), 1):
        wide = tuple(slice(max(0, side.start - MARGIN), side.stop + MARGIN) for side in box)
        everywhere = (slice(None), *wide)
        region = labels[wide] == label
        gone = other[everywhere][:, torch.from_numpy(region)].float().mean(dim=1) > 0.7
        if gone.sum() < 3:
            continue
        # The object's soft edges go with it.
        inside = ndimage.binary_dilation(region, iterations=2)
        rim = ndimage.binary_dilation(inside, iterations=2)
        rim = rim & np.logical_not(ndimage.binary_erosion(region, iterations=2))
        before = found[everywhere]
        empty = frames[gone][(slice(None), *everywhere)].median(dim=0).values
        after = torch.where(torch.from_numpy(inside), empty, before)
        if steepness(after, rim) < steepness(before, rim) / CLEARLY:
            found[everywhere] = after
    return found.clamp(0, 1)


def components(
    mask: Bool[np.ndarray, "height width"],
) -> tuple[Int[np.ndarray, "height width"], int]:
    """The number of the region that each pixel is in, 0 for none, and how many there are."""
    return cast(tuple[np.ndarray, int], ndimage.label(mask, np.ones((3, 3), bool)))


def steepness(picture: Float[Tensor, "3 height width"], where: np.ndarray) -> float:
    """Mean slope of a picture's grey at some pixels."""
    down, across = np.gradient(picture.mean(dim=0).numpy())
    return float(np.hypot(down, across)[where].mean())
