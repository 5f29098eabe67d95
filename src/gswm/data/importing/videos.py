"""Videos of one's own, as episodes.

Frames are turned upright as the file says, transparent pixels become black, grey becomes red,
green and blue, and each frame is placed in a square (see `placement`) with a filter as wide as the
reduction, so that nothing aliases. A video is cut into as many episodes as it has frames for. A
video that is damaged (see `damage`), cut short, or changes its size on the way is not imported at
all, unless that is allowed: a part of it would pass for the whole.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from gswm.core.errors import UserError
from gswm.core.limits import LARGEST_SIDE, MOST_TAKEN, is_number
from gswm.core.words import in_bytes
from gswm.data.importing.damage import LOG, DamagedError, Reading, decoding, ends_early
from gswm.data.importing.damage import UnusableError as UnusableError
from gswm.data.importing.sources import Source, images
from gswm.data.placement import WHOLE, Fit, Footage, Placement, Region, parse_region

FrameArray = UInt8[np.ndarray, "height width 3"]
ClipArray = UInt8[np.ndarray, "time size size 3"]
Seen = tuple[UInt8[np.ndarray, "size size 3"], int, float]
"""A frame as a model sees it, its number in the video, and its time in seconds."""

MOST_BYTES = 1 << 34
"""Of the frames of an episode."""
MOST_REPEATS = 1_000
"""Times in a row that one frame may be taken."""
FINER = 3
"""Large frames are first averaged down, fast, to this many times the size that is wanted."""
CUT = ("fps", "crop", "fit", "region")
"""Names of the import settings in files and weights."""
BEFORE: dict[str, Fit] = {"center": "crop", "none": "stretch"}
"""The fits of files and weights that state a `crop`, as all did before there were letterboxes."""
AHEAD = 4
"""Decoded frames that wait to be scaled; one of 4K takes 12 MB."""
REORDERED = 4
"""Frames among which times may be out of order."""
TEXT = ("tty",)
"""The decoder's format of plain text, which it would draw letter by letter."""
EPS = 1e-6


@dataclass(frozen=True)
class Cut:
    """Settings that turn videos into episodes."""

    size: int = 64
    fps: float | None = None
    """Frames per second, by the video's own times; None for every frame there is."""
    frames: int = 100
    fit: Fit = "letterbox"
    region: Region | None = None
    """The part of the picture to take, in source pixels; None for all of it."""
    allow_damaged: bool = False
    """Take videos as they are, though FFmpeg reports damage or frames are missing."""

    def __post_init__(self) -> None:
        check_cut(self.size, self.fps, self.frames, self.fit)

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
        if (crop := known.get("crop", "center")) not in BEFORE:
            raise UserError(f"crop is {crop!r}; it must be one of {', '.join(BEFORE)}")
        before = BEFORE[crop] if known else Cut.fit
        if not isinstance(part := region or known.get("region", WHOLE), str):
            raise UserError(
                f"region is {part!r}; it must be x,y,width,height in pixels, or {WHOLE}"
            )
        part = parse_region(part)
        how: Fit = fit or known.get("fit", before)
        check_cut(size, fps or None, Cut.frames, how)
        return Cut(size, float(fps) if fps else None, fit=how, region=part)

    def placement(self, frame: "TimedFrame") -> Placement:
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
                raise UserError(f"{key} is {type(value).__name__}; it must be one word or number")
        Cut.like(known, Cut.size)
    except UserError as error:
        raise UserError(f"{where}: it tells how videos were cut, and {error}") from error
    return known


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


def check_cut(size: object, fps: object, frames: object, fit: object) -> None:
    """Refuse numbers that make no sense, be they a user's or those of a file's header."""
    if not isinstance(size, int) or not 1 <= size <= LARGEST_SIDE:
        raise UserError(f"size is {size!r}; it must be from 1 to {LARGEST_SIDE:,} pixels")
    if fps is not None and not (is_number(fps) and 0 < fps <= MOST_TAKEN):
        raise UserError(
            f"fps is {fps!r}; it must be above 0 and at most {MOST_TAKEN:,}, or None for every "
            "frame"
        )
    if fit not in get_args(Fit):
        raise UserError(f"fit is {fit!r}; it must be one of {', '.join(get_args(Fit))}")
    if not isinstance(frames, int) or frames < 1:
        raise UserError(f"frames is {frames!r}; it must be at least 1")
    if (needed := 3 * frames * size**2) > MOST_BYTES:
        raise UserError(
            f"{frames:,} frames of {size} x {size} pixels take {in_bytes(needed)} at once, and may "
            f"take {in_bytes(MOST_BYTES)}: take fewer, or smaller ones"
        )


def frames_of(source: Source, cut: Cut) -> Iterator[TimedFrame]:
    """The frames of a video, at the rate that is wanted; a folder's images have no times."""
    if source.path.is_dir():
        return same_size(image_frames(source.path))
    frames = same_size(video_frames(source.path, allow_damaged=cut.allow_damaged))
    return frames if cut.fps is None else resample(frames, cut.fps)


