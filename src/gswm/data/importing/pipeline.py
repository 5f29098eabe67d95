"""Many videos into one file, decoded in parallel, in order, in little memory.

Each video has a thread that decodes it and may be a few episodes ahead. The file is written in the
order of the videos, so it does not depend on the number of threads. If a video turns out to be
unusable half-way, its episodes are removed from the file. If no episode is in the split train at
the end, those whose split follows from their video's name are moved to it.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from queue import Full, Queue

import torch
from einops import rearrange

from gswm.core.words import printable
from gswm.data.episode import Episodes
from gswm.data.importing.sources import Skipped, Source
from gswm.data.importing.videos import Cut, Take, UnusableError, clips, frames_of
from gswm.data.splits import SplitName
from gswm.data.storage.writer import Writer

AHEAD = 4


@dataclass
class Summary:
    """The imported and the skipped videos."""

    videos: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    """Number of episodes in each split."""
    by_name: int = 0
    """Number of videos whose split follows from their own names, and not from a folder's."""
    all_train: bool = False
    """Whether these videos all became train, since there would be no training videos otherwise."""
    left_over: int = 0
    """Number of frames at the ends of videos, too few for an episode."""
    skipped: list[Skipped] = field(default_factory=list)


def import_videos(
    found: Iterable[Source | Skipped],
    writer: Writer,
    cut: Cut,
    workers: int,
    done: Callable[[Source], None] = lambda source: None,
) -> Summary:
    """Append the episodes of every video to `writer`; `done` is called with each video."""
    summary = Summary()
    sources: list[Source] = []
    for item in found:
        summary.skipped.append(item) if isinstance(item, Skipped) else sources.append(item)
    by_name: list[tuple[SplitName, slice]] = []
    mark = writer.episodes
    for source, item in decode(sources, cut, workers):
        if isinstance(item, UnusableError):
            writer.truncate(mark)
            name = printable(str(source.path))
            summary.skipped.append(Skipped(name, printable(str(item)), item.frames))
        elif isinstance(item, Take):
            video = rearrange(torch.from_numpy(item.video), "t h w c -> 1 t c h w")
            origin = {"source": source.name, "footage": item.footage}
            writer.append(Episodes(video), split=source.split, **origin)
            continue
        else:
            summary.videos += 1
            summary.left_over += item
            summary.splits[source.split] += writer.episodes - mark
            if source.by_name:
                by_name.append((source.split, slice(mark, writer.episodes)))
        mark = writer.episodes
        done(source)
    summary.by_name = len(by_name)
    if by_name and not summary.splits["train"]:
        summary.all_train = True
        for split, episodes in by_name:
            writer.assign(episodes, "train")
            moved = episodes.stop - episodes.start
            summary.splits.update({"train": moved, split: -moved})
        summary.splits = +summary.splits
    return summary


def decode(
    sources: Iterable[Source], cut: Cut, workers: int
) -> Iterator[tuple[Source, Take | int | UnusableError]]:
    """The episodes of each video in turn.

    Each video ends with the number of leftover frames, or with an error.
    """
    stop = threading.Event()
    rest = iter(sources)
    with ThreadPoolExecutor(workers) as pool:

        def start(source: Source) -> tuple[Source, Queue]:
            queue: Queue = Queue(AHEAD)
            pool.submit(work, source, cut, queue, stop)
            return source, queue

        try:
            running = deque(start(source) for source in islice(rest, workers))
            while running:
                source, queue = running.popleft()
                ended = False
                while not ended:
                    item = queue.get()
                    if isinstance(item, Exception) and not isinstance(item, UnusableError):
                        raise item
                    ended = not isinstance(item, Take)
                    yield source, item
                running.extend(start(source) for source in islice(rest, 1))
        finally:
            stop.set()


def work(source: Source, cut: Cut, queue: Queue, stop: threading.Event) -> None:
    """Put the episodes of a video into `queue`, and how it ends."""

    def put(item: Take | int | Exception) -> None:
        while not stop.is_set():
            with suppress(Full):
                return queue.put(item, timeout=0.1)

    try:
        frames = takewhile(lambda _: not stop.is_set(), frames_of(source, cut))
        left_over = 0
        for clip in clips(frames, cut):
            if len(clip) == cut.frames:
                put(clip)
            else:
                left_over = len(clip)
        put(left_over)
    except Exception as error:  # raised at the other end of the queue
        put(error)
