"""A video as episodes to fit a model to: split by time, with the background of the first part.

The background comes from the training frames alone; the sizes and the number of objects are
measured on the whole video. If a model sees only every n-th frame, the training frames in between
form further episodes of every n-th frame. Boxes of moving objects in training frames are labels,
from which the model learns where objects are; where the initial weights detect other objects, these
are used instead (see `reconciling`).
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.limits import MOST_TAKEN, is_number
from gswm.core.waiting import progress_bar
from gswm.data.background import FRAMES
from gswm.data.episode import Episodes
from gswm.data.importing.film import Film
from gswm.data.importing.tensors import batch_of
from gswm.data.importing.videos import Take
from gswm.data.looking.teaching import Boxes, motion_labels, nothing_known
from gswm.data.placement import Footage, as_text
from gswm.data.splits import SplitName
from gswm.data.standing import empty_scene
from gswm.data.storage.hdf5 import open_file
from gswm.data.storage.writer import Writer
from gswm.fitting.reconciling import reconciled
from gswm.models.base import WorldModel

HELD_OUT = 0.1
"""Fractions of a video for validation and for testing, at its end."""
EPISODE = (12, 64)
"""Smallest and largest number of frames of an episode."""
MOST = 20_000
"""Largest number of frames in total; of longer videos, evenly spaced episodes are kept."""
LABELLED = 2_000
"""Number of training frames with labels of moving objects, in total."""
STRETCH = 200
"""Number of consecutive frames that are labelled together; at least one episode."""
COMPARING = "comparing what moves with what the start sees"
SAID = "measured"
"""The attribute of a file that holds measurements and decisions."""

Picture = UInt8[Tensor, "3 size size"]


def is_rows(value: Any) -> bool:
    """Whether these are decisions: rows of a name, a value and a reason, as text."""
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(x, str) for x in row)
        for row in value
    )


NEEDED: dict[str, Callable[[Any], bool]] = {
    "model": lambda value: isinstance(value, dict),
    "expected": lambda value: is_number(value) and math.isfinite(value),
    "decisions": is_rows,
    "fps": lambda value: value is None or (is_number(value) and 0 < value <= MOST_TAKEN),
}
"""Checks of the parts of a prepared file."""


@dataclass(frozen=True)
class FitData:
    """Videos as episodes."""

    file: Path
    frames: int
    """Frames per episode."""
    splits: dict[SplitName, int]
    """Episodes of each split."""
    backgrounds: tuple[Picture, ...]
    """One for each video."""
    labelled: bool
    """Whether there are boxes of moving objects to learn from."""
    said: dict[str, Any]
    """Measurements and decisions."""

    @staticmethod
    def read(file: Path) -> "FitData":
        """Read a file that `prepare` wrote."""
        with open_file(file) as stored:
            if SAID not in stored.attributes or stored.splits is None:
                raise UserError(
                    f"{file} was not prepared for a fit: give the video itself, or a file that "
                    "`gswm fit VIDEO --prepare` wrote"
                )
            said = said_in(str(stored.attributes[SAID]), file)
            names = list(stored.sources or [])
            first = [names.index(name) for name in dict.fromkeys(names)]
            behind = stored.read(first).background
            found = stored.splits.tolist()
            counts: dict[SplitName, int] = {
                name: found.count(name) for name in ("train", "val", "test")
            }
            frames, labelled = stored.frames, "labels" in stored.shapes
        if behind is None:
            raise UserError(f"{file} has no backgrounds: prepare it with `gswm fit --prepare`")
        return FitData(file, frames, counts, tuple(behind), labelled, said)


def said_in(text: str, file: Path) -> dict[str, Any]:
    """Parse measurements and decisions from the attribute of a file."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    said: dict[str, Any] = found if isinstance(found, dict) else {}
    for name, is_right in NEEDED.items():
        if name not in said or not is_right(said[name]):
            raise UserError(
                f"{file} is damaged: it does not state its {name}; prepare it again with "
                "`gswm fit VIDEO --prepare`"
            )
    return said


