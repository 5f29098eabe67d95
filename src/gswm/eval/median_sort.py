"""A non-learned tracker as a baseline for videos: median background and SORT.

The background is each pixel's median over the video, without objects that stand still for long
(`data/standing.py`). A pixel belongs to an object if it differs from the background by several
times its own noise, measured by the median absolute deviation. Masks are opened and closed, and
each connected component is a detection. Detections are linked by SORT (Bewley et al., 2016): a
Kalman filter with constant velocity predicts every box, and boxes are assigned so that their total
intersection over union is largest.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, UInt8
from scipy import ndimage

from gswm.core.errors import UserError
from gswm.core.shapes import NOBODY
from gswm.data.importing.frames import TimedFrame
from gswm.data.importing.sources import Source, check_one_video, no_video
from gswm.data.importing.videos import Cut, UnusableError, frames_of
from gswm.data.mot import MotBoxes
from gswm.data.standing import without_standing
from gswm.eval.metrics.boxes import Boxes, overlaps
from gswm.eval.metrics.matching import best_pairs

Tracker = Literal["median-sort"]
Image = UInt8[np.ndarray, "height width 3"]
Detections = Float64[np.ndarray, "_ 4"]
"""Left, top, width and height of each detection, in pixels."""

Place = Float64[np.ndarray, "4"]
"""Center, width and height of a box."""

TO_STD = 1.4826
"""Factor from the median absolute deviation of a normal distribution to its standard deviation."""
LIGHT = 4
"""Stride of the rows and columns on which the light of a frame is measured."""
STEP = np.array([[1.0, 1.0], [0.0, 1.0]])
"""Transition matrix of position and velocity."""
DRIFT = np.diag([0.05, 0.05])
"""Process noise per frame, in units of the variance of a detection."""


@dataclass(frozen=True)
class MedianSort:
    """Settings of the detector and the tracker."""

    side: int = 360
    """Larger pictures are downsampled as long as their shorter side keeps this many pixels."""
    samples: int = 64
    """Number of frames, spread over the video, from which the background is computed; up to twice
    as many are used.
    """
    deviations: float = 5.0
    """Difference above which a pixel belongs to an object, in standard deviations of its noise."""
    least_noise: float = 6.0
    """Lower bound of the standard deviation of a pixel's noise, out of 255."""
    closing: float = 0.01
    """Largest gaps that are closed are twice this fraction of the shorter side."""
    least_area: float = 0.001
    """Smallest fraction of the picture that a detection covers."""
    min_iou: float = 0.3
    max_age: int = 3
    """Number of frames without a detection after which a track ends."""
    min_hits: int = 3
    """Number of detections after which a track is reported, including its first ones."""


@dataclass(frozen=True)
class Picture:
    """Size in pixels and number of the frames of a video."""

    width: int = 0
    height: int = 0
    frames: int = 0

    @staticmethod
    def of(path: Path, allow_damaged: bool = False) -> "Picture":
        """Decode a video to count its frames."""
        shape = Picture()
        for frame in read(path, allow_damaged):
            shape = shape.with_frame(frame)
        return shape

    def with_frame(self, frame: TimedFrame) -> "Picture":
        """Count one more frame."""
        return Picture(frame.width, frame.height, self.frames + 1)


@dataclass(frozen=True)
class MedianBackground:
    """The still part of a video."""

    median: Float32[np.ndarray, "height width 3"]
    """The median, without objects that stand still for long."""
    threshold: Float32[np.ndarray, "height width"]
    """Difference above which a pixel belongs to an object."""

    @staticmethod
    def of(images: list[Image], settings: MedianSort) -> "MedianBackground":
        """The empty scene of several frames, and the deviations of pixels from their median."""
        median = np.median(images, axis=0).astype(np.float32)
        off = np.median([difference(image, median) for image in images], axis=0)
        video = torch.from_numpy(np.stack(images).transpose(0, 3, 1, 2))
        still = torch.from_numpy(median.transpose(2, 0, 1) / 255)
        empty = 255 * without_standing(still, video).permute(1, 2, 0).numpy()
        noise = np.maximum(TO_STD * off, settings.least_noise)
        return MedianBackground(empty, (settings.deviations * noise).astype(np.float32))


def difference(
    image: Image, median: Float32[np.ndarray, "height width 3"]
) -> Float32[np.ndarray, "height width"]:
    """Difference of each pixel from the background, after correcting the light."""
    apart = image - median
    return np.abs(apart - np.median(apart[::LIGHT, ::LIGHT], axis=(0, 1))).max(axis=-1)


def detect(image: Image, background: MedianBackground, settings: MedianSort) -> Detections:
    """Boxes of the connected components that differ from the background."""
    mask = difference(image, background.median) > background.threshold
    mask = ndimage.binary_opening(mask, np.ones((3, 3)))
    mask = closed(mask, round(settings.closing * min(mask.shape)))
    labelled = np.zeros(mask.shape, np.int32)
    ndimage.label(mask, output=labelled)
    boxes = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(labelled), 1):
        area = np.count_nonzero(labelled[rows, columns] == number)
        if area >= settings.least_area * mask.size:
            corner = columns.start, rows.start
            boxes.append((*corner, columns.stop - corner[0], rows.stop - corner[1]))
    return np.array(boxes, np.float64).reshape(-1, 4)


