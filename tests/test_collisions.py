"""Collisions: imagined changes of velocity compared with true contacts."""

import math
from dataclasses import replace
from itertools import product

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.collisions import (
    JUMP,
    NEAR,
    SPAN,
    collisions,
    kinks,
    matched,
    velocity_changes,
)

TIME, GIVEN = 30, 8


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


def test_a_faint_true_collision_makes_a_prediction_right_and_is_not_missed() -> None:
    strong, faint = boxes(bounce(12, 1.2 * JUMP)), boxes(bounce(12, 0.8 * JUMP))
    scores = collisions(strong, faint, contacts(12), GIVEN).scores()
    assert scores["collision_precision"] == 1
    assert math.isnan(scores["collision_recall"])
    missed = collisions(faint, strong, contacts(12), GIVEN).scores()
    assert math.isnan(missed["collision_precision"])
    assert missed["collision_recall"] == 0


def test_a_change_of_velocity_without_a_contact_is_no_collision() -> None:
    true = boxes(bounce(12))
    scores = collisions(true, true, torch.zeros(1, TIME, 2, 2), GIVEN).scores()
    assert scores["collision_precision"] == 0
    assert math.isnan(scores["collision_recall"])


def test_an_imagined_object_outside_of_the_frame_does_not_collide() -> None:
    true = boxes(bounce(12))
    outside = true.xy.clone()
    outside[:, GIVEN + 1 :, 0] += 2
    found = collisions(replace(true, xy=outside), true, contacts(12), GIVEN)
    assert (int(found.imagined), int(found.found), int(found.true)) == (1, 1, 2)


def test_noise_of_a_tenth_of_a_pixel_is_no_collision() -> None:
    g = torch.Generator().manual_seed(0)
    still = torch.full((20, 90, 5, 2), 0.5, dtype=torch.float64)
    noise = torch.randn(still.shape, generator=g, dtype=torch.float64) / 640
    assert not kinks(velocity_changes(boxes(still + noise)), JUMP).any()


def slope(values: list[float]) -> float:
    """The slope of the best-fitting line, by its textbook formula."""
    n, middle = len(values), sum(values) / len(values)
    over = sum((i - (n - 1) / 2) * (value - middle) for i, value in enumerate(values))
    return over / sum((i - (n - 1) / 2) ** 2 for i in range(n))


def test_a_change_is_between_the_lines_before_and_after() -> None:
    g = torch.Generator().manual_seed(0)
    xy = torch.rand(2, 15, 3, 2, generator=g, dtype=torch.float64)
    made = boxes(xy)
    there = made.there.clone()
    there[1, 13, 2] = False
    found = velocity_changes(replace(made, there=there))
    for row, t, i in product(range(2), range(15), range(3)):
        change = 0.0
        known = there[row, max(0, t - SPAN) : t + SPAN, i].all()
        if SPAN <= t <= 15 - SPAN and known:
            x, y = xy[row, :, i].T.tolist()
            parts = [slope(v[t : t + SPAN]) - slope(v[t - SPAN : t]) for v in (x, y)]
            change = math.hypot(*parts)
        assert abs(float(found[row, t, i]) - change) < 1e-12
    few = boxes(xy[:, : 2 * SPAN - 1])
    assert not velocity_changes(few).any()


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=12, max_size=12))
def test_a_kink_is_the_first_of_the_largest_changes_near_it(values: list[int]) -> None:
    found = kinks(torch.tensor(values)[None, :, None].double(), 1.5)[0, :, 0].tolist()
    for t, value in enumerate(values):
        before, after = values[max(0, t - NEAR) : t], values[t + 1 : t + 1 + NEAR]
        largest = value > max(before, default=0) and value >= max(after, default=0)
        assert found[t] == (value > 1.5 and largest)


signs = st.lists(st.booleans(), min_size=12, max_size=12)


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
