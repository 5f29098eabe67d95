"""The torch renderer: many frames at once, on a CPU or a GPU.

Rays are cast only where they may meet something. Of each object a box in the picture is known, and
so is one around each shadow that it throws on the plane; the pixels of all boxes of all frames are
one list, and so are the rays through them. All else is the empty plane, which is computed once.
Masks, depths and visibility are of the very same rays.
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
from gswm.data.worlds.obj3d.rays import Shapes, blocks, hits, shapes_of
from gswm.data.worlds.obj3d.settings import CameraSettings
from gswm.data.worlds.obj3d.shading import ground, to_bytes
from gswm.data.worlds.obj3d.stage import RenderStage
from gswm.data.worlds.obj3d.surfaces import colors
from gswm.data.worlds.threads import in_threads

SIDE = 3
"""Parts of a pixel, each way: odd, so that one ray goes through the middle."""
LIVE = 60
"""Numbers that are held at once for each ray in the list."""
IN_CACHE = 1 << 16
"""Rays at a time on a CPU."""


@dataclass(frozen=True)
class Pictures:
    """Frames, and what is true of them."""

    video: UInt8[Tensor, "frame 3 height width"]
    masks: UInt8[Tensor, "frame height width"]
    """In the middle of each pixel: 0 is the plane, then slots counted from 1."""
    depth: Float[Tensor, "frame height width"]
    """There, how far ahead of the camera."""
    visibility: Float[Tensor, "frame object"]
    """The share of an object's rays in the picture that nothing in front of it stops."""
    seen: Bool[Tensor, "frame object"]
    """Whether the picture would show the object, were nothing in front of it."""


@dataclass(frozen=True)
class Entries:
    """A list of pixels, and in each an object that may be there."""

    frame: Int[Tensor, " entry"]
    slot: Int[Tensor, " entry"]
    pixel: Int[Tensor, " entry"]


def render(
    solids: Solids, camera: CameraSettings, size: int, side: int = SIDE, memory: int = 1 << 28
) -> Pictures:
    """Frames of `size` pixels that show `solids`; what it takes beside them is about `memory`."""
    stage = RenderStage.of(camera, size, side, solids.radii.device)
    boxes = pixel_boxes(stage.camera.boxes(solids), size)
    shadows = pixel_boxes(shadow_boxes(stage.camera, stage.lights, solids), size)
    rays = area(boxes).sum(dim=1) * side**2 + area(shadows).sum(dim=(1, 2))
    most = memory // (4 * LIVE)
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
    """Some frames."""
    num, objects = solids.shapes.shape
    size, device = stage.camera.size, solids.radii.device
    pixels, parts = stage.ways.shape[1:]
    shapes = shapes_of(solids)

    frame, slot, pixel = inside(boxes, size)
    solid = frame * objects + slot
    ways = stage.ways.index_select(1, pixel)
    far = hits(shapes, solid, stage.eye[:, None, None], ways)
    there = far.isfinite()

    darkened, light = shadow_entries(stage, solids, shadows)
    at, dark_at = frame * pixels + pixel, darkened.frame * pixels + darkened.pixel
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
    blocked = torch.zeros(lights * len(where), parts, device=device)
    dark = shadowed(stage, shapes, objects, darkened, light)
    blocked.index_add_(0, light * len(where) + row_of[dark_at], dark)
    lit = (blocked == 0).unflatten(0, (lights, len(where)))
    here = where % pixels
    gray = ground(stage.received.index_select(1, here) * lit, stage.share[here])

    picture = gray.repeat(3, 1, 1)
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


def shadow_entries(
    stage: RenderStage, solids: Solids, boxes: Int[Tensor, "frame object light 4"]
) -> tuple[Entries, Int[Tensor, " entry"]]:
    """Where an object may keep which light from the plane."""
    frame, slot, light, pixel = inside(boxes, stage.camera.size)
    may = may_darken(
        stage.lights,
        light,
        solids.centers[frame, slot],
        ball_radii(solids)[frame, slot],
        stage.points[:, pixel, stage.points.shape[2] // 2],
        stage.spread[pixel],
    ).nonzero()[:, 0]
    return Entries(frame[may], slot[may], pixel[may]), light[may]


def shadowed(
    stage: RenderStage, shapes: Shapes, objects: int, of: Entries, light: Int[Tensor, " entry"]
) -> Float[Tensor, "entry part"]:
    """1 where an object is between a light and the plane."""
    here = stage.points.index_select(1, of.pixel)
    way = stage.lights.points.index_select(1, light) - here
    return blocks(shapes, of.frame * objects + of.slot, here, way).float()
