"""Drawings of frames, described once and written as SVG for a page or as pixels for a PNG.

Charts are drawn by matplotlib (`plotting`), which is optional; `gswm demo` and `gswm fit` need
these drawings even without it.

A color is "#rrggbb", or the name of one of a theme: the page chooses the theme, a PNG is light.
Lengths are in points of the page; a PNG has two pixels for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from gswm.viz.pictures import Picture, font_of

Number = float | int
Point = tuple[Number, Number]
Anchor = Literal["start", "middle", "end"]

LIGHT = {"ink": "#1d1f27", "faint": "#747886", "rule": "#dfe1e8", "paper": "#ffffff"}
DARK = {"ink": "#eceef4", "faint": "#9a9fae", "rule": "#30333d", "paper": "#14161b"}
PIXELS, FINER = 2, 2
"""Pixels of a PNG per point, and the factor by which it is supersampled."""


@dataclass(frozen=True)
class Line:
    """A polyline; closed and filled if `fill`."""

    points: tuple[Point, ...]
    color: str
    width: Number = 1.0
    opacity: Number = 1.0
    fill: bool = False


@dataclass(frozen=True)
class Dot:
    """A disk, or a ring if it has a `width`."""

    at: Point
    radius: Number
    color: str
    opacity: Number = 1.0
    width: Number = 0.0


@dataclass(frozen=True)
class Label:
    """Text whose baseline is at `at`."""

    at: Point
    text: str
    color: str = "faint"
    size: Number = 11.0
    anchor: Anchor = "start"


Part = Line | Dot | Label


@dataclass(frozen=True)
class Drawing:
    """Parts, drawn in order."""

    width: Number
    height: Number
    parts: tuple[Part, ...]

    def svg(self, title: str = "") -> str:
        """An SVG element for a page whose style sheet defines the theme's colors."""
        body = "".join(map(svg_of, self.parts))
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}"'
        name = f' role="img" aria-label="{escape(title, quote=True)}"' if title else ""
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}{name}>{body}</svg>'

    def picture(self, theme: dict[str, str] = LIGHT) -> Picture:
        """Render to pixels."""
        scale = PIXELS * FINER
        size = round(scale * self.width), round(scale * self.height)
        image = Image.new("RGB", size, theme["paper"])
        for part in self.parts:
            paint(image, part, scale, theme)
        return np.asarray(image.reduce(FINER))


def svg_of(part: Part) -> str:
    """One part as an SVG element."""
    color = part.color if part.color.startswith("#") else f"var(--{part.color})"
    if isinstance(part, Label):
        where = f'x="{part.at[0]:.1f}" y="{part.at[1]:.1f}" text-anchor="{part.anchor}"'
        where += f' font-size="{part.size:g}" fill="{color}"'
        return f"<text {where}>{escape(part.text)}</text>"
    opacity = f' opacity="{part.opacity:.3g}"' if part.opacity < 1 else ""
    if isinstance(part, Dot):
        ring = f'fill="none" stroke="{color}" stroke-width="{part.width:g}"'
        paint = ring if part.width else f'fill="{color}"'
        where = f'cx="{part.at[0]:.1f}" cy="{part.at[1]:.1f}" r="{part.radius:g}"'
        return f"<circle {where} {paint}{opacity}/>"
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in part.points)
    if part.fill:
        return f'<path d="{path}Z" fill="{color}"{opacity}/>'
    stroke = f'stroke="{color}" stroke-width="{part.width:g}" stroke-linejoin="round"'
    return f'<path d="{path}" fill="none" {stroke} stroke-linecap="round"{opacity}/>'


def paint(image: Image.Image, part: Part, scale: int, theme: dict[str, str]) -> None:
    """Draw one part, with `scale` pixels per point."""
    rgb = ImageColor.getrgb(theme.get(part.color, part.color))
    if isinstance(part, Label):
        at = (scale * part.at[0], scale * part.at[1])
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[part.anchor]
        font = font_of(scale * part.size)
        ImageDraw.Draw(image).text(at, part.text, fill=rgb, font=font, anchor=anchor)
        return
    points = [part.at] if isinstance(part, Dot) else part.points
    reach = part.radius if isinstance(part, Dot) else 0
    reach = scale * (reach + part.width) + 2
    at = scale * np.array(points)
    low = np.floor(at.min(axis=0) - reach).astype(int)
    high = np.ceil(at.max(axis=0) + reach).astype(int)
    mask = Image.new("L", tuple((high - low).tolist()))
    pen, inside = ImageDraw.Draw(mask), [tuple(p) for p in (at - low).tolist()]
    alpha = round(255 * part.opacity)
    width = max(1, round(scale * part.width))
    if isinstance(part, Dot):
        if part.width:
            pen.circle(inside[0], scale * part.radius + width / 2, outline=alpha, width=width)
        else:
            pen.circle(inside[0], scale * part.radius, fill=alpha)
    elif part.fill:
        pen.polygon(inside, fill=alpha)
    else:
        pen.line(inside, fill=alpha, width=width, joint="curve")
        for end in (inside[0], inside[-1]):
            pen.circle(end, width / 2, fill=alpha)
    image.paste(rgb, tuple(low.tolist()), mask)


def rectangle(x: Number, y: Number, width: Number, height: Number, color: str) -> Line:
    """A filled rectangle."""
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    return Line(corners, color, fill=True)


def moved(part: Part, x: Number, y: Number) -> Part:
    """A part moved by an offset."""
    if isinstance(part, Line):
        return replace(part, points=tuple((px + x, py + y) for px, py in part.points))
    return replace(part, at=(part.at[0] + x, part.at[1] + y))


def rows(drawings: Sequence[Drawing], columns: int, gap: Number = 18) -> Drawing:
    """Arrange drawings in rows."""
    parts: list[Part] = []
    top = wide = 0.0
    for start in range(0, len(drawings), columns):
        row = drawings[start : start + columns]
        left = 0.0
        for each in row:
            parts += [moved(part, left, top) for part in each.parts]
            left += each.width + gap
        wide, top = max(wide, left - gap), top + max(each.height for each in row) + gap
    return Drawing(wide, top - gap, tuple(parts))
