"""Videos of one's own, as episodes.

Frames are turned upright as the file says, transparent pixels become black, grey becomes red,
green and blue, and each frame is placed in a square (see `placement`) with a filter as wide as the
reduction, so that nothing aliases. A video is cut into as many episodes as it has frames for. A
video that is damaged, cut short, or changes its size on the way is not imported at all: a part of
it would pass for the whole.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from gswm.core.errors import UserError
from gswm.data.importing.sources import Source, images
from gswm.data.placement import WHOLE, Fit, Footage, Placement, Region, parse_region

FrameArray = UInt8[np.ndarray, "height width 3"]
ClipArray = UInt8[np.ndarray, "time size size 3"]
Seen = tuple[UInt8[np.ndarray, "size size 3"], int, float]
"""A frame as a model sees it, its number in the video, and its time in seconds."""

MISSING_SHARE = 0.05
MISSING_FRAMES = 3
"""What may be missing of a video before it counts as cut short."""
FINER = 3
"""Large frames are first averaged down, fast, to this many times the size that is wanted."""
BEFORE: dict[str, Fit] = {"center": "crop", "none": "stretch"}
"""The fits of files and weights that state a `crop`, as all did before there were letterboxes."""
REORDERED = 4
"""Frames among which times may be out of order."""
TEXT = ("tty",)
"""The decoder's format of plain text, which it would draw letter by letter."""
EPS = 1e-6


class UnusableError(Exception):
    """Why a video cannot be imported, and what to do; `frames` where it has too few."""

    def __init__(self, why: str, frames: int | None = None) -> None:
        super().__init__(why)
        self.frames = frames


@dataclass(frozen=True)
class Cut:
    """How videos become episodes."""

    size: int = 64
    fps: float | None = None
    """Frames per second, by the video's own times; None for every frame there is."""
    frames: int = 100
    fit: Fit = "letterbox"
    region: Region | None = None
    """The part of the picture to take, in source pixels; None for all of it."""

    @staticmethod
    def like(
        known: Mapping[str, Any],
        size: int,
        fps: float | None = None,
        fit: Fit | None = None,
        region: str | None = None,
    ) -> "Cut":
        """As a training's videos were cut, of which `known` is known, unless given otherwise.

        0 frames per second mean every frame, and the region "all" the whole picture. Weights that
        know something of their videos, but no fit, are from before there were letterboxes.
        """
        fps = known.get("fps") if fps is None else fps
        before = BEFORE[known.get("crop", "center")] if known else Cut.fit
        part = parse_region(region or known.get("region", WHOLE))
        return Cut(size, fps or None, fit=fit or known.get("fit", before), region=part)

    def placement(self, frame: "TimedFrame") -> Placement:
        """Where a model's frame lies in this one."""
        sides, turned = (frame.width, frame.height, self.size), (frame.rotation, frame.pixel_aspect)
        try:
            return Placement.of(*sides, self.fit, self.region, *turned)
        except UserError as error:
            raise UnusableError(str(error)) from error


@dataclass(frozen=True)
class TimedFrame:
    """A frame, from when and to when it is shown, in seconds."""

    width: int
    height: int
    start: float
    end: float
    pixels: Callable[[int], FrameArray]
    """Its upright pixels, averaged down by at most this factor."""
    pixel_aspect: float = 1.0
    """Width of a pixel on the screen, divided by its height."""
    index: int = 0
    """Number of the frame in its video, counted from 0."""
    rotation: int = 0
    """Degrees, counterclockwise, by which it was turned to be upright."""
    has_time: bool = True
    """Whether `start` and `end` are times; images have none."""


@dataclass(frozen=True)
class Take:
    """Some frames of a video in a row, and where they are from."""

    video: ClipArray
    footage: Footage

    def __len__(self) -> int:
        return len(self.video)

    def batch(self):  # typed by `batch_of`: the annotation would need torch
        """The frames as a batch of one video."""
        from gswm.data.importing.tensors import batch_of

        return batch_of(self.video)


def frames_of(source: Source, cut: Cut) -> Iterator[TimedFrame]:
    """The frames of a video, at the rate that is wanted; a folder's images have no times."""
    if source.path.is_dir():
        return same_size(image_frames(source.path))
    frames = same_size(video_frames(source.path))
    return frames if cut.fps is None else resample(frames, cut.fps)


def takes(frames: Iterable[TimedFrame], cut: Cut) -> Iterator[Take]:
    """The frames, `cut.frames` at a time, and last those that are left over, if any."""
    some: list[Seen] = []
    placement = None
    for frame in frames:
        placement = placement or cut.placement(frame)
        some.append(seen(frame, placement))
        if len(some) == cut.frames:
            yield take(some, placement)
            some.clear()
    if some and placement is not None:
        yield take(some, placement)


def seen(frame: TimedFrame, placement: Placement) -> Seen:
    """A frame as a model sees it, its number and its time."""
    return place(frame, placement), frame.index, time_of(frame)


def take(some: list[Seen], placement: Placement) -> Take:
    """Frames in a row as one array."""
    pixels, numbers, times = zip(*some, strict=True)
    footage = Footage(placement, np.array(numbers, np.int64), np.array(times, np.float64))
    return Take(np.stack(pixels), footage)


def time_of(frame: TimedFrame) -> float:
    """Seconds since the video began; NaN for an image."""
    return frame.start if frame.has_time else float("nan")


def clips(frames: Iterable[TimedFrame], cut: Cut) -> Iterator[Take]:
    """The episodes in `frames`, and last the frames that are too few for another one, if any."""
    total = 0
    for some in takes(frames, cut):
        total += len(some)
        if total >= cut.frames:
            yield some
    if total == 0:
        raise UnusableError("there are no frames in it; remove it")
    if total < cut.frames:
        at = "" if cut.fps is None else f" at {cut.fps:g} frames per second"
        few = f"has {total} frame{'s' * (total > 1)}{at}, and an episode {cut.frames}"
        raise UnusableError(f"{few}; give --frames {total} or fewer", total)


