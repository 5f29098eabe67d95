"""Appearances: the parts of objects.

An object consists of parts, each a superellipse |x/a|^p + |y/b|^p = 1 with a position and an angle,
in one of the object's four colors. Coordinates range from about -1 to 1; x is to the right or, seen
from above, ahead, and y is down. Some parts swing: a walking object has two phases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.data.worlds.clips.dice import Dice
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.themes import KINDS

MOST_PARTS = 14
BODY, SECOND, DARK, LIGHT = range(4)
"""The colors of an object, by number; only the body has a texture."""
TEXTURES = ("flat", "noise", "stripes", "gradient", "spots", "checks")
TEXTURE_WEIGHTS = (3.0, 3.0, 1.5, 1.5, 1.0, 0.7)
WAVES = 5
"""Frequencies of a blob's outline: 2, 3, ... times around."""


@dataclass(frozen=True)
class Appearances:
    """Appearances of the objects of several episodes, or of a sequence of objects."""

    kind: Int[Tensor, "*object"]
    numbers: Float[Tensor, "*object 16"]
    """Proportions of an object: uniform numbers in [0, 1]."""
    colors: Float[Tensor, "*object 4 3"]
    texture: Int[Tensor, "*object"]
    key: Int[Tensor, "*object"]
    """Key of its noise."""
    strength: Float[Tensor, "*object"]
    """Position of the texture between the first color and the second."""
    frequency: Float[Tensor, "*object"]
    angle: Float[Tensor, "*object"]
    """Angle of stripes, gradients and checks."""
    shade: Float[Tensor, "*object 2"]
    """Brightness gradient of the object along x and y."""
    grain: Float[Tensor, "*object"]
    """Standard deviation of fine noise."""
    soft: Float[Tensor, "*object"]
    """Width of its edges."""
    opacity: Float[Tensor, "*object"]


def draw_looks(
    dice: Dice,
    settings: ClipSettings,
    kind_weights: Float[Tensor, "episode kind"],
    number: int,
    ground: Float[Tensor, "episode 3"],
) -> Appearances:
    """Appearances of `number` objects in every episode, before a ground of some color."""
    alike = dice.chance(settings.alike)[:, None]

    def shared(values: Tensor, jitter: float = 0.0) -> Tensor:
        """Use the first object's value for all that look alike, plus `jitter` of their own."""
        first = values[:, :1].expand_as(values)
        near = first + jitter * (values - first) if jitter else first
        return torch.where(alike.reshape(-1, *[1] * (values.ndim - 1)), near, values)

    colors = dice.colors(dice.choice(torch.tensor([1.0, 1.0, 1.0]), 1, 1, 1) * 0.5, number, 4)
    dark = dice.uniform(0.02, 0.3, number, 1) + dice.uniform(-0.03, 0.06, number, 3)
    light = dice.uniform(0.6, 0.98, number, 1) + dice.uniform(-0.15, 0.02, number, 3)
    as_drawn = dice.chance(0.2, number)[..., None]
    colors[:, :, DARK] = torch.where(as_drawn, colors[:, :, DARK], dark)
    colors[:, :, LIGHT] = torch.where(as_drawn, colors[:, :, LIGHT], light)
    flies = dice.chance(0.6, number)[..., None]
    dim = dice.uniform(0.02, 0.25, number, 1) + dice.uniform(0.0, 0.08, number, 3)
    kind = shared(dice.choice(kind_weights, number))
    insect = (kind == KINDS.index("insect"))[..., None]
    colors[:, :, BODY] = torch.where(insect & flies, dim, colors[:, :, BODY])
    colors = shared(apart_from(colors, ground), 0.12)
    hidden = dice.chance(settings.camouflaged, number) * dice.uniform(0.2, 0.65, number)
    colors = torch.lerp(colors, ground[:, None, None].expand_as(colors), hidden[..., None, None])
    strength = dice.uniform(0.15, 1.0, number)
    clear = shared(dice.chance(settings.transparent, number))
    return Appearances(
        kind=kind,
        numbers=shared(dice.unit(number, 16), 0.15),
        colors=colors.clamp(0, 1),
        texture=shared(dice.choice(torch.tensor(TEXTURE_WEIGHTS), number)),
        key=dice.keys(number),
        strength=shared(strength),
        frequency=shared(dice.log_uniform(0.8, 5.0, number)),
        angle=shared(dice.uniform(0.0, pi, number)),
        shade=shared(dice.uniform(-0.3, 0.3, number, 2)),
        grain=shared(dice.uniform(0.0, 0.12, number)),
        soft=shared(dice.uniform(0.03, 0.14, number)),
        opacity=torch.where(clear, dice.uniform(0.55, 0.95, number), 1.0),
    )


