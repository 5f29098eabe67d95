"""Charts: lines, names, colors and files of matplotlib figures."""

import itertools
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from measured import maze_result, result, saved

from gswm.cli import main
from gswm.commands.demo import SCENES
from gswm.report import charts, figures, plotting
from gswm.report.charts import Chart, Charts, Series
from gswm.report.drawing import LIGHT
from gswm.report.page import element
from gswm.report.results import read

TWO = [Series("up", [0.0, 0.5, 3.0], charts.BLUE), Series("", [1.0, None, 0.5], "faint")]


def test_a_line_has_a_gap_at_an_unknown_value_and_ends_at_the_roof() -> None:
    figure = plotting.draw(Charts([Chart("x", TWO, "time", top=0.5, roof=2.0)]))
    (axes,) = figure.axes
    up, gap = axes.get_lines()
    np.testing.assert_array_equal(up.get_xydata(), [[1, 0], [2, 0.5], [3, 3]])
    np.testing.assert_array_equal(gap.get_ydata(), [1, np.nan, 0.5])
    assert axes.get_ylim() == pytest.approx((0, 2), rel=0.05)


@pytest.mark.parametrize(
    ("values", "high"), [([0.1], 0.5), ([0.7, None], 0.7), ([9], 1), ([], 0.5)]
)
def test_an_axis_ends_between_its_top_and_its_roof(values: list[float | None], high: float) -> None:
    assert Chart("x", [Series("", values, "ink")], "time", top=0.5, roof=1.0).high == high


def test_names_stand_in_the_order_in_which_lines_end() -> None:
    ends = {"low": 0.1, "high": 0.9, "middle": 0.5}
    series = [Series(name, [1.0, end, None], "ink") for name, end in ends.items()]
    (axes,) = plotting.draw(Charts([Chart("x", [*series, TWO[1]], "time")])).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["high", "middle", "low"]


def test_lines_of_one_name_stand_once() -> None:
    ends = [("a", 0.1), ("b", 0.9), ("a", 0.5)]
    series = [Series(name, [1.0, end], "ink") for name, end in ends]
    (axes,) = plotting.draw(Charts([Chart("x", series, "time")])).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["b", "a"]
    assert len(axes.get_lines()) == 3


def test_no_two_texts_of_a_figure_overlap() -> None:
    series = [Series(f"a rather long name {i}", [0.5, 0.5, i], "ink") for i in range(6)]
    panels = [Chart("a title", series, "imagined frame", "frame sides")] * 3
    with style.context(plotting.STYLES):
        figure = plotting.draw(Charts(panels))
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    found = {text for text in figure.findobj(Text) if text.get_text() and text.get_visible()}
    for axes in figure.axes:  # which keeps numbers beyond its ends, and does not draw them
        for at, low, high in ((0, *axes.get_xlim()), (1, *axes.get_ylim())):
            numbers = (axes.get_xticklabels, axes.get_yticklabels)[at]()
            found -= {text for text in numbers if not low <= text.get_position()[at] <= high}
    shown = [text.get_window_extent(canvas.get_renderer()) for text in found]
    assert len(shown) > len(panels) * len(series)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(shown, 2))
    whole = figure.bbox
    assert all(whole.x0 <= b.x0 and b.x1 <= whole.x1 for b in shown)
    assert all(whole.y0 <= b.y0 and b.y1 <= whole.y1 for b in shown)


def test_a_line_without_known_values_is_left_out_and_so_is_an_empty_chart() -> None:
    unknown = Series("nothing", [None, None], charts.BLUE)
    half, empty = Chart("x", [*TWO, unknown], "time"), Chart("y", [unknown], "time")
    drawn = Charts.of([half, empty])
    assert drawn == Charts([half])
    assert "nothing" not in element(drawn, "a title")
    assert Charts.of([empty]) is None


