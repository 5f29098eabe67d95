"""The torch renderer: many frames at once, on a CPU or a GPU.

Rays are cast only where they may hit something. Each object has a box in the picture, and so has
each of its shadows on the plane; the pixels of all boxes of all frames form one list, and so do the
rays through them. Everything else is the empty plane, which is computed once. Masks, depths and
visibility come from the same rays.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from gswm.core.records import concatenate, map_tensors
from gswm.data.worlds.obj3d.camera import Solids
from gswm.data.worlds.obj3d.culling import (
    area,
    ball_radii,
    cuts,
    inside,
    may_darken,
    pixel_boxes,
    shadow_boxes,
)
from gswm.data.worlds.obj3d.rays import FIELDS, Shapes, blocks, hits, shapes_of
from gswm.data.worlds.obj3d.settings import CUBE, Settings
from gswm.data.worlds.obj3d.shading import ground, to_bytes
from gswm.data.worlds.obj3d.stage import RenderStage
from gswm.data.worlds.obj3d.surfaces import colors
from gswm.data.worlds.threads import in_threads

SIDE = 3
"""Number of parts of a pixel along each axis: odd, so that one ray goes through the center."""
LIVE = 60
"""Number of values in memory per ray."""
IN_CACHE = 1 << 16
"""Rays per batch on a CPU."""


@dataclass(frozen=True)
class Pictures:
    """Frames and their ground truth."""

    video: UInt8[Tensor, "frame 3 height width"]
    masks: UInt8[Tensor, "frame height width"]
    """Object at the center of each pixel: 0 for the plane, then slots counted from 1."""
    depth: Float[Tensor, "frame height width"]
    """Depth at that point."""
    visibility: Float[Tensor, "frame object"]
    """Fraction of an object's rays in the picture that nothing blocks."""
    seen: Bool[Tensor, "frame object"]
    """Whether the picture would show the object without occlusion."""


@dataclass(frozen=True)
class Entries:
    """A list of pixels, each with an object that may be there."""

    frame: Int[Tensor, " entry"]
    slot: Int[Tensor, " entry"]
    pixel: Int[Tensor, " entry"]


def render(
    solids: Solids, settings: Settings, size: int, side: int = SIDE, memory: int = 1 << 28
) -> Pictures:
    """Frames of `size` pixels that show `solids`; takes about `memory` bytes besides them."""
    stage = RenderStage.of(settings.camera, settings.look, size, side, solids.radii.device)
    boxes = pixel_boxes(stage.camera.boxes(solids), size)
    shadows = pixel_boxes(shadow_boxes(stage.camera, stage.lights, solids), size)
    rays = area(boxes).sum(dim=1) * side**2
    rays += area(shadows).sum(dim=(1, 2))
    most = memory // (4 * LIVE * settings.look.points)
    if solids.radii.device.type == "cpu":
        most = min(most, IN_CACHE)
    runs = cuts(rays.tolist(), most)
    parts: dict[int, Pictures] = {}

    def draw_run(i: int) -> None:
        run = slice(*runs[i])
        some = map_tensors(lambda values: values[run], solids)
        parts[i] = draw(stage, some, boxes[run], shadows[run])

    in_threads(draw_run, range(len(runs)), solids.radii.device)
    return concatenate([parts[i] for i in range(len(runs))])


