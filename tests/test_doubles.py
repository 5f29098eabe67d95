"""Second boxes: parts of older objects that the model found a second time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.tracking import doubles
from gswm.tracking.doubles import (
    COINCIDE,
    LONG,
    LONGER,
    MOSTLY,
    SIMILAR,
    TOUCHES,
    doubled,
    long_runs,
)
from gswm.viz.located import Located

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
LARGE: Box = (0.0, 0.0, 20.0, 20.0)
PART: Box = (1.0, 2.0, 12.0, 18.0)
SHARED: Box = (6.0, 0.0, 26.0, 20.0)
"""Overlaps the large one with an IoU of 0.54, and is to 0.7 inside."""
AWAY: Box = (100.0, 0.0, 114.0, 16.0)


def table(frames: list[dict[int, Box]]) -> Located:
    """Rows of objects by frame and id."""
    rows = [(t, id, *box) for t, boxes in enumerate(frames) for id, box in boxes.items()]
    values = np.array(rows, float).reshape(-1, 6)
    frame, id = values[:, :2].astype(np.int64).T
    low, high = values[:, 2:4], values[:, 4:]
    rest = np.zeros(len(values))
    (x, y), (width, height) = ((low + high) / 2).T, (high - low).T
    return Located(rest, frame, id, x, y, width, height, rest, rest + 1)


def dropped(frames: list[dict[int, Box]]) -> list[tuple[int, int]]:
    """Frame and id of all second boxes."""
    rows = table(frames)
    found = doubled(rows)
    return list(zip(rows.frame[found].tolist(), rows.id[found].tolist(), strict=True))


@pytest.mark.parametrize(("frames", "number"), [(LONG - 1, 0), (LONG, LONG), (30, 30)])
def test_a_part_of_an_object_is_its_second_box_if_it_stays(frames: int, number: int) -> None:
    assert dropped([{0: LARGE, 1: PART}] * frames) == [(t, 1) for t in range(number)]


def test_an_object_that_was_apart_before_is_no_part() -> None:
    assert not dropped([{0: LARGE, 1: AWAY}] + [{0: LARGE, 1: PART}] * 30)


@pytest.mark.parametrize(("frames", "number"), [(LONGER - 1, 0), (LONGER, LONGER), (30, 30)])
def test_two_boxes_that_coincide_for_long_are_of_one_object(frames: int, number: int) -> None:
    before, after = [{0: LARGE, 1: AWAY}], [{0: LARGE, 1: AWAY}] * 3
    found = dropped(before + [{0: LARGE, 1: SHARED}] * frames + after)
    assert found == [(t, 1) for t in range(1, number + 1)]


def test_an_object_that_leaves_another_is_reported_from_then_on() -> None:
    found = dropped([{0: LARGE, 1: PART}] * 10 + [{0: LARGE, 1: AWAY}] * 5)
    assert found == [(t, 1) for t in range(10)]


def test_something_small_in_front_of_a_large_object_is_no_second_box() -> None:
    small = (5.0, 5.0, 11.0, 11.0)
    assert not dropped([{0: LARGE, 1: small}] * 30)


def test_an_older_object_inside_a_younger_one_is_no_second_box() -> None:
    assert not dropped([{0: PART, 1: LARGE}] * 30)


boxes = st.tuples(*[st.integers(0, 6)] * 2, *[st.integers(1, 6)] * 2).map(
    lambda b: (float(b[0]), float(b[1]), float(b[0] + b[2]), float(b[1] + b[3]))
)


def naive(frames: list[dict[int, Box]]) -> list[tuple[int, int]]:
    """Second boxes, object by object and frame by frame."""

    def shared(a: Box, b: Box) -> float:
        w, h = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
        return max(w, 0.0) * max(h, 0.0)

    def touches(a: Box, b: Box) -> bool:
        return shared(a, b) > TOUCHES * shared(a, a)

    def mostly(a: Box, b: Box) -> bool:
        both = shared(a, b)
        iou = both / (shared(a, a) + shared(b, b) - both)
        return both > MOSTLY * shared(a, a) and iou > SIMILAR

    def coincide(a: Box, b: Box) -> bool:
        both = shared(a, b)
        return both / (shared(a, a) + shared(b, b) - both) > COINCIDE

    found = set[tuple[int, int]]()
    for id in sorted({id for each in frames for id in each}):
        times = [t for t, each in enumerate(frames) if id in each]
        parts, doubles = list[int](), list[int]()
        apart = False
        for t in [*times, None]:
            here = [] if t is None else [b for other, b in frames[t].items() if other < id]
            box = None if t is None else frames[t][id]
            apart = apart or not any(box and touches(box, other) for other in here)
            part = not apart and any(box and mostly(box, other) for other in here)
            double = any(box and coincide(box, other) for other in here)
            for run, goes_on, least in ((parts, part, 2), (doubles, double, 3)):
                if goes_on and t is not None:
                    run.append(t)
                else:
                    found |= {(at, id) for at in run if len(run) >= least}
                    run.clear()
    return sorted(found)


@given(st.lists(st.dictionaries(st.integers(0, 3), boxes, max_size=4), min_size=1, max_size=8))
def test_second_boxes_agree_with_a_loop(frames: list[dict[int, Box]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doubles, "LONG", 2)
        patch.setattr(doubles, "LONGER", 3)
        assert sorted(dropped(frames)) == naive(frames)


@given(st.lists(st.booleans(), max_size=40))
def test_long_runs_keep_only_long_ones(mask: list[bool]) -> None:
    kept = long_runs(np.array(mask, bool), LONG).tolist()
    text = "".join("x" if each else "." for each in mask)
    wanted = "".join(
        part if len(part) >= LONG else "." * len(part)
        for part in text.replace("x.", "x|.").replace(".x", ".|x").split("|")
    )
    assert kept == [each == "x" for each in wanted]
