"""Scores by the size of objects, compared with loops and hand-made cases."""

from dataclasses import replace
from math import isnan, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_evaluate import Puppet
from test_labelled import best, iou, mot, naive_hota, together

from gswm.commands.evaluate import table
from gswm.core.records import concatenate
from gswm.core.shapes import NOBODY
from gswm.data.episode import Truth
from gswm.data.mot import MotBoxes
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.world import Clips
from gswm.eval.evaluate import evaluate
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.labelled import score_tracks
from gswm.eval.metrics.sizes import SIZES, by_size
from gswm.eval.protocols import Protocol

SIDE = 100
Box = tuple[int, float, float, float, float]
"""An id, the center in pixels, width and height."""


def truth(frames: list[list[Box]], visibility: list[list[float]]) -> Truth:
    """One episode whose objects have a slot for each id; 0 is the first one."""
    shape = 1, len(frames), 1 + max((box[0] for boxes in frames for box in boxes), default=0)
    xy, hw = torch.zeros(*shape, 2).double(), torch.zeros(*shape, 2).double()
    seen, ids = torch.zeros(shape).double(), torch.zeros(shape, dtype=torch.int64)
    for t, boxes in enumerate(frames):
        for (name, x, y, w, h), share in zip(boxes, visibility[t], strict=True):
            xy[0, t, name] = torch.tensor([x, y])
            hw[0, t, name] = torch.tensor([h, w])
            seen[0, t, name], ids[0, t, name] = share, name + 1
    flat = torch.zeros_like(ids)
    return Truth(
        positions=xy,
        velocities=torch.zeros_like(xy),
        sizes=torch.zeros_like(seen),
        layers=flat,
        order=flat,
        colors=torch.zeros(*shape, 3).double(),
        ids=ids,
        present=seen > 0.5,
        hw=hw,
        visibility=seen,
    )


def tracks(frames: list[list[Box]]) -> Boxes:
    """A model's track of one episode, in arbitrary slots."""
    shape = 1, len(frames), max(1, *map(len, frames))
    xy, hw = torch.zeros(*shape, 2).double(), torch.zeros(*shape, 2).double()
    id = torch.full(shape, NOBODY)
    for t, boxes in enumerate(frames):
        for slot, (name, x, y, w, h) in enumerate(boxes):
            xy[0, t, slot] = torch.tensor([x, y]) / SIDE
            hw[0, t, slot] = torch.tensor([h, w]) / SIDE
            id[0, t, slot] = name
    return Boxes(xy, hw, id, id != NOBODY)


def random_case(seed: int) -> tuple[list[list[Box]], list[list[float]], list[list[Box]]]:
    """Objects of all sizes, some hidden or across the border, and tracks with mistakes."""
    rng = np.random.default_rng(seed)
    true: list[list[Box]] = [[] for _ in range(5)]
    seen: list[list[float]] = [[] for _ in range(5)]
    said: list[list[Box]] = [[] for _ in range(5)]
    for name in range(int(rng.integers(1, 4))):
        x, y = rng.uniform(0, 100, 2)
        w, h = np.exp(rng.uniform(np.log(3), np.log(40))) * np.exp(rng.normal(0, 0.2, 2))
        for t in range(5):
            x, y, w, h = x + rng.normal(0, 2), y + rng.normal(0, 2), w * 1.1, h * 1.1
            inside = min(x + w / 2, 100) > max(x - w / 2, 0) and min(y + h / 2, 100) > max(
                y - h / 2, 0
            )
            true[t].append((name, x, y, w, h))
            seen[t].append(float(rng.choice([0.1, 0.24, 0.25, 1.0])) if inside else 0.0)
            if rng.random() < 0.8:
                switch = 10 * int(rng.random() < 0.2)
                moved = (v + rng.normal(0, 0.15) * w for v in (x, y))
                said[t].append((name + switch, *moved, w * rng.uniform(0.8, 1.2), h))
    for t in range(5):
        if rng.random() < 0.4:
            said[t].append((99, *rng.uniform(10, 90, 2), *rng.uniform(2, 40, 2)))
    return true, seen, said