def prepare(
    films: Sequence[Film],
    stride: int,
    out: Path,
    said: Mapping[str, Any],
    start: WorldModel[Any] | None = None,
) -> FitData:
    """Write films into the file `out`, each cut into episodes of equal length.

    Args:
        films: Videos with all of their frames.
        stride: The model sees every n-th frame.
        out: An HDF5 file.
        said: Measurements and decisions, to be stored with it.
        start: The initial weights, if any.
    """
    totals = [len(film.footage) // stride for film in films]
    length = episode_length(min(totals))
    every = -(-sum(totals) // MOST)
    phases = range(1 if every > 1 else stride)
    counts: dict[SplitName, int] = {"train": 0, "val": 0, "test": 0}
    cut = films[0].cut
    attributes: dict[str, str | float] = {"fit": cut.fit, SAID: json.dumps(said)}
    if said.get("fps") is not None:
        attributes["fps"] = float(said["fps"])
    if cut.region is not None:
        attributes["region"] = as_text(cut.region)
    backgrounds = []
    boxes: dict[int, Boxes] = {}
    with Writer(out, "video", force=True, attributes=attributes) as writer:
        for film, total in zip(films, totals, strict=True):
            plan = planned(total, length)
            picture = background_of(film, plan.count("train") * length * stride)
            backgrounds.append(picture)
            taught: dict[int, list[int]] = {phase: [] for phase in phases}
            for split, phase, take in episodes_of(film, plan, length, stride, phases, every):
                if split == "train":
                    taught[phase].append(writer.episodes)
                writer.append(
                    Episodes(take.batch(), background=picture[None]),
                    split=split,
                    source=film.path.name,
                    footage=take.footage,
                )
                counts[split] += 1
            together = 1 if every > 1 else -(-STRETCH // length)
            some = [run for numbers in taught.values() for run in runs(numbers, together)]
            share = LABELLED // (length * together * len(films))
            boxes |= labelled(writer, evenly(some, max(1, share)), picture, start)
        writer.add_labels(padded(boxes, writer.episodes, length))
    return FitData(out, length, counts, tuple(backgrounds), True, dict(said))


def runs(episodes: list[int], together: int) -> list[list[int]]:
    """Groups of consecutive episodes."""
    return [episodes[i : i + together] for i in range(0, len(episodes), together)]


def evenly(some: list[list[int]], most: int) -> list[list[int]]:
    """At most this many items of a list, evenly spaced."""
    return some[:: -(-len(some) // most)] if some else some


def labelled(
    writer: Writer, stretches: list[list[int]], behind: Picture, start: WorldModel[Any] | None
) -> dict[int, Boxes]:
    """The boxes of moving objects in several episodes, with consecutive ones in one piece."""
    frames = [np.concatenate([writer.video(i) for i in numbers]) for numbers in stretches]
    found = motion_labels(frames, behind.float() / 255)
    if start is not None:
        with progress_bar(COMPARING, "stretches", len(frames)) as advance:
            for i, video in enumerate(frames):
                if (found[i][..., 0] > 0).any():  # otherwise there is nothing to contradict
                    seen = start.infer(batch_of(video), render=False, background=behind)
                    found[i] = reconciled(found[i], seen)
                advance(i + 1)
    return {
        number: part
        for numbers, boxes in zip(stretches, found, strict=True)
        for number, part in zip(numbers, np.split(boxes, len(numbers)), strict=True)
    }


def padded(
    boxes: Mapping[int, Boxes], episodes: int, frames: int
) -> Float32[np.ndarray, "episode time box 6"]:
    """The boxes of all episodes, padded; episodes without labels are masked."""
    most = max(1, *(part.shape[1] for part in boxes.values()))
    values = np.stack([nothing_known(frames, most)] * episodes)
    for number, part in boxes.items():
        values[number] = 0
        values[number, :, : part.shape[1]] = part
    return values


def episode_length(total: int) -> int:
    """A tenth of the shortest video, so that its held-out parts have at least one episode each."""
    fewest, most = EPISODE
    if total < 3 * fewest:
        raise UserError(
            f"the video has {total} frames at this rate, and a fit needs {3 * fewest}: take a "
            "longer one, or give a smaller --stride"
        )
    return max(fewest, min(most, int(HELD_OUT * total)))


def planned(total: int, length: int) -> list[SplitName]:
    """The split of each episode of a video, in order of time."""
    number = total // length
    held_out = max(1, round(HELD_OUT * number))
    counts: dict[SplitName, int] = {"train": number - 2 * held_out, "val": held_out}
    counts["test"] = held_out
    return [split for split, count in counts.items() for _ in range(count)]


def episodes_of(
    film: Film, plan: list[SplitName], length: int, stride: int, phases: range, every: int
) -> Iterator[tuple[SplitName, int, Take]]:
    """The episodes of a film: training episodes at every phase of the stride, others at one."""
    stretches = film.chunks(length * stride)
    for number, (split, take) in enumerate(zip(plan, stretches, strict=False)):
        if split == "train" and number % every:
            continue
        for phase in phases if split == "train" else range(1):
            some = slice(phase, None, stride)
            if len(take.video[some]) == length:
                yield split, phase, thinned(take, some)


def thinned(take: Take, which: slice) -> Take:
    """Some of the frames."""
    footage = take.footage
    parts = footage.frames[which], footage.times[which]
    return Take(np.ascontiguousarray(take.video[which]), Footage(footage.placement, *parts))


def background_of(film: Film, frames: int) -> Picture:
    """The background of a film, computed from its first `frames` frames."""
    step = max(1, frames // FRAMES)
    kept: list[Tensor] = []
    seen = 0
    for take in film.chunks():
        kept.append(some_of(take, seen, step, frames))
        seen += len(take)
        if seen >= frames:
            break
    return (empty_scene(torch.cat(kept)) * 255).round().to(torch.uint8)


def some_of(take: Take, first: int, step: int, frames: int) -> UInt8[Tensor, "time 3 size size"]:
    """Every `step`-th of a film's first `frames` frames, if it is in `take`."""
    numbers = [i for i in range(len(take)) if (first + i) % step == 0 and first + i < frames]
    return batch_of(take.video[numbers])[0]