def apart_from(
    colors: Float[Tensor, "episode object 4 3"], ground: Float[Tensor, "episode 3"]
) -> Float[Tensor, "episode object 4 3"]:
    """Colors in which bodies differ from the ground."""
    level = ground.mean(-1)[:, None]
    body = colors[:, :, BODY].mean(-1)
    sign = torch.where(level < 0.5, 1.0, -1.0)
    sign = torch.where((body - level).abs() > 0.04, (body - level).sign(), sign)
    missing = (0.2 - (body - level).abs()).clamp_min(0) * sign
    moved = colors.clone()
    moved[:, :, BODY] = colors[:, :, BODY] + missing[..., None]
    return moved.clamp(0, 1)


@dataclass(frozen=True)
class Parts:
    """The parts of several objects, the first at the back."""

    x: Float[Tensor, "object part"]
    y: Float[Tensor, "object part"]
    angle: Float[Tensor, "object part"]
    a: Float[Tensor, "object part"]
    """Half the length; 0 for no part."""
    b: Float[Tensor, "object part"]
    p: Float[Tensor, "object part"]
    """2 for an ellipse, larger for a box with round corners."""
    tone: Float[Tensor, "object part"]
    """The number of its color."""
    swing: Float[Tensor, "object part"]
    """Displacement of the part: forward in one phase, backward in the other."""
    waves: Float[Tensor, "object wave 2"]
    """Amplitudes and phases of the first part's outline."""
    sides: Float[Tensor, " object"]
    """Number of sides of the first part, if it is a polygon; else 0."""

    def swings(self) -> Bool[Tensor, " object"]:
        """Mask of the objects with two phases."""
        return (self.swing != 0).any(-1)


