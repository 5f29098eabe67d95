"""A video as episodes to fit a model to: split by time, with the background of the first part.

Nothing is known of the frames that are to be predicted: the background is the median of the
training frames alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.background import FRAMES, as_float, static_background, without_standing
from gswm.data.episode import Episodes
from gswm.data.importing.film import Film, as_batch
from gswm.data.importing.videos import Take
from gswm.data.placement import as_text
from gswm.data.splits import SplitName
from gswm.data.storage.hdf5 import Writer

HELD_OUT = 0.1
"""Share of a video to validate on, and share to test on: the end of it."""
EPISODE = (12, 64)
"""Fewest and most frames of an episode."""
MOST = 20_000
"""Frames that are kept of all videos; of longer ones, evenly spaced episodes."""

Picture = UInt8[Tensor, "3 size size"]


@dataclass(frozen=True)
class FitData:
    """Videos as episodes."""

    file: Path
    frames: int
    """Of an episode."""
    splits: dict[SplitName, int]
    """Episodes of each split."""
    backgrounds: tuple[Picture, ...]
    """One for each video."""


def prepare(films: Sequence[Film], out: Path) -> FitData:
    """Write films into the file `out`, each cut into episodes of equal length."""
    totals = [len(film.footage) for film in films]
    length = episode_length(min(totals))
    every = -(-sum(totals) // MOST)
    counts: dict[SplitName, int] = {"train": 0, "val": 0, "test": 0}
    cut = films[0].cut
    said = {"fit": cut.fit} | ({} if cut.fps is None else {"fps": cut.fps})
    said |= {} if cut.region is None else {"region": as_text(cut.region)}
    backgrounds = []
    with Writer(out, "video", force=True, attributes=said) as writer:
        for film, total in zip(films, totals, strict=True):
            plan = planned(total, length)
            picture = background_of(film, plan.count("train") * length)
            backgrounds.append(picture)
            takes = film.chunks(length)
            for number, (split, take) in enumerate(zip(plan, takes, strict=False)):
                if split == "train" and number % every:
                    continue
                behind = {"background": picture[None]}
                writer.append(
                    Episodes(as_batch(take.video), **behind),
                    split=split,
                    source=film.path.name,
                    footage=take.footage,
                )
                counts[split] += 1
    return FitData(out, length, counts, tuple(backgrounds))


def episode_length(total: int) -> int:
    """A tenth of the shortest video: its held-out parts are then an episode each, or more."""
    fewest, most = EPISODE
    if total < 3 * fewest:
        raise UserError(
            f"the video has {total} frames at this rate, and a fit needs {3 * fewest}: take a "
            "longer one, or more frames per second"
        )
    return max(fewest, min(most, int(HELD_OUT * total)))


def planned(total: int, length: int) -> list[SplitName]:
    """The split of each episode of a video, in order of time."""
    number = total // length
    held_out = max(1, round(HELD_OUT * number))
    train = number - 2 * held_out
    return ["train"] * train + ["val"] * held_out + ["test"] * held_out


def background_of(film: Film, frames: int) -> Picture:
    """The background of a film, by its first `frames` frames."""
    step = max(1, frames // FRAMES)
    kept: list[Tensor] = []
    seen = 0
    for take in film.chunks():
        kept.append(some_of(take, seen, step, frames))
        seen += len(take)
        if seen >= frames:
            break
    frames = as_float(torch.cat(kept))
    empty = without_standing(static_background(frames), frames)
    return (empty * 255).round().to(torch.uint8)


def some_of(take: Take, first: int, step: int, frames: int) -> UInt8[Tensor, "time 3 size size"]:
    """Every `step`-th of a film's first `frames` frames, as far as they are in `take`."""
    numbers = [i for i in range(len(take)) if (first + i) % step == 0 and first + i < frames]
    return as_batch(take.video[numbers])[0]
