"""The camera: rays through a picture, and boxes of solids in the picture.

In the frame of the camera a point is (right, up, ahead) · (point - eye). It is seen at

    across = right / ahead,    down = -up / ahead,

from -h to h, where h is the tangent of half the field of view. A solid's box in the picture is
bounded by planes through the eye that touch it. A plane across = k touches a circle or a sphere of
radius r around c if, with n the part of right - k · ahead along the circle's plane,

    ((right - k · ahead) · c)² = r² |n|²,

a quadratic equation for k whose two solutions are the sides of the box.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gswm.data.worlds.obj3d.settings import CUBE, CYLINDER, SPHERE, CameraSettings

NEAR = 0.5
"""Objects that are not completely beyond this distance have no box in the picture."""


@dataclass(frozen=True)
class Solids:
    """Objects in several frames; an empty slot has the shape 0."""

    shapes: Int[Tensor, "frame object"]
    materials: Int[Tensor, "frame object"]
    colors: Float[Tensor, "frame object 3"]
    radii: Float[Tensor, "frame object"]
    poses: Float[Tensor, "frame object 3"]
    """(x, y, yaw)."""

    @property
    def halves(self) -> Float[Tensor, "frame object"]:
        """Half the height; for a cube, also half its side."""
        return torch.where(self.shapes == CUBE, self.radii * math.sqrt(0.5), self.radii)

    @property
    def centers(self) -> Float[Tensor, "frame object 3"]:
        """(x, y, z)."""
        return torch.cat([self.poses[..., :2], self.halves[..., None]], dim=-1)


@dataclass(frozen=True)
class Camera:
    """A pinhole camera with a square picture of `size` pixels."""

    settings: CameraSettings
    size: int

    @property
    def half(self) -> float:
        """The tangent of half the field of view."""
        return math.tan(math.radians(self.settings.field_of_view) / 2)

    def axes(self, like: Tensor) -> Float[Tensor, "3 3"]:
        """Right, up and ahead, one a row."""
        eye, target = (like.new_tensor(p) for p in (self.settings.position, self.settings.target))
        ahead = torch.nn.functional.normalize(target - eye, dim=0)
        right = torch.linalg.cross(ahead, like.new_tensor([0, 0, 1]))
        right = torch.nn.functional.normalize(right, dim=0)
        return torch.stack([right, torch.linalg.cross(right, ahead), ahead])

    def rays(self, side: int, like: Tensor) -> Float[Tensor, "row {side} column {side} 3"]:
        """Directions through the centers of side × side parts of every pixel.

        Their component ahead is 1, so a point at t times the direction has depth t.
        """
        n = self.size * side
        at = (2 * torch.arange(n, dtype=like.dtype, device=like.device) + 1) / n - 1
        at = at * self.half
        right, up, ahead = self.axes(like)
        ways = ahead + at[None, :, None] * right - at[:, None, None] * up
        return ways.reshape(self.size, side, self.size, side, 3)

    def boxes(self, solids: Solids) -> Float[Tensor, "frame object 4"]:
        """Left, top, right and bottom of each object in pixels, inside the picture or outside.

        It is the box of the whole object, ignoring occlusion. Empty slots and objects behind the
        camera have an empty box far outside.
        """
        axes = self.axes(solids.radii)
        eye = solids.radii.new_tensor(self.settings.position)
        offset = solids.centers - eye
        ahead = (offset * axes[2]).sum(dim=-1)
        r, half, shape = solids.radii, solids.halves, solids.shapes

        lift = torch.zeros_like(offset)
        lift[..., 2] = half
        rims = torch.stack([offset - lift, offset + lift], dim=-2)
        centers = torch.where((shape == CYLINDER)[..., None, None], rims, offset[..., None, :])
        flat = (shape == SPHERE)[..., None].to(r.dtype)
        corners = offset[..., None, :] + cube_corners(solids)

        depth = (corners * axes[2]).sum(dim=-1).clamp_min(NEAR)
        bounds = []
        for axis in (axes[0], -axes[1]):
            low, high = touching(axis, axes[2], centers, r[..., None], flat)
            on_corners = (corners * axis).sum(dim=-1) / depth
            cube = shape == CUBE
            bounds.append(torch.where(cube, on_corners.amin(dim=-1), low.amin(dim=-1)))
            bounds.append(torch.where(cube, on_corners.amax(dim=-1), high.amax(dim=-1)))
        left, right, top, bottom = bounds
        box = torch.stack([left, top, right, bottom], dim=-1) / self.half
        there = (shape > 0) & (ahead - 1.5 * r > NEAR)
        return torch.where(there[..., None], (box + 1) / 2 * self.size, -1e6)


def cube_corners(solids: Solids) -> Float[Tensor, "frame object 8 3"]:
    """Offsets from the center of each object to its corners, as if it were a cube."""
    cos, sin = solids.poses[..., 2].cos(), solids.poses[..., 2].sin()
    signs = torch.cartesian_prod(*[solids.radii.new_tensor([-1, 1])] * 3)
    x, y, z = signs.unbind(dim=-1)
    cos, sin = cos[..., None], sin[..., None]
    corners = torch.stack([x * cos - y * sin, x * sin + y * cos, z.expand_as(x * cos)], dim=-1)
    return corners * solids.halves[..., None, None]


def touching(
    axis: Float[Tensor, "3"],
    ahead: Float[Tensor, "3"],
    center: Float[Tensor, "*shape 3"],
    radius: Float[Tensor, "*row 1"],
    upward: Float[Tensor, "*row 1"],
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Smallest and largest axis / ahead of horizontal circles; of spheres if `upward` is 1."""
    weight = torch.stack([torch.ones_like(upward)] * 2 + [upward], dim=-1)
    p, q = (center * axis).sum(dim=-1), (center * ahead).sum(dim=-1)
    square = radius.square()
    a = q * q - square * (weight * ahead * ahead).sum(dim=-1)
    b = p * q - square * (weight * axis * ahead).sum(dim=-1)
    c = p * p - square * (weight * axis * axis).sum(dim=-1)
    root = (b * b - a * c).clamp_min(0).sqrt()
    a = a.clamp_min(1e-6)
    return (b - root) / a, (b + root) / a
