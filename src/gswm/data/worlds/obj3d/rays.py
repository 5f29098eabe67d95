"""Intersections of rays with solids: sphere, upright cylinder with caps, and cube, in closed form.

The intersection with a solid is an interval of the ray: for a round one, the part inside a quadric;
for a cube, the part between two pairs of sides; and for all, the part between the planes of top and
bottom. The ray misses the solid if the interval is empty.

    quadric   x² + y² + w z² ≤ r²     w = 1 for a sphere, 0 for a cylinder
    slab      |x| ≤ half

in the frame of the solid: its center at 0, rotated by its yaw. Points and directions have their
three coordinates on the first axis.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.data.worlds.obj3d.camera import Solids
from gswm.data.worlds.obj3d.settings import CUBE, SPHERE

TINY = 1e-12
FIELDS = ("x", "y", "z", "radius", "half", "cos", "sin", "upward", "cube")
"""Fields of a solid for ray casting. `upward` is w; `radius` is negative for an empty slot."""
Shapes = Float[Tensor, "solid 9"]


def shapes_of(solids: Solids) -> Shapes:
    """The fields of all slots of all frames, in sequence."""
    yaw, kind = solids.poses[..., 2], solids.shapes
    parts = (
        *solids.centers.unbind(dim=-1),
        *(torch.where(kind > 0, solids.radii, -1), solids.halves, yaw.cos(), yaw.sin()),
        *((kind == SPHERE).to(yaw.dtype), (kind == CUBE).to(yaw.dtype)),
    )
    return torch.stack(parts, dim=-1).flatten(0, 1)


def local(shapes: Shapes, index: Int[Tensor, " ray"]) -> dict[str, Float[Tensor, "ray 1"]]:
    """The fields of one solid for each ray."""
    return dict(zip(FIELDS, shapes.index_select(0, index).T[..., None].contiguous(), strict=True))


def interval(
    solid: dict[str, Float[Tensor, "ray 1"]],
    origin: Float[Tensor, "3 #ray #part"],
    way: Float[Tensor, "3 ray part"],
) -> tuple[Float[Tensor, "ray part"], Float[Tensor, "ray part"]]:
    """Entry and exit of each ray in its solid, in lengths of `way`; entry > exit for a miss.

    It is faster if all solids are cubes, or none is.
    """
    cos, sin, half, upward = (solid[name] for name in ("cos", "sin", "half", "upward"))
    ox, oy, oz = origin[0] - solid["x"], origin[1] - solid["y"], origin[2] - solid["z"]
    dx, dy, dz = way
    ox, oy = cos * ox + sin * oy, cos * oy - sin * ox
    dx, dy = cos * dx + sin * dy, cos * dy - sin * dx

    cube = solid["cube"] > 0
    z0, z1 = slab(oz, dz, half)
    enter = leave = z0
    if not (all_cubes := bool(cube.all())):
        up = dz * upward
        a = torch.addcmul(torch.addcmul(dx * dx, dy, dy), up, dz).clamp_min_(TINY)
        b = torch.addcmul(torch.addcmul(ox * dx, oy, dy), up, oz)
        c = ox * ox + oy * oy + oz * oz * upward - solid["radius"].square()
        square = torch.addcmul(b * b, a, c, value=-1)
        root = torch.where(square < 0, -torch.inf, square.clamp_min(0).sqrt())
        enter, leave = (-b - root) / a, (root - b) / a
    if cube.any():
        (x0, x1), (y0, y1) = slab(ox, dx, half), slab(oy, dy, half)
        x0, x1 = torch.maximum(x0, y0), torch.minimum(x1, y1)
        enter = x0 if all_cubes else torch.where(cube, x0, enter)
        leave = x1 if all_cubes else torch.where(cube, x1, leave)
    return torch.maximum(enter, z0), torch.minimum(leave, z1)


def slab(o: Tensor, d: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
    """Intervals in which rays are between two parallel planes."""
    inverse = torch.where(d.abs() < TINY, TINY, d).reciprocal_()
    middle, reach = o * inverse, half * inverse.abs()
    return -middle - reach, reach - middle


def hits(
    shapes: Shapes,
    index: Int[Tensor, " ray"],
    origin: Float[Tensor, "3 #ray #part"],
    way: Float[Tensor, "3 ray part"],
) -> Float[Tensor, "ray part"]:
    """Distance along `way` to the first entry of each ray; infinity if it misses."""
    solid = local(shapes, index)
    enter, leave = interval(solid, origin, way)
    met = (enter <= leave) & (enter > 0) & (solid["radius"] > 0)
    return torch.where(met, enter, torch.inf)


def blocks(
    shapes: Shapes,
    index: Int[Tensor, " ray"],
    origin: Float[Tensor, "3 #ray #part"],
    way: Float[Tensor, "3 ray part"],
) -> Bool[Tensor, "ray part"]:
    """Whether the solid is between `origin` and `origin + way`."""
    solid = local(shapes, index)
    enter, leave = interval(solid, origin, way)
    return (enter <= leave) & (leave > 0) & (enter < 1) & (solid["radius"] > 0)


def normals(
    shapes: Shapes,
    index: Int[Tensor, " ray"],
    point: Float[Tensor, "3 ray"],
    bevel: float = 0.0,
) -> Float[Tensor, "3 ray"]:
    """The outward normal of each solid at a point of its surface.

    Along the edges of cubes it is rounded, over `bevel` of half the side.
    """
    solid = {name: field[:, 0] for name, field in local(shapes, index).items()}
    cos, sin, half, radius = (solid[name] for name in ("cos", "sin", "half", "radius"))
    x, y, z = point[0] - solid["x"], point[1] - solid["y"], point[2] - solid["z"]
    x, y = cos * x + sin * y, cos * y - sin * x

    cube, sphere = solid["cube"] > 0, solid["upward"] > 0
    beside = torch.hypot(x, y).clamp_min(TINY)
    across = torch.where(cube, torch.maximum(x.abs(), y.abs()) / half, beside / radius)
    cap = (z.abs() / half > across) & ~sphere
    by_x = x.abs() > y.abs()
    scale = torch.where(sphere, radius, beside)
    nx = torch.where(cube, x.sign() * by_x, x / scale) * ~cap
    ny = torch.where(cube, y.sign() * ~by_x, y / scale) * ~cap
    nz = torch.where(sphere, z / radius, z.sign() * cap)
    if bevel:
        at = cube.nonzero()[:, 0]
        sides = torch.stack([x[at], y[at], z[at]]) / half[at]
        edges = ((sides.abs() - (1 - bevel)) / bevel).clamp_min(0) * sides.sign()
        nx[at], ny[at], nz[at] = F.normalize(edges, dim=0)
    return torch.stack([cos * nx - sin * ny, sin * nx + cos * ny, nz])
