"""Scenery: still backgrounds, without the things that stand in them.

A background is a patterned ground, seen by the episode's camera, and the area above the horizon.
Noise of many scales, spots, shadows and uneven light cover all of it.
"""

from dataclasses import dataclass
from math import pi

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int
from torch import Tensor

from gswm.data.worlds.clips.camera import LEAST, Perspective
from gswm.data.worlds.clips.dice import Dice, octaves, white
from gswm.data.worlds.clips.motion import Dish, Routes
from gswm.data.worlds.clips.themes import GROUNDS

REGIONS = 6
"""Number of regions of a ground with patches."""
HORIZON = 2 * LEAST
"""The scale below which the ground is hidden by the area above the horizon."""
FIELD = 128
"""Side of the noise that textures grounds, in pixels."""


@dataclass(frozen=True)
class Scenery:
    """Parameters of some backgrounds."""

    ground: Int[Tensor, " episode"]
    """Index into `GROUNDS`."""
    key: Int[Tensor, " episode"]
    colors: Float[Tensor, "episode 4 3"]
    """Colors of the ground, its pattern, its lines, and the area above the horizon."""
    slope: Float[Tensor, " episode"]
    """Slope of the noise: small for large spots, near 1 for fine grain."""
    rough: Float[Tensor, "episode 2"]
    """Strength of the noise: in brightness, and between two colors."""
    zoom: Float[Tensor, " episode"]
    """Zoom of the noise."""
    frequency: Float[Tensor, " episode"]
    """Number of tiles, stripes or checks across the picture."""
    angle: Float[Tensor, " episode"]
    line: Float[Tensor, " episode"]
    """Width of lines."""
    edge: Float[Tensor, "episode 2"]
    """Height of a wall's foot, and its slope."""
    sites: Float[Tensor, "episode region 2"]
    """Centers of patches."""
    levels: Float[Tensor, "episode region"]
    """Fraction of the pattern's color in each patch."""
    shine: Float[Tensor, "episode 4"]
    """Uneven light: horizontal and vertical gradient, strength of a spot, and darkness of corners.
    """
    spot: Float[Tensor, "episode 2"]
    speckle: Float[Tensor, "episode 2"]
    """Fraction of pixels that are spots, and their brightness."""
    shade: Float[Tensor, "episode 2"]
    """Darkness of shadows from outside the picture, and the fraction of the ground without them."""


def draw_scenery(dice: Dice, ground_weights: Float[Tensor, "episode ground"]) -> Scenery:
    """Draw the parameters of all backgrounds."""
    colors = dice.colors(0.45 * dice.unit(1, 1) ** 2, 4)
    near = dice.uniform(0.05, 0.8, 1)
    colors[:, 1] = torch.lerp(colors[:, 0], colors[:, 1], near)
    colors[:, 0] = colors[:, 0].clamp(0.1, 0.85)
    return Scenery(
        ground=dice.choice(ground_weights),
        key=dice.keys(),
        colors=colors,
        slope=dice.uniform(0.35, 1.05),
        rough=dice.unit(2) ** 2 * torch.tensor([0.35, 0.8]),
        zoom=dice.log_uniform(0.4, 1.5),
        frequency=dice.log_uniform(1.5, 14.0),
        angle=torch.where(dice.chance(0.5), 0.0, dice.uniform(0.0, pi)),
        line=dice.log_uniform(0.004, 0.03),
        edge=torch.stack([dice.uniform(0.1, 0.8), 0.15 * dice.normal()], dim=-1),
        sites=dice.uniform(-0.1, 1.1, REGIONS, 2),
        levels=dice.unit(REGIONS),
        shine=dice.normal(4).abs().clamp_max(2) * torch.tensor([0.15, 0.15, 0.15, 0.2]),
        spot=dice.uniform(-0.2, 1.2, 2),
        speckle=torch.stack(
            [dice.chance(0.35) * dice.unit() ** 3 * 0.04, dice.uniform(-0.4, 0.5)], dim=-1
        ),
        shade=torch.stack([dice.chance(0.3) * dice.uniform(0.15, 0.6), dice.uniform(0.0, 0.6)], -1),
    )