def closed(mask: Bool[np.ndarray, "height width"], steps: int) -> Bool[np.ndarray, "height width"]:
    """The mask with its gaps closed, also at the border of the picture."""
    if steps == 0:
        return mask
    padded = np.pad(mask, 2 * steps)
    return ndimage.binary_closing(padded, iterations=steps)[
        2 * steps : -2 * steps, 2 * steps : -2 * steps
    ]


@dataclass(frozen=True)
class Trail:
    """The track of one object: Kalman filters of its box coordinates, which share one gain."""

    id: int
    place: Place
    velocity: Place
    covariance: Float64[np.ndarray, "2 2"]
    """Covariance of position and velocity, in units of the variance of a detection."""
    missed: int = 0
    """Frames since the last detection."""

    @staticmethod
    def begin(id: int, place: Place) -> "Trail":
        """A new track, with unknown velocity."""
        return Trail(id, place, np.zeros(4), np.diag([1.0, 10.0]))

    def predict(self) -> "Trail":
        """Predict the next frame."""
        place = self.place + self.velocity
        place[2:] = place[2:].clip(1.0)
        covariance = STEP @ self.covariance @ STEP.T + DRIFT
        return Trail(self.id, place, self.velocity, covariance, self.missed + 1)

    def update(self, seen: Place) -> "Trail":
        """Update with a detection."""
        gain = self.covariance[:, 0] / (self.covariance[0, 0] + 1)
        off = seen - self.place
        covariance = self.covariance - np.outer(gain, self.covariance[0])
        return Trail(self.id, self.place + gain[0] * off, self.velocity + gain[1] * off, covariance)


def follow(detections: Iterable[Detections], settings: MedianSort) -> MotBoxes:
    """Link the detections of each frame; frames are counted from 1."""
    trails: list[Trail] = []
    rows: list[tuple[int, int, np.ndarray]] = []
    number = 0
    for frame, found in enumerate(detections, 1):
        seen = [centered(box) for box in found]
        trails = [trail.predict() for trail in trails]
        pairs = assign([trail.place for trail in trails], seen, settings)
        for i, box in pairs.items():
            trails[i] = trails[i].update(seen[box])
            rows.append((frame, trails[i].id, found[box]))
        trails = [trail for trail in trails if trail.missed <= settings.max_age]
        for box in sorted(set(range(len(found))) - set(pairs.values())):
            number += 1
            trails.append(Trail.begin(number, seen[box]))
            rows.append((frame, number, found[box]))
    frames, ids = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    boxes = np.array([row[2] for row in rows], np.float64).reshape(-1, 4)
    hits = np.bincount(ids, minlength=number + 1)
    return MotBoxes(frames, ids, boxes, np.ones(len(rows)))[hits[ids] >= settings.min_hits]


def centered(box: Float64[np.ndarray, "4"]) -> Place:
    """Center, width and height of a box given by left, top, width and height."""
    return np.concatenate([box[:2] + box[2:] / 2, box[2:]])


def assign(trails: list[Place], found: list[Place], settings: MedianSort) -> dict[int, int]:
    """The detection assigned to each track that has one."""
    iou = overlaps(as_boxes(trails), as_boxes(found))[0]
    pairs = best_pairs(torch.where(iou >= settings.min_iou, iou, 0))
    return dict(pairs.nonzero().tolist())


def as_boxes(places: list[Place]) -> Boxes:
    """Boxes of one frame, all present."""
    rows = torch.from_numpy(np.array(places, np.float64).reshape(1, -1, 4))
    id = torch.full(rows.shape[:2], NOBODY)
    return Boxes(rows[..., :2], rows[..., 2:].flip(-1), id, torch.ones_like(id, dtype=torch.bool))


def median_sort(
    path: Path, settings: MedianSort | None = None, *, allow_damaged: bool = False
) -> tuple[MotBoxes, Picture]:
    """Track all moving objects in a video, a file or a folder of images."""
    settings = settings or MedianSort()
    kept: list[Image] = []
    step = 1
    shape = Picture()
    for frame in read(path, allow_damaged):
        if shape.frames % step == 0:
            kept.append(frame.pixels(factor_of(frame, settings.side)))
            if len(kept) == 2 * settings.samples:
                kept, step = kept[::2], 2 * step
        shape = shape.with_frame(frame)
    background = MedianBackground.of(kept, settings)
    frames = read(path, allow_damaged)
    images = (frame.pixels(factor_of(frame, settings.side)) for frame in frames)
    tracks = follow((detect(image, background, settings) for image in images), settings)
    height, width, _ = kept[0].shape
    scale = np.tile([shape.width / width, shape.height / height], 2)
    return replace(tracks, box=tracks.box * scale), shape


def read(path: Path, allow_damaged: bool = False) -> Iterator[TimedFrame]:
    """All frames of a video; raises a UserError if there are none."""
    if not path.exists():
        raise no_video(path)
    check_one_video(path)
    empty = True
    try:
        cut = Cut(allow_damaged=allow_damaged)
        for frame in frames_of(Source(path, path.name, "test"), cut):
            empty = False
            yield frame
    except (UnusableError, OSError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if empty:
        raise UserError(f"cannot read {path}: it has no frames")


def factor_of(frame: TimedFrame, side: int) -> int:
    """Largest factor by which a frame can be downsampled to at least `side` pixels."""
    return max(1, min(frame.width, frame.height) // side)
