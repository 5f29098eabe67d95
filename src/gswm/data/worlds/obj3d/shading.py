"""Light: what the plane and the objects look like, under lights that are disks.

A part of a pixel sees each light as one point of it, every part another one: over a pixel, a shadow
is as soft as the disk is wide. From a point q of a light at distance d, a surface with the normal n
receives

    E = power · max(n · l, 0) · max(face · -l, 0) · (d_0 / d)²

l being the way to q, and d_0 the distance of the light from the middle of the scene. Rubber sends
it back evenly, with a faint gloss. Metal has a strong gloss, and mirrors the plane, the other
objects and what is around.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.data.worlds.obj3d.settings import LightSettings

GROUND = 0.35
"""How much of the light the plane sends back."""
AMBIENT = 0.16
"""Light from everywhere."""
AROUND_LOW, AROUND_HIGH = 0.16, 0.10
"""What metal mirrors of what is around: at the horizon, and above."""
FAR = (4.0, 22.0)
"""Between these distances the plane turns into the backdrop."""
BACKDROP = 0.12
GLOSS = {"rubber": (16.0, 0.05), "metal": (90.0, 0.60)}
"""Exponent and strength."""
MIRROR, MATT = 0.90, 0.08
"""Of metal: the share it mirrors, and the share it sends back evenly."""
GOLDEN = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True)
class Lights:
    """Lights as points, one of each for each part of a pixel."""

    points: Float[Tensor, "3 light part"]
    face: Float[Tensor, "3 light"]
    """The way it shines."""
    middle: Float[Tensor, "3 light"]
    radius: Float[Tensor, " light"]
    strength: Float[Tensor, " light"]
    """power · d_0²."""

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
        return Lights(points.contiguous(), face.T, middle.T, radius, strength)


def received(
    lights: Lights,
    point: Float[Tensor, "3 ray"],
    normal: Float[Tensor, "3 #ray"],
    at: Float[Tensor, "3 light ray"],
) -> Float[Tensor, "light ray"]:
    """E from a point `at` of each light, were nothing in between."""
    way = at - point[:, None]
    square = way.square().sum(dim=0)
    toward = (way * normal[:, None]).sum(dim=0).clamp_min(0)
    shone = -(way * lights.face[..., None]).sum(dim=0).clamp_max(0)
    return lights.strength[:, None] * toward * shone / square.square()


def backdrop(point: Float[Tensor, "xyz ..."]) -> Float[Tensor, "..."]:
    """How much of the backdrop shows in the plane at a point of it."""
    share = ((torch.hypot(point[0], point[1]) - FAR[0]) / (FAR[1] - FAR[0])).clamp(0, 1)
    return share * share * (3 - 2 * share)


def ground(light: Float[Tensor, "source ..."], share: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The gray of the plane where so much of the backdrop shows."""
    gray = GROUND * (AMBIENT + light.sum(dim=0))
    return gray + (BACKDROP - gray) * share


def gloss(
    point: Float[Tensor, "3 ray"],
    normal: Float[Tensor, "3 ray"],
    back: Float[Tensor, "3 ray"],
    at: Float[Tensor, "3 light ray"],
    exponent: Float[Tensor, " ray"],
) -> Float[Tensor, "light ray"]:
    """How strongly each light glances off: Blinn's lobe around the half way, of even power."""
    half = F.normalize(F.normalize(at - point[:, None], dim=0) + back[:, None], dim=0)
    lobe = (half * normal[:, None]).sum(dim=0).clamp_min(1e-4).pow(exponent)
    return lobe * (exponent + 8) / (8 * math.pi)


def around(way: Float[Tensor, "3 ray"]) -> Float[Tensor, " ray"]:
    """What is seen in a direction where there is nothing; `way` has the length 1."""
    return AROUND_LOW + (AROUND_HIGH - AROUND_LOW) * way[2].clamp(0, 1).sqrt()


def shade(
    color: Float[Tensor, "3 ray"],
    metal: Bool[Tensor, " ray"],
    light: Float[Tensor, " ray"],
    glossy: Float[Tensor, " ray"],
    mirrored: Float[Tensor, "3 ray"],
    facing: Float[Tensor, " ray"],
) -> Float[Tensor, "3 ray"]:
    """The look of surfaces that receive `light`, and are seen at the cosine `facing`."""
    rim = (1 - facing).clamp(0, 1).pow(5)
    rubber = color * light + GLOSS["rubber"][1] * glossy
    tint = color + (1 - color) * rim
    shiny = MATT * color * light + tint * (MIRROR * mirrored + GLOSS["metal"][1] * glossy)
    return torch.where(metal, shiny, rubber)


def to_bytes(linear: Float[Tensor, "*shape"]) -> Tensor:
    """Linear light as the bytes of a picture, by the curve of sRGB."""
    linear = linear.clamp(0, 1)
    curve = torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear.pow(1 / 2.4) - 0.055)
    return (255 * curve + 0.5).to(torch.uint8)
