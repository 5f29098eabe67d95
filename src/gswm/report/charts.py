"""Charts of a report: lines over time, described here and drawn by matplotlib in `plotting`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from gswm.report.drawing import Number

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
BLUE, VERMILION, GREEN, PURPLE, SKY = COLORS
"""Colors that color-blind readers can tell apart (Okabe and Ito, 2008)."""


@dataclass(frozen=True)
class Series:
    """One line: a value for each step from number `start` on, or for each position in `at`."""

    name: str
    """Label in the legend; empty for none."""
    values: Sequence[Number | None]
    color: str
    """`#rrggbb`, or a name of the page's theme."""
    start: int = 1
    width: Number = 1.8
    spread: Sequence[Number] = ()
    """Standard deviation of each value, drawn as a band; empty if unknown."""
    at: Sequence[Number] = ()
    dash: bool = False
    late: bool = False
    """Whether dashes begin with a gap, so that two lines that nearly coincide alternate."""

    @property
    def places(self) -> Sequence[Number]:
        """Positions of the values along the horizontal axis."""
        return self.at or range(self.start, self.start + len(self.values))

    @property
    def is_known(self) -> bool:
        """Whether any value is known."""
        return any(v is not None for v in self.values)

    @property
    def last(self) -> Number:
        """The last known value; -inf if there is none."""
        return next((v for v in reversed(self.values) if v is not None), -math.inf)


@dataclass(frozen=True)
class Chart:
    """Lines over a common time axis."""

    title: str
    series: Sequence[Series]
    x_label: str
    y_label: str = ""
    top: Number = 0.0
    """The vertical axis reaches at least this value."""
    roof: Number = math.inf
    """The vertical axis reaches at most this value; lines are clipped above it."""

    @property
    def high(self) -> Number:
        """The upper end of the vertical axis."""
        values = [v for s in self.series for v in s.values if v is not None]
        return min(self.roof, max([*values, self.top])) or 1.0


@dataclass(frozen=True)
class Charts:
    """Charts in rows, as one figure."""

    panels: Sequence[Chart]

    @staticmethod
    def of(panels: Sequence[Chart]) -> "Charts | None":
        """The charts in which anything is known; None if there are none."""
        known = [panel for panel in panels if any(s.is_known for s in panel.series)]
        return Charts(known) if known else None


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None