def cut_off(box: Box) -> np.ndarray | None:
    """Left, top, width and height of what the frame shows of a box."""
    _, x, y, w, h = box
    left, top = max(x - w / 2, 0), max(y - h / 2, 0)
    right, bottom = min(x + w / 2, SIDE), min(y + h / 2, SIDE)
    return (
        np.array([left, top, right - left, bottom - top]) if right > left and bottom > top else None
    )


def share_inside(box: np.ndarray, region: np.ndarray) -> float:
    low = np.maximum(box[:2], region[:2])
    high = np.minimum(box[:2] + box[2:], region[:2] + region[2:])
    return float(np.prod(np.clip(high - low, 0, None)) / (box[2] * box[3]))


def is_in(box: np.ndarray, name: str) -> bool:
    low, high = SIZES[name]
    return low <= sqrt(box[2] * box[3]) / SIDE < high


def naive(
    name: str, true: list[list[Box]], seen: list[list[float]], said: list[list[Box]]
) -> tuple[MotBoxes, MotBoxes, int]:
    """The true boxes of a class, the predictions that count in it, and how many are right."""
    labels, kept, found = [], [], 0
    for t in range(len(true)):
        counted, ignored = [], []
        for box, share in zip(true[t], seen[t], strict=True):
            if (part := cut_off(box)) is not None:
                (counted if share >= 0.25 else ignored).append((box[0], part))
        guesses = [(box[0], part) for box in said[t] if (part := cut_off(box)) is not None]
        gain = np.array([[iou(a, b) for _, b in counted] for _, a in guesses])
        gain = gain.reshape(len(guesses), len(counted))
        pairs = dict(best(np.where(gain >= 0.3, 1000 + gain, 0)))
        labels += [(t + 1, id, *part) for id, part in counted if is_in(part, name)]
        for i, (id, part) in enumerate(guesses):
            if i in pairs:
                if is_in(counted[pairs[i]][1], name):
                    kept.append((t + 1, id, *part))
                    found += 1
            elif all(share_inside(part, region) < 0.5 for _, region in ignored) and is_in(
                part, name
            ):
                kept.append((t + 1, id, *part))
    return mot(*labels), mot(*kept), found


@given(st.integers(0, 2**32 - 1))
def test_scores_by_size_are_those_of_loops(seed: int) -> None:
    true, seen, said = random_case(seed)
    scores = by_size(tracks(said), truth(true, seen), SIDE).scores()
    for name in SIZES:
        labels, kept, found = naive(name, true, seen, said)
        here = {k.removesuffix(f"_{name}"): v for k, v in scores.items() if k.endswith(f"_{name}")}
        assert here["true_boxes"] == len(labels)
        if len(kept):
            assert here["precision"] == pytest.approx(found / len(kept))
        else:
            assert isnan(here["precision"])
        if not len(labels):
            assert isnan(here["recall"])
            assert isnan(here["hota"])
            continue
        assert here["recall"] == pytest.approx(found / len(labels))
        assert here["f1"] == pytest.approx(2 * found / (len(labels) + len(kept)))
        marks = mot(*((t, -1, 900, 900, 1, 1) for t in range(1, 6)), conf=0.0)
        of_all_frames = score_tracks(together(labels, marks), kept)
        assert here["mota"] == pytest.approx(of_all_frames.mota)
        assert here["hota"] == pytest.approx(of_all_frames.hota)
        if np.isin(kept.frame, labels.frame).all():  # loops look at frames with labels alone
            assert here["hota"] == pytest.approx(naive_hota(labels, kept)[0], abs=1e-9)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3))
