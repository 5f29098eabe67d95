"""Drawings: SVG and pixels show the same."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.report.drawing import (
    DARK,
    LIGHT,
    Dot,
    Drawing,
    Label,
    Line,
    moved,
    rectangle,
    rows,
)

NUMBERS = st.floats(-50, 50)


def test_every_part_is_an_element_and_leaves_pixels() -> None:
    parts = (
        Line(((5, 5), (35, 5)), "#ff0000", 2),
        rectangle(5, 12, 10, 6, "#00ff00"),
        Dot((30, 15), 4, "#0000ff"),
        Dot((10, 30), 5, "#ff00ff", width=1.5),
        Label((20, 36), "a < b & c", "ink"),
    )
    drawing = Drawing(40, 40, parts)
    names = [element.tag.split("}")[1] for element in ElementTree.fromstring(drawing.svg("x"))]
    assert names == ["path", "path", "circle", "circle", "text"]
    picture = drawing.picture()
    assert picture.shape == (80, 80, 3)
    assert picture[10, 40].tolist() == [255, 0, 0]
    assert picture[30, 20].tolist() == [0, 255, 0]
    assert picture[30, 60].tolist() == [0, 0, 255]
    assert picture[60, 20].tolist() == [255, 255, 255]
    assert picture[60, 9].tolist() == [255, 0, 255]
    assert (picture[60:74, 40:] < 100).any()


def test_what_is_half_there_is_half_mixed() -> None:
    picture = Drawing(10, 10, (Dot((5, 5), 3, "#000000", 0.5),)).picture()
    assert picture[10, 10].tolist() == pytest.approx([127, 127, 127], abs=1)


def test_colors_of_a_theme_are_left_to_the_page() -> None:
    drawing = Drawing(10, 10, (rectangle(0, 0, 10, 10, "rule"),))
    assert 'fill="var(--rule)"' in drawing.svg()
    for theme in (LIGHT, DARK):
        rgb = bytes.fromhex(theme["rule"][1:])
        assert drawing.picture(theme)[10, 10].tolist() == list(rgb)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=5), NUMBERS, NUMBERS)
def test_a_part_that_is_moved_and_moved_back_is_where_it_was(points, x: float, y: float) -> None:
    line = Line(tuple(points), "ink")
    back = moved(moved(line, x, y), -x, -y)
    assert isinstance(back, Line)
    assert np.allclose(back.points, points, atol=1e-9)


@given(st.integers(1, 9), st.integers(1, 4))
def test_drawings_in_rows_do_not_meet(number: int, columns: int) -> None:
    one = Drawing(20, 10, (rectangle(0, 0, 20, 10, "#000000"),))
    whole = rows([one] * number, columns, gap=5)
    lines = -(-number // columns)
    assert (whole.width, whole.height) == (25 * min(columns, number) - 5, 15 * lines - 5)
    picture = whole.picture()
    assert (picture == 0).all(axis=-1).sum() == number * 40 * 20
