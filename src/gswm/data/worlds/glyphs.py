"""Glyphs: the digits 0 to 9 as pen strokes, each in its own handwriting.

A digit is a set of line segments in a box from -1 to 1, with y downwards. The handwriting bends it
smoothly, then slants, stretches and rotates it. With the thickness of the pen,

    ink(p) = clip((thickness / 2 - d(p)) / pixel + 1/2, 0, 1),    d the distance to the strokes
"""

from dataclasses import dataclass
from functools import lru_cache
from math import pi

import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from gswm.data.worlds.clips.dice import Dice

SEGMENTS = 24
HEIGHT = (0.34, 0.42)
"""Height of a digit before slant and rotation, in sides of the frame."""
NARROW = (0.85, 1.15)
"""Factor on its width."""
THICKNESS = (0.045, 0.075)
"""Thickness of the pen, in sides of the frame."""
SLANT, TURN, BEND = 0.35, 0.15, 0.07
"""Largest slant, rotation (in radians) and bend (in half heights), in either direction."""
EXTENT = 0.6
"""Side of a square that contains any glyph, in sides of the frame."""


@dataclass(frozen=True)
class Glyphs:
    """Written digits, with the centers of their boxes at 0. The unit is the frame's side."""

    segments: Float64[Tensor, "*row segment end 2"]
    """Both ends of each segment, x and y."""
    thickness: Float64[Tensor, "*row"]
    hw: Float64[Tensor, "*row 2"]
    """Height and width of the bounding box of the ink."""


def write(dice: Dice, digits: Int64[Tensor, "episode ..."]) -> Glyphs:
    """Write each digit in a random handwriting."""
    shape = tuple(digits.shape[1:])
    points = shapes().to(digits.device)[digits]
    phase = dice.uniform(0.0, 2 * pi, *shape, 1, 1, 2)
    bend = dice.uniform(-BEND, BEND, *shape, 1, 1, 2)
    points = points + bend * torch.sin(2.5 * points.flip(-1) + phase)

    half = dice.uniform(*HEIGHT, *shape) / 2
    slant, turn = (dice.uniform(-most, most, *shape) for most in (SLANT, TURN))
    width = half * dice.uniform(*NARROW, *shape)
    cos, sin = turn.cos(), turn.sin()
    # Slant and stretch, then rotate: (x, y) as a row, times this matrix.
    rows = [width * cos, width * sin, half * (-slant * cos - sin), half * (cos - slant * sin)]
    matrix = torch.stack(rows, dim=-1).unflatten(-1, (2, 2))
    points = points @ matrix[..., None, :, :]

    flat = points.flatten(-3, -2)
    low, high = flat.amin(dim=-2), flat.amax(dim=-2)
    thickness = dice.uniform(*THICKNESS, *shape)
    size = high - low + thickness[..., None]
    centered = points - ((low + high) / 2)[..., None, None, :]
    return Glyphs(centered, thickness, size.flip(-1))


def draw_ink(glyphs: Glyphs, image_size: int) -> Float32[Tensor, "row side side"]:
    """Each glyph on its own square, which is `EXTENT` of a frame with this side in pixels."""
    side = square(image_size)
    at = (torch.arange(side, dtype=torch.float32, device=glyphs.hw.device) + 0.5 - side / 2) / (
        image_size
    )
    ends = glyphs.segments.float()
    start, along = ends[:, :, 0], ends[:, :, 1] - ends[:, :, 0]
    nearest = torch.full((len(ends), side, side), torch.inf, device=ends.device)
    for s in range(ends.shape[1]):
        dx = at[None, None, :] - start[:, s, 0, None, None]
        dy = at[None, :, None] - start[:, s, 1, None, None]
        ax, ay = (a[:, None, None] for a in along[:, s].unbind(-1))
        share = ((dx * ax + dy * ay) / (ax * ax + ay * ay).clamp_min(1e-12)).clamp(0, 1)
        nearest = torch.minimum(nearest, (dx - share * ax) ** 2 + (dy - share * ay) ** 2)
    reach = glyphs.thickness.float()[:, None, None] / 2
    return ((reach - nearest.sqrt()) * image_size + 0.5).clamp(0, 1)


