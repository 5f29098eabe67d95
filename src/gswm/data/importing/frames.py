"""The frames of a video file or a folder of images, with their times.

Frames are rotated upright as the file prescribes, transparent pixels become black, and grayscale
becomes RGB. A video that is damaged (see `damage`) or cut short raises an error, unless that is
allowed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from gswm.data.importing.damage import (
    LOG,
    DamagedError,
    Reading,
    UnusableError,
    decoding,
    ends_early,
)
from gswm.data.importing.sources import images

FrameArray = UInt8[np.ndarray, "height width 3"]

REORDERED = 4
"""Number of frames among which times may be out of order."""
TEXT = ("tty",)
"""The decoder's format for plain text, which it would draw as pictures."""


@dataclass(frozen=True)
class TimedFrame:
    """A frame, with the start and end of its display in seconds."""

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
    """Degrees, counterclockwise, by which it was rotated to be upright."""
    has_time: bool = True
    """Whether `start` and `end` are times; images have none."""


def time_of(frame: TimedFrame) -> float:
    """Seconds since the start of the video; NaN for an image."""
    return frame.start if frame.has_time else float("nan")


def image_frames(folder: Path) -> Iterator[TimedFrame]:
    """The images in `folder`, one frame each."""
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
        why = f"{path.name} in it is damaged or not an image; replace or delete it"
        raise UnusableError(why) from error


def to_rgb(image: Image.Image) -> FrameArray:
    """Convert to RGB; transparent pixels become black, and 16 bits are reduced to 8.

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
    """Numbers from 0 to `most` as bytes; raises an error for others, instead of clipping them."""
    low, high = float(values.min()), float(values.max())
    if not 0 <= low <= high <= most:
        raise UnusableError(
            f"has {kind} from {low:g} to {high:g}, but they must be from 0 to {most:g}; save it "
            f"with 8 or 16 bits"
        )
    if most == 1:
        return (values * 255).round().astype(np.uint8)
    return (values.astype(np.int64) >> 8).astype(np.uint8)


def video_frames(
    path: Path, *, keyframes: bool = False, allow_damaged: bool = False
) -> Iterator[TimedFrame]:
    """The frames of a video file, or only its keyframes."""
    import av

    with decoding(path):
        with LOG.errors() as said:
            container = av.open(str(path), metadata_errors="replace")
        with container:
            if container.format.name in TEXT or not container.streams.video:
                raise UnusableError("it has no video stream; choose another file")
            stream = container.streams.video[0]
            if stream.codec_context is None:
                raise UnusableError(
                    "its codec is not supported; convert it, or choose another file"
                )
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
    """The frames of a stream; raises an error if it is damaged, or announced frames are missing.

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
    """The same frames, with non-decreasing times.

    Some files, especially AVI, store decoding times, and some frames are decoded before others that
    are shown earlier.
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
    """A decoded frame, upright, averaged down by `factor`; `scaler` is reused within a video."""
    try:
        if any(component.is_alpha for component in frame.format.components):
            image = to_rgb(Image.fromarray(frame.to_ndarray(format="rgba")))
        else:
            size = max(1, frame.width // factor), max(1, frame.height // factor)
            how = {"format": "rgb24", "interpolation": "AREA"}
            reformat = frame.reformat if scaler is None else partial(scaler.reformat, frame)
            image = reformat(*size, **how).to_ndarray()
    except (OSError, ValueError) as error:  # the errors that FFmpeg raises
        raise UnusableError(
            "its pixel format is not supported; convert it to another format"
        ) from error
    return np.rot90(image, round(frame.rotation / 90))
