"""Figures made of frames: tracked boxes with ids, and rollouts of the 3D worlds."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from gswm.data.worlds import registry as worlds
from gswm.eval.stills import from_text
from gswm.report.paper import BALLS, SOLIDS
from gswm.report.results import ResultFile, Results
from gswm.viz import pictures
from gswm.viz.imagination import GENERATED
from gswm.viz.pictures import Frames, Picture, PixelBoxes

SCALE, LETTERS = 3, 20
"""Enlargement factor of frames of 64 pixels, and the size of the text beside them."""
FRAMES = 8
"""Number of frames of a strip."""
GAP = 6


def tracking(results: Results) -> Picture | None:
    """Frames with tracked boxes: one example for each model and ball world."""
    return tracked(results, tuple(BALLS))


def digits(results: Results) -> Picture | None:
    """Frames with tracked boxes of digits, whose videos are shorter."""
    return tracked(results, ("digits",))


def tracked(results: Results, among: Sequence[str]) -> Picture | None:
    """Tracked boxes over frames that are generated again, for worlds with videos of one length."""
    firsts = [m[0] for world in among for m in results.models(world).values()]
    ours = [m for m in firsts if m.world in worlds.WORLDS]  # the file may be gone
    shown = [m for m in ours if m.examples and m.examples[0]["tracked"]]
    if not shown:
        return None
    labels = [f"{m.world}, {m.model}" for m in shown]
    times = [f"t = {part['frame']}" for part in some(shown[0].examples[0]["tracked"])]
    return pictures.sheet([strip(m) for m in shown], labels, times, gap=GAP, font_size=LETTERS)


def solids(results: Results, world: str) -> Picture | None:
    """A 3D world: the true frames of each episode above the models' rollouts (Fig. 7)."""
    held = {
        model: {e["episode"]: e["stills"] for e in measured[0].examples if "stills" in e}
        for model, measured in results.models(world).items()
    }
    lines = []
    for episode in sorted({number for each in held.values() for number in each}):
        shown = {model: each[episode] for model, each in held.items() if episode in each}
        lines += strips(f"episode {episode}{SOLIDS[world]}", shown)
    return painted(lines)


def other_stills(measured: Sequence[ResultFile]) -> Picture | None:
    """The first example of each result in a world of this style."""
    shown = [m for m in measured if m.style == "stills" and "stills" in m.examples[0]]
    named = ((f"{m.of}, {m.model}", m.examples[0]["stills"]) for m in shown)
    return painted([line for title, held in named for line in strips(title, {"imagined": held})])


Strip = tuple[str, Frames, Sequence[int]]
"""The title of a row of frames, the frames, and their steps."""


def strips(title: str, shown: Mapping[str, dict[str, Any]]) -> list[Strip]:
    """True frames, and below them the rollout of each model."""
    first = next(iter(shown.values()))
    true = enlarged(first["true"], first["true_boxes"])
    lines: list[Strip] = [(f"{title}, true", true, first["steps"])]
    for name, held in shown.items():
        frames = enlarged(held["imagined"], held["boxes"])
        lines.append((f"{title}, {name}", pictures.border(frames, GENERATED, SCALE), held["steps"]))
    return lines


def enlarged(stills: str, boxes: Sequence[Sequence[Sequence[float | int]]]) -> Frames:
    """Frames from the text in a result file, with their boxes."""
    frames = from_text(stills)
    return boxed(frames, boxes, max(1, round(64 * SCALE / frames.shape[1])))


def painted(lines: Sequence[Strip]) -> Picture | None:
    """Rows of frames as one picture, with the steps above them."""
    if not lines:
        return None
    labels, frames, steps = zip(*lines, strict=True)
    times = [f"step {step}" for step in max(steps, key=len)]
    return pictures.sheet(list(frames), list(labels), times, gap=GAP, font_size=LETTERS)


def some(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many frames as fit into a row, evenly spaced from the first to the last."""
    which = np.linspace(0, len(parts) - 1, min(FRAMES, len(parts))).round().astype(int)
    return [parts[i] for i in which]


def strip(measured: ResultFile) -> Frames:
    """The frames of the first example that has boxes, with the boxes."""
    episode, tracked = measured.examples[0]["episode"], some(measured.examples[0]["tracked"])
    frames = video(measured.world, episode)[[part["frame"] for part in tracked]]
    return boxed(frames, [part["boxes"] for part in tracked], SCALE)


@cache
def video(name: str, episode: int) -> Frames:
    """A test episode of a world, generated again."""
    world = worlds.WORLDS[name]
    chunks = world.episodes(world.splits["test"].seed, episode + 1)
    return torch.cat([chunk.video for chunk in chunks])[episode].permute(0, 2, 3, 1).numpy()


def boxed(frames: Frames, boxes: Sequence[Sequence[Sequence[float | int]]], scale: int) -> Frames:
    """Enlarged frames with their boxes: id, x, y, width and height, relative to the frame."""
    large = pictures.enlarge(frames, scale)
    drawn = [
        pictures.draw_boxes(large[i : i + 1], boxes_of(each, frames.shape[1]), scale)
        for i, each in enumerate(boxes)
    ]
    return np.concatenate(drawn)


def boxes_of(boxes: Sequence[Sequence[float | int]], side: int) -> PixelBoxes:
    """The boxes of one frame, in pixels."""
    values = np.array(boxes, float).reshape(1, -1, 5)
    there = np.ones(values.shape[:2], bool)
    return PixelBoxes(
        values[..., 1:3] * side, values[..., 3:] * side, values[..., 0].astype(int), there
    )