@dataclass(frozen=True)
class Grounds:
    """Ground coordinates of each pixel of several backgrounds."""

    x: Float32[Tensor, "episode side side"]
    y: Float32[Tensor, "episode side side"]
    scale: Float32[Tensor, "episode side side"]
    side: int

    def line(self, distance: Tensor, width: Tensor) -> Tensor:
        """Fraction of a pixel within half a width of a line, both measured on the ground."""
        pixel = 1 / (self.side * self.scale)
        share = (width / pixel).clamp_max(1)
        return ((width / 2 - distance.abs()) / pixel + 0.5).clamp(0, 1) * share


def draw_background(
    scenery: Scenery, camera: Perspective, tracks: Routes, dish: Dish, side: int
) -> tuple[Float32[Tensor, "episode 3 {side} {side}"], Float32[Tensor, "episode {side} {side}"]]:
    """Draw the backgrounds, and a smooth field from 0 to 1 that distinguishes their parts."""
    number, device = len(scenery.key), scenery.key.device
    axis = (torch.arange(side, device=device) + 0.5) / side
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    seen = torch.stack([x, y], dim=-1).expand(number, side, side, 2)
    place, scale = camera.ground(seen)
    on = Grounds(place[..., 0], place[..., 1], scale, side)
    noise = octaves(scenery.key, 2, FIELD, FIELD, scenery.slope)
    place = (place - 0.5) * block(scenery.zoom, 4) * 2
    mixed, bright = F.grid_sample(
        noise, place, padding_mode="reflection", align_corners=False
    ).unbind(1)
    first, second, third, above = (c[:, :, None, None] for c in scenery.colors.unbind(1))
    amount, lines = patterns(scenery, on, tracks, dish)
    amount = (amount + block(scenery.rough[:, 1]) * mixed).clamp(0, 1)[:, None]
    picture = torch.lerp(first, second, amount)
    picture = torch.lerp(picture, third.expand_as(picture), lines[:, None])
    over = ((HORIZON - camera.scale(seen[..., 1])) * side).clamp(0, 1)[:, None]
    leaves = (above * (1 + 0.4 * noise_at(noise[:, :1], side))).clamp(0, 1)
    picture = torch.lerp(picture, leaves, over)
    field = octaves(scenery.key + 7, 1, side, 8, torch.full_like(scenery.slope, 0.7))[:, 0]
    light = uneven_light(scenery, x, y) * (1 + block(scenery.rough[:, 0]) * bright)
    dark, bare = (block(values) for values in scenery.shade.unbind(-1))
    light = light * (1 - dark * ((field - bare) * 4).clamp(0, 1))
    picture = picture * light[:, None]
    sprinkled = white(scenery.key + 11, side, side) < block(scenery.speckle[:, 0])
    picture = picture + (sprinkled * block(scenery.speckle[:, 1]))[:, None]
    return picture.clamp(0, 1), (0.5 + field).clamp(0, 1)


