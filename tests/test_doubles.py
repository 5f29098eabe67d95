"""Second boxes: parts of older objects that the model found a second time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.tracking import doubles
from gswm.tracking.doubles import LONG, MOSTLY, SIMILAR, TOUCHES, doubled, long_runs
from gswm.viz.located import Located

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
LARGE: Box = (0.0, 0.0, 20.0, 20.0)
PART: Box = (1.0, 2.0, 15.0, 18.0)
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


def test_an_object_that_was_apart_before_is_no_second_box() -> None:
    assert not dropped([{0: LARGE, 1: AWAY}] + [{0: LARGE, 1: PART}] * 30)


def test_an_object_that_leaves_another_is_reported_from_then_on() -> None:
    found = dropped([{0: LARGE, 1: PART}] * 10 + [{0: LARGE, 1: AWAY}] * 5)
    assert found == [(t, 1) for t in range(10)]


def test_something_small_in_front_of_a_large_object_is_no_second_box() -> None:
    small = (5.0, 5.0, 11.0, 11.0)
    assert not dropped([{0: LARGE, 1: small}] * 30)


def test_the_younger_object_is_the_second_one_also_if_it_is_larger() -> None:
    assert not dropped([{0: PART, 1: LARGE}] * 30)
    assert not dropped([{0: PART, 1: AWAY}] * 30)


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

    found = []
    for id in sorted({id for each in frames for id in each}):
        times = [t for t, each in enumerate(frames) if id in each]
        run: list[tuple[int, int]] = []
        apart = False
        for t in times:
            others = [box for other, box in frames[t].items() if other < id]
            apart = apart or not any(touches(frames[t][id], box) for box in others)
            if not apart and any(mostly(frames[t][id], box) for box in others):
                run.append((t, id))
            else:
                found += run if len(run) >= 2 else []
                run = []
        found += run if len(run) >= 2 else []
    return sorted(found)


@given(st.lists(st.dictionaries(st.integers(0, 3), boxes, max_size=4), min_size=1, max_size=8))
def test_second_boxes_agree_with_a_loop(frames: list[dict[int, Box]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doubles, "LONG", 2)
        assert sorted(dropped(frames)) == naive(frames)


@given(st.lists(st.booleans(), max_size=40))
def test_long_runs_keep_only_long_ones(mask: list[bool]) -> None:
    kept = long_runs(np.array(mask, bool)).tolist()
    text = "".join("x" if each else "." for each in mask)
    wanted = "".join(
        part if len(part) >= LONG else "." * len(part)
        for part in text.replace("x.", "x|.").replace(".x", ".|x").split("|")
    )
    assert kept == [each == "x" for each in wanted]
