"""What is the same in all frames of a camera: rays, lights and the empty plane."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from gswm.data.worlds.obj3d.camera import Camera
from gswm.data.worlds.obj3d.settings import LIGHTS, CameraSettings
from gswm.data.worlds.obj3d.shading import Lights, backdrop, ground, received, to_bytes


@dataclass(frozen=True)
class RenderStage:
    """A picture of nothing but the plane, and all that is needed to put objects into it."""

    camera: Camera
    eye: Float[Tensor, "3"]
    ways: Float[Tensor, "3 pixel part"]
    lights: Lights
    points: Float[Tensor, "3 pixel part"]
    """Where the rays meet the plane."""
    spread: Float[Tensor, " pixel"]
    """How far from the middle one the points of a pixel are."""
    received: Float[Tensor, "light pixel part"]
    """What the plane receives there from each light."""
    share: Float[Tensor, "pixel part"]
    """How much of the backdrop shows there."""
    empty: UInt8[Tensor, "pixel 3"]
    depth: Float[Tensor, " pixel"]

    @staticmethod
    @lru_cache(maxsize=8)
    def of(settings: CameraSettings, size: int, side: int, device: torch.device) -> "RenderStage":
        """The stage of a camera, for pictures of size × size pixels of side × side parts."""
        like = torch.empty(0, device=device)
        camera = Camera(settings, size)
        eye = like.new_tensor(settings.position)
        ways = camera.rays(side, like).permute(4, 0, 2, 1, 3).reshape(3, size**2, side**2)
        lights = Lights.of(LIGHTS, side**2, like)
        far = -eye[2] / ways[2].clamp_max(-1e-3)
        points = eye[:, None, None] + ways * far
        middle = side**2 // 2
        spread = (points - points[..., middle, None]).norm(dim=0).amax(dim=-1)
        up = like.new_tensor([[0], [0], [1]])
        at = lights.points.repeat(1, 1, size**2)
        light = received(lights, points.flatten(1), up, at).unflatten(1, (size**2, side**2))
        share = backdrop(points)
        empty = to_bytes(ground(light, share).mean(dim=1))[:, None].repeat(1, 3)
        depth = far[:, middle].contiguous()
        return RenderStage(camera, eye, ways, lights, points, spread, light, share, empty, depth)