def takes(frames: Iterable[TimedFrame], cut: Cut) -> Iterator[Take]:
    """The frames, `cut.frames` at a time, and last those that are left over, if any."""
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
    """Each frame as a model sees it: a thread scales frames while the next ones are decoded."""
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

    def until(end: float) -> Iterator[TimedFrame]:
        nonlocal count
        if shown is None:
            return
        if (times := (end - begin) * fps - count) > MOST_REPEATS:
            raise UnusableError(
                f"its frame at {shown.start:.1f} s lasts until {end:.1f} s, and would be taken "
                f"{times:,.3g} times at {fps:g} frames per second; take fewer, or cut it there"
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


def image_frames(folder: Path) -> Iterator[TimedFrame]:
    """The images in `folder`, a frame each."""
    for i, path in enumerate(images(folder)):
        frame = read_image(path)
        height, width, _ = frame.shape
        yield TimedFrame(
            *(width, height, float(i), float(i + 1), lambda _, frame=frame: frame),
            index=i,
            has_time=False,
        )


def read_image(path: Path) -> FrameArray:
    """One image, upright."""
    try:
        if not path.is_file():
            raise ValueError("a pipe or a device")
        with Image.open(path) as image:
            return to_rgb(ImageOps.exif_transpose(image))
    except UnusableError as error:
        raise UnusableError(f"{path.name} in it {error}") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        why = f"{path.name} in it is damaged or no image; replace or remove it"
        raise UnusableError(why) from error


def to_rgb(image: Image.Image) -> FrameArray:
    """Red, green and blue; what is transparent is black, and 16 bits are taken down to 8.

    Floats are from 0 to 1, and 32-bit integers from 0 to 65,535.
    """
    if image.mode == "F":
        image = Image.fromarray(scaled(np.asarray(image), 1.0, "floats"))
    elif image.mode.startswith("I"):
        image = Image.fromarray(scaled(np.asarray(image), 65_535, "integers"))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return np.asarray(image.convert("RGB"))


def scaled(values: np.ndarray, most: int | float, kind: str) -> UInt8[np.ndarray, "height width"]:
    """Numbers from 0 to `most` as bytes; others would become black or white without a word."""
    low, high = float(values.min()), float(values.max())
    if not 0 <= low <= high <= most:
        raise UnusableError(
            f"has {kind} from {low:g} to {high:g}, and they must be from 0 to {most:g}; save it "
            "with 8 or 16 bits"
        )
    if most == 1:
        return (values * 255).round().astype(np.uint8)
    return (values.astype(np.int64) >> 8).astype(np.uint8)


def video_frames(
    path: Path, *, keyframes: bool = False, allow_damaged: bool = False
) -> Iterator[TimedFrame]:
    """The frames of a video file, or those alone that are decoded without any other."""
    import av

    with decoding(path):
        with LOG.errors() as said:
            container = av.open(str(path), metadata_errors="replace")
        with container:
            if container.format.name in TEXT or not container.streams.video:
                raise UnusableError("there is no video in it; remove it")
            stream = container.streams.video[0]
            if stream.codec_context is None:
                raise UnusableError("no decoder knows what is in it; convert it, or remove it")
            of_video = (f"{container.format.name}:", f"{stream.codec_context.name}:")
            if not allow_damaged and (errors := [e for e in said if e.startswith(of_video)]):
                raise DamagedError(f"it is damaged ({errors[0]})")
            if keyframes:
                stream.codec_context.skip_frame = "NONKEY"
            how = {"keyframes": keyframes, "allow_damaged": allow_damaged}
            yield from in_order(stream_frames(container, stream, path, **how))


def stream_frames(
    container, stream, path: Path, *, keyframes: bool = False, allow_damaged: bool = False
) -> Iterator[TimedFrame]:
    """The frames of a stream; an error where it is damaged, or some that are announced are missing.

    Times count from the first frame.
    """
    from av.video.reformatter import VideoReformatter

    step = float(1 / (stream.average_rate or stream.guessed_rate or 25))
    aspect = float(stream.sample_aspect_ratio or 1)
    reading = Reading(container, stream, tolerant=allow_damaged or keyframes)
    begin, end, scaler = None, 0.0, VideoReformatter()
    for frame in reading.frames(keyframes):
        start = end + (begin or 0.0) if frame.time is None else float(frame.time)
        begin = start if begin is None else begin
        start -= begin
        end = start + (float(frame.duration * frame.time_base) if frame.duration else step)
        reading.seconds = end
        width, height, seen = frame.width, frame.height, aspect
        turns = round(frame.rotation / 90) % 4
        if turns % 2:
            width, height, seen = height, width, 1 / aspect
        pixels, index = partial(rgb, frame, scaler=scaler), reading.shown - 1
        yield TimedFrame(width, height, start, end, pixels, seen, index, 90 * turns)
    if not reading.tolerant:
        reading.check_whole(step, ended=not ends_early(path))


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


def rgb(frame, factor: int, *, scaler=None) -> FrameArray:
    """A decoded frame, upright, averaged down by `factor`; a video's `scaler` saves its setup."""
    try:
        if any(component.is_alpha for component in frame.format.components):
            image = to_rgb(Image.fromarray(frame.to_ndarray(format="rgba")))
        else:
            size = max(1, frame.width // factor), max(1, frame.height // factor)
            how = {"format": "rgb24", "interpolation": "AREA"}
            reformat = frame.reformat if scaler is None else partial(scaler.reformat, frame)
            image = reformat(*size, **how).to_ndarray()
    except (OSError, ValueError) as error:  # what FFmpeg raises is one of the two
        raise UnusableError(
            "its colors cannot be converted; convert it to another format"
        ) from error
    return np.rot90(image, round(frame.rotation / 90))
