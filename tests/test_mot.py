"""MOTChallenge text: written files are read back, and errors name the bad line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.core.errors import UserError
from gswm.data.mot import MotBoxes, read_mot, write_mot

LABELS = sorted((Path(__file__).parents[1] / "labels").glob("*.txt"))


def written(folder: Path, text: str) -> Path:
    path = folder / "boxes.txt"
    path.write_text(text)
    return path


def test_a_line_is_read_field_by_field(tmp_path: Path) -> None:
    boxes = read_mot(
        written(tmp_path, "3,7,1.5,2,30,40,0.9,1,0.5\n\n4,7,1,2,3,4\n4,-1,0,0,9,9,0\n")
    )
    assert boxes.frame.tolist() == [3, 4, 4]
    assert boxes.id.tolist() == [7, 7, -1]
    assert boxes.box.tolist() == [[1.5, 2, 30, 40], [1, 2, 3, 4], [0, 0, 9, 9]]
    assert boxes.conf.tolist() == [0.9, 1, 0]


def test_an_empty_file_has_no_boxes(tmp_path: Path) -> None:
    assert len(read_mot(written(tmp_path, ""))) == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("2,1,0,0,5", "5 fields"),
        ("2 1 0 0 5 5", "fields"),
        ("2,1,0,zero,5,5,1", "'zero' is not a number"),
        ("2,1,0,nan,5,5,1", "'nan' is not a number"),
        ("0,1,0,0,5,5,1", "frames must be integers from 1"),
        ("2.5,1,0,0,5,5,1", "frames must be integers from 1"),
        ("1e300,1,0,0,5,5,1", "the frame is 1e+300"),
        ("2,1e300,0,0,5,5,1", "the id is 1e+300"),
        ("2,-1,0,0,5,5,1", "the id is -1"),
        ("2,1.5,0,0,5,5,1", "the id is 1.5"),
        ("2,1,0,0,0,5,1", "width and height"),
        ("1,1,9,9,5,5,1", "already in line 1"),
    ],
)
def test_a_bad_line_is_named(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 2: ") as error:
        read_mot(written(tmp_path, f"1,1,0,0,5,5,1\n{line}\n"))
    assert said in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        read_mot(tmp_path / "none.txt")
    (tmp_path / "picture.txt").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UserError, match="not a text file"):
        read_mot(tmp_path / "picture.txt")


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), unique=True), st.data())
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, keys: list[tuple[int, int]], data: st.DataObject
) -> None:
    side = st.floats(0.01, 1000).map(lambda value: round(value, 2))
    box = st.tuples(side, side, side, side)
    boxes = [data.draw(box) for _ in keys]
    frame, id = (np.array([key[i] for key in keys], np.int64) for i in (0, 1))
    rows = MotBoxes(frame, id, np.array(boxes).reshape(-1, 4), np.ones(len(keys)))
    path = tmp_path_factory.mktemp("mot") / "boxes.txt"
    write_mot(path, rows)
    again, order = read_mot(path), np.lexsort((id, frame))
    for name, values in vars(rows[order]).items():
        np.testing.assert_allclose(getattr(again, name), values)


def test_boxes_are_cut_at_the_border() -> None:
    box = np.array([[-5.0, 10, 20, 20], [90, 90, 20, 20], [100, 0, 5, 5]])
    rows = MotBoxes(np.array([1, 2, 3]), np.array([4, 5, 6]), box, np.ones(3)).clipped(100, 100)
    assert rows.box.tolist() == [[0, 10, 15, 20], [90, 90, 10, 10]]
    assert rows.id.tolist() == [4, 5]


@pytest.mark.parametrize("path", LABELS, ids=lambda path: path.stem)
def test_labels_of_the_repository_have_60_frames(path: Path) -> None:
    labels = read_mot(path)
    counts = labels.conf == 1
    assert len(np.unique(labels.frame[counts])) == 60
    assert (labels.id[counts] > 0).all()
    assert (labels.id[~counts] == -1).all()


def test_there_are_labels() -> None:
    assert len(LABELS) == 3
