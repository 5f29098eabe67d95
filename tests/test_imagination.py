"""Pictures of imagined futures: borders around imagined frames, and dark frames without a truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.viz.imagination import GENERATED, Imagination, renamed, tiling
from gswm.viz.pictures import Clip, Frames, PixelBoxes

SIDE = 32


def clip(time: int, gray: int = 128, objects: int = 2) -> Clip:
    """Objects that stay: number k a third of the image right of number k - 1."""
    xy = np.array([[8 + 32 / 3 * k, 20] for k in range(objects)]).reshape(objects, 2)
    boxes = PixelBoxes(
        np.tile(xy, (time, 1, 1)),
        np.tile(np.array([4.0, 8.0]), (time, objects, 1)),
        np.tile(np.arange(objects), (time, 1)),
        np.ones((time, objects), bool),
    )
    return Clip(np.full((time, SIDE, SIDE, 3), gray, np.uint8), boxes)


def imagination(given: int = 3, steps: int = 4, known: int = 7, futures: int = 2) -> Imagination:
    truth = Clip(np.full((known, SIDE, SIDE, 3), 200, np.uint8)) if known else None
    return Imagination(clip(given), truth, tuple(clip(steps) for _ in range(futures)))


def is_marked(frame: np.ndarray) -> bool:
    edge = np.concatenate([frame[0], frame[-1], frame[:, 0], frame[:, -1]])
    return bool((edge == GENERATED).all())


def boxes_of(shown: Clip) -> PixelBoxes:
    assert shown.boxes is not None
    return shown.boxes


def test_true_objects_take_the_ids_of_those_found_in_their_place() -> None:
    found = boxes_of(clip(2))
    places = np.stack([found.xy[0, 1] + 1, np.array([31.0, 1.0]), found.xy[0, 0] - 1])
    truth = PixelBoxes(
        np.stack([places, places]),
        np.ones((2, 3, 2)),
        np.array([[7, 8, 9], [7, 8, 9]]),
        np.ones((2, 3), bool),
    )
    ids = renamed(truth, found, 1).ids
    assert ids[:, 0].tolist() == [1, 1]
    assert ids[:, 2].tolist() == [0, 0]
    assert not set(ids[:, 1].tolist()) & {0, 1}


@pytest.mark.parametrize("objects", [0, 2])
def test_truth_keeps_its_ids_apart_where_nothing_was_found(objects: int) -> None:
    nobody = boxes_of(clip(1, objects=objects))
    nobody.present[:] = False
    truth = PixelBoxes(
        np.ones((1, 2, 2)), np.ones((1, 2, 2)), np.array([[1, 2]]), np.ones((1, 2), bool)
    )
    first, second = renamed(truth, nobody, 0).ids[0]
    assert first != second


@pytest.mark.parametrize("given", [0, 3])
@pytest.mark.parametrize("which", ["future", "together"])
def test_generated_frames_have_a_border_and_given_ones_have_none(which: str, given: int) -> None:
    shown = imagination(given)
    frames = shown.future(1, 2) if which == "future" else shown.together(2)
    assert frames.shape == (given + 4, 2 * SIDE, 2 * SIDE, 3)
    assert [is_marked(frame) for frame in frames] == [False] * given + [True] * 4


def test_futures_together_are_their_mean() -> None:
    given, *futures = (Clip(clip(2, gray).frames) for gray in (50, 10, 20, 31))
    frames = Imagination(given, None, tuple(futures)).together(1)
    assert frames[:, SIDE // 2, SIDE // 2, 0].tolist() == [50, 50, 20, 20]


def test_trails_of_futures_begin_at_the_last_given_frame() -> None:
    still, moving = clip(3), clip(2)
    boxes_of(moving).xy[:, 0] += [[6, -12], [12, -12]]
    alone = Imagination(still, None, (moving,)).together(1)
    plain = Imagination(Clip(still.frames), None, (Clip(moving.frames),)).together(1)
    changed = (alone != plain).any(axis=-1)
    assert not changed[:3].any()
    first, second = changed[3:]
    assert first[14, 11]
    assert not first[8, 17]
    assert second[8, 17]


def test_what_is_not_known_is_dark() -> None:
    def corner(frames: Frames) -> list[int]:
        return frames[:, 0, 0, 0].tolist()

    shown = imagination(known=5)
    assert corner(shown.true(1)) == [200] * 5 + [60] * 2
    assert corner(shown.seen(1)) == [200] * 3 + [60] * 4
    assert not any(map(is_marked, shown.true(1)))


def test_a_past_without_futures_is_drawn_alone() -> None:
    shown = imagination(futures=0)
    assert shown.length == len(shown.future(0, 1)) == 3
    assert not any(map(is_marked, shown.future(0, 1)))


def test_clips_follow_each_other_with_their_boxes() -> None:
    whole = clip(2, 10).then(clip(3, 20))
    assert whole.frames[:, 0, 0, 0].tolist() == [10] * 2 + [20] * 3
    assert boxes_of(whole).ids.shape == (5, 2)
    assert len(whole[1:4]) == len(boxes_of(whole[1:4]).xy) == 3
    assert clip(2).then(Clip(clip(1).frames)).boxes is None


@pytest.mark.parametrize(("known", "given"), [(7, 3), (0, 3), (7, 0), (0, 0)])
def test_the_moving_picture_is_as_long_as_given_and_imagined_frames(known: int, given: int) -> None:
    alone, many = (imagination(given, 4, known, futures=n).moving(2) for n in (1, 9))
    assert len(alone) == len(many) == given + 4
    assert many.shape[1] > alone.shape[1] + 2 * SIDE  # futures below


@given(st.integers(1, 4), st.integers(2, 8), st.integers(1, 64))
def test_futures_fill_rows_as_wide_as_what_is_above_them(
    panels: int, large: int, number: int
) -> None:
    scale, columns = tiling(panels, large, number)
    assert scale * columns == panels * large
    assert 1 <= columns <= number


@pytest.mark.parametrize("number", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("panels", [2, 3, 4])
def test_little_of_a_moving_picture_is_blank(panels: int, number: int) -> None:
    scale, columns = tiling(panels, 4, number)
    rows = -(-number // columns)
    blank = (rows * columns - number) * scale**2
    assert blank <= 0.12 * (panels * 4**2 + rows * columns * scale**2)


def test_a_sheet_shows_the_first_and_the_last_frame_of_truth_and_futures() -> None:
    small, large = (imagination(futures=n).still(1, columns=4) for n in (1, 3))
    assert large.shape[0] - small.shape[0] == 3 * (SIDE + 4)  # two futures, and all together
    unknown = imagination(known=0, futures=1).still(1, columns=4)
    assert small.shape[0] - unknown.shape[0] == SIDE + 4  # no truth
