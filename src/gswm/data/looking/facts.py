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
        """The quantiles of several values; 0 without any."""
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
    """Total number of frames."""
    looked: int
    """Number of frames that were analyzed."""
    stride: int
    """Distance between analyzed frames, in frames of the video."""
    fps: float | None
    """Frames per second; None if there are no times."""
    uneven: float
    """Fraction of the intervals between frames that differ from the usual one by a quarter or more.
    """
    width: int
    height: int
    """Height of the frame, or of the analyzed region."""
    heights: Quantiles
    widths: Quantiles
    """Widths of the boxes of moving objects that the frame does not cut off."""
    counts: Quantiles
    """Objects per frame: moving ones, and standing ones that were elsewhere before."""
    most: int
    """Objects in the fullest frame."""
    speeds: Quantiles
    """Speeds of moving objects, per frame of the video."""
    contrast: float
    """Mean difference between an object and the background, from 0 to 1."""
    noise: float
    """Standard deviation of background pixels, from 0 to 1."""
    moving: float
    """Fraction of the frames with motion."""
    covered: Quantiles
    """Fraction of the frame that differs from the background."""
    light: tuple[float, float]
    """Brightness of the background in the darkest and the brightest frame, relative to the usual
    one.
    """
    brightest: float
    """The 99 % quantile of the background's brightness, from 0 to 1."""
    camera: float
    """Fraction of the pairs of frames between which the whole picture shifts."""
    shift: float
    """Size of these shifts per frame."""
    cuts: int
    """Number of scene changes in the analyzed part."""
    centered: float
    """Fraction of the objects' boxes inside the middle square of the frame."""
    exact: bool = True
    """Whether `frames` is the number of decoded frames; otherwise it is about that."""

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
        """Sizes and speeds as fractions of the longer side, with the speed per second."""
        found = {"heights": self.heights, "widths": self.widths, "speeds": self.speeds}
        out = {name: vars(value * (1 / self.side)) for name, value in found.items()}
        if self.fps is not None:
            out["speeds_per_second"] = vars(self.speeds * (self.fps / self.side))
        return out
