"""SourceBoxes, ids and trails on the frames of the source video, at its own size and speed.

Frames are decoded, drawn on and encoded one after the other: memory does not grow with the length
of the video.
"""

import math
from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from gswm.core.files import check_suffix
from gswm.data.importing.film import Film
from gswm.data.importing.videos import TimedFrame
from gswm.viz.formats import write
from gswm.viz.located import Located
from gswm.viz.pictures import Corners, Picture, draw_frame

CLOCK = Fraction(1, 90_000)
"""Of the times in a file."""
LINES = 180
"""A picture this high has the thinnest lines."""
Box = Float64[np.ndarray, "4"]


LOCATED = (".csv", ".txt", ".mp4")
"""The kinds of files in the units of the source video."""


def save_located(path: Path, film: Film, located: Located, trail: int = 8, fps: int = 10) -> None:
    """Write a table, MOTChallenge text or a video with boxes, by the name's ending."""
    check_suffix(path, LOCATED)
    kind = path.suffix.lower()
    if kind == ".csv":
        located.save_csv(path)
    elif kind == ".txt":
        located.save_mot(path)
    else:
        save_overlay(path, film, located, trail=trail, fps=fps)


def save_overlay(
    path: Path, film: Film, located: Located, *, trail: int = 8, fps: int = 10
) -> None:
    """Write an MP4 of every source frame up to the last one that the model saw.

    Where the model saw only some of the frames, boxes between two of these are interpolated
    linearly in time. An object that only the earlier one has stays where it is until the later.

    Args:
        path: The file, .mp4.
        film: The video, and which of its frames the model saw.
        located: Where its objects are.
        trail: Draw where each object was in the last so many frames that the model saw.
        fps: Frames per second of images, which have no times.
    """
    check_suffix(path, (".mp4",))
    write(path, lambda part: encode(part, film, located, trail, fps))


def encode(path: Path, film: Film, located: Located, trail: int, fps: int) -> None:
    """Decode, draw and encode."""
    import av

    seen = film.footage
    boxes = SourceBoxes(located, seen.frames, seen.times)
    with av.open(str(path), "w", "mp4", options={"movflags": "faststart"}) as file:
        stream = None
        before = -1
        for frame, corners, past in boxes.beside(film.source_frames(), trail):
            image = np.ascontiguousarray(frame.pixels(1))
            if stream is None:
                stream = file.add_stream("libx264", options={"crf": "20", "preset": "veryfast"})
                stream.codec_context.time_base = CLOCK
                stream.codec_context.sample_aspect_ratio = aspect(frame)
                stream.height, stream.width = (side + side % 2 for side in image.shape[:2])
                stream.pix_fmt = "yuv420p"
            scale = max(1, image.shape[0] // LINES)
            drawn = draw_frame(image, [*past, corners], trail, scale)
            out = av.VideoFrame.from_ndarray(even(drawn), format="rgb24")
            time = frame.start if frame.has_time else frame.index / fps
            before = max(before + 1, round(time / CLOCK))
            out.pts, out.time_base = before, CLOCK
            file.mux(stream.encode(out))
        assert stream is not None  # a film has at least one frame
        file.mux(stream.encode())


def even(picture: Picture) -> Picture:
    """The picture with even sides, as the format needs them."""
    height, width, _ = picture.shape
    if height % 2 == width % 2 == 0:
        return picture
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def aspect(frame: TimedFrame) -> Fraction:
    """Width of a pixel, divided by its height."""
    return Fraction(frame.pixel_aspect).limit_denominator(255)


class SourceBoxes:
    """The boxes of the frames that a model saw, and of those between."""

    def __init__(self, located: Located, frames: np.ndarray, times: np.ndarray) -> None:
        last = {int(n): k for k, n in enumerate(frames)}
        self.frames = sorted(last)
        self.times = [float(times[last[n]]) for n in self.frames]
        self.located = located.last()
        self.rows = np.searchsorted(self.located.frame, [*self.frames, math.inf])
        self.corners = self.located.corners()

    def at(self, k: int) -> dict[int, Box]:
        """SourceBoxes by id in the k-th frame that the model saw."""
        rows = slice(self.rows[k], self.rows[k + 1])
        return dict(zip(self.located.id[rows].tolist(), self.corners[rows], strict=True))

    def beside(
        self, frames: Iterator[TimedFrame], trail: int
    ) -> Iterator[tuple[TimedFrame, dict[int, Corners], Sequence[dict[int, Corners]]]]:
        """Each source frame, its boxes, and those of the frames that the model saw before it."""
        past: deque[dict[int, Corners]] = deque(maxlen=trail)
        k, now, after = -1, dict[int, Box](), self.at(0)
        for frame in frames:
            while k + 1 < len(self.frames) and self.frames[k + 1] <= frame.index:
                if k >= 0:
                    past.append(rounded(now))
                k, now = k + 1, after
                after = self.at(k + 1) if k + 1 < len(self.frames) else {}
            boxes = now
            if 0 <= k < len(self.frames) - 1 and frame.index != self.frames[k]:
                share = self.share(k, frame)
                boxes = {
                    id: (1 - share) * box + share * after.get(id, box) for id, box in now.items()
                }
            yield frame, rounded(boxes), past
            if frame.index == self.frames[-1]:
                return

    def share(self, k: int, frame: TimedFrame) -> float:
        """How far a frame is from the k-th that the model saw to the next."""
        begin, end, now = self.times[k], self.times[k + 1], frame.start
        if not frame.has_time or not end > begin:
            begin, end, now = self.frames[k], self.frames[k + 1], frame.index
        return min(1.0, max(0.0, (now - begin) / (end - begin)))


def rounded(boxes: dict[int, Box]) -> dict[int, Corners]:
    """SourceBoxes in whole pixels, at least one wide and high."""
    found = {}
    for id, box in boxes.items():
        left, top, right, bottom = np.round(box).astype(int).tolist()
        found[id] = (left, top, max(right, left + 1), max(bottom, top + 1))
    return found
