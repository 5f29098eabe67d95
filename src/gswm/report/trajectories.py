"""Drawings of object paths, true and imagined, on a dark square or in a maze.

The examples in result files hold positions and no pixels.
"""

from collections.abc import Sequence
from typing import Any

from PIL import ImageColor

from gswm.report.drawing import Dot, Drawing, Label, Line, Number, Part, Point, rectangle

SIDE = 150.0
HEAD = 18.0
DARK, WALL = "#0c0d11", "#3a3d47"
SEAM = 0.3
"""Overlap of neighboring wall squares, which hides the seams."""
GIVEN = 0.35
"""Brightness of the paths in given frames."""
FIRST_TINT, NEXT_TINT = 0.28, 0.72
"""Fraction of white in a color, and the factor for each further object of the same color."""
Places = Sequence[Sequence[Sequence[Number | None]]]
"""x and y of each object in each frame."""


def panel(parts: Sequence[Part], title: str, side: Number = SIDE) -> Drawing:
    """A frame with its title above it."""
    square = rectangle(0, HEAD, side, side, DARK)
    name = Label((side / 2, HEAD - 6), title, anchor="middle", size=10.5)
    return Drawing(side, side + HEAD, (square, *parts, name))


def way(places: Places, k: int, side: Number = SIDE) -> list[Point]:
    """Positions of object `k` in the frames in which it exists, within the panel."""
    found = [frame[k] for frame in places]
    return [
        (min(1.0, max(0.0, x)) * side, HEAD + min(1.0, max(0.0, y)) * side)
        for x, y in found
        if x is not None and y is not None
    ]


def ways(example: dict[str, Any], places: Places, title: str, side: Number = SIDE) -> Drawing:
    """Given paths (faint), then `places` with a dot per frame, and a circle at each end."""
    parts: list[Part] = []
    given = example["true"][: example["given"]]
    for k, color in enumerate(tints(example["colors"])):
        before, after = way(given, k, side), way(places, k, side)
        parts += track(before, color, 1.0, GIVEN)
        if not after:
            continue
        parts += track([*before[-1:], *after], color, 1.2, 0.75)
        for i, at in enumerate(after):
            parts.append(Dot(at, 1.7, color, 0.4 + 0.6 * (i + 1) / len(after)))
        radius = example["sizes"][k] / 2 * side
        parts.append(Dot(inside(after[-1], radius, side), radius - 0.6, color, 0.9, 1.2))
    return panel(parts, title, side)


def inside(at: Point, radius: Number, side: Number) -> Point:
    """The nearest center at which a disk lies within the panel."""
    x, y = at
    low, high = radius, side - radius
    return min(high, max(low, x)), HEAD + min(high, max(low, y - HEAD))


def frame(example: dict[str, Any], places: Places, title: str, side: Number = SIDE) -> Drawing:
    """One frame, with objects as disks of their true sizes and colors, the front one last."""
    parts: list[Part] = []
    for k, color in enumerate(example["colors"]):
        radius = example["sizes"][k] / 2 * side
        parts += [Dot(inside(at, radius, side), radius, color) for at in way(places, k, side)]
    return panel(parts, title, side)


def many_ways(
    example: dict[str, Any], futures: Sequence[Places], title: str, side: Number = SIDE
) -> Drawing:
    """Many futures superimposed, with the end of each."""
    parts: list[Part] = corridors(example, side)
    given = example["true"][: example["given"]]
    opacity = max(0.08, min(0.8, 6 / len(futures)))
    for k, color in enumerate(tints(example["colors"])):
        before = way(given, k, side)
        parts += track(before, color, 1.6, 0.9)
        for places in futures:
            after = way(places, k, side)
            parts += track([*before[-1:], *after], color, 1.4, opacity)
            if after:
                parts.append(Dot(after[-1], 2.6, color, max(0.25, opacity)))
        if before:
            parts.append(Dot(before[-1], 3.0, "#ffffff", 0.9))
    return panel(parts, title, side)


def maze(
    example: dict[str, Any], places: Places, title: str, side: Number = SIDE, start: bool = True
) -> Drawing:
    """A maze with the paths of its agents, and the agents at the ends."""
    parts: list[Part] = corridors(example, side)
    given = example["true"][: example["given"]]
    for k, color in enumerate(tints(example["colors"])):
        after = way(places, k, side)
        line = [*way(given, k, side)[-1:], *after] if start else after
        parts += track(line, color, 2.0, 0.7)
        if after:
            parts.append(Dot(after[-1], example["sizes"][k] / 2 * side * 0.8, color))
    return panel(parts, title, side)


def corridors(example: dict[str, Any], side: Number) -> list[Part]:
    """The walls of a maze; empty without a maze."""
    grid = example["corridor"]
    cell = side / len(grid) if grid else 0
    return [
        rectangle(column * cell, HEAD + row * cell, cell + SEAM, cell + SEAM, WALL)
        for row, line in enumerate(grid)
        for column, is_open in enumerate(line)
        if not is_open
    ]


def track(points: Sequence[Point], color: str, width: Number, opacity: Number) -> list[Part]:
    """A line, if there are at least two points."""
    return [Line(tuple(points), color, width, opacity)] if len(points) > 1 else []


def tints(colors: Sequence[str]) -> list[str]:
    """Colors lightened for a dark frame; objects of the same color differ in lightness."""
    seen: list[str] = []
    out = []
    for color in colors:
        again = seen.count(color)
        seen.append(color)
        white = FIRST_TINT + (1 - FIRST_TINT) * (1 - NEXT_TINT**again)
        rgb = ImageColor.getrgb(color)[:3]
        out.append("#" + "".join(f"{round(v + white * (255 - v)):02x}" for v in rgb))
    return out