def same_size(frames: Iterable[TimedFrame]) -> Iterator[TimedFrame]:
    """`frames`, as long as they are of one size."""
    first = None
    for frame in frames:
        size = f"{frame.width} x {frame.height}"
        first = first or size
        if size != first:
            raise UnusableError(f"its frames change from {first} to {size}; cut it where they do")
        yield frame


def place(frame: TimedFrame, placement: Placement) -> UInt8[np.ndarray, "size size 3"]:
    """The frame as a model sees it."""
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
    """The frame that is shown at each of the times 0, 1 / fps, 2 / fps, ..."""
    count, begin, shown = 0, 0.0, None
    for frame in frames:
        if shown is None:
            begin = frame.start
        while shown is not None and begin + count / fps < frame.start - EPS:
            yield shown
            count += 1
        shown = frame
    while shown is not None and begin + count / fps < shown.end - EPS:
        yield shown
        count += 1


def image_frames(folder: Path) -> Iterator[TimedFrame]:
    """The images in `folder`, a frame each."""
    for i, path in enumerate(images(folder)):
        try:
            with Image.open(path) as image:
                frame = to_rgb(ImageOps.exif_transpose(image))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            why = f"{path.name} in it is damaged or no image; replace or remove it"
            raise UnusableError(why) from error
        height, width, _ = frame.shape
        yield TimedFrame(
            *(width, height, float(i), float(i + 1), lambda _, frame=frame: frame),
            index=i,
            has_time=False,
        )


def to_rgb(image: Image.Image) -> FrameArray:
    """Red, green and blue; what is transparent is black, and 16 bits are taken down to 8."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return np.asarray(image.convert("RGB"))


def video_frames(path: Path, *, keyframes: bool = False) -> Iterator[TimedFrame]:
    """The frames of a video file, or those alone that are decoded without any other."""
    import av
    from av.error import FFmpegError

    try:
        with av.open(str(path)) as container:
            if container.format.name in TEXT or not container.streams.video:
                raise UnusableError("there is no video in it; remove it")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            if keyframes:
                stream.codec_context.skip_frame = "NONKEY"
            yield from in_order(stream_frames(container, stream, path))
    except FFmpegError as error:
        said = str(error.strerror).lower()
        raise UnusableError(f"it cannot be decoded ({said}); replace or remove it") from error


def stream_frames(container, stream, path: Path) -> Iterator[TimedFrame]:
    """The frames of a stream; an error at its end where some that are announced are missing.

    Times count from the first frame.
    """
    step = float(1 / (stream.average_rate or stream.guessed_rate or 25))
    aspect = float(stream.sample_aspect_ratio or 1)
    packets, begin, end, index = 0, None, 0.0, 0
    for packet in container.demux(stream):
        packets += packet.dts is not None
        for frame in packet.decode():
            if frame.is_corrupt:
                raise UnusableError(f"it is damaged at {end:.1f} s; replace or remove it")
            start = end + (begin or 0.0) if frame.time is None else float(frame.time)
            begin = start if begin is None else begin
            start -= begin
            end = start + (float(frame.duration * frame.time_base) if frame.duration else step)
            width, height, seen = frame.width, frame.height, aspect
            turns = round(frame.rotation / 90) % 4
            if turns % 2:
                width, height, seen = height, width, 1 / aspect
            pixels = partial(rgb, frame)
            yield TimedFrame(width, height, start, end, pixels, seen, index, 90 * turns)
            index += 1
    if stream.frames:
        short = packets < stream.frames - MISSING_FRAMES
    else:
        announced = announced_seconds(container, stream)
        short = end < announced - max(MISSING_SHARE * announced, MISSING_FRAMES * step)
    if short or ends_early(path):
        raise UnusableError(f"it is cut short at {end:.1f} s; copy it again or remove it")


def in_order(frames: Iterable[TimedFrame]) -> Iterator[TimedFrame]:
    """The same frames, with times that never go back.

    Some files, AVI above all, give frames the times at which they are decoded, and some frames are
    decoded before others that are shown earlier.
    """
    held: deque[TimedFrame] = deque()
    times: list[float] = []

    def next_one() -> TimedFrame:
        frame, start = held.popleft(), heappop(times)
        return replace(frame, start=start, end=start + frame.end - frame.start)

    for frame in frames:
        held.append(frame)
        heappush(times, frame.start)
        if len(held) > REORDERED:
            yield next_one()
    while held:
        yield next_one()


def announced_seconds(container, stream) -> float:
    """How long the file says its video is; 0 where it does not."""
    if stream.duration:
        return float(stream.duration * stream.time_base)
    alone = len(container.streams) == 1
    return container.duration / 1e6 if alone and container.duration else 0.0


def ends_early(path: Path) -> bool:
    """Whether this is a GIF without its end: nothing else in one says how long it is."""
    if path.suffix.lower() != ".gif":
        return False
    with path.open("rb") as file:
        file.seek(-min(64, path.stat().st_size), 2)
        return not file.read().rstrip(b"\0").endswith(b";")


def rgb(frame, factor: int) -> FrameArray:
    """A decoded frame, upright, averaged down by `factor`."""
    if any(component.is_alpha for component in frame.format.components):
        image = to_rgb(Image.fromarray(frame.to_ndarray(format="rgba")))
    else:
        size = max(1, frame.width // factor), max(1, frame.height // factor)
        image = frame.reformat(*size, format="rgb24", interpolation="AREA").to_ndarray()
    return np.rot90(image, round(frame.rotation / 90))
