"""Charts drawn by matplotlib: as SVG in the colors of the page's theme, and as pixels.

One point is one pixel of the page, and two pixels of a PNG, as in `drawing`.
"""

import io
import math
import re
from html import escape

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gswm.report.charts import COLORS, Chart, Charts, Series
from gswm.report.drawing import LIGHT, PIXELS
from gswm.viz.pictures import Picture

COLUMNS, WIDTH, HEIGHT = 2, 495, 250
"""Charts in a row, and the size of each in points."""
POINTS = 72
"""Points per inch."""
DASH = 3.5
MARKERS: dict[str, str] = dict(zip(COLORS, "os^Dv", strict=True))
"""Markers of labeled lines, which distinguish lines where colors do not."""
EVERY = 0.05, 0.16
"""Position of a line's first marker and the distance between markers, in chart diagonals."""
STEPS = (1, 2, 5, 10)
"""Steps of the axis ticks, up to a power of 10."""
STYLES = [
    "default",
    {
        **{"font.family": ["DejaVu Sans"], "font.size": 10, "text.color": LIGHT["ink"]},
        **{"axes.titlesize": 12, "axes.labelsize": 10, "axes.labelcolor": LIGHT["faint"]},
        **{"axes.spines.left": False, "axes.spines.right": False, "axes.spines.top": False},
        **{"axes.edgecolor": LIGHT["rule"], "axes.axisbelow": True, "axes.facecolor": "none"},
        **{"axes.grid": True, "axes.grid.axis": "y", "grid.color": LIGHT["rule"]},
        **{"xtick.color": LIGHT["faint"], "ytick.color": LIGHT["faint"]},
        **{"xtick.major.size": 0, "ytick.major.size": 0, "xtick.major.pad": 7},
        **{"legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "gswm"},
    },
]
"""Styles that override the user's own matplotlib settings."""
LINKS = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
JOINS = 'stroke-linejoin="round" stroke-linecap="butt"'
ABOVE = 1.02
"""Headroom of the vertical axis, so that a line at its upper end keeps its full width."""


def draw(charts: Charts) -> Figure:
    """Draw charts; call it within `style.context(STYLES)`."""
    columns = min(COLUMNS, len(charts.panels))
    rows = math.ceil(len(charts.panels) / columns)
    size = columns * WIDTH / POINTS, rows * HEIGHT / POINTS
    made = Figure(size, dpi=POINTS * PIXELS, facecolor="none")
    made.set_layout_engine("constrained", w_pad=6 / POINTS, h_pad=8 / POINTS)
    for i, chart in enumerate(charts.panels):
        plot(made.add_subplot(rows, columns, i + 1), chart)
    return made


def plot(axes: Axes, chart: Chart) -> None:
    """Draw one chart, with its legend sorted by the last values of the lines.

    Of lines with the same name, the legend has one.
    """
    axes.set_title(chart.title, loc="left")
    axes.set_title(chart.y_label, loc="right", fontsize=10, color=LIGHT["faint"])
    axes.set_xlabel(chart.x_label)
    axes.set_ylim(0, ABOVE * chart.high)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=STEPS, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=STEPS))
    named = []
    for series in (s for s in chart.series if s.is_known):
        line = plot_series(axes, series)
        named += [(series.name, series.last, line)] if series.name else []
    if named:
        lines: dict[str, Line2D] = {}
        for name, _, line in sorted(named, key=lambda each: -each[1]):
            lines.setdefault(name, line)
        axes.legend(
            handles=[*lines.values()], loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0
        )


def plot_series(axes: Axes, series: Series) -> Line2D:
    """Draw a line and its band; unknown values are gaps."""
    color, values = LIGHT.get(series.color, series.color), np.array(series.values, float)
    if series.spread:
        spread = np.array(series.spread, float)
        band = values - spread, values + spread
        axes.fill_between(series.places, *band, color=color, alpha=0.18, linewidth=0)
    dashes = (DASH * series.late, (DASH, DASH)) if series.dash else "-"
    (line,) = axes.plot(
        series.places,
        values,
        color=color,
        linewidth=series.width,
        linestyle=dashes,
        label=series.name,
        marker=MARKERS.get(color, "") if series.name else "",
        markersize=4.5,
        markevery=EVERY,
    )
    return line


def picture(charts: Charts) -> Picture:
    """Charts as pixels, in the light theme."""
    with style.context(STYLES):
        made = draw(charts)
        made.set_facecolor(LIGHT["paper"])
        canvas = FigureCanvasAgg(made)
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def svg(charts: Charts, title: str) -> str:
    """Charts as an SVG element for a page whose style sheet defines the theme's colors.

    It omits parts that would affect the rest of the page: matplotlib's global style rule and ids.
    """
    file = io.StringIO()
    with style.context(STYLES):
        made = draw(charts)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        made.savefig(file, format="svg", dpi=POINTS, metadata=nothing)
    text = file.getvalue()
    body = text[text.index("</defs>") + len("</defs>") :]
    body = re.sub(r' id="[a-zA-Z0-9]+_\d+"', "", body)
    for name, color in LIGHT.items():
        body = body.replace(color, f"var(--{name})")
    width, height = made.get_size_inches() * POINTS
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
    name = f' role="img" aria-label="{escape(title, quote=True)}"' if title else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg" {LINKS} {size}{name} {JOINS}>{body}'
