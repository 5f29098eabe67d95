"""Motion labels, reconciled with the objects that trained weights find."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.data.labels import UNCLEAR
from gswm.data.looking.teaching import Boxes
from gswm.fitting.reconciling import lives, reconciled
from gswm.models.track import Track

SMALL, LARGE = (0.2, 0.1), (0.6, 0.6)
"""Height and width."""


def label(present: float, xy: tuple[float, float], hw: tuple[float, float]) -> tuple[float, ...]:
    return (present, 1.0 if present else UNCLEAR, *xy, *hw)


def boxes_of(*frames: list[tuple[float, ...]]) -> Boxes:
    values = np.zeros((len(frames), max(1, *map(len, frames)), 6), np.float32)
    for time, rows in enumerate(frames):
        for slot, row in enumerate(rows):
            values[time, slot] = row
    return values


def track_of(*frames: list[tuple[int, tuple[float, float], tuple[float, float]]]) -> Track:
    slots = max(1, *map(len, frames))
    xy, hw = torch.zeros(2, 1, len(frames), slots, 2)
    pres, ids = torch.zeros(1, len(frames), slots), torch.full((1, len(frames), slots), -1)
    for time, rows in enumerate(frames):
        for slot, (name, center, size) in enumerate(rows):
            pres[0, time, slot], ids[0, time, slot] = 1, name
            xy[0, time, slot], hw[0, time, slot] = torch.tensor(center), torch.tensor(size)
    return Track(xy, hw, pres.clone(), pres, ids, None, None)


def present(boxes: Boxes) -> list[list[tuple[float, ...]]]:
    """The boxes of each frame that hold an object, in any order."""
    return [
        sorted(tuple(round(float(x), 3) for x in row[2:]) for row in rows if row[0])
        for rows in boxes
    ]


@pytest.mark.parametrize("seen", [[], [(0, (0.02, 0.0), SMALL)], [(0, (0.9, 0.9), SMALL)]])
def test_a_box_stays_where_the_weights_agree_or_see_nothing(
    seen: list[tuple[int, tuple[float, float], tuple[float, float]]],
) -> None:
    boxes = boxes_of([label(1, (0.0, 0.0), SMALL)])
    np.testing.assert_array_equal(reconciled(boxes, track_of(seen)), boxes)


def test_without_a_clear_box_there_is_nothing_to_contradict() -> None:
    boxes = boxes_of([label(0, (0.0, 0.0), LARGE)], [])
    seen = track_of([(0, (0.3, 0.0), SMALL)], [(0, (0.3, 0.0), SMALL)])
    np.testing.assert_array_equal(reconciled(boxes, seen), boxes)


def test_two_objects_in_one_box_take_its_place() -> None:
    hand, bottle = ((-0.3, 0.0), SMALL), ((0.3, 0.0), SMALL)
    boxes = boxes_of([label(1, (0.0, 0.0), LARGE)])
    found = reconciled(boxes, track_of([(0, *hand), (1, *bottle)]))
    assert present(found) == [[(-0.3, 0.0, *SMALL), (0.3, 0.0, *SMALL)]]
    unclear = found[0, (found[0, :, 0] == 0) & (found[0, :, 1] > 0)]
    np.testing.assert_array_equal(unclear[:, 2:], boxes[0, :, 2:])


def test_an_object_keeps_its_slot_where_its_box_is_contradicted() -> None:
    bottle, hand = (7, (0.3, 0.0), SMALL), (8, (-0.3, 0.0), SMALL)
    right, joined = label(1, (0.3, 0.0), SMALL), label(1, (0.0, 0.0), LARGE)
    found = reconciled(
        boxes_of([joined], [right], [right]),
        track_of([hand, bottle], [hand, bottle], [bottle]),
    )
    np.testing.assert_array_equal(found[:, 0], np.array([right] * 3, np.float32))
    others = found[:, 1:]
    assert present(others) == [[(-0.3, 0.0, *SMALL)], [], []]
    assert (others[1, :, 1] == np.float32(UNCLEAR)).sum() == 1  # the hand: nothing is known of it
    assert not others[2, :, 1].any()


spots = st.tuples(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
sides = st.tuples(st.floats(0.05, 0.9), st.floats(0.05, 0.9))


@given(data=st.data())
def test_every_object_was_labelled_or_seen(data: st.DataObject) -> None:
    frames = data.draw(st.integers(1, 4))
    rows = st.lists(st.builds(label, st.sampled_from((0.0, 1.0)), spots, sides), max_size=3)
    things = st.lists(st.tuples(spots, sides), max_size=3)
    boxes = boxes_of(*(data.draw(rows) for _ in range(frames)))
    seen = track_of(
        *([(k, *box) for k, box in enumerate(data.draw(things))] for _ in range(frames))
    )
    found = reconciled(boxes, seen)
    known = np.concatenate([seen.xy[0], seen.hw[0]], axis=-1)
    for time, now in enumerate(found):
        for row in now[now[:, 0] > 0]:
            given_rows = np.concatenate([boxes[time, :, 2:], known[time]])
            assert np.isclose(given_rows, row[2:]).all(axis=1).any()
    assert ((found[..., 0] == 0) | (found[..., 1] > 0)).all()
    # No labelled object is absent where it was there: its slot would learn to vanish.
    assert (found[:, : boxes.shape[1], 1] > 0).tolist() == (boxes[..., 1] > 0).tolist()


def test_lives_are_runs_of_frames() -> None:
    there = np.array([[1, 0], [1, 1], [0, 1], [1, 1]], bool)
    assert lives(there) == [(0, 0, 2), (0, 3, 4), (1, 1, 4)]
