"""The position of a model's frame in the picture and time of its source video.

Source pixels are those of the upright picture, after the rotation that the file prescribes. Pixel i
covers [i, i + 1), from the top left corner. A model's frame is a square, with coordinates from -1
(left, top) to 1 (right, bottom).
"""

import math
import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Float64, Int64

from gswm.core.errors import UserError

Fit = Literal["letterbox", "crop", "stretch"]
"""letterbox shows the whole picture between black bars, crop its middle square, and stretch
distorts the whole picture to a square.
"""
Region = tuple[int, int, int, int]
"""Left, top, width and height of a part of the picture, in source pixels."""
Pairs = Float[np.ndarray, "*any 2"]
WHOLE = "all"
"""Stands for the region of the whole picture."""
FARTHEST = 1e12
"""Upper bound of frame numbers, and of times in seconds."""


@dataclass(frozen=True)
class Placement:
    """The placement of the picture of a source video in the frame of a model."""

    width: int
    """Width of the upright source picture, in pixels."""
    height: int
    """Height of the upright source picture, in pixels."""
    size: int
    """Side of the model's frame, in pixels."""
    shown: tuple[float, float, float, float]
    """Left, top, width and height of the part that the frame shows, in source pixels."""
    inside: tuple[int, int, int, int]
    """Left, top, width and height of this part in the frame, in pixels of the frame. The rest is
    black."""
    rotation: int = 0
    """Degrees, counterclockwise, by which the file's pictures are rotated to be upright."""
    pixel_aspect: float = 1.0
    """Width of a source pixel on the screen, divided by its height."""

    @staticmethod
    @lru_cache
    def of(
        width: int,
        height: int,
        size: int,
        fit: Fit = "letterbox",
        region: Region | None = None,
        rotation: int = 0,
        pixel_aspect: float = 1.0,
    ) -> "Placement":
        """Fit a picture, or a region of it, into a square of `size` pixels."""
        left, top, across, down = region or (0, 0, width, height)
        check_region((left, top, across, down))
        if left + across > width or top + down > height:
            raise UserError(
                f"the region {as_text(region)} reaches outside the frame of {width} "
                f"x {height} pixels; use x,y,width,height inside it"
            )
        seen = across * pixel_aspect
        shown, inside = (float(left), float(top), float(across), float(down)), (0, 0, size, size)
        if fit == "crop":
            side = min(seen, down)
            w, h = side / pixel_aspect, float(side)
            shown = (left + (across - w) / 2, top + (down - h) / 2, w, h)
        elif fit == "letterbox":
            scale = size / max(seen, down)
            w, h = max(1, round(seen * scale)), max(1, round(down * scale))
            inside = ((size - w) // 2, (size - h) // 2, w, h)
        return Placement(width, height, size, shown, inside, rotation % 360, pixel_aspect)

    @property
    def is_sound(self) -> bool:
        """Whether all lengths are finite and positive; they may come from an untrusted file."""
        sides = (self.width, self.height, self.size, *self.shown[2:], *self.inside[2:])
        return min(sides) > 0 and all(map(math.isfinite, (*self.shown, self.pixel_aspect)))

    @property
    def scale(self) -> Float64[np.ndarray, "2"]:
        """Pixels of the frame per source pixel, (x, y)."""
        return np.array(self.inside[2:]) / np.array(self.shown[2:])

    def to_source(self, xy: Pairs, hw: Pairs) -> tuple[Pairs, Pairs]:
        """Centers (x, y) and sizes (width, height) in source pixels.

        Args:
            xy: Centers in a model's coordinates, from -1 to 1.
            hw: Heights and widths as fractions of the frame's side.
        """
        pixels = (np.asarray(xy, float) + 1) / 2 * self.size
        center = (pixels - self.inside[:2]) / self.scale + self.shown[:2]
        return center, np.asarray(hw, float)[..., ::-1] * self.size / self.scale

    def to_model(self, center: Pairs, wh: Pairs) -> tuple[Pairs, Pairs]:
        """The inverse of `to_source`: centers from -1 to 1, and heights and widths."""
        pixels = (np.asarray(center, float) - self.shown[:2]) * self.scale + self.inside[:2]
        return pixels / self.size * 2 - 1, (np.asarray(wh, float) * self.scale / self.size)[
            ..., ::-1
        ]


@dataclass(frozen=True)
class Footage:
    """The source frames of an episode: placement, numbers and times."""

    placement: Placement
    frames: Int64[np.ndarray, " time"]
    """Number of each frame in the source, counted from 0."""
    times: Float64[np.ndarray, " time"]
    """Seconds since the source's first frame; NaN for images, which have no times."""

    def __len__(self) -> int:
        return len(self.frames)

    @staticmethod
    def read(placement: Placement, frames: np.ndarray, times: np.ndarray) -> "Footage":
        """Parse the values of an untrusted file; raises a UserError if they are invalid."""
        sound = (frames >= 0) & (frames < FARTHEST) & ~(abs(times) >= FARTHEST)
        if not (placement.is_sound and sound.all()):
            raise UserError("its placements, frame numbers or times are invalid")
        return Footage(placement, frames.astype(np.int64), times.astype(np.float64))


def check_region(region: Region) -> None:
    """Raise a UserError for a region without pixels, or one that starts outside the picture."""
    left, top, across, down = region
    if across < 1 or down < 1:
        raise UserError(
            f"the region {as_text(region)} has no pixels; its width and height must be at least 1"
        )
    if left < 0 or top < 0:
        raise UserError(
            f"the region {as_text(region)} starts outside the frame; x and y must be at least 0"
        )


def parse_region(region: Any) -> Region | None:
    """A region from four integers or "x,y,width,height"; None for the whole picture."""
    is_text = isinstance(region, str)
    if region is None or (is_text and region == WHOLE):
        return None
    try:
        numbers = map(int, region.split(",")) if is_text else map(operator.index, region)
        left, top, across, down = numbers
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the region is {region!r}; it must be x,y,width,height in pixels, or {WHOLE}"
        ) from error
    check_region((left, top, across, down))
    return left, top, across, down


def as_text(region: Region | None) -> str:
    """The text that `parse_region` accepts."""
    return WHOLE if region is None else ",".join(map(str, region))
