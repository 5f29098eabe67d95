"""Your own videos as episodes.

Each frame (see `frames`) is placed in a square (see `placement`) with an anti-aliasing filter. A
video is cut into as many episodes as it has frames for. A video that is damaged, cut short, or
changes its size is not imported at all, unless that is allowed, since a part of it would pass for
the whole.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from gswm.core.errors import UserError
from gswm.core.limits import LARGEST_SIDE, MOST_TAKEN, is_number
from gswm.core.words import in_bytes
from gswm.data.importing.damage import UnusableError as UnusableError
from gswm.data.importing.frames import TimedFrame, image_frames, time_of, video_frames
from gswm.data.importing.sources import Source
from gswm.data.placement import Fit, Footage, Placement, Region, parse_region

ClipArray = UInt8[np.ndarray, "time size size 3"]
Seen = tuple[UInt8[np.ndarray, "size size 3"], int, float]
"""A frame as the model's input, its number in the video, and its time in seconds."""

MOST_BYTES = 1 << 34
"""Largest size of an episode's frames in bytes."""
MOST_REPEATS = 1_000
"""Largest number of times that one frame may be repeated."""
FINER = 3
"""Large frames are first averaged down to this many times the requested size, which is fast."""
CUT = ("fps", "crop", "fit", "region")
"""Names of the import settings in files and weights."""
BEFORE: dict[str, Fit] = {"center": "crop", "none": "stretch"}
"""The fits of files and weights that have a `crop` setting, as all had before letterboxes."""
AHEAD = 4
"""Number of decoded frames that wait to be scaled; a 4K frame takes 12 MB."""
EPS = 1e-6


@dataclass(frozen=True)
class Cut:
    """Settings that turn videos into episodes."""

    size: int = 64
    fps: float | None = None
    """Frames per second, by the video's own times. Default: None (every frame)."""
    frames: int = 100
    fit: Fit = "letterbox"
    region: Region | None = None
    """The part of the picture to use, in source pixels. Default: None (all of it)."""
    allow_damaged: bool = False
    """Use videos even if FFmpeg reports damage, or frames are missing."""

    def __post_init__(self) -> None:
        check_cut(self.size, self.fps, self.frames, self.fit)

    @staticmethod
    def like(
        known: Mapping[str, Any],
        size: int,
        fps: float | None = None,
        fit: Fit | None = None,
        region: Region | str | None = None,
    ) -> "Cut":
        """The settings of a training's videos (`known`), except for those given.

        0 frames per second means every frame, and the region "all" the whole picture. Weights that
        state facts about their videos, but no fit, are older than letterboxes.
        """
        fps = known.get("fps") if fps is None else fps
        if (crop := known.get("crop", "center")) not in BEFORE:
            raise UserError(f"crop is {crop!r}; it must be one of {', '.join(BEFORE)}")
        before = BEFORE[crop] if known else Cut.fit
        part = parse_region(known.get("region") if region is None else region)
        how: Fit = fit or known.get("fit", before)
        check_cut(size, fps or None, Cut.frames, how)
        return Cut(size, float(fps) if fps else None, fit=how, region=part)

    def placement(self, frame: TimedFrame) -> Placement:
        """The placement of a model's frame in this picture."""
        sides, turned = (frame.width, frame.height, self.size), (frame.rotation, frame.pixel_aspect)
        try:
            return Placement.of(*sides, self.fit, self.region, *turned)
        except UserError as error:
            raise UnusableError(str(error)) from error