def patterns(
    scenery: Scenery, on: Grounds, tracks: Routes, dish: Dish
) -> tuple[Float32[Tensor, "episode side side"], Float32[Tensor, "episode side side"]]:
    """Fraction of the second color at each pixel of the ground, and coverage by lines."""
    cos, sin = block(scenery.angle.cos()), block(scenery.angle.sin())
    count, width = block(scenery.frequency), block(scenery.line)
    across, along = (cos * on.x + sin * on.y) * count, (cos * on.y - sin * on.x) * count
    gap_x, gap_y = ((v - v.round()) / count for v in (across, along))
    none = torch.zeros_like(on.x)
    grid = torch.maximum(on.line(gap_x, width), on.line(gap_y, width))
    each = white(scenery.key + 3, 64)
    cell = (across.floor().long() * 7 + along.floor().long() * 13).remainder(64)
    of_cell = each.gather(1, cell.flatten(1)).view_as(on.x)
    of_stripe = each.gather(1, across.floor().long().remainder(64).flatten(1)).view_as(on.x)
    checks = ((across.floor() + along.floor()).remainder(2) > 0.5).float()

    away = torch.hypot(on.x - block(dish.middle[:, 0]), on.y - block(dish.middle[:, 1]))
    rim = on.line(away - block(dish.radius), 2 * width)
    outside = ((away - block(dish.radius)) * on.side).clamp(0, 1)
    foot = on.y - block(scenery.edge[:, 0]) - block(scenery.edge[:, 1]) * (on.x - 0.5)
    wall = (0.5 - foot * on.side).clamp(0, 1)
    squares = (on.x[..., None] - scenery.sites[:, None, None, :, 0]) ** 2
    squares = squares + (on.y[..., None] - scenery.sites[:, None, None, :, 1]) ** 2
    region = squares.argmin(-1).flatten(1)
    patches = scenery.levels.gather(1, region).view_as(on.x)
    verge, marks = road(scenery, on, tracks)

    amounts = {
        "plain": none,
        "tiles": 0.3 * of_cell,
        "stripes": of_stripe,
        "checks": checks,
        "road": verge,
        "dish": outside,
        "patches": patches,
        "wall": wall,
    }
    lines = {
        "tiles": 0.7 * grid,
        "stripes": 0.6 * on.line(gap_x, width),
        "road": marks,
        "dish": rim,
        "wall": 0.5 * on.line(foot, width),
    }
    rows = torch.arange(len(none), device=none.device)
    chosen = (torch.stack([of.get(name, none) for name in GROUNDS]) for of in (amounts, lines))
    amount, line = (stacked[scenery.ground, rows] for stacked in chosen)
    return amount, line


def road(scenery: Scenery, on: Grounds, tracks: Routes) -> tuple[Tensor, Tensor]:
    """The area beside the road, and the lines on it: solid at its sides, broken between lanes."""
    cos, sin = block(tracks.angle.cos()), block(tracks.angle.sin())
    x, y = on.x - block(tracks.middle[:, 0]), on.y - block(tracks.middle[:, 1])
    across, along = cos * y - sin * x, cos * x + sin * y
    half, width = block(tracks.half), block(scenery.line)
    verge = ((across.abs() - 1.08 * half) * on.side * on.scale).clamp(0, 1)
    sides = on.line(across.abs() - 0.97 * half, width)
    lane = (across / half + 1) / 2 * block(tracks.lanes.float())
    gap = (lane - lane.round()) * 2 * half / block(tracks.lanes.float())
    broken = ((along * block(scenery.frequency)).remainder(1) < 0.5).float()
    between = on.line(gap, width) * broken * (across.abs() < 0.9 * half)
    return verge, torch.maximum(sides, between)


def uneven_light(scenery: Scenery, x: Tensor, y: Tensor) -> Float32[Tensor, "episode side side"]:
    """Light that is brighter on one side, in one spot, or in the middle."""
    across, down, spot, corner = (block(values) for values in scenery.shine.unbind(-1))
    middle = scenery.spot[:, :, None, None]
    near = (-((x - middle[:, 0]) ** 2 + (y - middle[:, 1]) ** 2) * 8).exp()
    far = (x - 0.5) ** 2 + (y - 0.5) ** 2
    return 1 + across * (x - 0.5) + down * (y - 0.5) + spot * near - corner * far


def noise_at(noise: Tensor, side: int) -> Tensor:
    """A field in the picture's own pixels."""
    return F.interpolate(noise, (side, side), mode="bilinear", align_corners=False)


def block(values: Float[Tensor, " episode"], axes: int = 3) -> Tensor:
    """Numbers of episodes, shaped to broadcast against pictures."""
    return values.reshape(-1, *[1] * (axes - 1))
