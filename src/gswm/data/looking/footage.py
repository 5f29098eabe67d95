"""Samples of a video: stretches of evenly spaced, downsampled frames from all of its length."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from gswm.core.errors import UserError
from gswm.data.importing.videos import UnusableError
from gswm.data.looking.reels import Reel, reels_of

SIDE = 256
"""Longer side of analyzed frames in pixels."""
LEAST = 10
"""Smallest side of analyzed frames: a camera's motion is measured in the overlap of two frames."""
BUDGET = 480
"""Number of frames to analyze."""
STRETCH = 30
"""Frames per stretch, if only a part of the video is analyzed."""
REELS = 12
"""Number of videos of a folder that are analyzed."""

Region = tuple[int, int, int, int]
"""Left, top, width and height, in pixels."""


@dataclass(frozen=True)
class Stretch:
    """Evenly spaced frames of one video."""

    frames: UInt8[np.ndarray, "time height width 3"]
    first: int
    """The number of the first frame in the video."""
    reel: int
    """Index of the video."""
    skipped: int = 0
    """Number of frames of the stretch before these, if it was split."""

    def number(self, time: int, stride: int) -> int:
        """The number in the video of one of the frames, which are `stride` apart."""
        return self.first + (self.skipped + time) * stride


@dataclass(frozen=True)
class Sampled:
    """The frames read from one video, or from a folder of videos of similar cameras."""

    stretches: tuple[Stretch, ...]
    stride: int
    """Distance between frames of a stretch, in frames of the video."""
    scale: float
    """Pixels of the video per pixel of the frames here."""


@dataclass(frozen=True)
class Place:
    """The part of the videos at a path to measure."""

    reels: tuple[Reel, ...]
    region: Region

    @property
    def scale(self) -> float:
        """Pixels of the video per analyzed pixel; small videos are not enlarged."""
        return max(1.0, max(self.region[2:]) / SIDE)

    def read(self, stride: int) -> Sampled:
        """Every `stride`-th frame, in stretches."""
        budget = max(STRETCH + 10, BUDGET // len(self.reels))
        stretches = []
        for which, reel in enumerate(self.reels):
            plan = planned(reel.count, stride, budget)
            try:
                pictures = iter(reel.read([n for numbers in plan for n in numbers]))
                for numbers in plan:
                    some = [self.reduced(p, reel) for p, _ in zip(pictures, numbers, strict=False)]
                    if some:
                        stretches.append(Stretch(np.stack(some), numbers[0], which))
            except (UnusableError, OSError) as error:
                raise UserError(f"cannot read {reel.name}: {error}") from error
        return Sampled(tuple(stretches), stride, self.scale)

    def reduced(self, pixels, reel: Reel) -> UInt8[np.ndarray, "height width 3"]:
        """The region of one frame, downsampled."""
        left, top, width, height = self.region
        size = max(1, round(width / self.scale)), max(1, round(height / self.scale))
        whole = Image.fromarray(pixels(max(1, int(self.scale))))
        across, down = whole.width / reel.width, whole.height / reel.height
        box = (left * across, top * down, (left + width) * across, (top + height) * down)
        return np.asarray(whole.resize(size, Image.Resampling.BOX, box))


def place_of(path: Path, region: Region | None = None) -> Place:
    """The videos at `path`, with the whole frame or a region."""
    reels = reels_of(path, REELS)
    sizes = {(reel.width, reel.height) for reel in reels}
    if len(sizes) > 1:
        named = " and ".join(f"{w} x {h}" for w, h in sorted(sizes)[:2])
        raise UserError(
            f"{path}: its videos have different sizes ({named} pixels); measure each size "
            "separately"
        )
    width, height = sizes.pop()
    left, top, across, down = region or (0, 0, width, height)
    inside = left >= 0 and top >= 0 and left + across <= width and top + down <= height
    if not inside:
        raise UserError(
            f"--region is {left},{top},{across},{down}; it must be within 0,0,{width},{height}"
        )
    place = Place(tuple(reels), (left, top, across, down))
    if min(across, down) < (least := math.ceil(LEAST * place.scale)):
        raise UserError(
            f"{path}: a picture of {across} x {down} pixels is too small or too narrow to measure; "
            f"use {least} pixels or more along both sides"
        )
    return place


def planned(count: int, stride: int, budget: int) -> list[Sequence[int]]:
    """The frame numbers of each stretch; the whole video if it fits into `budget`."""
    if count <= budget * stride:
        return [range(0, count, stride)]
    span = STRETCH * stride
    number = max(1, min(budget // STRETCH, count // span))
    starts = np.linspace(0, count - span, number).astype(int)
    return [range(start, start + span, stride) for start in starts.tolist()]
