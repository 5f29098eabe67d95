"""Pictures of tracks: boxes where the objects are, and a border around what was generated."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from gswm.models.track import Track
from gswm.viz import imagination as tracks
from gswm.viz.pictures import Boxes, Frames

SIDE = 32


def track(*lead: int, objects: int = 2, side: int = SIDE, gray: float = 0.5) -> Track:
    """Objects that stay: number k a third of the image right of number k - 1."""
    xy = torch.tensor([[-0.5 + 2 / 3 * k, 0.25] for k in range(objects)])
    number = torch.arange(objects)
    return Track(
        xy.expand(*lead, objects, 2),
        torch.tensor([0.25, 0.125]).expand(*lead, objects, 2),
        torch.zeros(*lead, objects),
        torch.ones(*lead, objects),
        number.expand(*lead, objects),
        reconstruction=torch.full((*lead, 3, side, side), gray),
        background=None,
    )


def imagination(given: int = 3, steps: int = 4, known: int = 7, futures: int = 2):
    past = tracks.one(track(1, given), 0)
    each = tuple(tracks.one(track(1, steps), 0) for _ in range(futures))
    video = np.full((known, SIDE, SIDE, 3), 200, np.uint8)
    return tracks.Imagination(video, None, past, each)


def is_marked(frame: np.ndarray) -> bool:
    edge = np.concatenate([frame[0], frame[-1], frame[:, 0], frame[:, -1]])
    return bool((edge == tracks.GENERATED).all())


def test_boxes_are_in_pixels_with_width_before_height() -> None:
    boxes = tracks.boxes_of(tracks.one(track(1, 2), 0), SIDE)
    assert boxes.xy[0, 0].tolist() == [8, 20]
    assert boxes.wh[0, 0].tolist() == [4, 8]
    assert boxes.ids[1].tolist() == [0, 1]


def test_what_is_not_there_and_what_has_no_id_has_no_box() -> None:
    seen = tracks.one(track(1, 1, objects=3), 0)
    seen.pres.data = torch.tensor([[0.4, 1.0, 1.0]])
    seen.id.data = torch.tensor([[0, 1, -1]])
    assert tracks.boxes_of(seen, SIDE).present.tolist() == [[False, True, False]]


def test_true_objects_take_the_ids_of_those_found_in_their_place() -> None:
    found = tracks.boxes_of(tracks.one(track(1, 2), 0), SIDE)
    places = np.stack([found.xy[0, 1] + 1, np.array([31.0, 1.0]), found.xy[0, 0] - 1])
    truth = Boxes(
        np.stack([places, places]),
        np.ones((2, 3, 2)),
        np.array([[7, 8, 9], [7, 8, 9]]),
        np.ones((2, 3), bool),
    )
    ids = tracks.renamed(truth, found, 1).ids
    assert ids[:, 0].tolist() == [1, 1]
    assert ids[:, 2].tolist() == [0, 0]
    assert not set(ids[:, 1].tolist()) & {0, 1}


def test_truth_keeps_its_ids_apart_where_nothing_was_found() -> None:
    nobody = tracks.one(track(1, 1), 0)
    nobody.pres.data = torch.zeros(1, 2)
    truth = Boxes(np.ones((1, 2, 2)), np.ones((1, 2, 2)), np.array([[1, 2]]), np.ones((1, 2), bool))
    first, second = tracks.renamed(truth, tracks.boxes_of(nobody, SIDE), 0).ids[0]
    assert first != second


@pytest.mark.parametrize("which", ["future", "together"])
def test_generated_frames_have_a_border_and_given_ones_have_none(which: str) -> None:
    shown = imagination()
    frames = shown.future(1, 2) if which == "future" else shown.together(2)
    assert frames.shape == (7, 2 * SIDE, 2 * SIDE, 3)
    assert [is_marked(frame) for frame in frames] == [False] * 3 + [True] * 4


def test_what_is_not_known_is_dark() -> None:
    def corner(frames: Frames) -> list[int]:
        return frames[:, 0, 0, 0].tolist()

    shown = imagination(known=5)
    assert corner(shown.true(1)) == [200] * 5 + [60] * 2
    assert corner(shown.seen(1)) == [200] * 3 + [60] * 4
    assert not any(map(is_marked, shown.true(1)))


def test_the_moving_picture_is_as_long_as_given_and_imagined_frames() -> None:
    alone, many = imagination(futures=1).moving(2), imagination(futures=9).moving(2)
    assert len(alone) == len(many) == 7
    assert many.shape[1] > alone.shape[1] + 2 * 2 * SIDE  # two rows of futures below


def test_a_sheet_shows_the_first_and_the_last_frame_of_truth_and_futures() -> None:
    small, large = (imagination(futures=n).still(1, columns=4) for n in (1, 3))
    assert large.shape[0] - small.shape[0] == 3 * (SIDE + 4)  # two futures, and all together


def test_a_table_of_an_imagination_counts_frames_from_the_first_given(tmp_path: Path) -> None:
    future = track(1, 2, 4)
    future = Track(**{**vars(future), "past": track(1, 3)})
    future.to_csv(tmp_path / "states.csv", first_episode=5)
    with (tmp_path / "states.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = "episode future frame id x y w h depth presence"
    assert list(rows[0]) == names.split()
    assert {row["episode"] for row in rows} == {"5"}
    frames = {
        number: sorted({int(row["frame"]) for row in rows if row["future"] == number})
        for number in ("-1", "0", "1")
    }
    assert frames == {"-1": [0, 1, 2], "0": [3, 4, 5, 6], "1": [3, 4, 5, 6]}
    assert len(rows) == 2 * (3 + 2 * 4)
    assert [float(rows[0][name]) for name in "xywh"] == [0.25, 0.625, 0.125, 0.25]
    assert list(tmp_path.iterdir()) == [tmp_path / "states.csv"]


def test_a_table_of_what_was_seen_has_no_futures(tmp_path: Path) -> None:
    track(2, 3).to_csv(tmp_path / "new" / "states.csv")
    head, *rows = (tmp_path / "new" / "states.csv").read_text().splitlines()
    assert head == "episode,frame,id,x,y,w,h,depth,presence"
    assert len(rows) == 2 * 3 * 2
    assert rows[-1].startswith("1,2,1,")
