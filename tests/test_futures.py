"""Scores of several futures, on hand-made futures of the single ball."""

import math
from dataclasses import replace

import pytest
import torch

from gswm.core.records import concatenate, map_tensors
from gswm.data.worlds.single_ball import two_episodes
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.futures import NEAR, futures

GIVEN = 5


def ball() -> Boxes:
    """Left, and right."""
    truth = two_episodes().truth
    assert truth is not None
    return Boxes.of_truth(truth, 64)


def samples(way: list[int], shift: float = 0.0) -> Boxes:
    """A future for each number: 0 left, 1 right."""
    chosen = map_tensors(lambda values: values[torch.tensor(way)], ball())
    moved = chosen.xy.clone()
    moved[:, GIVEN:] += torch.tensor([shift, 0.0])
    return Boxes(moved, chosen.hw, chosen.id, chosen.there)


def scores(predicted: Boxes, number: int) -> dict[str, float]:
    return futures(predicted, ball().each(number), GIVEN, number).scores()


def test_both_modes_are_found_and_counted() -> None:
    measured = scores(samples([0, 0, 0, 1] * 2), 4)
    assert measured["modes"] == 2
    assert measured["share_0"] == pytest.approx(3 / 4)
    assert measured["share_1"] == pytest.approx(1 / 4)
    assert measured["on_mode"] == measured["coverage"] == 1
    assert measured["end_error"] == pytest.approx(0)


def test_one_mode_covers_half() -> None:
    measured = scores(samples([0] * 8), 4)
    assert measured["coverage"] == pytest.approx(1 / 2)
    assert measured["share_1"] == 0


def test_best_of_one_is_right_for_one_mode_and_wrong_for_the_other() -> None:
    measured = scores(samples([0, 0, 0, 0, 1] * 2), 5)
    apart = 2 * 6.25 / 64 * (1 + 2 + 3 + 4) / 4
    assert measured["min_ade_1"] == pytest.approx(apart / 2)
    assert measured["min_ade_5"] == pytest.approx(0)


@pytest.mark.parametrize(("shift", "share"), [(0.9 * NEAR, 1), (1.1 * NEAR, 0)])
def test_three_pixels_are_near(shift: float, share: float) -> None:
    measured = scores(samples([0, 1] * 2, shift), 2)
    assert measured["on_mode"] == measured["coverage"] == share
    assert measured["end_error"] == pytest.approx(shift)


def test_a_ball_that_was_not_found_goes_nowhere() -> None:
    seen = samples([0, 1] * 2)
    measured = scores(Boxes(seen.xy, seen.hw, seen.id, torch.zeros_like(seen.there)), 2)
    assert measured["share_0"] == measured["share_1"] == measured["on_mode"] == 0
    assert measured["end_error"] == pytest.approx(1)


@pytest.mark.parametrize("shift", [0.3, 0.99, 3.0])
def test_no_place_is_worse_than_none(shift: float) -> None:
    seen = samples([0, 1] * 2)
    lost = scores(Boxes(seen.xy, seen.hw, seen.id, torch.zeros_like(seen.there)), 2)
    astray = scores(samples([0, 1] * 2, shift), 2)
    for score in ("end_error", "min_ade_1"):
        assert astray[score] <= lost[score] == 1


def test_episodes_that_begin_apart_have_one_known_future_each() -> None:
    true = ball()
    moved = replace(true, xy=true.xy + torch.tensor([[0.0], [0.1]])[..., None, None])
    measured = futures(moved, moved, GIVEN, 1)
    assert measured.modes().shape[1] == 1
    assert concatenate([measured, measured]).scores()["min_ade_1"] == pytest.approx(0)


def test_without_any_object_there_is_nothing_to_measure() -> None:
    nobody = replace(ball(), there=torch.zeros_like(ball().there))
    (score,) = futures(nobody, nobody, GIVEN, 1).scores().values()
    assert math.isnan(score)
