"""Drawings and charts: the same thing as SVG and as pixels."""

import itertools
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.report.charts import (
    BOTTOM,
    HEIGHT,
    NEAR_AXIS,
    SPREAD,
    Series,
    apart,
    chart,
    named_at,
    nice,
)
from gswm.report.drawing import (
    DARK,
    LIGHT,
    Dot,
    Drawing,
    Label,
    Line,
    dashes,
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


def test_dashes_are_as_long_as_the_gaps_and_go_round_corners() -> None:
    corner = [(0, 0), (5, 0), (5, 10)]
    assert dashes(corner, 4) == [[(0, 0), (4, 0)], [(5, 3), (5, 7)]]
    assert dashes(corner, 4, on=False) == [[(4, 0), (5, 0), (5, 3)], [(5, 7), (5, 10)]]


def test_dashes_that_begin_late_are_where_the_others_have_gaps() -> None:
    both = [
        Drawing(60, 20, (Line(((0, 10), (60, 10)), "#ff0000", 4, dash=5, late=late),))
        for late in (False, True)
    ]
    there = [drawing.picture()[20, :, 1] < 128 for drawing in both]
    assert 0.45 < there[0].mean() < 0.6
    assert (there[0] | there[1]).all()
    assert (there[0] & there[1]).mean() < 0.1
    assert ["stroke-dashoffset" in drawing.svg() for drawing in both] == [False, True]
    assert all('stroke-dasharray="5"' in drawing.svg() for drawing in both)


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


@given(st.floats(1e-4, 1e4), st.integers(2, 8))
def test_ticks_are_few_and_even(high: float, most: int) -> None:
    ticks = nice(high, most)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= most + 1
    assert ticks[-1] <= high * (1 + 1e-6)
    assert np.allclose(np.diff(ticks), ticks[1], rtol=1e-6, atol=1e-9)


@given(st.lists(st.floats(0, 200), max_size=6, unique=True))
def test_names_keep_their_distance_and_their_order(heights: list[float]) -> None:
    placed = apart(heights)
    for (one, at), (other, at_other) in itertools.combinations(
        zip(heights, placed, strict=True), 2
    ):
        assert abs(at - at_other) >= SPREAD - 1e-6
        assert (one < other) == (at < at_other)
    if all(abs(a - b) >= SPREAD for a, b in itertools.combinations(heights, 2)):
        assert np.allclose(placed, heights)


@given(st.lists(st.floats(0, HEIGHT - BOTTOM), max_size=6, unique=True))
def test_names_of_lines_do_not_reach_the_numbers_below_the_chart(heights: list[float]) -> None:
    placed = named_at(heights)
    assert max(placed, default=0) <= HEIGHT - BOTTOM + NEAR_AXIS
    for one, other in itertools.combinations(placed, 2):
        assert abs(one - other) >= SPREAD - 1e-6


def test_a_line_of_a_chart_goes_from_its_first_value_to_its_last() -> None:
    drawing = chart("x", [Series("up", [0.0, 0.9, 1.0], "#123456")], "time", top=1.0)
    (line,) = [p for p in drawing.parts if isinstance(p, Line) and p.color == "#123456"]
    (x0, y0), _, (x1, y1) = line.points
    assert x0 < x1
    assert y1 < y0
    (name,) = [p for p in drawing.parts if isinstance(p, Label) and p.text == "up"]
    assert name.at[0] > x1


def test_a_chart_of_nothing_says_so() -> None:
    drawing = chart("x", [], "time", note="not trained yet")
    assert "not trained yet" in drawing.svg()


def test_names_are_right_of_the_chart_as_high_as_their_lines_end() -> None:
    short = Series("short", [0.5, 0.25], "#123456", at=(0, 1))
    long = Series("long", [1.0, 1.0], "#654321", at=(0, 10), dash=True, sample=True)
    drawing = chart("x", [short, long], "time")
    first, second = (
        next(p for p in drawing.parts if isinstance(p, Label) and p.text == name)
        for name in ("short", "long")
    )
    lines = [p for p in drawing.parts if isinstance(p, Line)]
    ended = next(line for line in lines if line.color == short.color)
    (end, sample) = (line for line in lines if line.color == long.color)
    assert first.at[0] > end.points[-1][0] > ended.points[-1][0]
    assert first.at[1] == pytest.approx(ended.points[-1][1] + 3.5)
    assert end.points[-1][0] < sample.points[0][0] < sample.points[1][0] < second.at[0]
    assert sample.dash == end.dash > ended.dash == 0
