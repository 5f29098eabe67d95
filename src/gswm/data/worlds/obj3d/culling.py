"""Pixel regions that can contain anything: boxes of objects and of their shadows."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.data.worlds.obj3d.camera import NEAR, Camera, Solids
from gswm.data.worlds.obj3d.settings import CUBE, SPHERE
from gswm.data.worlds.obj3d.shading import Lights

LOWEST = 0.05
"""Distance below a light above which no object is assumed to reach."""


def shadow_boxes(
    camera: Camera, lights: Lights, solids: Solids
) -> Float[Tensor, "frame object light 4"]:
    """Boxes in pixels that contain the shadow of each object on the plane from each light."""
    tall = 2 * solids.halves[..., None, None]
    corners = solids.radii.new_tensor([[-1, -1], [-1, 1], [1, -1], [1, 1]])
    base = solids.poses[..., None, :2] + solids.radii[..., None, None] * corners
    base = base[:, :, None].expand(-1, -1, len(lights.radius), -1, -1)
    lowest = lights.middle[2, :, None] - lights.radius[:, None] - tall
    stretch = (tall / lowest.clamp_min(LOWEST))[..., None]
    top = base + (base - lights.middle[:2].T[:, None]) * stretch
    blur = lights.radius[:, None, None, None] * stretch[..., None] * corners
    spread = torch.cat([base[..., None, :], top[..., None, :] + blur], dim=-2).flatten(-3, -2)

    eye = solids.radii.new_tensor(camera.settings.position)
    offset = F.pad(spread, (0, 1)) - eye
    # No matrix product: on a GPU it might use TF32, and boxes must be exact.
    right, up, ahead = ((offset * axis).sum(dim=-1) for axis in camera.axes(eye))
    behind = (ahead < NEAR).any(dim=-1, keepdim=True)
    ahead = ahead.clamp_min(NEAR)
    x, y = ((v / ahead / camera.half + 1) / 2 * camera.size for v in (right, -up))
    low = torch.stack([x.amin(dim=-1), y.amin(dim=-1)], dim=-1).masked_fill(behind, 0)
    high = torch.stack([x.amax(dim=-1), y.amax(dim=-1)], dim=-1).masked_fill(behind, camera.size)
    there = (solids.shapes > 0)[..., None, None]
    return torch.where(there, torch.cat([low, high], dim=-1), -1e6)


def may_darken(
    lights: Lights,
    light: Int[Tensor, " entry"],
    center: Float[Tensor, "entry 3"],
    reach: Float[Tensor, " entry"],
    point: Float[Tensor, "3 entry"],
    spread: Float[Tensor, " entry"],
) -> Bool[Tensor, " entry"]:
    """Whether a ball around an object may block a light for points near `point`.

    `reach` is the ball's radius, and `spread` the largest distance of the points from `point`.
    """
    way = lights.middle[:, light] - point
    offset = center.T - point
    square, radius = way.square().sum(dim=0), lights.radius[light]
    along = ((offset * way).sum(dim=0) / square).clamp(0, 1)
    apart = (offset - along * way).square().sum(dim=0)
    # The cone from the points to the light widens on its way; this is where the ball ends.
    widest = torch.maximum(radius, spread)
    last = along + (reach + widest) * square.rsqrt()
    return apart < (reach + torch.minimum(widest, spread + radius * last)).square()


def may_shade(lights: Lights, solids: Solids) -> Bool[Tensor, "frame object other light"]:
    """Whether the other object comes near the space between an object and a light."""
    center, reach = solids.centers, ball_radii(solids)
    way = (lights.middle.T - center[:, :, None])[:, :, None]
    offset = center[:, None, :, None] - center[:, :, None, None]
    along = (offset * way).sum(dim=-1) / way.square().sum(dim=-1)
    apart = (offset - along.clamp(0, 1)[..., None] * way).square().sum(dim=-1)
    width = torch.maximum(reach[:, :, None, None], lights.radius)
    near = apart < (width + reach[:, None, :, None]).square()
    others = ~torch.eye(center.shape[1], dtype=torch.bool, device=center.device)
    there = solids.shapes[:, None, :] > 0
    return near & (others & there)[..., None]


def ball_radii(solids: Solids) -> Float[Tensor, "frame object"]:
    """Radius of the bounding ball of each object."""
    wide = torch.where(solids.shapes == CUBE, 1.5**0.5, 2**0.5)
    return solids.radii * torch.where(solids.shapes == SPHERE, 1.0, wide)


def pixel_boxes(box: Float[Tensor, "*shape 4"], size: int) -> Int[Tensor, "*shape 4"]:
    """First column and row, and those after the last, of the pixels that a box touches."""
    low, high = box[..., :2].floor(), box[..., 2:].ceil()
    return torch.cat([low, high], dim=-1).clamp(0, size).long()


def area(box: Int[Tensor, "*shape 4"]) -> Int[Tensor, "*shape"]:
    """Pixels in a box."""
    return (box[..., 2:] - box[..., :2]).clamp_min(0).prod(dim=-1)


def inside(box: Int[Tensor, "*shape 4"], size: int) -> tuple[Int[Tensor, " entry"], ...]:
    """Every pixel of every box: the box, one index per axis, and the pixel."""
    at = torch.arange(size, device=box.device)
    left, top, right, bottom = (side[..., None] for side in box.unbind(dim=-1))
    column, row = (at >= left) & (at < right), (at >= top) & (at < bottom)
    *which, row, column = (row[..., :, None] & column[..., None, :]).nonzero(as_tuple=True)
    return *which, row * size + column


def cuts(sizes: list[int], most: int) -> list[tuple[int, int]]:
    """Runs of items whose sizes add up to at most `most`, or of one item."""
    ends, total, start = [], 0, 0
    for i, size in enumerate(sizes):
        if i > start and total + size > most:
            ends.append((start, i))
            start, total = i, 0
        total += size
    return [*ends, (start, len(sizes))]
