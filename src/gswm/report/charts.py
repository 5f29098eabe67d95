"""Charts: lines over time, each named beside the chart, as high as it ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gswm.report.drawing import Drawing, Label, Line, Number, Part

WIDTH, HEIGHT = 462, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 114, 30, 38
SPREAD = 13
"""Least distance of two names."""
NEAR_AXIS = 6
"""How far below the axis a name may be: the axis' numbers are lower."""
DASH, SAMPLE = 3.5, 17.5
"""Length of a dash, and of the bit of a line that is beside its name."""


@dataclass(frozen=True)
class Series:
    """One line: a value for each step, the first of which is number `start`; or `at` any places."""

    name: str
    values: Sequence[Number | None]
    color: str
    start: int = 1
    width: Number = 1.8
    spread: Sequence[Number] = ()
    """Standard deviation of each value, drawn as a band; none if it is not known."""
    at: Sequence[Number] = ()
    dash: bool = False
    late: bool = False
    """Whether dashes begin with a gap."""
    sample: bool = False
    """Whether a bit of the line is beside its name, for lines of one color."""

    @property
    def places(self) -> Sequence[Number]:
        """Where along the axis the values are."""
        return self.at or range(self.start, self.start + len(self.values))


def chart(
    title: str,
    series: Sequence[Series],
    x_label: str,
    y_label: str = "",
    top: Number | None = None,
    note: str = "",
    roof: Number = math.inf,
) -> Drawing:
    """Lines over one axis of time; `top` is where the other axis ends at least.

    At the most it ends at `roof`: what is above is not drawn, and a line that ends there has its
    name at the top.
    """
    series = [s for s in series if s.values]
    values = [v for s in series for v in s.values if v is not None]
    high = min(roof, max([*values, top or 0])) or 1.0
    ticks = nice(high)
    high = max(high, ticks[-1])
    last = max([1, *(s.places[-1] for s in series)])
    first = min((s.places[0] for s in series), default=0)

    def at(step: Number, value: Number) -> tuple[Number, Number]:
        across = (step - first) / max(1, last - first)
        x = LEFT + across * (WIDTH - LEFT - RIGHT)
        return x, HEIGHT - BOTTOM - value / high * (HEIGHT - TOP - BOTTOM)

    parts: list[Part] = [Label((LEFT, 15), title, "ink", 13)]
    parts.append(Label((WIDTH - RIGHT, 15), y_label, anchor="end", size=10))
    for value in ticks:
        (x0, y), (x1, _) = at(first, value), at(last, value)
        parts.append(Line(((x0, y), (x1, y)), "rule"))
        parts.append(Label((LEFT - 7, y + 3.5), f"{value:g}", anchor="end", size=10))
    for step in [t for t in nice(last, 5) if t >= first] if series else []:
        parts.append(
            Label((at(step, 0)[0], HEIGHT - BOTTOM + 15), f"{step:g}", anchor="middle", size=10)
        )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(Label((middle, HEIGHT - 6), x_label, anchor="middle", size=10))
    ends = []
    for s in series:
        known = [(x, v) for x, v in zip(s.places, s.values, strict=True) if v is not None]
        if s.spread:
            spread = list(zip(s.places, s.values, s.spread, strict=True))
            above = [at(x, min(high, (v or 0) + d)) for x, v, d in spread]
            below = [at(x, min(high, max(0, (v or 0) - d))) for x, v, d in spread]
            parts.append(Line((*above, *below[::-1]), s.color, opacity=0.18, fill=True))
        parts += [
            Line(tuple(at(x, v) for x, v in run), s.color, s.width, dash=DASH * s.dash, late=s.late)
            for run in unbroken(s, high)
        ]
        if known and s.name:
            ends.append((at(last, min(high, known[-1][1]))[1], s))
    for y, (_, s) in zip(named_at([end for end, _ in ends]), ends, strict=True):
        x = WIDTH - RIGHT + 7
        if s.sample:
            bit = ((x, y), (x + SAMPLE, y))
            parts.append(Line(bit, s.color, s.width, dash=DASH * s.dash))
            x += SAMPLE + 4
        parts.append(Label((x, y + 3.5), s.name, s.color, 10.5))
    if note:
        parts.append(Label((middle, TOP + (HEIGHT - TOP - BOTTOM) / 2), note, anchor="middle"))
    return Drawing(WIDTH, HEIGHT, tuple(parts))


def unbroken(series: Series, high: Number) -> list[list[tuple[Number, Number]]]:
    """The parts of a line between values that are not known, or too high to be drawn."""
    runs: list[list[tuple[Number, Number]]] = [[]]
    for place, value in zip(series.places, series.values, strict=True):
        if value is None or value > high:
            runs.append([])
        else:
            runs[-1].append((place, value))
    return [run for run in runs if len(run) > 1]


def nice(high: Number, most: int = 4) -> list[Number]:
    """Round numbers from 0 up to about `high`, at most so many steps."""
    rough = high / most
    base = 10 ** math.floor(math.log10(rough))
    step = next(m * base for m in (1, 2, 5, 10) if m * base >= rough * (1 - 1e-9))
    return [round(i * step, 10) for i in range(math.floor(high / step + 1e-9) + 1)]


def named_at(heights: Sequence[Number]) -> list[Number]:
    """Heights of names that cover neither each other nor the numbers below the chart."""
    found = apart(heights)
    lowest = HEIGHT - BOTTOM + NEAR_AXIS
    for i in sorted(range(len(found)), key=lambda i: found[i], reverse=True):
        found[i] = min(found[i], lowest)
        lowest = found[i] - SPREAD
    return found


def apart(heights: Sequence[Number]) -> list[Number]:
    """The nearest heights, in the same order, at which names do not cover each other."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    blocks: list[list[Number]] = []
    # With i times the distance taken off the i-th, what is nearest and in order is a mean of
    # neighbors wherever these would be out of order.
    for rank, i in enumerate(order):
        blocks.append([heights[i] - rank * SPREAD])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [[*blocks[-2], *blocks[-1]]]
    level = [fmean(block) for block in blocks for _ in block]
    out = [0.0] * len(heights)
    for rank, i in enumerate(order):
        out[i] = level[rank] + rank * SPREAD
    return out
