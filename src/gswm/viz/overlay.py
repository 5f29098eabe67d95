"""Boxes, ids and trails on the frames of the source video, at its own size and speed.

Frames are decoded, drawn on and encoded one by one: memory does not grow with the length of the
video.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from gswm.core.files import check_suffix
from gswm.core.waiting import progress_bar
from gswm.core.words import printable
from gswm.data.importing.film import Film
from gswm.data.importing.frames import TimedFrame, time_of
from gswm.data.placement import Placement
from gswm.viz.between import SourceBoxes
from gswm.viz.formats import REPEATABLE, write
from gswm.viz.located import Located
from gswm.viz.pictures import PAPER, Corners, Picture, draw_box, draw_frame

CLOCK = Fraction(1, 90_000)
"""Time base of a file."""
H264 = {"crf": "20", "preset": "veryfast", **REPEATABLE}
"""Options of the encoder."""
LINES = 180
"""Height of a picture with the thinnest lines."""
LOCATED = (".csv", ".txt", ".mp4")
"""Formats in the units of the source video."""


def save_located(
    path: Path, film: Film, located: Located, trail: int = 8, fps: int | float = 10
) -> None:
    """Write a table, MOTChallenge text or a video with boxes, by the name's ending.

    A table has the frames that the model saw; the others have all source frames up to the last of
    these.
    """
    check_suffix(path, LOCATED)
    kind = path.suffix.lower()
    if kind == ".csv":
        located.save_csv(path)
    elif kind == ".txt":
        boxes_of(film, located).save_mot(path, film.source_times)
    else:
        save_overlay(path, film, located, trail=trail, fps=fps)


def save_overlay(
    path: Path, film: Film, located: Located, *, trail: int = 8, fps: int | float = 10
) -> None:
    """Write an MP4 of every source frame up to the last one that the model saw.

    If the model saw only some of the frames, boxes in between are interpolated linearly in time. An
    object that only the earlier of two frames has keeps its position until the later one. A white
    line encloses the region that the model saw, unless that is the whole picture.

    Args:
        path: The file, .mp4.
        film: The video, and the frames that the model saw.
        located: Its objects.
        trail: Number of past frames, among those that the model saw, in which paths are drawn.
        fps: Frames per second of images, which have no times.
    """
    check_suffix(path, (".mp4",))
    write(path, lambda part: encode(part, film, located, trail, fps))


def encode(path: Path, film: Film, located: Located, trail: int, fps: int | float) -> None:
    """Decode, draw and encode, with a progress bar."""
    import av

    boxes = boxes_of(film, located)
    total = int(boxes.frames[-1]) + 1
    with (
        progress_bar(f"drawing {printable(film.path.name)}", "frames", total) as advance,
        av.open(str(path), "w", "mp4", options={"movflags": "faststart"}) as file,
    ):
        stream = None
        before = -1
        for frame, corners, past in beside(boxes, film.source_frames(), trail):
            image = np.ascontiguousarray(frame.pixels(1))
            if stream is None:
                stream = file.add_stream("libx264", options=H264)
                stream.codec_context.time_base = CLOCK
                stream.codec_context.sample_aspect_ratio = aspect(frame)
                stream.height, stream.width = (side + side % 2 for side in image.shape[:2])
                stream.pix_fmt = "yuv420p"
            scale = max(1, image.shape[0] // LINES)
            base = outlined(image, film.placement, scale)
            drawn = draw_frame(base, [*past, corners], trail, scale)
            out = av.VideoFrame.from_ndarray(even(drawn), format="rgb24")
            time = frame.start if frame.has_time else frame.index / fps
            before = max(before + 1, round(time / CLOCK))
            out.pts, out.time_base = before, CLOCK
            file.mux(stream.encode(out))
            advance(frame.index + 1)
        assert stream is not None  # a film has at least one frame
        file.mux(stream.encode())


def outlined(picture: Picture, placement: Placement, scale: int) -> Picture:
    """Outline the region that the model saw, unless that is the whole picture."""
    left, top, width, height = placement.shown
    if (width, height) == (placement.width, placement.height):
        return picture
    image = Image.fromarray(picture)
    box = round(left), round(top), round(left + width), round(top + height)
    draw_box(ImageDraw.Draw(image, "RGBA"), box, PAPER, max(1, scale // 4))
    return np.asarray(image)


def even(picture: Picture) -> Picture:
    """Pad the picture to even sides, as the format requires."""
    height, width, _ = picture.shape
    if height % 2 == width % 2 == 0:
        return picture
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def boxes_of(film: Film, located: Located) -> SourceBoxes:
    """The boxes of all source frames of a film, from those that the model saw."""
    return SourceBoxes(located, film.footage.frames, film.footage.times)


def aspect(frame: TimedFrame) -> Fraction:
    """Width of a pixel, divided by its height."""
    return Fraction(frame.pixel_aspect).limit_denominator(255)


def beside(
    boxes: SourceBoxes, frames: Iterator[TimedFrame], trail: int
) -> Iterator[tuple[TimedFrame, dict[int, Corners], Sequence[dict[int, Corners]]]]:
    """Each source frame with its boxes, and those of earlier frames that the model saw."""
    past: deque[dict[int, Corners]] = deque(maxlen=trail)
    k = -1
    for frame in frames:
        while k + 1 < len(boxes.frames) and boxes.frames[k + 1] <= frame.index:
            if k >= 0:
                past.append(rounded(boxes.seen(k)))
            k += 1
        yield frame, rounded(boxes.at(frame.index, time_of(frame), hold=True)), past
        if frame.index == boxes.frames[-1]:
            return


def rounded(located: Located) -> dict[int, Corners]:
    """Boxes by id in whole pixels, at least one pixel wide and high."""
    found = {}
    corners = np.round(located.corners()).astype(int).tolist()
    for id, (left, top, right, bottom) in zip(located.id.tolist(), corners, strict=True):
        found[id] = (left, top, max(right, left + 1), max(bottom, top + 1))
    return found