def test_classes_add_up_to_all_and_episodes_to_one_another(seeds: list[int]) -> None:
    found, boxes, guesses = torch.zeros(5), torch.zeros(5), torch.zeros(5)
    parts = []
    for seed in seeds:
        true, seen, said = random_case(seed)
        counted = by_size(tracks(said), truth(true, seen), SIDE)
        parts.append(counted)
        found += counted.found[0]
        boxes += torch.stack([each.objects[0] for each in counted.tracks])
        guesses += torch.stack([each.predictions[0] for each in counted.tracks])
    for values in (found, boxes, guesses):
        assert values[0] == values[1:].sum()
    scores = concatenate(parts).scores()
    for i, name in enumerate(SIZES):
        expected = found[i] / boxes[i] if boxes[i] else torch.nan
        assert scores[f"recall_{name}"] == pytest.approx(float(expected), nan_ok=True)


SMALL, LARGE = (0, 50.0, 50.0, 8.0, 8.0), (1, 20.0, 20.0, 30.0, 30.0)


def test_a_false_alarm_is_in_the_class_of_its_own_size() -> None:
    alarm = (7, 80.0, 80.0, 20.0, 20.0)
    said = tracks([[SMALL, LARGE, alarm]])
    scores = by_size(said, truth([[SMALL, LARGE]], [[1.0, 1.0]]), SIDE).scores()
    assert [scores[f"precision_{n}"] for n in ("small", "medium", "large")] == [1, 0, 1]
    assert scores["precision_all"] == pytest.approx(2 / 3)
    assert scores["mota_all"] == pytest.approx(1 / 2)
    assert isnan(scores["precision_tiny"])


def test_a_found_object_is_in_its_own_class_however_large_its_prediction_is() -> None:
    wide = (7, 50.0, 50.0, 13.0, 13.0)
    scores = by_size(tracks([[wide]]), truth([[SMALL]], [[1.0]]), SIDE).scores()
    assert scores["f1_small"] == 1
    assert isnan(scores["f1_medium"])


@pytest.mark.parametrize("found", [True, False])
def test_what_is_nearly_hidden_is_neither_missed_nor_a_false_alarm(found: bool) -> None:
    true = truth([[SMALL, LARGE]], [[1.0, 0.2]])
    scores = by_size(tracks([[SMALL, LARGE] if found else [SMALL]]), true, SIDE).scores()
    assert (scores["f1_all"], scores["mota_all"], scores["hota_all"]) == pytest.approx((1, 1, 1))
    assert isnan(scores["f1_large"])


def test_boxes_end_at_the_border_of_the_frame() -> None:
    out, cut = (0, 0.0, 50.0, 20.0, 10.0), (3, 5.0, 50.0, 10.0, 10.0)
    scores = by_size(tracks([[cut]]), truth([[out]], [[0.5]]), SIDE).scores()
    assert (scores["true_boxes_small"], scores["hota_small"]) == pytest.approx((1, 1))


def test_without_visibility_all_that_is_present_counts() -> None:
    true = replace(truth([[SMALL, LARGE]], [[1.0, 0.1]]), visibility=None)
    assert by_size(tracks([[SMALL]]), true, SIDE).scores()["true_boxes_all"] == 1


def test_clips_are_evaluated_by_size() -> None:
    world = Clips(image_size=64, settings=ClipSettings(num_frames=4))
    episodes = concatenate(list(world.episodes(1, 6)))
    episodes.video[:, 0, 0, 0, 0] = torch.arange(6)
    rules = Protocol("short", 2, 2, ("center", "sizes"))
    result = evaluate(Puppet(episodes, "stay"), [episodes], rules)
    assert result.scores["precision_all"] > 0.95
    assert "idf1" not in result.scores
    assert set(result.to_json()["scores"]) == set(result.scores)
    shown = table(result, "clips", "test").splitlines()
    assert [line.split()[0].strip(",") for line in shown[-5:]] == list(SIZES)
    assert f"{result.scores['hota_all']:.3f}" in shown[-5]
    assert "test: 6 episodes, short" in shown[0]
    assert "test: 1 episode, short" in table(replace(result, episodes=1), "clips", "test")
