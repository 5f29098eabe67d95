"""Everything that is the same in all frames of a camera: rays, lights and the empty plane."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from gswm.data.worlds.obj3d.camera import Camera
from gswm.data.worlds.obj3d.settings import CameraSettings, LookSettings
from gswm.data.worlds.obj3d.shading import Lights, backdrop, ground, received, to_bytes


@dataclass(frozen=True)
class RenderStage:
    """A picture of the empty plane, and everything needed to add objects."""

    camera: Camera
    look: LookSettings
    eye: Float[Tensor, "3"]
    ways: Float[Tensor, "3 pixel part"]
    lights: Lights
    """Lights for objects: one point of each light for every part of a pixel."""
    sources: Float[Tensor, "3 light source"]
    """Lights for the plane: `points` of each light for every part."""
    points: Float[Tensor, "3 pixel part"]
    """Intersections of the rays with the plane."""
    spread: Float[Tensor, " pixel"]
    """Offsets of the points of a pixel from the middle one."""
    received: Float[Tensor, "light pixel part"]
    """Light that the plane receives there from each source."""
    share: Float[Tensor, "pixel part"]
    """Fraction of the backdrop there."""
    empty: UInt8[Tensor, "pixel 3"]
    depth: Float[Tensor, " pixel"]

    @staticmethod
    @lru_cache(maxsize=8)
    def of(
        settings: CameraSettings, look: LookSettings, size: int, side: int, device: torch.device
    ) -> "RenderStage":
        """The stage of a camera, for pictures of size × size pixels of side × side parts."""
        like = torch.empty(0, device=device)
        camera = Camera(settings, size)
        eye = like.new_tensor(settings.position)
        ways = camera.rays(side, like).permute(4, 0, 2, 1, 3).reshape(3, size**2, side**2)
        parts = side**2
        lights = Lights.of(look.lights, parts, like)
        sources = Lights.of(look.lights, parts * look.points, like).points
        sources = sources.unflatten(2, (look.points, parts)).transpose(2, 3).flatten(2)
        far = -eye[2] / ways[2].clamp_max(-1e-3)
        points = eye[:, None, None] + ways * far
        middle = side**2 // 2
        spread = (points - points[..., middle, None]).norm(dim=0).amax(dim=-1)
        up = like.new_tensor([[0], [0], [1]])
        light = torch.zeros(len(look.lights), size**2 * parts, device=device)
        for i in range(look.points):
            at = sources[..., i :: look.points].repeat(1, 1, size**2)
            light += received(lights, points.flatten(1), up, at)
        light = (light / look.points).unflatten(1, (size**2, parts))
        share = backdrop(look, points)
        empty = to_bytes(ground(look, lights.total(light), share).mean(dim=2))
        empty = empty.expand(3, -1).T.contiguous()
        depth = far[:, middle].contiguous()
        return RenderStage(
            *(camera, look, eye, ways, lights, sources, points, spread, light, share, empty, depth)
        )
