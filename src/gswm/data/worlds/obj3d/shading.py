"""Shading of the plane and the objects under area lights.

Each part of a pixel uses one point of each light disk, every part another one, so that over a pixel
shadows are as soft as the disk is wide. From a point q of a light at distance d, a surface with the
normal n receives

    E = power · max(n · l, 0) · max(face · -l, 0) · (d_0 / d)²

where l is the direction to q, and d_0 the distance of the light from the middle of the scene.
Rubber reflects it diffusely, with a faint gloss. Metal has a strong gloss, and mirrors the plane,
the other objects and the surroundings.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.data.worlds.obj3d.settings import LightSettings, LookSettings

GOLDEN = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True)
class Lights:
    """Lights as points, one of each light for each part of a pixel."""

    points: Float[Tensor, "3 light part"]
    face: Float[Tensor, "3 light"]
    """The direction in which it shines."""
    middle: Float[Tensor, "3 light"]
    radius: Float[Tensor, " light"]
    strength: Float[Tensor, " light"]
    """power · d_0²."""
    tint: Float[Tensor, "channel light"]
    """The lights' colors; one channel if all are white."""

    @staticmethod
    def of(lights: tuple[LightSettings, ...], parts: int, like: Tensor) -> "Lights":
        """`parts` points of each light, spread evenly over the disk."""
        middle = like.new_tensor([light.position for light in lights])
        radius = like.new_tensor([light.radius for light in lights])
        power = like.new_tensor([light.power for light in lights])
        face = -F.normalize(middle, dim=-1)
        side = F.normalize(torch.linalg.cross(face, face.new_tensor([[0.01, 1, 0]])), dim=-1)
        over = torch.linalg.cross(side, face)
        index = torch.arange(parts, dtype=like.dtype, device=like.device)
        r = ((index + 0.5) / parts).sqrt() * radius[:, None]
        angle = index * GOLDEN
        x, y = (r * angle.cos())[..., None], (r * angle.sin())[..., None]
        points = (middle[:, None] + x * side[:, None] + y * over[:, None]).movedim(-1, 0)
        strength = power * middle.square().sum(dim=-1)
        tint = like.new_tensor([light.color for light in lights]).T
        tint = tint[:1] if (tint == 1).all() else tint
        return Lights(points.contiguous(), face.T, middle.T, radius, strength, tint)

    def total(self, light: Float[Tensor, "light ..."]) -> Float[Tensor, "channel ..."]:
        """The sum over all lights, in their colors."""
        tint = self.tint.reshape(*self.tint.shape, *[1] * (light.ndim - 1))
        return (tint * light).sum(dim=1)


def received(
    lights: Lights,
    point: Float[Tensor, "3 ray"],
    normal: Float[Tensor, "3 #ray"],
    at: Float[Tensor, "3 light ray"],
) -> Float[Tensor, "light ray"]:
    """E from a point `at` of each light, without occlusion."""
    way = at - point[:, None]
    square = way.square().sum(dim=0)
    toward = (way * normal[:, None]).sum(dim=0).clamp_min(0)
    shone = -(way * lights.face[..., None]).sum(dim=0).clamp_max(0)
    return lights.strength[:, None] * toward * shone / square.square()


def backdrop(look: LookSettings, point: Float[Tensor, "xyz ..."]) -> Float[Tensor, "..."]:
    """Fraction of the backdrop in the plane's color at a point."""
    near, far = look.far
    share = ((torch.hypot(point[0], point[1]) - near) / (far - near)).clamp(0, 1)
    return share * share * (3 - 2 * share)


def ground(
    look: LookSettings, light: Float[Tensor, "channel ..."], share: Float[Tensor, "..."]
) -> Float[Tensor, "channel ..."]:
    """The color of the plane under `light`, mixed with the backdrop."""
    color = look.ground * (look.ambient + light)
    return color + (look.backdrop - color) * share


def gloss(
    point: Float[Tensor, "3 ray"],
    normal: Float[Tensor, "3 ray"],
    back: Float[Tensor, "3 ray"],
    at: Float[Tensor, "3 light ray"],
    exponent: Float[Tensor, " ray"],
) -> Float[Tensor, "light ray"]:
    """Specular strength of each light: Blinn's lobe around the half vector, with an even power."""
    half = F.normalize(F.normalize(at - point[:, None], dim=0) + back[:, None], dim=0)
    lobe = (half * normal[:, None]).sum(dim=0).clamp_min(1e-4).pow(exponent)
    return lobe * (exponent + 8) / (8 * math.pi)


def around(look: LookSettings, way: Float[Tensor, "3 ray"]) -> Float[Tensor, " ray"]:
    """The surroundings in a direction; `way` has length 1."""
    low, high = look.around
    return low + (high - low) * way[2].clamp(0, 1).sqrt()


def shade(
    look: LookSettings,
    color: Float[Tensor, "3 ray"],
    metal: Bool[Tensor, " ray"],
    light: Float[Tensor, "channel ray"],
    glossy: Float[Tensor, "channel ray"],
    mirrored: Float[Tensor, "3 ray"],
    facing: Float[Tensor, " ray"],
) -> Float[Tensor, "3 ray"]:
    """The color of surfaces that receive `light`, seen at the cosine `facing`."""
    rim = (1 - facing).clamp(0, 1).pow(5)
    rubber = look.rubber * color * light + look.rubber_gloss[1] * glossy
    tint = color + (1 - color) * rim
    bright = tint + (1 - tint) * look.white
    shiny = look.metal * color * light + tint * look.mirror * mirrored
    shiny = shiny + bright * look.metal_gloss[1] * glossy
    return torch.where(metal, shiny, rubber)


def to_bytes(linear: Float[Tensor, "*shape"]) -> Tensor:
    """Linear light as the bytes of a picture, by the curve of sRGB."""
    linear = linear.clamp(0, 1)
    curve = torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear.pow(1 / 2.4) - 0.055)
    return (255 * curve + 0.5).to(torch.uint8)
