"""Videos that can be read at any frame: files, folders of images, imported HDF5 files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Float64

from gswm.core.errors import UserError
from gswm.data.importing.damage import decoding
from gswm.data.importing.frames import FrameArray, read_image, rgb, video_frames
from gswm.data.importing.sources import Skipped, Source, find, images, no_video
from gswm.data.importing.videos import Cut, UnusableError, known_cut
from gswm.data.storage.hdf5 import is_name_of_file, open_file

SHORT = 2_000
"""Videos with at most this many frames are decoded from the first; some files cannot be sought."""
EPS = 1e-4
"""Rounding error of times in seconds."""

Item = TypeVar("Item")
Pixels = Callable[[int], FrameArray]
"""A frame's pixels, averaged down by at most a factor."""


@dataclass(frozen=True)
class Reel:
    """One video."""

    name: str
    width: int
    height: int
    count: int
    """Number of frames."""
    times: Float64[np.ndarray, " frame"] | None
    """Display time of each frame in seconds; None if unknown."""
    read: Callable[[Sequence[int]], Iterator[Pixels]]
    """Read the frames with these numbers, in ascending order."""
    rate: float | None = None
    """Frames per second, if the times of frames are unknown."""
    exact: bool = True
    """Whether decoding gives `count` frames; otherwise it is about this number."""

    @property
    def fps(self) -> float | None:
        """Frames per second, from the median interval."""
        if self.times is None or len(self.times) < 2:
            return self.rate
        step = float(np.median(np.diff(self.times)))
        mean = float(self.times[-1] - self.times[0]) / (len(self.times) - 1)
        # Times in whole milliseconds make the median coarse: the mean is better if both agree.
        step = mean if abs(mean - step) < 0.1 * step else step
        return 1 / step if step > 0 else None


def reels_of(path: Path, most: int) -> list[Reel]:
    """The videos at `path`, or `most` of them, evenly spaced."""
    if not path.exists():
        raise no_video(path)
    if path.is_file() and is_name_of_file(str(path)):
        return stored_reels(path, most)
    found = list(find([path]))
    reels, reasons = [], [f"{i.name}: {i.reason}" for i in found if isinstance(i, Skipped)]
    for source in evenly([item for item in found if isinstance(item, Source)], most):
        try:
            reels.append(folder_reel(source) if source.path.is_dir() else file_reel(source))
        except (UnusableError, OSError) as error:
            reasons.append(f"{source.name}: {error}")
    if not reels:
        raise UserError(f"cannot read {path}: {reasons[0].removeprefix(f'{path.name}: ')}")
    return reels


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most this many of the items, evenly spaced from the first to the last."""
    which = np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)
    return [items[i] for i in which]


def folder_reel(source: Source) -> Reel:
    """The images of a folder."""
    files = images(source.path)
    height, width, _ = read_image(files[0]).shape

    def read(numbers: Sequence[int]) -> Iterator[Pixels]:
        for number in numbers:
            yield lambda _, number=number: read_image(files[number])

    return Reel(source.name, width, height, len(files), None, read)


def stored_reels(path: Path, most: int) -> list[Reel]:
    """The videos of an HDF5 file, in which the episodes of a video are consecutive."""
    with open_file(path) as file:
        names = file.sources or [f"episode {i}" for i in range(len(file))]
        groups = [
            (name, [i for i, _ in group])
            for name, group in groupby(enumerate(names), key=lambda item: item[1])
        ]
        said = file.attributes if "gswm" in file.attributes else {}
        rate = Cut.like(known_cut(said, path), Cut.size).fps
        if not groups:
            raise UserError(f"{path} has no episodes")

    def read(episodes: list[int], numbers: Sequence[int]) -> Iterator[Pixels]:
        with open_file(path) as file:
            for number in numbers:
                episode, frame = divmod(number, file.frames)
                video = file.video([episodes[episode]], frame, 1)[0, 0]
                pixels = video.permute(1, 2, 0).numpy()
                yield lambda _, pixels=pixels: pixels

    return [
        Reel(
            name,
            file.width,
            file.height,
            len(episodes) * file.frames,
            None,
            partial(read, episodes),
            rate,
        )
        for name, episodes in evenly(groups, most)
    ]


def file_reel(source: Source) -> Reel:
    """A video file."""
    first = next(video_frames(source.path, allow_damaged=True), None)
    if first is None:
        raise UnusableError("it has no frames")
    times, keys = timetable(source.path)

    def read(numbers: Sequence[int]) -> Iterator[Pixels]:
        if len(times) <= SHORT:
            return counted(source.path, numbers)
        return sought(source.path, times[list(numbers)], keys)

    exact = stated_count(source.path) in (0, len(times))
    return Reel(source.name, first.width, first.height, len(times), times, read, exact=exact)


def stated_count(path: Path) -> int:
    """The number of frames that the header of a file states; 0 if it does not.

    Packets without a frame, as AVI files may have, make it differ from the number of packets.
    """
    import av

    with decoding(path), av.open(str(path), metadata_errors="replace") as container:
        return container.streams.video[0].frames


def timetable(path: Path) -> tuple[Float64[np.ndarray, " frame"], Float64[np.ndarray, " key"]]:
    """Display time of each frame, and the keyframes, without decoding."""
    import av

    times, keys = [], []
    with decoding(path), av.open(str(path), metadata_errors="replace") as container:
        stream = container.streams.video[0]
        step = float(1 / (stream.average_rate or stream.guessed_rate or 25))
        for packet in container.demux(stream):
            if packet.size == 0:  # the end
                continue
            at = len(times) * step
            if packet.pts is not None and packet.time_base is not None:
                at = float(packet.pts * packet.time_base)
            times.append(at)
            if packet.is_keyframe:
                keys.append(at)
    return np.sort(np.array(times, float)), np.sort(np.array(keys, float))


def counted(path: Path, numbers: Sequence[int]) -> Iterator[Pixels]:
    """The frames with these numbers, decoding all frames before them too."""
    import av

    wanted, last = set(numbers), max(numbers, default=-1)
    with decoding(path), av.open(str(path), metadata_errors="replace") as container:
        container.streams.video[0].thread_type = "AUTO"
        for number, frame in enumerate(container.decode(video=0)):
            if number in wanted:
                yield partial(rgb, frame)
            if number >= last:
                return


def sought(path: Path, times: np.ndarray, keys: np.ndarray) -> Iterator[Pixels]:
    """The frames at these times, by seeking to keyframes."""
    import av

    with decoding(path), av.open(str(path), metadata_errors="replace") as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        frames, now = container.decode(stream), -np.inf
        frame = None
        for time in times:
            if ((keys > now) & (keys <= time)).any():
                container.seek(int(max(0.0, time) * 1e6), backward=True, any_frame=False)
                frames, now = container.decode(stream), -np.inf
            while now < time - EPS and (frame := next(frames, None)) is not None:
                now = time if frame.time is None else float(frame.time)
            if frame is None:
                return
            yield partial(rgb, frame)
