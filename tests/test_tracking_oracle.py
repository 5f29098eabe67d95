"""Tracking scores compared with TrackEval, on random tracks with every kind of mistake."""

from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trackeval.metrics import CLEAR, HOTA, Identity

from gswm.core.records import concatenate
from gswm.eval.metrics.boxes import Boxes, overlaps
from gswm.eval.metrics.tracking import tracked

OURS_AND_THEIRS = {
    **{"mota": ("CLEAR", "MOTA"), "motp": ("CLEAR", "MOTP"), "switches": ("CLEAR", "IDSW")},
    **{"misses": ("CLEAR", "CLR_FN"), "false_alarms": ("CLEAR", "CLR_FP")},
    **{"idf1": ("Identity", "IDF1"), "hota": ("HOTA", "HOTA"), "loc_a": ("HOTA", "LocA")},
    **{"det_a": ("HOTA", "DetA"), "det_re": ("HOTA", "DetRe"), "det_pr": ("HOTA", "DetPr")},
    **{"ass_a": ("HOTA", "AssA"), "ass_re": ("HOTA", "AssRe"), "ass_pr": ("HOTA", "AssPr")},
}


def random_tracks(seed: int, rows: int = 3, time: int = 12) -> tuple[Boxes, Boxes]:
    """True objects, and predictions that miss, invent, swap ids, and change slots."""
    rng = np.random.default_rng(seed)
    objects, extra = int(rng.integers(1, 5)), int(rng.integers(0, 3))
    start = rng.uniform(0.2, 0.8, (rows, 1, objects, 2))
    xy = start + rng.normal(0, 0.02, (rows, time, objects, 2)).cumsum(1)
    hw = np.broadcast_to(rng.uniform(0.2, 0.4, (rows, 1, objects, 1)), xy.shape)
    there = rng.random((rows, time, objects)) > rng.choice([0, 0.2])
    ids = np.broadcast_to(np.arange(1, objects + 1), there.shape)

    guess = xy + rng.normal(0, rng.choice([0.01, 0.05]), xy.shape)
    found = there & (rng.random(there.shape) > rng.choice([0, 0.3]))
    named = ids + 10 * (rng.random(there.shape) < 0.1).cumsum(1)
    false = rng.uniform(0, 1, (rows, time, extra, 2))
    guess, size = (
        np.concatenate([guess, false], 2),
        np.concatenate([hw * rng.uniform(0.8, 1.2, hw.shape), np.full_like(false, 0.3)], 2),
    )
    found = np.concatenate([found, rng.random((rows, time, extra)) < 0.5], 2)
    named = np.concatenate([named, np.broadcast_to(100 + np.arange(extra), false.shape[:3])], 2)
    order = rng.permuted(np.broadcast_to(np.arange(objects + extra), found.shape), axis=2)
    guess, size = (np.take_along_axis(v, order[..., None], 2) for v in (guess, size))
    found, named = (np.take_along_axis(v, order, 2) for v in (found, named))
    true = Boxes(*(torch.tensor(v) for v in (xy, hw, ids, there)))
    return Boxes(*(torch.tensor(v) for v in (guess, size, named, found))), true


def theirs(predicted: Boxes, true: Boxes) -> dict[str, float]:
    metrics = {"CLEAR": CLEAR(), "Identity": Identity(), "HOTA": HOTA()}
    rows = {name: {} for name in metrics}
    for row in range(len(true.id)):
        names = predicted.id[row][predicted.there[row]].unique().tolist()
        real = true.id[row][true.there[row]].unique().tolist()
        here, seen = true.there[row].numpy(), predicted.there[row].numpy()
        iou = overlaps(true, predicted)[row].numpy()
        data = {
            "num_timesteps": len(here),
            "num_gt_ids": len(real),
            "num_tracker_ids": len(names),
            "num_gt_dets": int(here.sum()),
            "num_tracker_dets": int(seen.sum()),
            "gt_ids": [
                np.array([real.index(i) for i in ids[h].tolist()], int)
                for ids, h in zip(true.id[row].numpy(), here, strict=True)
            ],
            "tracker_ids": [
                np.array([names.index(i) for i in ids[s].tolist()], int)
                for ids, s in zip(predicted.id[row].numpy(), seen, strict=True)
            ],
            "similarity_scores": [m[h][:, s] for m, h, s in zip(iou, here, seen, strict=True)],
        }
        for name, metric in metrics.items():
            rows[name][str(row)] = metric.eval_sequence(data)
    joined = {name: metric.combine_sequences(rows[name]) for name, metric in metrics.items()}
    return {
        ours: float(np.mean(joined[kind][name])) for ours, (kind, name) in OURS_AND_THEIRS.items()
    }


@given(st.integers(0, 2**32 - 1))
def test_every_score_is_trackevals(seed: int) -> None:
    predicted, true = random_tracks(seed)
    with redirect_stdout(StringIO()):
        expected = theirs(predicted, true)
    scores = tracked(predicted, true).scores()
    assert {name: scores[name] for name in expected} == pytest.approx(expected, abs=1e-9)


def test_episodes_measured_apart_are_as_those_measured_together() -> None:
    predicted, true = random_tracks(5)
    parts = [
        tracked(*(Boxes(*(v[i : i + 1] for v in vars(b).values())) for b in (predicted, true)))
        for i in range(3)
    ]
    assert concatenate(parts).scores() == pytest.approx(tracked(predicted, true).scores())
