"""Sprites: pictures of objects with transparency, from which frames are drawn at any scale.

An object is drawn once, large, and then repeatedly averaged down. A frame uses the picture whose
pixels are about as large as its own.
"""

from dataclasses import dataclass
from math import pi

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64, Int
from torch import Tensor

from gswm.core.records import map_tensors
from gswm.data.worlds.clips.dice import octaves, white
from gswm.data.worlds.clips.looks import BODY, TEXTURES, WAVES, Appearances, Parts, parts_of

SIDE = 64
REACH = 1.15
"""A sprite shows coordinates from -REACH to REACH."""
SMALLEST = 2
"""Side of the coarsest pictures in pixels."""
DIRECTIONS = 48
"""Number of directions in which the outline of an object is known."""
SOME = 16
"""Number of sprites whose outlines are computed at once, which bounds the memory."""


@dataclass(frozen=True)
class Sprites:
    """Pictures of several objects; a walking one has two, in sequence."""

    levels: dict[int, Float32[Tensor, "sprite 4 side side"]]
    """Premultiplied RGBA, by side in pixels."""
    hull: Float64[Tensor, "sprite direction 2"]
    """The furthest point in each direction, on the CPU."""
    area: Float64[Tensor, " sprite"]
    """Opaque area of the sprite, in its coordinates, on the CPU."""
    first: Int[Tensor, " object"]
    """Index of each object's first sprite, on the CPU."""
    phases: Int[Tensor, " object"]
    """Number of phases of each object, on the CPU."""


