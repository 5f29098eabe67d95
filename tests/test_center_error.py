"""Center and strict errors, compared with plain loops."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.core.records import concatenate, map_tensors
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.distance import LIMIT, TABLE_STEPS, center_errors, sampled_errors

seeds = st.integers(0, 2**32 - 1)


def boxes(xy: torch.Tensor, there: torch.Tensor | None = None) -> Boxes:
    ids = torch.arange(1, xy.shape[2] + 1).expand(xy.shape[:3])
    there = torch.ones_like(ids, dtype=torch.bool) if there is None else there
    return Boxes(xy.double(), torch.full_like(xy, 0.2).double(), ids, there)


def random_boxes(seed: int, objects: int, time: int = 4) -> Boxes:
    generator = torch.Generator().manual_seed(seed)
    xy = torch.rand(2, time, objects, 2, generator=generator, dtype=torch.float64) * 0.7
    there = torch.rand(2, 1, objects, generator=generator) < 0.8
    return boxes(xy, there.expand(2, time, objects))


def naive(predicted: Boxes, true: Boxes, row: int) -> tuple[list[float], list[float]]:
    """Both errors of an episode, trying every matching of its first frame."""
    seen = [k for k in range(predicted.id.shape[2]) if predicted.there[row, 0, k]]
    real = [k for k in range(true.id.shape[2]) if true.there[row, 0, k]]

    def apart(t: int, i: int, j: int) -> float:
        return math.dist(true.xy[row, t, i].tolist(), predicted.xy[row, t, j].tolist())

    number = min(len(seen), len(real))
    choices = [
        tuple(zip(some, others, strict=True))
        for some in permutations(real, number)
        for others in permutations(seen, number)
    ]
    pairs = min(choices, key=lambda c: sum(apart(0, i, j) ** 2 for i, j in c))
    paper, strict = [], []
    for t in range(true.id.shape[1]):
        off = [apart(t, i, j) for i, j in pairs]
        paper.append(sum(off) / len(off) if off else math.nan)
        unpaired = len(real) + len(seen) - 2 * number
        strict.append((sum(min(d, LIMIT) for d in off) + LIMIT * unpaired) / max(len(real), 1))
    return paper, strict


@given(seeds, st.integers(1, 4), st.integers(1, 4))
def test_errors_follow_the_paper(seed: int, objects: int, predictions: int) -> None:
    true, predicted = random_boxes(seed, objects), random_boxes(seed + 1, predictions)
    errors = center_errors(predicted, true)
    for row in range(2):
        paper, strict = naive(predicted, true, row)
        assert errors.paper[row].tolist() == pytest.approx(paper, nan_ok=True)
        assert errors.strict[row].tolist() == pytest.approx(strict)


@given(seeds)
def test_slots_may_change_as_long_as_ids_stay(seed: int) -> None:
    true, predicted = random_boxes(seed, 3), random_boxes(seed + 1, 4)
    order = torch.rand(2, 4, 4, generator=torch.Generator().manual_seed(seed)).argsort(dim=2)

    def shuffled(v: torch.Tensor) -> torch.Tensor:
        index = order if v.dim() == 3 else order[..., None].expand(*order.shape, v.shape[3])
        return v.gather(2, index)

    one = center_errors(predicted, true)
    other = center_errors(map_tensors(shuffled, predicted), true)
    torch.testing.assert_close(one.paper, other.paper, equal_nan=True)
    torch.testing.assert_close(one.strict, other.strict)


def test_ten_steps_by_hand() -> None:
    true = boxes(torch.full((1, 12, 1, 2), 0.5))
    predicted = boxes(torch.tensor([0.53, 0.54]).expand(1, 12, 1, 2))
    scores = center_errors(predicted, true).scores()
    assert scores["center_error"] == pytest.approx(0.5)
    assert scores["strict_error"] == pytest.approx(0.5)
    assert scores["center_error_mean"] == pytest.approx(0.05)


def two_and(missing: bool, surplus: bool) -> dict[str, float]:
    true = boxes(torch.tensor([[0.2, 0.2], [0.8, 0.8]]).expand(1, 10, 2, 2))
    places = torch.tensor([[0.2, 0.2], [0.8, 0.8], [0.5, 0.5]]).expand(1, 10, 3, 2)
    there = torch.tensor([True, not missing, surplus]).expand(1, 10, 3)
    return center_errors(boxes(places, there), true).scores()


def test_only_the_strict_error_charges_for_missed_and_surplus_objects() -> None:
    assert two_and(missing=False, surplus=False)["strict_error"] == 0
    for case in ({"missing": True, "surplus": False}, {"missing": False, "surplus": True}):
        scores = two_and(**case)
        assert scores["center_error"] == 0
        assert scores["strict_error"] == pytest.approx(10 / 2)


@given(seeds, st.integers(0, 3))
def test_dropping_an_object_does_not_pay(seed: int, which: int) -> None:
    true = random_boxes(seed, 3, time=1)
    predicted = random_boxes(seed + 1, 4, time=1)
    fewer = predicted.there.clone()
    fewer[:, :, which] = False
    kept = center_errors(predicted, true).strict
    dropped = center_errors(Boxes(predicted.xy, predicted.hw, predicted.id, fewer), true).strict
    surplus = predicted.there.sum(dim=2) > true.there.sum(dim=2)
    assert (dropped >= kept - 1e-9)[~surplus].all()


def test_an_episode_in_which_nothing_is_found_is_left_out_and_counted() -> None:
    true = boxes(torch.full((2, 10, 1, 2), 0.5))
    there = torch.tensor([True, False])[:, None, None].expand(2, 10, 1)
    scores = center_errors(boxes(torch.full((2, 10, 1, 2), 0.6), there), true).scores()
    assert scores["center_error"] == pytest.approx(10 * 0.1 * math.sqrt(2))
    assert scores["center_unmatched"] == 1
    assert scores["strict_error"] == pytest.approx((10 * 0.1 * math.sqrt(2) + 10) / 2)


def test_who_is_gone_is_left_out_by_one_error_and_charged_by_the_other() -> None:
    places = torch.tensor([[0.2, 0.2], [0.8, 0.8]]).expand(1, 4, 2, 2)
    stays, true_leaves = (
        torch.ones(1, 4, 2, dtype=torch.bool),
        torch.ones(1, 4, 2, dtype=torch.bool),
    )
    stays[0, 2, 1] = False
    true_leaves[0, 3, 1] = False
    errors = center_errors(boxes(places + 0.03, stays), boxes(places, true_leaves))
    off = 0.03 * math.sqrt(2)
    assert errors.paper[0].tolist() == pytest.approx([off] * 4)
    assert errors.strict[0].tolist() == pytest.approx([off, off, (off + 1) / 2, off + 1])


@given(seeds, st.integers(1, 3))
def test_sampled_futures_are_measured_one_by_one(seed: int, number: int) -> None:
    """Each as if it were the only one; their mean is what is told of an episode."""
    time = TABLE_STEPS + 2
    true = random_boxes(seed, 2, time)
    ways = [random_boxes(seed + 1 + i, 3, time) for i in range(2 * number)]
    sampled = concatenate([map_tensors(lambda x: x[:1], way) for way in ways])
    measured = sampled_errors(sampled, true, number)
    summed: list[list[float]] = []
    for row in range(2):
        summed.append([])
        for future in range(number):
            of_row = map_tensors(lambda x, row=row: x[row : row + 1], true)
            paper, _ = naive(ways[row * number + future], of_row, 0)
            assert measured.paper[row, future].tolist() == pytest.approx(paper, nan_ok=True)
            summed[-1].append(sum(paper[:TABLE_STEPS]))
    each = measured.per_row()["center_error_sample"].tolist()
    for found, values in zip(each, summed, strict=True):
        known = [value for value in values if not math.isnan(value)]
        assert found == pytest.approx(sum(known) / len(known) if known else math.nan, nan_ok=True)
    every = [value for values in summed for value in values if not math.isnan(value)]
    expected = sum(every) / len(every) if every else math.nan
    assert measured.scores()["center_error_sample"] == pytest.approx(expected, nan_ok=True)


@given(seeds)
def test_the_mean_over_rows_is_the_score(seed: int) -> None:
    true = random_boxes(seed, 2, TABLE_STEPS + 3)
    errors = center_errors(random_boxes(seed + 1, 3, TABLE_STEPS + 3), true)
    scores = errors.scores()
    for name, values in errors.per_row().items():
        assert values.nanmean().item() == pytest.approx(scores[name], nan_ok=True)
