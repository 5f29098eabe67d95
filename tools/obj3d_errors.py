"""Causes of wrong collisions and counts in `obj3d`, on validation episodes.

Tables: scores of true boxes with noise, by the number of frames of a line (which chose `SPAN` in
eval/metrics/collisions.py); scores of a model up to some frame; the number of objects, with and
without those that have left the frame; and speeds of imagined objects that truly rest.

Use: python tools/obj3d_errors.py --model obj3d --episodes 60
"""

import argparse
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import gswm
from gswm.core.records import concatenate
from gswm.data.episode import Episodes
from gswm.data.worlds.registry import world
from gswm.eval.metrics import collisions as metric
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.counts import counts
from gswm.eval.metrics.matching import nearest_ids
from gswm.models.base import WorldModel

GIVEN, SIDE = 10, 64
NOISES = (0.0, 0.1, 0.3)
"""Standard deviations in pixels."""
DRAWS = 3
REST = 0.1
"""Speed below which a true object rests, in pixels per frame."""
WINDOWS = ((0, 10), (20, 30), (40, 50), (0, 30), (0, 50))
"""Given frames for the speeds at rest."""
CHUNK = 15


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="obj3d")
    parser.add_argument("--episodes", type=int, default=60)
    args = parser.parse_args()
    obj3d = world("obj3d")
    episodes = concatenate(list(obj3d.episodes(obj3d.splits["val"].seed, args.episodes)))
    assert episodes.truth is not None
    assert episodes.space is not None
    true, contacts = Boxes.of_truth(episodes.truth, SIDE), episodes.space.contacts
    noise_table(true, contacts)
    model = gswm.load(args.model).eval()
    whole = imagined(model, episodes, 0, GIVEN)
    for last in (30, 40, 50, 60, 100):
        parts = whole.frames(0, last), true.frames(0, last), contacts[:, :last]
        found = metric.collisions(*parts, GIVEN)
        numbers = f"{int(found.imagined.sum())} imagined, {int(found.true.sum())} true"
        print(f"to frame {last}: {scores(found)}, {numbers}")
    inside = replace(whole, there=whole.there & whole.clipped().there)
    for name, boxes in (("all", whole), ("in the frame", inside)):
        print(f"right number, {name}: {counts(boxes, true).scores()['count_right']:.3f}")
    for start, stop in WINDOWS:
        rest_row(imagined(model, episodes, start, stop), true, start, stop)


def noise_table(true: Boxes, contacts: Tensor) -> None:
    """Print scores of true boxes with noise."""
    chosen = metric.SPAN
    for span in range(2, 9):
        metric.SPAN = span
        row = [f"lines of {span} frames"]
        for noise in NOISES:
            drawn = [noisy(true, noise, seed) for seed in range(DRAWS)]
            found = [metric.collisions(boxes, true, contacts, GIVEN) for boxes in drawn]
            row.append(f"{noise} px: {scores(concatenate(found))}")
        print("   ".join(row), flush=True)
    metric.SPAN = chosen


def scores(found: metric.Collisions) -> str:
    """Precision and recall in words."""
    made = found.scores()
    return f"precision {made['collision_precision']:.3f}, recall {made['collision_recall']:.3f}"


def noisy(boxes: Boxes, noise: float, seed: int) -> Boxes:
    """Boxes whose centers have noise of their own in every frame."""
    drawn = torch.randn(boxes.xy.shape, generator=torch.Generator().manual_seed(seed))
    return replace(boxes, xy=boxes.xy + noise / SIDE * drawn.double())


def imagined(model: WorldModel[Any], episodes: Episodes, start: int, stop: int) -> Boxes:
    """The frames from `start` on, of which those from `stop` on are imagined by means."""
    made = []
    for first in range(0, len(episodes), CHUNK):
        video = episodes.video[first : first + CHUNK, start:stop]
        past = model.infer(video, discover="always", render=False)
        steps = episodes.video.shape[1] - stop
        future = model.imagine_from(past.state_at(-1), steps, sample=False, render=False)
        made.append(Boxes.of_track(past).then(Boxes.of_track(future).flat()))
    return concatenate(made)


def rest_row(boxes: Boxes, true: Boxes, start: int, stop: int) -> None:
    """Print mean speeds of imagined objects that truly rest, in pixels per frame."""
    ahead, known = boxes.frames(stop - start), true.frames(stop)
    followed = ahead.of(nearest_ids(known, ahead, frame=0, limit=metric.LIMIT))
    there = (followed.there & known.there)[:, 1:]
    speed, true_speed = (SIDE * b.xy.diff(dim=1).norm(dim=-1) for b in (followed, known))
    rests = there & (true_speed < REST)
    parts = [slice(at, at + 10) for at in range(0, min(50, known.xy.shape[1]), 10)]
    means = [f"{float(speed[:, part][rests[:, part]].mean()):.2f}" for part in parts]
    print(f"given {start} to {stop - 1}, speed at rest per ten frames: {' '.join(means)}")


if __name__ == "__main__":
    main()
