"""Identities by motion: which object gets which box, and second boxes of one object."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.core.shapes import NOBODY
from gswm.tracking import linking
from gswm.tracking.linking import (
    ALIKE,
    FAR,
    GONE,
    HIDDEN,
    OTHERS,
    WORTH,
    Linker,
    Tracks,
    overlaps,
)
from gswm.viz.located import Located

SIDE = 10.0


def frame_of(centers: np.ndarray, side: float = SIDE) -> Located:
    """Square boxes in one frame."""
    rows = len(centers)
    zeros, sides = np.zeros(rows), np.full(rows, side)
    ids = np.zeros(rows, np.int64)
    x, y = np.asarray(centers, float).reshape(rows, 2).T
    return Located(zeros, ids, ids, x, y, sides, sides, zeros, zeros + 1)


def of(*names: int) -> list[Tracks]:
    """One track of a single window per box."""
    return [frozenset({(0, name)}) for name in names]


def linked(frames: list[tuple[list[tuple[float, float]], tuple[int, ...]]]) -> list[list[int]]:
    """The ids of each frame, from its centers and the model's tracks."""
    linker = Linker()
    return [
        linker.ids(t, frame_of(np.array(centers).reshape(-1, 2)), of(*tracks)).tolist()
        for t, (centers, tracks) in enumerate(frames)
    ]


@given(st.integers(0, 1000), st.integers(1, 5))
def test_objects_apart_keep_their_ids_whichever_tracks_follow_them(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    start = np.stack([np.arange(number) * 8 * SIDE, np.zeros(number)], -1)
    velocity = rng.uniform(-3, 3, 2)
    linker = Linker()
    assert linker.ids(0, frame_of(start), of(*range(number))).tolist() == [*range(number)]
    for t in range(1, 6):
        order, tracks = rng.permutation(number), rng.permutation(number).tolist()
        ids = linker.ids(t, frame_of((start + velocity * t)[order]), of(*tracks))
        # All tracks change hands in each frame, but each box is next to where one is expected.
        assert ids.tolist() == order.tolist()


@given(st.integers(0, 1000))
def test_the_assignment_has_the_largest_gain_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 4, 2)
    linker = Linker()
    before, velocity = rng.uniform(0, 60, (n, 2)), rng.uniform(-8, 8, 2)
    for t in range(2):
        linker.ids(t, frame_of(before + velocity * t), of(*range(n)))
    known = list(linker.known)
    now, tracks = rng.uniform(0, 60, (m, 2)), rng.integers(0, 5, m).tolist()
    pairs = linking.assigned(known, 2, linking.FrameBoxes.of(frame_of(now), of(*tracks)))

    def gain(object: int, box: int | None) -> float:
        if box is None:
            return 0.0
        one = known[object]
        passed = 2 - one.alone
        away = float(np.hypot(*(now[box] - one.center - passed * one.velocity))) / SIDE
        worth = WORTH - min(away, FAR)
        if tracks[box] in {track for _, track in one.tracks}:
            return worth
        path = passed * float(np.hypot(*one.velocity)) / SIDE
        return worth - OTHERS if away < 1 + path else 0.0

    boxes = [*range(m), *[None] * len(known)]
    best = max(
        sum(gain(k, box) for k, box in enumerate(chosen))
        for chosen in set(permutations(boxes, len(known)))
    )
    found = [gain(k, box) for k, box in np.argwhere(pairs).tolist()]
    assert all(each > 0 for each in found)
    assert sum(found) == pytest.approx(best)


def test_a_lost_object_takes_no_box_that_is_where_another_is_expected() -> None:
    # A new box is within the reach of the first object, whose own box goes on as expected.
    before = [([(0.0, 0.0), (8.0, 0.0)], (1, 2))] * 3
    after = ([(0.0, 0.0), (-7.0, 0.0)], (1, 3))
    assert linked([*before, after])[-1] == [0, 2]


def test_an_object_keeps_its_id_when_its_track_jumps_to_another() -> None:
    apart = [((0.0, 0.0), (60.0, 0.0))] * 3
    usual = [(list(pair), (1, 2)) for pair in apart]
    # Track 2 ends, track 1 jumps to its object, and a new track finds the first object later.
    jumped = [([(60.0, 0.0)], (1,)), ([(60.0, 0.0), (0.0, 0.0)], (1, 3))]
    assert linked(usual + jumped) == [[0, 1]] * 3 + [[1], [1, 0]]