def make_sprites(looks: Appearances, device: torch.device) -> Sprites:
    """The sprites of a sequence of objects."""
    parts = parts_of(looks)
    phases = 1 + parts.swings().long()
    owner = torch.arange(len(phases)).repeat_interleave(phases)
    first = phases.cumsum(0) - phases
    second = torch.arange(len(owner)) > first[owner]
    sign = torch.where(second, -1.0, 1.0)

    def placed(values: Tensor) -> Tensor:
        values = values[owner]
        return (values.float() if values.is_floating_point() else values).to(device)

    used = [column.nonzero()[:, 0].to(device) for column in (parts.a[owner] > 0).unbind(1)]
    looks = map_tensors(placed, looks)
    drawn = draw(looks, map_tensors(placed, parts), used, sign.to(device))
    hull = outline(drawn[:, 3]).cpu()
    levels = {SIDE: drawn * looks.opacity[:, None, None, None]}
    while (side := min(levels)) > SMALLEST:
        levels[side // 2] = F.avg_pool2d(levels[side], 2)
    area = levels[SIDE][:, 3].sum((1, 2)).double().cpu() * (2 * REACH / SIDE) ** 2
    return Sprites(levels, hull, area, first, phases)


def coordinates(side: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The x and y of a sprite's pixels."""
    axis = (torch.arange(side, device=device) + 0.5) * (2 * REACH / side) - REACH
    return axis[None, :].expand(side, side), axis[:, None].expand(side, side)


def draw(
    looks: Appearances, parts: Parts, uses: list[Tensor], phase: Float32[Tensor, " sprite"]
) -> Float32[Tensor, "sprite 4 side side"]:
    """Paint the parts of every sprite in order; `uses` masks the sprites that have each part."""
    device, number = phase.device, len(phase)
    x, y = coordinates(SIDE, device)
    surface = textured(looks, x, y)
    light = 1 + column(looks.shade[:, 0]) * x + column(looks.shade[:, 1]) * y
    light = light + column(looks.grain) * (2 * white(looks.key + 1, SIDE, SIDE) - 1)
    color = torch.zeros(number, 3, SIDE, SIDE, device=device)
    opacity = torch.zeros(number, 1, SIDE, SIDE, device=device)
    for i, used in enumerate(uses):
        if not len(used):
            continue
        part = map_tensors(lambda values: values[used], parts)  # noqa: B023
        cover = covered(part, i, x, y, phase[used], looks.soft[used])[:, None]
        tone = part.tone[:, i].long()
        plain = looks.colors[used, tone][:, :, None, None]
        paint = torch.where((tone == BODY)[:, None, None, None], surface[used], plain)
        color[used] = torch.lerp(color[used], paint, cover)
        opacity[used] = torch.lerp(opacity[used], torch.ones_like(cover), cover)
    # Undo blending with the black ground, so that edges have the object's color.
    color = (color / opacity.clamp_min(1e-4) * light[:, None]).clamp(0, 1) * opacity
    return torch.cat([color, opacity], dim=1)


def covered(
    part: Parts,
    i: int,
    x: Tensor,
    y: Tensor,
    phase: Float32[Tensor, " sprite"],
    soft: Float32[Tensor, " sprite"],
) -> Float32[Tensor, "sprite side side"]:
    """Coverage of each pixel by part number `i`."""
    turn = column(part.angle[:, i])
    along, across = x - column(part.x[:, i]), y - column(part.y[:, i])
    along = along - column(part.swing[:, i] * phase)
    from_middle = torch.hypot(along, across)
    cos, sin = turn.cos(), turn.sin()
    a, b, p = (column(values[:, i]) for values in (part.a, part.b, part.p))
    along, across = (cos * along + sin * across) / a, (cos * across - sin * along) / b
    if i == 0:
        radius = outline_radius(part, along, across)
        along, across = along / radius, across / radius
    far = (along.abs() ** p + across.abs() ** p).clamp_min(1e-6) ** (1 / p)
    width = torch.minimum(column(soft), 0.8 * torch.minimum(a, b)).clamp_min(0.03)
    outside = from_middle * (1 - 1 / far)
    return (0.5 - outside / width).clamp(0, 1)


def outline_radius(part: Parts, x: Tensor, y: Tensor) -> Tensor:
    """Radius of the outline of a blob or a polygon, in each direction."""
    direction = torch.atan2(y, x)
    radius = torch.ones_like(x)
    for k in range(WAVES):
        height, peak = (column(values) for values in part.waves[:, k].unbind(-1))
        radius = radius + height * ((k + 2) * direction - peak).cos()
    sides = column(part.sides)
    sector = 2 * pi / sides.clamp_min(3)
    flat = (sector / 2).cos() / (direction.remainder(sector) - sector / 2).cos()
    return torch.where(sides > 0, flat, radius.clamp_min(0.3))


def textured(looks: Appearances, x: Tensor, y: Tensor) -> Float32[Tensor, "sprite 3 side side"]:
    """The surface of every body: a mix of its two colors by its texture."""
    number = len(looks.key)
    slope = torch.full((number,), 0.8, device=x.device)
    noise = octaves(looks.key, 1, SIDE, 16, slope)[:, 0]
    cos, sin = column(looks.angle.cos()), column(looks.angle.sin())
    along, across = cos * x + sin * y, cos * y - sin * x
    waves = 2 * pi * column(looks.frequency)
    amounts = {
        "flat": torch.zeros_like(noise),
        "noise": 0.5 + noise,
        "stripes": 0.5 + 2 * (waves * along).sin(),
        "gradient": 0.5 + 0.7 * along,
        "spots": 8 * noise - 1,
        "checks": 0.5 + 4 * (waves * along).sin() * (waves * across).sin(),
    }
    chosen = torch.stack([amounts[name] for name in TEXTURES])
    amount = chosen[looks.texture, torch.arange(number, device=x.device)].clamp(0, 1)
    amount = (column(looks.strength) * amount)[:, None]
    first, second = (looks.colors[:, i, :, None, None] for i in (0, 1))
    return first + (second - first) * amount


def outline(opacity: Float32[Tensor, "sprite side side"]) -> Float64[Tensor, "sprite direction 2"]:
    """The furthest pixel in each direction, at its outer corner or edge."""
    device = opacity.device
    x, y = coordinates(SIDE, device)
    angles = torch.arange(DIRECTIONS, device=device) * (2 * pi / DIRECTIONS)
    towards = torch.stack([angles.cos(), angles.sin()], dim=-1)
    points = torch.stack([x.flatten(), y.flatten()])
    far = towards @ points
    found = [
        torch.where(some[:, None] >= 0.5, far, -torch.inf).argmax(dim=2)
        for some in opacity.flatten(1).split(SOME)
    ]
    return points.T[torch.cat(found)].double() + towards.double() * (REACH / SIDE)


def column(values: Float[Tensor, " row"]) -> Float[Tensor, "row 1 1"]:
    """Numbers of objects, shaped to broadcast against their pictures."""
    return values[:, None, None]
