"""Tracking scores of sequences that can be counted by hand."""

import math

import pytest
import torch

from gswm.core.records import concatenate
from gswm.eval.metrics.boxes import Boxes, overlaps
from gswm.eval.metrics.tracking import tracked

TIME = 4


def still(places: list[tuple[float, float]], ids: list[int] | list[list[int]]) -> Boxes:
    """Boxes of a fifth of the frame that stand still; an id of -1 is not there."""
    xy = torch.tensor(places, dtype=torch.float64).expand(1, TIME, len(places), 2)
    id = torch.tensor(ids).expand(1, TIME, len(places))
    return Boxes(xy, torch.full_like(xy, 0.2), id, id >= 0)


TRUE = still([(0.2, 0.2), (0.8, 0.8)], [1, 2])


def test_boxes_half_a_width_apart_overlap_by_a_third() -> None:
    one, other = still([(0.5, 0.5)], [1]), still([(0.6, 0.5), (0.9, 0.9)], [1, 2])
    assert overlaps(one, other)[0, 0, 0].tolist() == pytest.approx([1 / 3, 0])


def test_box_height_is_along_y() -> None:
    wide = Boxes(
        torch.full((1, 1, 1, 2), 0.5, dtype=torch.float64),
        torch.tensor([0.1, 0.4], dtype=torch.float64).expand(1, 1, 1, 2),
        torch.ones(1, 1, 1, dtype=torch.int64),
        torch.ones(1, 1, 1, dtype=torch.bool),
    )
    right = Boxes(wide.xy + torch.tensor([0.2, 0.0]), wide.hw, wide.id, wide.there)
    assert overlaps(wide, right).item() == pytest.approx(1 / 3)


def test_the_truth_scores_1() -> None:
    scores = tracked(TRUE, TRUE).scores()
    for name in ("mota", "motp", "idf1", "hota", "hota_50", "det_a", "ass_a", "loc_a"):
        assert scores[name] == pytest.approx(1), name
    assert scores["misses"] == scores["false_alarms"] == scores["switches"] == 0


def test_one_switch_by_hand() -> None:
    names = [[7, 8], [7, 8], [9, 8], [9, 8]]
    scores = tracked(still([(0.2, 0.2), (0.8, 0.8)], names), TRUE).scores()
    assert scores["switches"] == 1
    assert scores["mota"] == pytest.approx(1 - 1 / 8)
    assert scores["idf1"] == pytest.approx(2 * 6 / 16)
    assert scores["ass_a"] == pytest.approx((4 * 1 + 2 * 0.5 + 2 * 0.5) / 8)
    assert scores["hota"] == pytest.approx(math.sqrt(6 / 8))


def test_a_miss_and_a_false_alarm_by_hand() -> None:
    names = [[1, 2, -1], [1, -1, -1], [1, 2, 5], [1, 2, 5]]
    scores = tracked(still([(0.2, 0.2), (0.8, 0.8), (0.2, 0.8)], names), TRUE).scores()
    assert scores["misses"] == 1
    assert scores["false_alarms"] == 2
    assert scores["switches"] == 0
    assert scores["mota"] == pytest.approx(1 - 3 / 8)
    assert scores["det_a"] == pytest.approx(7 / 10)


def test_a_partner_is_kept_though_another_comes_nearer() -> None:
    true = still([(0.5, 0.5)], [1])
    names = [[3, -1], [3, 4], [3, 4], [3, 4]]
    scores = tracked(still([(0.52, 0.5), (0.5, 0.5)], names), true).scores()
    assert scores["switches"] == 0
    assert scores["motp"] == pytest.approx(0.18 / 0.22)


def test_nothing_found_is_nothing_scored() -> None:
    scores = tracked(still([(0.2, 0.2)], [-1]), TRUE).scores()
    assert scores["mota"] == scores["idf1"] == scores["hota"] == 0
    assert scores["misses"] == 8


def test_the_mota_of_each_episode_has_the_mean_of_all() -> None:
    astray = still([(0.2, 0.2), (0.8, 0.2)], [1, 2])  # a miss and a false alarm in each frame
    counts = tracked(concatenate([TRUE, astray]), concatenate([TRUE, TRUE]))
    assert counts.per_row()["mota"].tolist() == pytest.approx([1, 0])
    assert counts.scores()["mota"] == pytest.approx(0.5)
