"""Videos of one's own, as episodes.

Frames are turned as the file says they are to be seen, what is transparent becomes black, grey
becomes red, green and blue, and a frame's middle (or all of it) is resized with a filter as wide
as the reduction, so that nothing aliases. A video is cut into as many episodes as it has frames
for. A video that is damaged, cut short, or changes its size on the way is not imported at all:
a part of it would pass for the whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from gswm.core.errors import UserError
from gswm.data.importing.sources import Source, images

Crop = Literal["center", "none"]
FrameArray = UInt8[np.ndarray, "height width 3"]
ClipArray = UInt8[np.ndarray, "time size size 3"]

MISSING_SHARE = 0.05
MISSING_FRAMES = 3
"""What may be missing of a video before it counts as cut short."""
FINER = 3
"""Large frames are first averaged down, fast, to this many times the size that is wanted."""
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
    crop: Crop = "center"

    @staticmethod
    def like(
        known: Mapping[str, Any], size: int, fps: float | None = None, crop: Crop | None = None
    ) -> "Cut":
        """As a training's videos were cut, of which `known` is known, but for what is given.

        0 frames per second are all that there are.
        """
        fps = known.get("fps") if fps is None else fps
        return Cut(size, fps or None, crop=crop or known.get("crop", "center"))


@dataclass(frozen=True)
class TimedFrame:
    """A frame, from when and to when it is shown, in seconds."""

    width: int
    height: int
    start: float
    end: float
    pixels: Callable[[int], FrameArray]
    """Its pixels, or those of a reduction of it that is no less than so wide and high."""
    pixel_aspect: float = 1.0
    """How wide a pixel is to be seen, by how high."""


def frames_of(source: Source, cut: Cut) -> Iterator[TimedFrame]:
    """The frames of a video, at the rate that is wanted; a folder's images have no times."""
    if source.path.is_dir():
        return same_size(image_frames(source.path))
    frames = same_size(video_frames(source.path))
    return frames if cut.fps is None else resample(frames, cut.fps)


def clips(frames: Iterable[TimedFrame], cut: Cut) -> Iterator[ClipArray]:
    """The episodes in `frames`, and last the frames that are too few for another one."""
    clip = np.empty((cut.frames, cut.size, cut.size, 3), np.uint8)
    total = 0
    for frame in frames:
        clip[total % cut.frames] = resize(frame, cut.size, cut.crop)
        total += 1
        if total % cut.frames == 0:
            yield clip.copy()
    if total == 0:
        raise UnusableError("there are no frames in it; remove it")
    if total < cut.frames:
        at = "" if cut.fps is None else f" at {cut.fps:g} frames per second"
        few = f"has {total} frames{at}, and an episode {cut.frames}"
        raise UnusableError(f"{few}; give --frames {total} or fewer", total)
    yield clip[: total % cut.frames].copy()


def whole(path: Path, cut: Cut, most: int | None = None) -> ClipArray:
    """All frames of one video, a file or a folder of images, as one clip; or the first ones.

    Nothing is read, and so nothing is checked, after the first `most` frames.
    """
    if not path.exists():
        raise UserError(f"there is no video {path}; check the name")
    source = Source(path, path.name, "test")
    try:
        first = islice(frames_of(source, cut), most)
        frames = [resize(frame, cut.size, cut.crop) for frame in first]
    except (UnusableError, OSError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not frames:
        what = "images" if path.is_dir() else "frames"
        raise UserError(f"cannot read {path}: there are no {what} in it")
    return np.stack(frames)


def same_size(frames: Iterable[TimedFrame]) -> Iterator[TimedFrame]:
    """`frames`, as long as they are of one size."""
    first = None
    for frame in frames:
        size = f"{frame.width} x {frame.height}"
        first = first or size
        if size != first:
            raise UnusableError(f"its frames change from {first} to {size}; cut it where they do")
        yield frame


def resize(frame: TimedFrame, size: int, crop: Crop) -> UInt8[np.ndarray, "size size 3"]:
    """The frame's middle square, or all of it, as `size` × `size` pixels."""
    image = frame.pixels(FINER * size)
    height, width, _ = image.shape
    across, down = float(width), float(height)
    if crop == "center":
        side = min(width * frame.pixel_aspect, height)
        across, down = side / frame.pixel_aspect, side
    left, top = (width - across) / 2, (height - down) / 2
    box = (left, top, left + across, top + down)
    picture = Image.fromarray(image)
    return np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC, box, reducing_gap=3.0))


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
        yield TimedFrame(width, height, float(i), float(i + 1), lambda _, frame=frame: frame)


def to_rgb(image: Image.Image) -> FrameArray:
    """Red, green and blue; what is transparent is black, and 16 bits are taken down to 8."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return np.asarray(image.convert("RGB"))


def video_frames(path: Path) -> Iterator[TimedFrame]:
    """The frames of a video file."""
    import av
    from av.error import FFmpegError

    try:
        with av.open(str(path)) as container:
            if container.format.name in TEXT or not container.streams.video:
                raise UnusableError("there is no video in it; remove it")
            yield from stream_frames(container, container.streams.video[0], path)
    except FFmpegError as error:
        said = str(error.strerror).lower()
        raise UnusableError(f"it cannot be decoded ({said}); replace or remove it") from error


def stream_frames(container, stream, path: Path) -> Iterator[TimedFrame]:
    """The frames of a stream; an error at its end where some that are announced are missing."""
    step = float(1 / (stream.average_rate or stream.guessed_rate or 25))
    aspect = float(stream.sample_aspect_ratio or 1)
    packets, begin, end = 0, None, 0.0
    for packet in container.demux(stream):
        packets += packet.dts is not None
        for frame in packet.decode():
            if frame.is_corrupt:
                raise UnusableError(f"it is damaged at {end:.1f} s; replace or remove it")
            start = end if frame.time is None else float(frame.time)
            begin = start if begin is None else begin
            end = start + (float(frame.duration * frame.time_base) if frame.duration else step)
            width, height, seen = frame.width, frame.height, aspect
            if round(frame.rotation / 90) % 2:
                width, height, seen = height, width, 1 / aspect
            yield TimedFrame(width, height, start, end, partial(rgb, frame), seen)
    seconds = end - (begin or 0.0)
    if stream.frames:
        short = packets < stream.frames - MISSING_FRAMES
    else:
        announced = announced_seconds(container, stream)
        short = seconds < announced - max(MISSING_SHARE * announced, MISSING_FRAMES * step)
    if short or ends_early(path):
        raise UnusableError(f"it is cut short at {seconds:.1f} s; copy it again or remove it")


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


def rgb(frame, at_least: int) -> FrameArray:
    """A decoded frame as it is to be seen, averaged down to no less than `at_least` pixels."""
    if any(component.is_alpha for component in frame.format.components):
        image = to_rgb(Image.fromarray(frame.to_ndarray(format="rgba")))
    else:
        factor = max(1, min(frame.width, frame.height) // at_least)
        size = frame.width // factor, frame.height // factor
        image = frame.reformat(*size, format="rgb24", interpolation="AREA").to_ndarray()
    return np.rot90(image, round(frame.rotation / 90))
