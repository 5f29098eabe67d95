"""The colors of objects: light, gloss, and reflections."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.data.worlds.obj3d.camera import Solids
from gswm.data.worlds.obj3d.culling import ball_radii, may_shade
from gswm.data.worlds.obj3d.rays import Shapes, blocks, hits, normals
from gswm.data.worlds.obj3d.settings import METAL
from gswm.data.worlds.obj3d.shading import around, backdrop, gloss, ground, received, shade
from gswm.data.worlds.obj3d.stage import RenderStage


def colors(
    stage: RenderStage,
    solids: Solids,
    shapes: Shapes,
    solid: Int[Tensor, " ray"],
    part: Int[Tensor, " ray"],
    way: Float[Tensor, "3 ray"],
    far: Float[Tensor, " ray"],
) -> Float[Tensor, "3 ray"]:
    """The colors at the points where rays hit objects."""
    lights, look = stage.lights, stage.look
    point = stage.eye[:, None] + way * far
    normal = normals(shapes, solid, point, look.bevel)
    back = -F.normalize(way, dim=0)
    at = lights.points[..., part]
    light = received(lights, point, normal, at) * ~shaded(stage, solids, shapes, solid, point, at)
    metal = solids.materials.flatten()[solid] == METAL
    color = solids.colors.flatten(0, 1)[solid].T

    glossy = highlights(stage, metal, point, normal, back, at, light)
    sky = 0.5 + 0.5 * normal[2]
    light = lights.total(light) + look.ambient * (sky + (1 - sky) * look.ground)
    facing = (normal * back).sum(dim=0)
    shiny = metal.nonzero()[:, 0]
    bounced = 2 * facing[shiny] * normal[:, shiny] - back[:, shiny]
    mirrored = torch.zeros_like(color)
    mirrored[:, shiny] = mirror(stage, solids, shapes, solid[shiny], point[:, shiny], bounced)
    return shade(look, color, metal, light, glossy, mirrored, facing)


def highlights(
    stage: RenderStage,
    metal: Bool[Tensor, " ray"],
    point: Float[Tensor, "3 ray"],
    normal: Float[Tensor, "3 ray"],
    back: Float[Tensor, "3 ray"],
    at: Float[Tensor, "3 light ray"],
    light: Float[Tensor, "light ray"],
) -> Float[Tensor, "channel ray"]:
    """Highlights of the lights, before the surface's gloss."""
    rubber, shiny = stage.look.rubber_gloss, stage.look.metal_gloss
    some = torch.where(metal, shiny[1], rubber[1]).nonzero()[:, 0]
    exponent = torch.where(metal[some], shiny[0], rubber[0])
    lobes = gloss(point[:, some], normal[:, some], back[:, some], at[..., some], exponent)
    found = stage.lights.total(light[:, some] * lobes)
    out = torch.zeros(len(found), len(metal), device=point.device)
    out[:, some] = found
    return out


def shaded(
    stage: RenderStage,
    solids: Solids,
    shapes: Shapes,
    solid: Int[Tensor, " ray"],
    point: Float[Tensor, "3 ray"],
    at: Float[Tensor, "3 light ray"],
) -> Bool[Tensor, "light ray"]:
    """Whether another object is between a point of an object and each light."""
    objects = solids.shapes.shape[1]
    may = may_shade(stage.lights, solids).flatten(0, 1)[solid]
    ray, other, light = may.nonzero(as_tuple=True)
    here = point[:, ray, None]
    blocker = solid[ray] // objects * objects + other
    dark = blocks(shapes, blocker, here, at[:, light, ray, None] - here)[:, 0]
    out = torch.zeros(at.shape[1:], device=point.device)
    out.view(-1).index_add_(0, light * len(solid) + ray, dark.float())
    return out > 0


def mirror(
    stage: RenderStage,
    solids: Solids,
    shapes: Shapes,
    solid: Int[Tensor, " ray"],
    point: Float[Tensor, "3 ray"],
    way: Float[Tensor, "3 ray"],
) -> Float[Tensor, "3 ray"]:
    """Reflections in metal: the nearest other object, the plane, or the surroundings."""
    objects = solids.shapes.shape[1]
    down = way[2] < -1e-3
    fallen = torch.where(down, -point[2] / way[2].clamp_max(-1e-3), torch.inf)
    floor = point + way * fallen.clamp_max(1e3)
    up = floor.new_tensor([[0], [0], [1]])
    at = stage.lights.middle[..., None].expand(-1, -1, len(solid))
    light = stage.lights.total(received(stage.lights, floor, up, at))
    plane = ground(stage.look, light, backdrop(stage.look, floor))
    seen = torch.where(down, plane, around(stage.look, way)).expand(3, -1).clone()

    frame = solid // objects
    offset = solids.centers[frame].permute(2, 0, 1) - point[..., None]
    along = (offset * way[..., None]).sum(dim=0)
    apart = offset.square().sum(dim=0) - along.square()
    other = torch.arange(objects, device=solid.device)
    near = (apart < ball_radii(solids)[frame].square()) & (along > 0)
    near &= (solids.shapes[frame] > 0) & (other != (solid % objects)[:, None])
    ray, other = near.nonzero(as_tuple=True)
    index = frame[ray] * objects + other
    far = hits(shapes, index, point[:, ray, None], way[:, ray, None])[:, 0]
    nearest = fallen.scatter_reduce(0, ray, far, "amin")
    first = (far == nearest[ray]) & far.isfinite()
    ray, index = ray[first], index[first]
    tone = stage.look.mirrored * solids.colors.flatten(0, 1)[index].T
    seen[:, ray] += stage.look.clear * (tone - seen[:, ray])
    return seen