class Sketch:
    """Collects parts for objects of one kind."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: list[Tensor] = []
        self.waves = torch.zeros(number, WAVES, 2, dtype=torch.float64)
        self.sides = torch.zeros(number, dtype=torch.float64)

    def add(
        self,
        x: float | Tensor,
        y: float | Tensor,
        a: float | Tensor,
        b: float | Tensor,
        *,
        p: float | Tensor = 2.0,
        tone: int = BODY,
        angle: float | Tensor = 0.0,
        swing: float | Tensor = 0.0,
        where: Tensor | None = None,
    ) -> None:
        """Put a part over the previous ones, for all objects or only `where`."""
        given = [
            torch.as_tensor(v, dtype=torch.float64) for v in (x, y, angle, a, b, p, tone, swing)
        ]
        row = torch.stack([value.expand(self.number) for value in given], dim=-1)
        if where is not None:
            row = row.clone()
            row[:, 3] *= where
            row[:, 7] *= where
        self.rows.append(row)


def parts_of(looks: Appearances) -> Parts:
    """The parts of a sequence of objects."""
    number = len(looks.kind)
    table = torch.zeros(number, MOST_PARTS, 8, dtype=torch.float64)
    waves = torch.zeros(number, WAVES, 2, dtype=torch.float64)
    sides = torch.zeros(number, dtype=torch.float64)
    for index, name in enumerate(KINDS):
        which = (looks.kind == index).nonzero()[:, 0]
        if not len(which):
            continue
        sketch = Sketch(len(which))
        SKETCHES[name](sketch, looks.numbers[which].T)
        table[which, : len(sketch.rows)] = torch.stack(sketch.rows, dim=1)
        waves[which], sides[which] = sketch.waves, sketch.sides
    return Parts(*table.unbind(-1), waves=waves, sides=sides)


def between(u: Tensor, low: float, high: float) -> Tensor:
    """Interpolate from `low` to `high`, for `u` from 0 to 1."""
    return low + (high - low) * u


def decorate(to: Sketch, u: Tensor, a: Tensor | float, b: Tensor | float) -> None:
    """Add a spot or a band in the second color, at random."""
    spot, band = u[12] < 0.3, u[12] > 0.75
    to.add(
        *(between(u[13], -0.4, 0.4) * a, between(u[14], -0.3, 0.3) * b),
        *(between(u[15], 0.15, 0.45) * a, between(u[14], 0.2, 0.5) * b),
        tone=SECOND,
        where=spot,
    )
    band_at = between(u[13], -0.6, 0.6) * a
    to.add(band_at, 0.0, between(u[15], 0.1, 0.3) * a, 0.85 * b, p=6.0, tone=SECOND, where=band)


def disc(to: Sketch, u: Tensor) -> None:
    """An ellipse."""
    b = between(u[0], 0.35, 1.0)
    to.add(0.0, 0.0, 1.0, b)
    decorate(to, u, 1.0, b)


def slab(to: Sketch, u: Tensor) -> None:
    """A rectangle with round corners."""
    b = between(u[0], 0.15, 1.0)
    to.add(0.0, 0.0, 1.0, b, p=between(u[1], 3.0, 12.0))
    decorate(to, u, 1.0, b)


def polygon(to: Sketch, u: Tensor) -> None:
    """Three to eight sides, perhaps drawn out."""
    to.add(0.0, 0.0, 1.0, between(u[0], 0.5, 1.0))
    to.sides = (3 + (u[1] * 6).floor()).clamp_max(8)
    decorate(to, u, 0.6, 0.5)


def ell(to: Sketch, u: Tensor) -> None:
    """Two bars at a right angle."""
    wide, tall = between(u[0], 0.2, 0.4), between(u[1], 0.4, 1.0)
    to.add(0.0, tall - wide, 1.0, wide, p=8.0)
    to.add(wide - 1.0, 0.0, wide, tall, p=8.0)
    to.add(0.5, tall - wide, 0.2, 0.5 * wide, tone=SECOND, where=u[2] < 0.4)


def blob(to: Sketch, u: Tensor) -> None:
    """An irregular outline."""
    to.add(0.0, 0.0, 0.85, between(u[0], 0.4, 0.85))
    order = torch.arange(2, 2 + WAVES)
    to.waves = torch.stack([(u[2:7].T - 0.2) * 0.45 / order, 2 * pi * u[7:12].T], dim=-1)
    decorate(to, u, 0.6, 0.5)


def fish(to: Sketch, u: Tensor) -> None:
    """A long body with a tail: a fish, a worm, a mouse."""
    b, tail = between(u[0], 0.12, 0.3), between(u[1], -0.5, 0.5)
    to.add(-0.72, 0.15 * tail, 0.28, between(u[2], 0.03, 0.2), angle=-tail)
    to.add(-0.4, 0.0, 0.4, 0.6 * b)
    to.add(0.3, 0.0, 0.7, b)
    to.add(0.75, 0.0, 0.15, 0.6 * b, tone=SECOND, where=u[3] < 0.4)
    to.add(0.6, 0.7 * b, 0.12, 0.1, tone=SECOND, where=u[4] < 0.4)
    to.add(0.6, -0.7 * b, 0.12, 0.1, tone=SECOND, where=u[4] < 0.4)


def car_above(to: Sketch, u: Tensor) -> None:
    """A car or a truck, from above."""
    b = between(u[0], 0.36, 0.52)
    truck = u[1] < 0.2
    to.add(0.0, 0.0, 1.0, b, p=between(u[2], 4.0, 9.0))
    to.add(between(u[3], 0.2, 0.35), 0.0, 0.13, 0.8 * b, p=4.0, tone=DARK)
    to.add(between(u[4], -0.7, -0.5), 0.0, 0.1, 0.75 * b, p=4.0, tone=DARK, where=~truck)
    for side in (-1.0, 1.0):
        to.add(-0.15, side * 0.85 * b, 0.35, 0.07 * b, p=4.0, tone=DARK, where=~truck)
        to.add(0.93, side * 0.65 * b, 0.06, 0.2 * b, tone=LIGHT, where=u[6] < 0.6)
        to.add(0.3, side * 1.08 * b, 0.05, 0.1 * b, tone=DARK, where=u[7] < 0.4)
    to.add(-0.3, 0.0, 0.68, 0.97 * b, p=12.0, tone=LIGHT, where=truck)
    to.add(0.0, 0.0, 0.9, 0.12 * b, p=8.0, tone=SECOND, where=u[8] < 0.12)


def robot(to: Sketch, u: Tensor) -> None:
    """A small robot from above: wheels, a body, marks on it."""
    b = between(u[0], 0.6, 0.9)
    for side in (-1.0, 1.0):
        to.add(between(u[1], -0.5, 0.2), side * b, 0.35, 0.18, p=6.0, tone=DARK, where=u[2] < 0.7)
        to.add(0.55, side * b, 0.25, 0.15, p=6.0, tone=DARK, where=u[3] < 0.4)
    to.add(0.0, 0.0, 0.95, b, p=between(u[4], 2.0, 9.0))
    to.add(-0.1, 0.0, 0.5, 0.6 * b, p=between(u[5], 2.0, 9.0), tone=SECOND, where=u[6] < 0.7)
    to.add(0.7, 0.0, 0.15, 0.3 * b, tone=LIGHT, where=u[7] < 0.6)
    to.add(-0.4, 0.3 * b, 0.2, 0.2, p=5.0, tone=LIGHT, where=u[8] < 0.4)
    to.add(-0.3, -0.4 * b, 0.25, 0.1, p=5.0, tone=DARK, where=u[9] < 0.4)


def insect(to: Sketch, u: Tensor) -> None:
    """A fly, an ant, a beetle, from above."""
    b, reach = between(u[0], 0.18, 0.5), between(u[1], 0.2, 0.55)
    legs = u[2] < 0.75
    for place, lean in ((0.45, 0.6), (0.15, 0.0), (-0.15, -0.6)):
        for side in (-1.0, 1.0):
            to.add(
                *(place + 0.5 * lean * reach, side * (0.6 * b + 0.35 * reach)),
                *(0.5 * reach, 0.035),
                p=4.0,
                tone=DARK,
                angle=side * (pi / 2 - lean),
                swing=side * (0.07 if place == 0.15 else -0.07),
                where=legs,
            )
    to.add(-0.45, 0.0, 0.53, b)
    to.add(0.2, 0.0, 0.32, between(u[3], 0.5, 0.9) * b)
    to.add(0.68, 0.0, 0.25, between(u[4], 0.4, 0.8) * b)
    winged = u[5] < 0.45
    for side in (-1.0, 1.0):
        to.add(
            *(-0.4, side * 0.5 * b, 0.58, 0.45 * b),
            tone=LIGHT,
            angle=-side * between(u[6], 0.05, 0.5),
            where=winged,
        )
    to.add(-0.5, 0.0, 0.1, 0.8 * b, p=4.0, tone=SECOND, where=u[7] < 0.3)


def person_above(to: Sketch, u: Tensor) -> None:
    """A person, from straight above."""
    a = between(u[0], 0.35, 0.55)
    for side in (-1.0, 1.0):
        to.add(0.1, side * 0.4, 0.4, 0.18, tone=DARK, swing=side * 0.35)
    to.add(0.0, 0.0, a, 1.0)
    to.add(0.05, 0.0, 0.36, 0.34, tone=DARK)
    to.add(-0.35, 0.0, 0.3, 0.45, p=5.0, tone=SECOND, where=u[1] < 0.3)


def car_ahead(to: Sketch, u: Tensor) -> None:
    """A car, a van or a truck, from its front, back or side, seen from a little above."""
    long = u[0] < 0.35
    a, high = between(u[1], 0.75, 1.0), between(u[2], 0.6, 1.0)
    body = 0.5 * high
    for side in (-1.0, 1.0):
        to.add(side * 0.65 * a, 0.75 * high, 0.16, 0.22 * high, p=4.0, tone=DARK)
    to.add(0.0, 0.9 * high, 0.9 * a, 0.1 * high, p=4.0, tone=DARK, where=u[3] < 0.5)
    to.add(0.0, 0.25 * high, a, body, p=between(u[4], 4.0, 9.0))
    cabin = between(u[5], 0.55, 0.9) * a
    to.add(0.0, -0.4 * high, cabin, 0.55 * high, p=between(u[6], 3.0, 8.0))
    to.add(0.0, -0.42 * high, 0.86 * cabin, 0.33 * high, p=5.0, tone=DARK)
    to.add(0.0, -0.42 * high, 0.05, 0.4 * high, p=5.0, where=long)
    for side in (-1.0, 1.0):
        to.add(side * 0.75 * a, 0.3 * high, 0.14, 0.1 * high, tone=LIGHT, where=u[7] < 0.7)
    to.add(0.0, 0.55 * high, 0.3 * a, 0.12 * high, p=5.0, tone=SECOND, where=u[8] < 0.5)
    to.add(0.0, -0.55 * high, 0.95 * a, 0.45 * high, p=12.0, tone=LIGHT, where=u[9] < 0.12)


def person(to: Sketch, u: Tensor) -> None:
    """A person who stands or walks, from the side or the front."""
    b, step = between(u[0], 0.14, 0.26), between(u[1], 0.02, 0.16)
    for side in (-1.0, 1.0):
        to.add(side * 0.35 * b, 0.55, 0.42 * b, 0.45, p=4.0, tone=SECOND, swing=side * step)
    for side in (-1.0, 1.0):
        to.add(side * b, -0.2, 0.28 * b, 0.32, tone=BODY, swing=-0.6 * side * step)
    to.add(0.0, -0.2, b, 0.4, p=between(u[2], 2.5, 5.0))
    to.add(0.0, -0.78, 0.12, 0.17, tone=LIGHT)
    to.add(0.0, -0.86, 0.13, 0.11, tone=DARK)
    to.add(b, 0.05, 0.13, 0.18, p=5.0, tone=DARK, where=u[3] < 0.3)


def bottle(to: Sketch, u: Tensor) -> None:
    """A bottle, a cup or a can that stands."""
    b, neck = between(u[0], 0.2, 0.4), u[1] < 0.7
    to.add(0.0, 0.25, b, 0.75, p=7.0)
    to.add(0.0, -0.35, 0.85 * b, 0.4, where=neck)
    to.add(0.0, -0.75, between(u[2], 0.25, 0.45) * b, 0.25, p=6.0, where=neck)
    to.add(0.0, -0.93, between(u[2], 0.3, 0.5) * b, 0.07, p=6.0, tone=SECOND, where=neck)
    to.add(
        0.0,
        between(u[3], 0.1, 0.5),
        b,
        between(u[4], 0.1, 0.3),
        p=9.0,
        tone=LIGHT,
        where=u[5] < 0.5,
    )
    to.add(0.45 * b, 0.2, 0.1 * b, 0.6, tone=LIGHT, where=u[6] < 0.4)


SKETCHES: dict[str, Callable[[Sketch, Tensor], None]] = {
    sketch.__name__: sketch
    for sketch in (
        *(disc, slab, polygon, ell, blob, fish),
        *(car_above, robot, insect, person_above),
        *(car_ahead, person, bottle),
    )
}