def test_a_model_that_found_nothing_has_a_report_without_its_curves(tmp_path: Path) -> None:
    unknown = {"center_error": [None] * 3, "strict_error": [float("nan")] * 3}
    runs = [result(curves=unknown, scores={"center_error": None, "mota": 0.0}), result("occlusion")]
    given = saved(tmp_path / "in", *runs)
    assert main(["report", str(given), "--out", str(tmp_path / "out")]) == 0
    drawn = figures.error(read([given]))
    assert drawn is not None
    assert [chart.title for chart in drawn.panels] == ["occlusion"]


def test_an_element_has_the_colors_of_the_page_and_nothing_of_the_day() -> None:
    drawn = Charts([Chart("x", TWO, "time")])
    svg = element(drawn, "a < b")
    assert svg == element(drawn, "a < b")
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == "a < b"
    assert {"var(--ink)", "var(--faint)", "var(--rule)"} <= set(re.findall(r"var\(.+?\)", svg))
    assert not any(color in svg for color in LIGHT.values())
    assert charts.BLUE in svg
    assert set(re.findall(r"https?://[\w.]+", svg)) == {"http://www.w3.org"}
    assert not {"metadata", "style"} & {each.tag.split("}")[1] for each in root.iter()}
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(ids) == len(set(ids))


def test_pixels_are_twice_the_points_of_the_page() -> None:
    picture = plotting.picture(Charts([Chart("x", TWO, "time")]))
    assert picture.shape == (2 * plotting.HEIGHT, 2 * plotting.WIDTH, 3)
    assert (picture[0, 0] == 255).all()
    rgb = list(bytes.fromhex(charts.BLUE[1:]))
    assert (picture == rgb).all(axis=-1).any()


BLIND = {  # Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB
    "red": "0.152286 1.052583 -0.204868 0.114503 0.786281 0.099216 -0.003882 -0.048116 1.051998",
    "green": "0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 -0.011820 0.042940 0.968881",
    "blue": "1.255528 -0.076749 -0.178779 -0.078411 0.930809 0.147602 0.004733 0.691367 0.303900",
}


def lab(color: str, seen: str) -> np.ndarray:
    """CIELAB of a color as somebody sees it who lacks a kind of cone."""
    srgb = np.array(list(bytes.fromhex(color[1:]))) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(seen.split(), float).reshape(3, 3) @ linear, 0, 1)
    rows = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(rows) @ linear / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("kind", BLIND)
def test_color_blind_readers_tell_the_colors_apart(kind: str) -> None:
    """A distance of 2 in CIELAB is just visible side by side."""
    seen = [lab(color, BLIND[kind]) for color in charts.COLORS]
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(one - other) > 12
    assert len(set(plotting.MARKERS.values())) == len(plotting.MARKERS)


def test_without_matplotlib_a_report_has_tables_and_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(charts, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "gswm.report.plotting", None)
    given, text = saved(tmp_path / "in", result()), tmp_path / "out" / "tables.md"
    assert main(["report", str(given), "--out", str(text.parent), "--markdown", str(text)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install -c constraints.txt -e '.[report]'" in line
    assert "<table" in (text.parent / "index.html").read_text()
    assert "error.png" not in text.read_text()
    assert not (text.parent / "error.png").exists()


def test_a_missing_result_is_reported_before_a_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(charts, "find_spec", lambda _: None)
    out = tmp_path / "out"
    assert main(["report", str(tmp_path / "x.json"), "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "x.json" in line
    assert not out.exists()


def test_the_figures_of_the_demo_need_no_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gswm.report.plotting", None)
    made = figures.figures(read([saved(tmp_path, result(), maze_result("maze"))]))
    shown = {name for scene in SCENES for name in scene.figures} & made.keys()
    assert {"ways", "maze"} <= shown
    assert all(element(made[name], name) for name in shown)
    monkeypatch.delattr("gswm.report.plotting")
    with pytest.raises(ImportError):
        element(made["error"], "error")
