"""Pictures: boxes at the objects, colors that survive encoding, and complete files."""

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gswm.core.errors import UserError
from gswm.data.worlds.maze import Maze
from gswm.viz import formats
from gswm.viz.episodes import frames_of, true_boxes
from gswm.viz.pictures import (
    PAPER,
    PixelBoxes,
    border,
    color,
    draw_boxes,
    enlarge,
    sheet,
    side_by_side,
)


def boxes(xy: list, wh: list, ids: list[int], present: list[bool], time: int = 1) -> PixelBoxes:
    return PixelBoxes(
        np.array([xy] * time, float),
        np.array([wh] * time, float),
        np.array([ids] * time),
        np.array([present] * time),
    )


def black(time: int = 1, height: int = 20, width: int = 30) -> np.ndarray:
    return np.zeros((time, height, width, 3), np.uint8)


def test_enlarged_pixels_are_squares() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 3), dtype=np.uint8)
    large = enlarge(frames, 3)
    assert large.shape == (2, 9, 12, 3)
    for y, x in np.ndindex(9, 12):
        assert (large[:, y, x] == frames[:, y // 3, x // 3]).all()


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_a_box_is_drawn_around_its_object(scale: int) -> None:
    frames = enlarge(black(), scale)
    drawn = draw_boxes(frames, boxes([[12, 9]], [[8, 6]], [3], [True]), scale, numbers=False)[0]
    rows, columns = np.nonzero((drawn == color(3)).all(axis=-1))
    assert (columns.min(), columns.max() + 1) == (8 * scale, 16 * scale)
    assert (rows.min(), rows.max() + 1) == (6 * scale, 12 * scale)
    assert (drawn[9 * scale, 12 * scale] == 0).all()


def test_an_absent_object_leaves_no_trace() -> None:
    here = boxes([[8, 9], [20, 9]], [[6, 6]] * 2, [1, 2], [True, False], time=3)
    alone = boxes([[8, 9]], [[6, 6]], [1], [True], time=3)
    frames = enlarge(black(3), 4)
    np.testing.assert_array_equal(
        draw_boxes(frames, here, 4, trail=2), draw_boxes(frames, alone, 4, trail=2)
    )


def test_drawing_leaves_the_frames_as_they_are() -> None:
    frames = enlarge(black(), 2)
    draw_boxes(frames, boxes([[8, 9]], [[6, 6]], [1], [True]), 2, trail=3)
    border(frames, (255, 0, 0))
    assert not frames.any()


def test_a_trail_follows_where_the_object_was_and_not_where_it_will_be() -> None:
    xy = np.array([[[4.0, 15]], [[14, 15]], [[24, 15]]])
    moving = PixelBoxes(xy, np.full((3, 1, 2), 4.0), np.ones((3, 1), int), np.ones((3, 1), bool))
    drawn = draw_boxes(black(3), moving, trail=5, numbers=False)
    without = draw_boxes(black(3), moving, numbers=False)
    assert (drawn[0] == without[0]).all()
    assert drawn[1, 15, 9].any()
    assert not drawn[1, 15, 19].any()
    assert drawn[2, 15, 19].sum() > drawn[2, 15, 9].sum() > 0
    short = draw_boxes(black(3), moving, trail=1, numbers=False)
    assert not short[2, 15, 9].any()


def test_a_trail_is_not_drawn_between_two_objects() -> None:
    xy = np.array([[[4.0, 15]], [[24, 15]]])
    other = PixelBoxes(xy, np.full((2, 1, 2), 4.0), np.array([[1], [2]]), np.ones((2, 1), bool))
    np.testing.assert_array_equal(draw_boxes(black(2), other, trail=5), draw_boxes(black(2), other))


def test_a_trail_follows_an_object_from_slot_to_slot() -> None:
    xy = np.array([[[4.0, 15], [4, 5]], [[14, 5], [14, 15]]])
    wh, here = np.full((2, 2, 2), 4.0), np.ones((2, 2), bool)
    swapped = PixelBoxes(xy, wh, np.array([[1, 2], [2, 1]]), here)
    sorted_ = PixelBoxes(np.stack([xy[0], xy[1, ::-1]]), wh, np.array([[1, 2], [1, 2]]), here)
    np.testing.assert_array_equal(
        draw_boxes(black(2), swapped, trail=1, numbers=False),
        draw_boxes(black(2), sorted_, trail=1, numbers=False),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_box_that_is_nowhere_is_not_drawn(bad: float) -> None:
    assert not draw_boxes(black(), boxes([[bad, 9]], [[6, 6]], [1], [True])).any()
    assert not draw_boxes(black(), boxes([[8, 9]], [[6, bad]], [1], [True])).any()


def test_a_huge_box_takes_no_memory() -> None:
    assert draw_boxes(black(), boxes([[8, 9]], [[1e6, 1e6]], [1], [True])).shape == black().shape


def test_ids_have_colors_of_their_own_and_numbers() -> None:
    assert len({color(i) for i in range(1, 11)}) == 10
    one, two = (
        draw_boxes(enlarge(black(), 4), boxes([[15, 12]], [[8, 8]], [i], [True]), 4)
        for i in (1, 11)
    )
    assert color(1) == color(11)
    assert (one != two).any()


@given(st.floats(-50, 80), st.floats(-50, 80), st.floats(-5, 70), st.integers(0, 999))
def test_a_box_may_lie_anywhere(x: float, y: float, size: float, number: int) -> None:
    drawn = draw_boxes(black(), boxes([[x, y]], [[size, size]], [number], [True]))
    assert drawn.shape == black().shape


def test_true_boxes_lie_around_the_agents() -> None:
    episodes = next(Maze().episodes(1, 2))
    true = true_boxes(episodes, 1)
    frames = frames_of(episodes, 1)
    assert true is not None
    assert (true.wh[true.present] == 64 / 7).all()
    t, last = 0, int(true.present[0].sum()) - 1  # the last one drawn is behind no other
    x, y = true.xy[t, last].astype(int)
    assert episodes.truth is not None
    assert (frames[t, y, x] == 255 * episodes.truth.colors[1, t, last].numpy()).all()


def test_true_boxes_of_solids_are_as_high_and_wide_as_they() -> None:
    episodes = next(Maze().episodes(1, 1))
    assert episodes.truth is not None
    hw = torch.tensor([8.0, 5.0], dtype=torch.float64).expand(*episodes.truth.sizes.shape, 2)
    true = true_boxes(replace(episodes, truth=replace(episodes.truth, hw=hw)), 0)
    assert true is not None
    assert (true.wh == [5.0, 8.0]).all()


def test_a_sheet_holds_every_frame_in_its_row_and_column() -> None:
    rows = [
        np.full((3, 10, 12, 3), 50 * i, np.uint8)
        + np.arange(3, dtype=np.uint8)[:, None, None, None]
        for i in (1, 2)
    ]
    for labels in ({}, {"row_labels": ["a", "b"], "column_labels": list("xyz"), "title": "t"}):
        image = sheet(rows, gap=4, **labels)
        corners = {}
        for i, row in enumerate(rows):
            for j, frame in enumerate(row):
                ys, xs = np.nonzero((image == frame[0, 0]).all(axis=-1))
                assert len(ys) == 120
                corners[i, j] = (ys.min(), xs.min())
        for (i, j), (y, x) in corners.items():
            assert y == corners[0, 0][0] + 14 * i
            assert x == corners[0, 0][1] + 16 * j


def test_a_border_surrounds_every_frame() -> None:
    framed = border(black(2), (255, 255, 0), width=2)
    edge = np.ones((20, 30), bool)
    edge[2:-2, 2:-2] = False
    assert (framed[:, edge] == (255, 255, 0)).all()
    assert not framed[:, ~edge].any()


def test_videos_side_by_side_play_together_and_the_shorter_one_waits() -> None:
    one = np.stack([np.full((8, 8, 3), v, np.uint8) for v in (10, 20, 30)])
    two = np.stack([np.full((8, 8, 3), v, np.uint8) for v in (110, 120)])
    both = side_by_side([one, two, one], columns=2)
    values = [sorted(set(np.unique(frame)) - {PAPER[0]}) for frame in both]
    assert values == [[10, 110], [20, 120], [30, 120]]


def test_a_gif_keeps_up_to_256_colors_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    palette = rng.integers(0, 256, (256, 3), dtype=np.uint8)
    frames = palette[rng.integers(0, 256, (5, 24, 31))]
    formats.save_video(tmp_path / "a.gif", frames, fps=8)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.info["duration"] == 120
        assert image.info["loop"] == 0
        assert image.n_frames == 5
        for t in range(5):
            image.seek(t)
            np.testing.assert_array_equal(np.asarray(image.convert("RGB")), frames[t])


def test_a_gif_of_many_colors_stays_close_to_them(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 64).astype(np.uint8)
    frame = np.stack(np.broadcast_arrays(ramp[:, None], ramp[None, :], np.uint8(90)), axis=-1)
    frame = np.ascontiguousarray(frame)
    frame[20, 10:50] = (255, 140, 30)
    frames = np.stack([frame, frame[::-1]])
    formats.save_video(tmp_path / "a.gif", frames)
    with Image.open(tmp_path / "a.gif") as image:
        for t in range(2):
            image.seek(t)
            error = np.abs(np.asarray(image.convert("RGB")).astype(int) - frames[t])
            assert error.mean() < 6
            assert error.max() < 40
            assert error[frames[t, :, :, 2] == 30].max() == 0  # thin, but more frequent than others


def test_a_png_is_exact(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    formats.save_picture(tmp_path / "deep" / "a.PNG", picture)
    with Image.open(tmp_path / "deep" / "a.PNG") as image:
        np.testing.assert_array_equal(np.asarray(image), picture)


def test_an_mp4_plays_back_what_it_was_given(tmp_path: Path) -> None:
    frames = np.zeros((12, 33, 47, 3), np.uint8)
    for t in range(12):
        frames[t, :, 2 * t : 2 * t + 16] = (200, 40, 90)
    formats.save_video(tmp_path / "a.mp4", frames, fps=12)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert container.streams.video[0].average_rate == 12
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(decoded) == 12
    error = np.abs(np.stack(decoded)[:, :33, :47].astype(int) - frames)
    assert error.mean() < 6


@pytest.mark.parametrize("name", ["a.bmp", "a", "a.gif"])
def test_a_picture_with_another_ending_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in \.png"):
        formats.save_picture(tmp_path / name, black()[0])


def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write to .*file': it is a file"):
        formats.save_picture(tmp_path / "file" / "a.png", black()[0])

    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(formats, "save_gif", full)
    (tmp_path / "a.gif").write_bytes(b"old")
    with pytest.raises(UserError, match=r"not enough space to write .*a\.gif \(no space left"):
        formats.save_video(tmp_path / "a.gif", black())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "file"]
    assert (tmp_path / "a.gif").read_bytes() == b"old"