def draw(
    stage: RenderStage,
    solids: Solids,
    boxes: Int[Tensor, "frame object 4"],
    shadows: Int[Tensor, "frame object light 4"],
) -> Pictures:
    """Draw a batch of frames."""
    num, objects = solids.shapes.shape
    size, device = stage.camera.size, solids.radii.device
    pixels, parts = stage.ways.shape[1:]
    shapes = shapes_of(solids)

    frame, slot, pixel = inside(boxes, size)
    solid = frame * objects + slot
    ways = stage.ways.index_select(1, pixel)
    far = hits(shapes, solid, stage.eye[:, None, None], ways)
    there = far.isfinite()

    since = unmoved_since(solids)
    darkened, light = shadow_entries(stage, solids, shadows, since)
    dark = shadowed(stage, shapes, objects, darkened, light)
    which, later = repeats(darkened, since)
    at, dark_at = frame * pixels + pixel, later * pixels + darkened.pixel[which]
    active = torch.zeros(num * pixels, dtype=torch.bool, device=device)
    active[at] = True
    active[dark_at] = True
    row_of = active.cumsum(0) - 1
    where = active.nonzero()[:, 0]
    row = row_of[at]

    nearest = torch.full((len(where), parts), torch.inf, device=device)
    nearest.scatter_reduce_(0, row[:, None].expand(-1, parts), far, "amin")
    front = (far == nearest[row]) & there

    lights = len(stage.lights.radius)
    blocked = torch.zeros(lights * len(where), stage.sources.shape[2], device=device)
    blocked.index_add_(0, light[which] * len(where) + row_of[dark_at], dark[which])
    lit = (blocked == 0).float().unflatten(1, (parts, -1)).mean(dim=2)
    lit = lit + (1 - lit) * stage.look.bounce
    here = where % pixels
    light = stage.received.index_select(1, here) * lit.unflatten(0, (lights, len(where)))
    plane = ground(stage.look, stage.lights.total(light), stage.share[here])

    picture = plane.expand(3, -1, -1).clone()
    entry, part = front.nonzero(as_tuple=True)
    found = colors(
        stage, solids, shapes, solid[entry], part, ways[:, entry, part], far[entry, part]
    )
    picture[:, row[entry], part] = found
    video = stage.empty.repeat(num, 1)
    video[where] = to_bytes(picture.mean(dim=2)).T

    middle = front[:, parts // 2]
    masks = torch.zeros(num * pixels, dtype=torch.uint8, device=device)
    depth = stage.depth.repeat(num)
    masks[at[middle]] = (slot[middle] + 1).to(torch.uint8)
    depth[at[middle]] = far[middle, parts // 2]
    whole, free = (
        torch.zeros(num * objects, device=device).index_add_(0, solid, rays.sum(dim=1).float())
        for rays in (there, front)
    )
    return Pictures(
        video=video.reshape(num, size, size, 3).permute(0, 3, 1, 2),
        masks=masks.reshape(num, size, size),
        depth=depth.reshape(num, size, size),
        visibility=(free / whole.clamp_min(1)).reshape(num, objects),
        seen=(whole > 0).reshape(num, objects),
    )


def unmoved_since(solids: Solids) -> Int[Tensor, "frame object"]:
    """The first frame since which an object has not moved, for each frame."""
    frame = torch.arange(len(solids.shapes), device=solids.shapes.device)[:, None]
    moved = torch.ones_like(solids.shapes, dtype=torch.bool)
    moved[1:] = (solids.poses[1:] != solids.poses[:-1]).any(dim=-1)
    for values in (solids.shapes, solids.radii):
        moved[1:] |= values[1:] != values[:-1]
    return (frame * moved).cummax(dim=0).values


def repeats(
    of: Entries, since: Int[Tensor, "frame object"]
) -> tuple[Int[Tensor, " repeat"], Int[Tensor, " repeat"]]:
    """Each entry repeated for every frame in which its object rests: the entry and the frame."""
    number = torch.zeros_like(since).scatter_add_(0, since, torch.ones_like(since))
    number = number[of.frame, of.slot]
    which = torch.arange(len(number), device=number.device).repeat_interleave(number)
    first = number.cumsum(0) - number
    turn = torch.arange(len(which), device=number.device) - first[which]
    return which, of.frame[which] + turn


def shadow_entries(
    stage: RenderStage,
    solids: Solids,
    boxes: Int[Tensor, "frame object light 4"],
    since: Int[Tensor, "frame object"],
) -> tuple[Entries, Int[Tensor, " entry"]]:
    """Regions in which an object may block each light, in the first frame of each pose."""
    new = since == torch.arange(len(since), device=since.device)[:, None]
    boxes = boxes * new[..., None, None]
    frame, slot, light, pixel = inside(boxes, stage.camera.size)
    may = may_darken(
        stage.lights,
        light,
        solids.centers[frame, slot],
        ball_radii(solids)[frame, slot],
        stage.points[:, pixel, stage.points.shape[2] // 2],
        stage.spread[pixel],
    ).nonzero()[:, 0]
    cube = solids.shapes[frame[may], slot[may]] == CUBE
    may = may[cube.argsort(stable=True)]  # all cubes last: see `interval`
    return Entries(frame[may], slot[may], pixel[may]), light[may]


def shadowed(
    stage: RenderStage, shapes: Shapes, objects: int, of: Entries, light: Int[Tensor, " entry"]
) -> Float[Tensor, "entry source"]:
    """1 if an object is between a point of a light and the plane."""
    solid = of.frame * objects + of.slot
    round_ones = int((shapes[solid, FIELDS.index("cube")] == 0).sum())
    found = []
    for some in (slice(round_ones), slice(round_ones, None)):
        here = stage.points.index_select(1, of.pixel[some])
        here = here.repeat_interleave(stage.look.points, dim=2)
        way = stage.sources.index_select(1, light[some]) - here
        found.append(blocks(shapes, solid[some], here, way).float())
    return torch.cat(found)