def square(image_size: int) -> int:
    """Side in pixels of the square that contains any glyph."""
    return 2 * -(-int(EXTENT * image_size) // 2) + 2


@lru_cache(maxsize=1)
def shapes() -> Float64[Tensor, "digit segment end 2"]:
    """The strokes of all digits, each of `SEGMENTS` segments."""
    return torch.stack([segments_of(strokes) for strokes in strokes_of_digits()])


def strokes_of_digits() -> list[list[Tensor]]:
    """The points of the pen strokes of each digit."""

    def line(*points: tuple[float, float]) -> Tensor:
        return torch.tensor(points, dtype=torch.float64)

    def arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> Tensor:
        """Part of an ellipse; angles in half turns, 0 to the right and 0.5 downwards."""
        angle = pi * torch.linspace(start, end, 17, dtype=torch.float64)
        return torch.stack([x + rx * angle.cos(), y + ry * angle.sin()], dim=-1)

    def joined(*parts: Tensor) -> Tensor:
        return torch.cat(parts)

    return [
        [arc(0.0, 0.0, 0.6, 1.0, -0.5, 1.5)],
        [line((-0.3, -0.6), (0.1, -1.0), (0.1, 1.0))],
        [joined(arc(0.0, -0.45, 0.55, 0.55, -0.95, 0.2), line((-0.6, 1.0), (0.6, 1.0)))],
        [joined(arc(0.0, -0.5, 0.5, 0.5, -0.85, 0.5), arc(0.0, 0.48, 0.58, 0.52, -0.5, 0.85))],
        [line((0.2, -1.0), (-0.6, 0.35), (0.6, 0.35)), line((0.3, -0.2), (0.3, 1.0))],
        [
            joined(
                line((0.5, -1.0), (-0.4, -1.0), (-0.45, -0.15)), arc(0.0, 0.4, 0.58, 0.6, -0.7, 0.8)
            )
        ],
        [joined(line((0.35, -1.0), (-0.25, -0.45)), arc(0.0, 0.45, 0.55, 0.55, -1.0, 1.0))],
        [line((-0.55, -1.0), (0.55, -1.0), (-0.1, 1.0))],
        [arc(0.0, -0.5, 0.45, 0.5, 0.5, 2.5), arc(0.0, 0.5, 0.57, 0.5, -0.5, 1.5)],
        [joined(arc(0.0, -0.45, 0.52, 0.55, 0.0, 2.0), line((0.45, 0.2), (0.15, 1.0)))],
    ]


def segments_of(strokes: list[Tensor]) -> Float64[Tensor, "segment end 2"]:
    """Strokes as `SEGMENTS` segments, distributed by length."""
    lengths = [float(stroke.diff(dim=0).norm(dim=-1).sum()) for stroke in strokes]
    first = SEGMENTS
    if len(strokes) == 2:
        first = round(SEGMENTS * lengths[0] / sum(lengths))
    parts = [even(s, n) for s, n in zip(strokes, (first, SEGMENTS - first), strict=False)]
    return torch.cat([torch.stack([p[:-1], p[1:]], dim=1) for p in parts])


def even(points: Float64[Tensor, "point 2"], number: int) -> Float64[Tensor, "even 2"]:
    """Points that divide a polyline into `number` parts of equal length."""
    along = torch.cat([torch.zeros(1), points.diff(dim=0).norm(dim=-1).cumsum(0)]).double()
    at = torch.linspace(0, 1, number + 1, dtype=torch.float64) * along[-1]
    right = torch.searchsorted(along, at).clamp(1, len(points) - 1)
    share = (at - along[right - 1]) / (along[right] - along[right - 1])
    return torch.lerp(points[right - 1], points[right], share[:, None])
