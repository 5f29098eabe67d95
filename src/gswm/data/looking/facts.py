"""Measurements of a video. Lengths are in pixels of the video, times in its frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of a number: 10 %, 50 %, 90 % and 99 % of its values are below these."""

    low: float = 0.0
    median: float = 0.0
    high: float = 0.0
    top: float = 0.0

    @staticmethod
    def of(values: Sequence[float] | np.ndarray) -> "Quantiles":
        """The quantiles of some values; 0 of none."""
        if not len(values):
            return Quantiles()
        return Quantiles(*np.quantile(np.asarray(values, float), [0.1, 0.5, 0.9, 0.99]).tolist())

    def __mul__(self, factor: float) -> "Quantiles":
        return Quantiles(*(factor * value for value in vars(self).values()))


@dataclass(frozen=True)
class VideoFacts:
    """Measurements of a video, or of the videos of a folder together."""

    videos: int
    frames: int
    """Of all videos."""
    looked: int
    """Frames that were looked at."""
    stride: int
    """Frames of the video from one that was looked at to the next."""
    fps: float | None
    """Frames per second; None if there are no times."""
    uneven: float
    """Share of the intervals between frames that differ from the usual one by a quarter or more."""
    width: int
    height: int
    """Of the frame, or of the region that was looked at."""
    heights: Quantiles
    widths: Quantiles
    """Of the boxes of objects that move, where the frame does not cut them off."""
    counts: Quantiles
    """Objects per frame: those that move, and those that stand where they did not before."""
    most: int
    """Objects in the fullest frame."""
    speeds: Quantiles
    """Of objects while they move, from one frame of the video to the next."""
    contrast: float
    """Mean difference between an object and the background, of 1."""
    noise: float
    """Standard deviation of the pixels of the background, of 1."""
    moving: float
    """Share of the frames in which something moves."""
    covered: Quantiles
    """Share of the frame that differs from the background."""
    light: tuple[float, float]
    """Brightness of the background in the darkest and the brightest frame, 1 as usual."""
    brightest: float
    """Of the background, of 1: its 99 % quantile."""
    camera: float
    """Share of pairs of frames between which the whole picture shifts."""
    shift: float
    """By how much, per frame."""
    cuts: int
    """Changes of the scene within a video, in what was looked at."""
    centered: float
    """Share of the objects' boxes that are within the middle square of the frame."""

    @property
    def side(self) -> int:
        """The longer side."""
        return max(self.width, self.height)

    @property
    def objects(self) -> bool:
        """Whether any object was found."""
        return self.heights.median > 0

    @property
    def seconds(self) -> float | None:
        """The total length of all videos."""
        return None if self.fps is None else self.frames / self.fps

    def shares(self) -> dict[str, Any]:
        """Sizes and speeds as shares of the longer side, and the speed per second."""
        found = {"heights": self.heights, "widths": self.widths, "speeds": self.speeds}
        out = {name: vars(value * (1 / self.side)) for name, value in found.items()}
        if self.fps is not None:
            out["speeds_per_second"] = vars(self.speeds * (self.fps / self.side))
        return out
