"""Videos that are read in chunks, as often as needed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Float64, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.importing.damage import LOG
from gswm.data.importing.frames import FrameArray, TimedFrame, time_of, video_frames
from gswm.data.importing.sources import Source, no_video
from gswm.data.importing.tensors import batch_of
from gswm.data.importing.videos import Cut, Take, UnusableError, frames_of, place, resample, takes
from gswm.data.placement import Footage, Placement

CHUNK = 128
"""Number of frames that are read at once."""


class Film:
    """A video file, a GIF or a folder of images, placed in the frames of a model.

    Each read starts from the beginning, so a film can be read several times. It holds no frames:
    memory does not grow with the video's length, except in `read`.

        film = gswm.open_video("film.mp4", model.image_size)
        track = model.infer(film.read())
        track.save("boxes.csv", film)       # in pixels and seconds of the file
    """

    def __init__(self, path: str | Path, cut: Cut, frames: int | None = None) -> None:
        """Use at most the first `frames` frames. Default: None (all)."""
        self.path, self.cut, self.frames = Path(path), cut, frames
        self._placement: Placement | None = None
        self._footage: Footage | None = None
        self._source_times: list[float] = []

    def __repr__(self) -> str:
        return f"Film({str(self.path)!r}, {self.cut.size} × {self.cut.size} px)"

    @property
    def placement(self) -> Placement:
        """The placement of the model's frames in the picture of the video."""
        if self._placement is None:
            with self.reading():
                self._placement = self.cut.placement(next(self.timed()))
        return self._placement

    @property
    def footage(self) -> Footage:
        """Number and time of each frame; reads the video once if necessary."""
        if self._footage is None:
            with self.reading():
                known = [(frame.index, time_of(frame)) for frame in self.timed()]
            numbers, times = zip(*known, strict=True)
            parts = np.array(numbers, np.int64), np.array(times, np.float64)
            self._footage = Footage(self.placement, *parts)
        return self._footage

    @property
    def source_times(self) -> Float64[np.ndarray, " source_frame"]:
        """Time of every source frame, including those that `fps` skips; NaN for images.

        If only the first frames are used, times are known at least up to the last of these.
        """
        _ = self.footage  # has been read once
        return np.array(self._source_times, np.float64)

    def expected(self) -> int | None:
        """The approximate number of frames, as announced by the file; None if it does not."""
        if self.path.is_dir():
            return self.frames
        announced = announced_length(self.path)
        if announced is None:
            return self.frames
        frames, seconds = announced
        number = frames if self.cut.fps is None else round(seconds * self.cut.fps)
        return min(number, self.frames or number) or None

    def chunks(self, frames: int = CHUNK) -> Iterator[Take]:
        """Iterate over all frames in chunks."""
        parts: list[Footage] = []
        with self.reading():
            for some in takes(self.timed(), replace(self.cut, frames=frames)):
                parts.append(some.footage)
                yield some
        numbers, times = [p.frames for p in parts], [p.times for p in parts]
        self._placement = parts[0].placement
        self._footage = Footage(self._placement, np.concatenate(numbers), np.concatenate(times))

    def read(self) -> UInt8[Tensor, "1 time 3 size size"]:
        """All frames as a batch of one video."""
        return batch_of(np.concatenate([part.video for part in self.chunks()]))

    def sample(self, frames: int) -> UInt8[Tensor, "1 time 3 size size"]:
        """Return at least `frames` frames and fewer than twice as many, spread over the video.

        If the file has enough keyframes, only these are decoded. Shorter videos are returned whole.
        """
        kept: list[FrameArray] = []
        with self.reading():
            if not self.path.is_dir() and self.frames is None:
                kept = self.thinned(video_frames(self.path, keyframes=True), frames)
            if len(kept) < frames:
                kept = self.thinned(self.timed(), frames)
        return batch_of(np.stack(kept))

    def thinned(self, frames: Iterable[TimedFrame], least: int) -> list[FrameArray]:
        """Every 2^n-th of `frames`: at least this many, if possible, and less than twice that."""
        kept: list[FrameArray] = []
        step = 1
        for i, frame in enumerate(frames):
            if i % step == 0:
                kept.append(place(frame, self.placement))
                if len(kept) == 2 * least:
                    kept, step = kept[::2], 2 * step
        return kept

    def source_frames(self) -> Iterator[TimedFrame]:
        """Iterate over every frame as it is in the file, including those that `fps` skips."""
        every = Film(self.path, replace(self.cut, fps=None))
        with self.reading():
            yield from every.timed()

    def timed(self) -> Iterator[TimedFrame]:
        """The frames before placement; raises a UserError if there are none."""
        if not self.path.exists():
            raise no_video(self.path)
        source = Source(self.path, self.path.name, "test")
        every = self.noted(frames_of(source, replace(self.cut, fps=None)))
        fps = None if self.path.is_dir() else self.cut.fps
        found = islice(every if fps is None else resample(every, fps), self.frames)
        first = next(found, None)
        if first is None:
            raise UnusableError(f"it has no {'images' if self.path.is_dir() else 'frames'}")
        yield first
        yield from found

    def noted(self, frames: Iterable[TimedFrame]) -> Iterator[TimedFrame]:
        """The same frames; records their times."""
        times: list[float] = []
        for frame in frames:
            times.append(time_of(frame))
            if len(times) > len(self._source_times):
                self._source_times = times
            yield frame

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn read errors into a UserError."""
        try:
            yield
        except (UnusableError, OSError) as error:
            raise UserError(f"cannot read {self.path}: {error}") from error


def announced_length(path: Path) -> tuple[int, float] | None:
    """The announced number of frames and seconds of a file; None if unknown."""
    import av
    from av.error import FFmpegError

    try:
        with LOG.errors(), av.open(str(path), metadata_errors="replace") as container:
            if not container.streams.video:
                return None
            stream = container.streams.video[0]
            seconds = (container.duration or 0) / av.time_base
            frames = stream.frames or round(seconds * (stream.average_rate or 0))
    except (FFmpegError, OSError, ValueError):
        return None
    return (frames, seconds) if frames and seconds else None