def known_cut(stated: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Import settings, as stated by the file at `where`; see `Cut.like`."""
    known = {key: stated[key] for key in CUT if key in stated}
    known = {k: v.item() if isinstance(v, np.generic) else v for k, v in known.items()}
    try:
        for key, value in known.items():
            if not isinstance(value, str | int | float | None):
                raise UserError(
                    f"{key} is {type(value).__name__}; it must be a single string or number"
                )
        Cut.like(known, Cut.size)
    except UserError as error:
        raise UserError(f"{where}: invalid import settings: {error}") from error
    return known


@dataclass(frozen=True)
class Take:
    """Consecutive frames of a video, and their positions in it."""

    video: ClipArray
    footage: Footage

    def __len__(self) -> int:
        return len(self.video)

    def batch(self):  # typed by `batch_of`: the annotation would need torch
        """The frames as a batch of one video."""
        from gswm.data.importing.tensors import batch_of

        return batch_of(self.video)


def check_cut(size: object, fps: object, frames: object, fit: object) -> None:
    """Raise a UserError for invalid numbers, from a user or from a file's header."""
    if not isinstance(size, int) or not 1 <= size <= LARGEST_SIDE:
        raise UserError(f"size is {size!r}; it must be from 1 to {LARGEST_SIDE:,} pixels")
    if fps is not None and not (is_number(fps) and 0 < fps <= MOST_TAKEN):
        raise UserError(
            f"fps is {fps!r}; it must be positive and at most {MOST_TAKEN:,}, or None for "
            f"every frame"
        )
    if fit not in get_args(Fit):
        raise UserError(f"fit is {fit!r}; it must be one of {', '.join(get_args(Fit))}")
    if not isinstance(frames, int) or frames < 1:
        raise UserError(f"frames is {frames!r}; it must be at least 1")
    if (needed := 3 * frames * size**2) > MOST_BYTES:
        raise UserError(
            f"{frames:,} frames of {size} x {size} pixels take {in_bytes(needed)}, more than the "
            f"limit of {in_bytes(MOST_BYTES)}: use fewer or smaller frames"
        )


def frames_of(source: Source, cut: Cut) -> Iterator[TimedFrame]:
    """The frames of a video, at the requested rate; images of a folder have no times."""
    if source.path.is_dir():
        return same_size(image_frames(source.path))
    frames = same_size(video_frames(source.path, allow_damaged=cut.allow_damaged))
    return frames if cut.fps is None else resample(frames, cut.fps)


def takes(frames: Iterable[TimedFrame], cut: Cut) -> Iterator[Take]:
    """The frames in groups of `cut.frames`, and finally the leftover ones, if any."""
    some: list[Seen] = []
    placement = None
    for each, placement in seen_ahead(frames, cut):
        some.append(each)
        if len(some) == cut.frames:
            yield take(some, placement)
            some.clear()
    if some and placement is not None:
        yield take(some, placement)


def seen_ahead(frames: Iterable[TimedFrame], cut: Cut) -> Iterator[tuple[Seen, Placement]]:
    """Each frame as the model's input: a thread scales frames while the next ones are decoded."""
    placement, scaled = None, deque[tuple[Future[Seen], Placement]]()
    with ThreadPoolExecutor(1) as pool:
        for frame in frames:
            placement = placement or cut.placement(frame)
            scaled.append((pool.submit(seen, frame, placement), placement))
            if len(scaled) > AHEAD:
                first, where = scaled.popleft()
                yield first.result(), where
        for last, where in scaled:
            yield last.result(), where


def seen(frame: TimedFrame, placement: Placement) -> Seen:
    """A frame as the model's input, with its number and its time."""
    return place(frame, placement), frame.index, time_of(frame)


def take(some: list[Seen], placement: Placement) -> Take:
    """Consecutive frames as one array."""
    pixels, numbers, times = zip(*some, strict=True)
    footage = Footage(placement, np.array(numbers, np.int64), np.array(times, np.float64))
    return Take(np.stack(pixels), footage)


def clips(frames: Iterable[TimedFrame], cut: Cut) -> Iterator[Take]:
    """The episodes in `frames`, and finally the frames that are too few for another one, if any."""
    total = 0
    for some in takes(frames, cut):
        total += len(some)
        if total >= cut.frames:
            yield some
    if total == 0:
        raise UnusableError("it has no frames; choose another file")
    if total < cut.frames:
        at = "" if cut.fps is None else f" at {cut.fps:g} frames per second"
        few = f"has {total} frame{'s' * (total > 1)}{at}, but an episode needs {cut.frames}"
        raise UnusableError(f"{few}; use --frames {total} or fewer", total)


def same_size(frames: Iterable[TimedFrame]) -> Iterator[TimedFrame]:
    """`frames`; raises an error if their size changes."""
    first = None
    for frame in frames:
        size = f"{frame.width} x {frame.height}"
        first = first or size
        if size != first:
            raise UnusableError(
                f"its frame size changes from {first} to {size}; split the video there"
            )
        yield frame


def place(frame: TimedFrame, placement: Placement) -> UInt8[np.ndarray, "size size 3"]:
    """The frame as the model's input."""
    x, y, width, height = placement.shown
    left, top, across, down = placement.inside
    image = frame.pixels(max(1, int(min(width / across, height / down) / FINER)))
    kx, ky = image.shape[1] / frame.width, image.shape[0] / frame.height
    box = (
        x * kx,
        y * ky,
        min((x + width) * kx, image.shape[1]),
        min((y + height) * ky, len(image)),
    )
    picture = Image.fromarray(image)
    bicubic = Image.Resampling.BICUBIC
    small = np.asarray(picture.resize((across, down), bicubic, box, reducing_gap=3.0))
    if (across, down) == (placement.size, placement.size):
        return small
    square = np.zeros((placement.size, placement.size, 3), np.uint8)
    square[top : top + down, left : left + across] = small
    return square


def resample(frames: Iterable[TimedFrame], fps: float) -> Iterator[TimedFrame]:
    """The frames shown at the times 0, 1 / fps, 2 / fps, ..."""
    count, begin, shown = 0, 0.0, None

    def until(end: float) -> Iterator[TimedFrame]:
        nonlocal count
        if shown is None:
            return
        if (times := (end - begin) * fps - count) > MOST_REPEATS:
            raise UnusableError(
                f"its frame at {shown.start:.1f} s lasts until {end:.1f} s, and would be repeated "
                f"{times:,.3g} times at {fps:g} frames per second; use a lower frame rate, or "
                "split the video there"
            )
        while begin + count / fps < end - EPS:
            yield shown
            count += 1

    for frame in frames:
        begin = frame.start if shown is None else begin
        yield from until(frame.start)
        shown = frame
    if shown is not None:
        yield from until(shown.end)
