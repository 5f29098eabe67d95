"""Collisions: imagined changes of velocity beside true contacts."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.collisions import APART, JUMP, NEAR, collisions, hits, jumps, matched

TIME, GIVEN = 30, 5


def boxes(xy: torch.Tensor, id: int = 0) -> Boxes:
    there = torch.ones(xy.shape[:-1], dtype=torch.bool)
    ids = (torch.arange(xy.shape[2]) + id).expand(xy.shape[:-1])
    return Boxes(xy, torch.full_like(xy, 0.1), ids, there)


def bounce(frame: int, speed: float = 0.02) -> torch.Tensor:
    """Two objects; the first meets the second between `frame` - 1 and `frame`, and stops."""
    t = torch.arange(TIME, dtype=torch.float64)
    first = torch.minimum(t, torch.tensor(frame - 0.5)) * speed
    second = 0.4 + (t - (frame - 0.5)).clamp_min(0) * speed
    x = torch.stack([first, second], dim=1)[None]
    return torch.stack([x, torch.full_like(x, 0.5)], dim=-1)


def contacts(frame: int) -> torch.Tensor:
    out = torch.zeros(1, TIME, 2, 2)
    out[0, frame, 0, 1] = out[0, frame, 1, 0] = 1.0
    return out


def test_the_truth_is_right_and_on_time() -> None:
    true = boxes(bounce(12))
    scores = collisions(true, true, contacts(12), GIVEN).scores()
    assert scores["collision_precision"] == scores["collision_recall"] == 1
    assert abs(scores["collision_delay"]) <= 1


def test_a_late_bounce_is_right_within_reach_and_wrong_beyond_it() -> None:
    true = boxes(bounce(12))
    near = collisions(boxes(bounce(12 + NEAR - 1), 7), true, contacts(12), GIVEN).scores()
    assert near["collision_f1"] == 1
    assert near["collision_delay"] >= NEAR - 2
    far = collisions(boxes(bounce(12 + NEAR + 3), 7), true, contacts(12), GIVEN).scores()
    assert far["collision_f1"] == 0


def test_going_straight_on_misses_everything() -> None:
    true = boxes(bounce(12))
    straight = boxes(bounce(TIME + 5))
    scores = collisions(straight, true, contacts(12), GIVEN).scores()
    assert math.isnan(scores["collision_precision"])
    assert scores["collision_recall"] == 0


def test_what_happens_in_the_given_frames_or_hardly_moves_anything_does_not_count() -> None:
    early = boxes(bounce(GIVEN - 2))
    assert collisions(early, early, contacts(GIVEN - 2), GIVEN).true.sum() == 0
    slow = boxes(bounce(12, speed=JUMP / 2))
    assert collisions(slow, slow, contacts(12), GIVEN).true.sum() == 0


def test_a_jump_is_a_change_of_the_step() -> None:
    xy = torch.rand(2, 9, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = jumps(boxes(xy))
    for row in range(2):
        for t in range(9):
            for i in range(3):
                x = xy[row, :, i].tolist()
                inside = 2 <= t <= 7
                change = (
                    math.dist(
                        [x[t + 1][k] - x[t][k] for k in (0, 1)],
                        [x[t - 1][k] - x[t - 2][k] for k in (0, 1)],
                    )
                    if inside
                    else 0
                )
                assert abs(float(found[row, t, i]) - change) < 1e-12


signs = st.lists(st.booleans(), min_size=12, max_size=12)


@settings(deadline=None)
@given(signs)
def test_signs_that_follow_each_other_are_one_hit(values: list[bool]) -> None:
    found = hits(torch.tensor(values)[None, :, None])[0, :, 0].tolist()
    last = -100
    for t, value in enumerate(values):
        assert found[t] == (value and t - last > APART)
        last = t if value else last


@settings(deadline=None)
@given(signs, signs)
def test_each_true_hit_answers_for_one_imagined_one(left: list[bool], right: list[bool]) -> None:
    one, other = (torch.tensor(values)[None, :, None] for values in (left, right))
    count, late = (int(value) for value in matched(one, other))
    open_left, open_right, expected, delay = set(), set(), 0, 0
    open_left = {t for t, v in enumerate(left) if v}
    open_right = {t for t, v in enumerate(right) if v}
    for offset in sorted(range(-NEAR, NEAR + 1), key=abs):
        for t in sorted(open_right):
            if t + offset in open_left:
                open_left.remove(t + offset)
                open_right.remove(t)
                expected, delay = expected + 1, delay + offset
    assert (count, late) == (expected, delay)