def test_a_track_that_nothing_contests_keeps_its_id_however_far_it_jumps() -> None:
    assert linked([([(0.0, 0.0)], (1,)), ([(500.0, 0.0)], (1,))]) == [[0], [0]]


@pytest.mark.parametrize(("missing", "id"), [(GONE - 1, 0), (GONE, 1)])
def test_a_new_track_continues_an_object_that_was_lost_for_a_short_time(
    missing: int, id: int
) -> None:
    there = [([(3.0 * t, 0.0)], (1,)) for t in range(4)]
    again = 3.0 * (3 + missing + 1)
    ids = linked([*there, *[([], ())] * missing, ([(again, 0.0)], (2,))])
    assert ids[-1] == [id]


def test_a_new_track_of_another_size_or_place_is_another_object() -> None:
    for center, side in (((SIDE + 1, 0.0), SIDE), ((0.0, 0.0), 1.01 * ALIKE * SIDE)):
        linker = Linker()
        linker.ids(0, frame_of(np.zeros((1, 2))), of(1))
        assert linker.ids(1, frame_of(np.array([center]), side), of(2)).tolist() == [1]


def test_objects_that_cross_are_told_apart_by_their_velocities() -> None:
    # Both tracks follow the object that moves to the left from the time at which they meet.
    meet, frames = 10, []
    for t in range(meet):
        frames.append(([(4.0 * t, 0.0), (4.0 * (2 * meet - t), 0.0)], (1, 2)))
    for t in range(meet, meet + 3):
        left = 4.0 * (2 * meet - t)
        frames.append(([(left, 1.0), (left, 0.0)], (1, 2)))
    for t in range(meet + 3, meet + 6):
        left, right = 4.0 * (2 * meet - t), 4.0 * t
        frames.append(([(left, 1.0), (left, 0.0), (right, 0.0)], (1, 2, 3)))
    ids = linked(frames)
    assert all(each == [0, 1] for each in ids[:meet])
    for each in ids[-3:]:
        assert each[2] == 0
        assert sorted(each[:2]) == [NOBODY, 1]


def test_the_position_of_an_object_behind_another_is_extrapolated_for_a_limited_time() -> None:
    frames = [([(0.0, 2.0 * t), (30.0 - 2.0 * t, 20.0)], (1, 2)) for t in range(10)]
    together = [([(0.0, 20.0), (1.0, 20.0)], (1, 2))] * (HIDDEN + 5)
    linker = Linker()
    for t, (centers, tracks) in enumerate(frames + together):
        linker.ids(t, frame_of(np.array(centers)), of(*tracks))
        if t == len(frames) + HIDDEN - 5:
            assert all(t - known.alone > 1 for known in linker.known)
    last = len(frames + together)
    away = [np.hypot(*(known.at(last) - (0.0, 20.0))) for known in linker.known]
    assert max(away) < SIDE


@given(st.integers(0, 1000), st.integers(0, 5))
def test_no_two_boxes_of_a_frame_have_the_same_id(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    linker = Linker()
    for t in range(8):
        centers = rng.uniform(0, 40, (number, 2))
        tracks = rng.permutation(8)[:number].tolist()
        ids = linker.ids(t, frame_of(centers), of(*tracks))
        there = ids[ids != NOBODY].tolist()
        assert len(there) == len(set(there))
        iou = overlaps(frame_of(centers).corners())
        for box in np.flatnonzero(ids == NOBODY):
            assert (iou[box][ids != NOBODY] > linking.SECOND).any()


@given(st.lists(st.tuples(*[st.integers(0, 20)] * 2, *[st.integers(1, 20)] * 2), max_size=5))
def test_overlaps_are_shares_of_pixels(boxes: list[tuple[int, int, int, int]]) -> None:
    corners = np.array([(x, y, x + w, y + h) for x, y, w, h in boxes], float).reshape(-1, 4)
    pixels = [{(i, j) for i in range(x, x + w) for j in range(y, y + h)} for x, y, w, h in boxes]
    found = overlaps(corners)
    for i, one in enumerate(pixels):
        for j, other in enumerate(pixels):
            wanted = 0.0 if i == j else len(one & other) / len(one | other)
            assert found[i, j] == pytest.approx(wanted)
