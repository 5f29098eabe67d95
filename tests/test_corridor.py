"""Scores of agents in corridors, on hand-made mazes."""

import math
from dataclasses import replace
from itertools import islice

import pytest
import torch

from gswm.data.worlds.registry import world
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.corridor import corridor, in_corridor

GRID = torch.tensor([[[1, 1, 1], [1, 0, 0], [1, 0, 1]]])


def at(cells: list[list[tuple[float, float]]], ids: list[list[int]] | None = None) -> Boxes:
    """Objects in the middle of (row, column) of 3 × 3 cells, a list for each frame."""
    xy = (torch.tensor([cells], dtype=torch.float64).flip(-1) + 0.5) / 3
    id = torch.tensor([ids]) if ids else torch.arange(xy.shape[2]).expand(xy.shape[:3])
    return Boxes(xy, torch.full_like(xy, 0.1), id, torch.ones_like(id, dtype=torch.bool))


def test_rows_are_y_and_columns_are_x() -> None:
    places = at([[(0, 0), (0, 2), (2, 0), (1, 2), (2, 2), (-1, 0), (0, 3)]])
    expected = [True, True, True, False, True, False, False]
    assert in_corridor(places.xy, GRID)[0, 0].tolist() == expected


def test_who_leaves_does_not_come_back() -> None:
    true = at([[(0, 0), (0, 2)]] * 4)
    walk = at([[(0, 0), (0, 2)], [(0, 1), (0, 2)], [(1, 1), (0, 2)], [(0, 1), (0, 2)]])
    measured = corridor(walk, true, GRID, given=1)
    assert measured.inside.tolist() == [[2, 1, 1]]
    assert measured.release.tolist() == [[2, 2, 1, 1]]
    assert measured.scores()["in_corridor"] == pytest.approx(4 / 6)
    assert measured.scores()["in_corridor_3"] == pytest.approx(1 / 2)


def test_identity_is_followed_where_the_release_follows_slots() -> None:
    true = at([[(0, 0), (2, 0)]] * 3)
    cells, ids = [[(0, 0), (1, 1)], [(1, 1), (0, 1)], [(1, 1), (0, 2)]], [[4, 5], [5, 4], [5, 4]]
    measured = corridor(at(cells, ids), true, GRID, given=1)
    assert measured.inside.tolist() == [[1, 1]]
    assert measured.release.tolist() == [[1, 0, 0]]


def test_an_agent_that_was_not_found_is_not_in_the_corridor() -> None:
    true = at([[(0, 0), (2, 0)]] * 2)
    measured = corridor(at([[(0, 0)]] * 2), true, GRID, given=1)
    assert measured.share().tolist() == [0.5]


def test_what_is_more_than_a_cell_away_is_another_object() -> None:
    true = at([[(0, 0)]] * 2)
    near, far = (corridor(at([[(0, c)]] * 2), true, GRID, given=1) for c in (0.9, 1.1))
    assert near.share().tolist() == [1]
    assert far.share().tolist() == [0]


def test_objects_that_are_no_agents_count_for_the_release_alone() -> None:
    true = at([[(0, 0)]] * 2)
    measured = corridor(at([[(0, 0), (0, 2)]] * 2), true, GRID, given=1)
    assert measured.inside.tolist() == [[1]]
    assert measured.release.tolist() == [[2, 2]]


def test_an_agent_is_intact_as_long_as_its_box_is_about_as_large() -> None:
    true = at([[(0, 0), (0, 2)]] * 5)
    hw = true.hw.clone()
    hw[0, 1:, 0] *= torch.tensor([1.0, 0.7, 1.42, 1.4], dtype=torch.float64)[:, None]
    hw[0, 1:, 1, 0] *= torch.tensor([0.51, -1.0, 2.0, 2.1], dtype=torch.float64)
    measured = corridor(replace(true, hw=hw), true, GRID, given=1)
    assert measured.intact.tolist() == [[2, 0, 1, 1]]
    assert measured.scores()["intact"] == pytest.approx(4 / 8)
    assert measured.curves()["intact"] == [1, 0, 0.5, 0.5]
    assert measured.inside.tolist() == [[2, 2, 2, 2]]
    assert measured.scores()["intact_inside"] == pytest.approx(4 / 8)
    gone = replace(true, there=torch.zeros_like(true.there).index_fill(1, torch.tensor(0), True))
    assert corridor(gone, true, GRID, given=1).intact.tolist() == [[0, 0, 0, 0]]


def test_who_left_is_not_asked_for_its_size_inside() -> None:
    true = at([[(0, 0), (0, 2)]] * 3)
    walk = at([[(0, 0), (0, 2)], [(0, 1), (1, 2)], [(0, 2), (1, 2)]])
    hw = walk.hw.clone()
    hw[0, 2, 0] *= 3  # of the one that stays, in the end
    hw[0, 1:, 1] *= 3
    scores = corridor(replace(walk, hw=hw), true, GRID, given=1).scores()
    assert scores["intact"] == pytest.approx(1 / 4)
    assert scores["intact_inside"] == pytest.approx(1 / 2)
    nobody = corridor(at([[(1, 1), (1, 1)]] * 3), true, GRID, given=1).scores()
    assert math.isnan(nobody["intact_inside"])


def test_true_agents_stay_in_the_corridor_and_keep_their_pace() -> None:
    episodes = next(islice(world("maze").episodes(2, 4), 1))
    assert episodes.truth is not None
    assert episodes.corridors is not None
    true = Boxes.of_truth(episodes.truth, 64)
    scores = corridor(true, true, episodes.corridors.grid, given=5).scores()
    assert scores["in_corridor"] == scores["in_corridor_94"] == scores["pace"] == 1
    assert scores["intact"] == scores["intact_94"] == scores["intact_inside"] == 1
    assert scores["release_count"] == scores["agents"]
