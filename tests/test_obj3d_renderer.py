"""The torch renderer compared with one ray at a time, in Python floats, without any culling."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gswm.core.records import map_tensors
from gswm.data.worlds.obj3d.camera import Camera, Solids
from gswm.data.worlds.obj3d.culling import cuts
from gswm.data.worlds.obj3d.rays import hits, normals, shapes_of
from gswm.data.worlds.obj3d.renderer import Pictures, render
from gswm.data.worlds.obj3d.settings import (
    CUBE,
    CYLINDER,
    METAL,
    RUBBER,
    SHADOWS,
    SPHERE,
    LookSettings,
    Settings,
)
from gswm.data.worlds.obj3d.shading import Lights
from gswm.data.worlds.obj3d.stage import RenderStage

SIZE, SIDE = 14, 3
LOOKS = {"obj3d": Settings(), "obj3d-shadows": SHADOWS}
CAMERA = Settings().camera
Vector = tuple[float, float, float]


def add(a: Vector, b: Vector, t: float = 1.0) -> Vector:
    return (a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2])


def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def unit(a: Vector) -> Vector:
    return add((0, 0, 0), a, 1 / math.sqrt(dot(a, a)))


class Solid:
    """One object, and every surface that it has."""

    def __init__(self, solids: Solids, frame: int, slot: int) -> None:
        self.shape = int(solids.shapes[frame, slot])
        self.metal = bool(solids.materials[frame, slot] == METAL)
        self.color = tuple(solids.colors[frame, slot].tolist())
        self.r = float(solids.radii[frame, slot])
        self.half = self.r / math.sqrt(2) if self.shape == CUBE else self.r
        x, y, self.yaw = solids.poses[frame, slot].tolist()
        self.center = (x, y, self.half)

    def inward(self, v: Vector) -> Vector:
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return (c * v[0] + s * v[1], -s * v[0] + c * v[1], v[2])

    def outward(self, v: Vector) -> Vector:
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return (c * v[0] - s * v[1], s * v[0] + c * v[1], v[2])

    def meets(self, origin: Vector, way: Vector) -> list[tuple[float, Vector]]:
        """Every distance at which the ray crosses the surface, with the normal there."""
        if not self.shape:
            return []
        o, d = self.inward(add(origin, self.center, -1)), self.inward(way)
        found: list[tuple[float, Vector]] = []
        if self.shape in (SPHERE, CYLINDER):
            w = 1.0 if self.shape == SPHERE else 0.0
            a = d[0] ** 2 + d[1] ** 2 + w * d[2] ** 2
            b = o[0] * d[0] + o[1] * d[1] + w * o[2] * d[2]
            c = o[0] ** 2 + o[1] ** 2 + w * o[2] ** 2 - self.r**2
            if a > 0 and b * b > a * c:
                for sign in (-1, 1):
                    t = (-b + sign * math.sqrt(b * b - a * c)) / a
                    p = add(o, d, t)
                    if self.shape == SPHERE or abs(p[2]) <= self.half:
                        found.append((t, unit((p[0], p[1], w * p[2]))))
        faces = {SPHERE: (), CYLINDER: (2,), CUBE: (0, 1, 2)}[self.shape]
        for axis in faces:
            for sign in (-1, 1):
                if d[axis] == 0:
                    continue
                t = (sign * self.half - o[axis]) / d[axis]
                p = add(o, d, t)
                rest = [abs(p[i]) for i in range(3) if i != axis]
                round_cap = self.shape == CYLINDER and math.hypot(*rest) <= self.r
                if round_cap or (self.shape == CUBE and max(rest) <= self.half):
                    found.append((t, tuple(float(sign * (i == axis)) for i in range(3))))
        return [(t, self.outward(n)) for t, n in found]

    def first(self, origin: Vector, way: Vector) -> tuple[float, Vector] | None:
        ahead = [each for each in self.meets(origin, way) if each[0] > 0]
        return min(ahead) if ahead else None

    def between(self, origin: Vector, end: Vector) -> bool:
        return any(0 < t < 1 for t, _ in self.meets(origin, add(end, origin, -1)))


@cache
def disk_points(look: LookSettings, number: int) -> list[list[Vector]]:
    """`number` points of each light."""
    lights = Lights.of(look.lights, number, torch.zeros(1, dtype=torch.float64))
    return lights.points.permute(1, 2, 0).tolist()


def seen_by_object(look: LookSettings, part: int) -> list[Vector]:
    return [tuple(points[part]) for points in disk_points(look, SIDE**2)]


def seen_by_plane(look: LookSettings, part: int) -> list[list[Vector]]:
    """Every ninth point of each light, from the ray's own on."""
    many = disk_points(look, SIDE**2 * look.points)
    return [[tuple(point) for point in points[part :: SIDE**2]] for points in many]


def received(look: LookSettings, i: int, at: Vector, point: Vector, normal: Vector) -> float:
    light = look.lights[i]
    way = add(at, point, -1)
    far = math.sqrt(dot(way, way))
    toward = max(dot(way, normal) / far, 0)
    shone = max(-dot(way, unit(tuple(-c for c in light.position))) / far, 0)
    return light.power * toward * shone * dot(light.position, light.position) / far**2


def tinted(look: LookSettings, strengths: list[float]) -> Vector:
    """Light of all lights, each in its color."""
    pairs = list(zip(look.lights, strengths, strict=True))
    red, green, blue = (sum(light.color[c] * s for light, s in pairs) for c in range(3))
    return (red, green, blue)


def plane(look: LookSettings, light: Vector, point: Vector) -> list[float]:
    near, far = look.far
    share = min(max((math.hypot(point[0], point[1]) - near) / (far - near), 0), 1)
    share = share**2 * (3 - 2 * share)
    colors = [look.ground * (look.ambient + each) for each in light]
    return [color * (1 - share) + look.backdrop * share for color in colors]


def lit_plane(look: LookSettings, solids: list[Solid], point: Vector, part: int) -> list[float]:
    strengths = []
    for i, points in enumerate(seen_by_plane(look, part)):
        free = sum(not any(s.between(point, at) for s in solids) for at in points) / len(points)
        full = sum(received(look, i, at, point, (0, 0, 1)) for at in points) / len(points)
        strengths.append(full * (free + (1 - free) * look.bounce))
    return plane(look, tinted(look, strengths), point)


def mirrored(
    look: LookSettings, solids: list[Solid], own: Solid, point: Vector, way: Vector
) -> list[float]:
    up = (0.0, 0.0, 1.0)
    fall = math.inf
    if way[2] < -1e-3:
        fall = -point[2] / way[2]
        floor = add(point, way, fall)
        lights = enumerate(look.lights)
        light = [received(look, i, each.position, floor, up) for i, each in lights]
        seen = plane(look, tinted(look, light), floor)
    else:
        low, high = look.around
        seen = [low + (high - low) * math.sqrt(max(way[2], 0))] * 3
    others = [(m[0], o) for o in solids if o is not own and (m := o.first(point, way))]
    others = [each for each in others if each[0] < fall]
    if others:
        nearest = min(others, key=lambda each: each[0])[1]
        tone = [look.mirrored * c for c in nearest.color]
        seen = [s + look.clear * (t - s) for s, t in zip(seen, tone, strict=True)]
    return seen


def rounded(look: LookSettings, own: Solid, point: Vector, normal: Vector) -> Vector:
    """The normal of a cube with rounded edges, and of anything else as it is."""
    if own.shape != CUBE or not look.bevel:
        return normal
    sides = [c / own.half for c in own.inward(add(point, own.center, -1))]
    x, y, z = (math.copysign(max(abs(s) - 1 + look.bevel, 0), s) for s in sides)
    return own.outward(unit((x, y, z)))


def surface(
    look: LookSettings,
    solids: list[Solid],
    own: Solid,
    point: Vector,
    normal: Vector,
    way: Vector,
    part: int,
) -> list[float]:
    normal = rounded(look, own, point, normal)
    back = unit(tuple(-c for c in way))
    exponent, strength = look.metal_gloss if own.metal else look.rubber_gloss
    lights, lobes = [0.0] * len(look.lights), [0.0] * len(look.lights)
    for i, at in enumerate(seen_by_object(look, part)):
        if any(other.between(point, at) for other in solids if other is not own):
            continue
        lights[i] = received(look, i, at, point, normal)
        half = unit(add(unit(add(at, point, -1)), back))
        lobe = max(dot(half, normal), 1e-4) ** exponent
        lobes[i] = lights[i] * lobe * (exponent + 8) / (8 * math.pi)
    sky = 0.5 + 0.5 * normal[2]
    around = look.ambient * (sky + (1 - sky) * look.ground)
    light, glossy = tinted(look, lights), tinted(look, lobes)
    if not own.metal:
        parts = zip(own.color, light, glossy, strict=True)
        return [look.rubber * c * (e + around) + strength * g for c, e, g in parts]
    facing = dot(normal, back)
    bounced = add(tuple(-c for c in back), normal, 2 * facing)
    mirror = mirrored(look, solids, own, point, bounced)
    rim = min(max(1 - facing, 0), 1) ** 5
    out = []
    for c, m, e, g in zip(own.color, mirror, light, glossy, strict=True):
        tint = c + (1 - c) * rim
        bright = tint + (1 - tint) * look.white
        out.append(look.metal * c * (e + around) + tint * look.mirror * m + bright * strength * g)
    return out


def srgb(value: float) -> float:
    value = min(max(value, 0), 1)
    return 255 * (12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055)


def reference(scenery: Settings, solids: Solids, frame: int) -> tuple[list, list, list, list]:
    """Colors, masks and depths by pixel, and counts of rays by object: all, and in front."""
    camera, look = Camera(scenery.camera, SIZE), scenery.look
    ways = camera.rays(SIDE, torch.zeros(1, dtype=torch.float64)).tolist()
    slots = [Solid(solids, frame, slot) for slot in range(solids.shapes.shape[1])]
    eye = scenery.camera.position
    counts = [[0, 0] for _ in slots]
    colors, masks, depths = [], [], []
    for row in range(SIZE):
        for column in range(SIZE):
            total = [0.0, 0.0, 0.0]
            for part in range(SIDE**2):
                way = tuple(ways[row][part // SIDE][column][part % SIDE])
                met = {i: m for i, solid in enumerate(slots) if (m := solid.first(eye, way))}
                for i in met:
                    counts[i][0] += 1
                nearest = min(met, key=lambda i: met[i][0]) if met else None
                if nearest is None:
                    t = -eye[2] / way[2]
                    color = lit_plane(look, slots, add(eye, way, t), part)
                else:
                    counts[nearest][1] += 1
                    t, normal = met[nearest]
                    point = add(eye, way, t)
                    color = surface(look, slots, slots[nearest], point, normal, way, part)
                total = [a + b / SIDE**2 for a, b in zip(total, color, strict=True)]
                if part == SIDE**2 // 2:
                    masks.append(0 if nearest is None else nearest + 1)
                    depths.append(t)
            colors.append([srgb(value) for value in total])
    return colors, masks, depths, counts


def scene() -> Solids:
    """Two frames: objects of every shape and material, in front of each other; and one alone."""
    return Solids(
        shapes=torch.tensor([[SPHERE, CYLINDER, CUBE, SPHERE, 0], [CUBE, 0, 0, 0, 0]]),
        materials=torch.tensor([[METAL, METAL, RUBBER, RUBBER, 0], [METAL, 0, 0, 0, 0]]),
        colors=torch.rand(2, 5, 3, generator=torch.Generator().manual_seed(0)),
        radii=torch.tensor([[0.7, 0.55, 0.7, 0.4, 0.0], [0.7, 0, 0, 0, 0]]),
        poses=torch.tensor(
            [
                [[0.2, -1.5, 0.0], [-1.1, 0.6, 0.3], [0.9, 0.4, 0.6], [2.9, -0.6, 0.0], [0, 0, 0]],
                [[-2.8, -2.0, 0.2], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
            ]
        ),
    )


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return render(scene(), SHADOWS, SIZE, SIDE)


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize("frame", [0, 1])
def test_a_picture_is_what_single_rays_find(name: str, frame: int) -> None:
    pictures = render(scene(), LOOKS[name], SIZE, SIDE)
    colors, masks, depths, counts = reference(LOOKS[name], scene(), frame)
    video = pictures.video[frame].permute(1, 2, 0).reshape(-1, 3).double()
    off = (video - torch.tensor(colors, dtype=torch.float64)).abs()
    assert off.mean() < 0.3
    assert (off > 1.5).double().mean() < 0.005  # a ray on an edge may fall to either side
    assert pictures.masks[frame].flatten().tolist() == masks
    torch.testing.assert_close(
        pictures.depth[frame].flatten(), torch.tensor(depths), rtol=1e-4, atol=0
    )
    for slot, (whole, front) in enumerate(counts):
        assert pictures.seen[frame, slot] == (whole > 0)
        share = front / whole if whole else 0
        assert pictures.visibility[frame, slot] == pytest.approx(share, abs=0.03)


def test_something_is_hidden_and_something_is_in_shadow(pictures: Pictures) -> None:
    assert 0.2 < pictures.visibility[0, 2] < 0.98
    alone = render(map_tensors(lambda values: values[1:], scene()), SHADOWS, SIZE, SIDE)
    empty = render(replace(scene(), shapes=torch.zeros(2, 5).long()), SHADOWS, SIZE, SIDE)
    on_plane = (alone.masks == 0) & (empty.masks == 0)
    darker = (alone.video[:, 0] < empty.video[1:, 0].float() - 8) & on_plane[0]
    assert darker.sum() > 5
    assert not (alone.video[:, 0] > empty.video[1:, 0])[on_plane[:1]].any()


@pytest.mark.parametrize("memory", [1, 1 << 20, 1 << 30])
def test_chunks_change_nothing(pictures: Pictures, memory: int) -> None:
    again = render(scene(), SHADOWS, SIZE, SIDE, memory=memory)
    assert torch.equal(again.video, pictures.video)
    assert torch.equal(again.masks, pictures.masks)
    assert torch.equal(again.depth, pictures.depth)


def test_what_is_behind_the_camera_or_far_away_is_not_there() -> None:
    away = torch.tensor([[[0.0, -14.0, 0], [0, -9.9, 0], [300, 5, 0], [0, -7, 0], [0, 0, 0]]] * 2)
    shown = render(replace(scene(), poses=away), SHADOWS, SIZE, SIDE)
    assert not shown.seen[0].any()
    assert not shown.masks[0].any()


def test_the_empty_plane_has_the_grays_of_the_original_set() -> None:
    look = Settings().look
    stage = RenderStage.of(CAMERA, look, 128, SIDE, torch.device("cpu"))
    right = stage.empty.reshape(128, 128, 3)[:, 96:].double().mean(dim=1)
    original = {8: 102, 24: 102, 40: 106, 64: 125, 90: 143, 120: 158}
    for row, gray in original.items():
        assert right[row, 0] == pytest.approx(gray, abs=3)
    assert right[120].tolist() == pytest.approx([158, 155, 150], abs=3)  # slightly warm


def test_a_shadow_is_far_fainter_than_where_shadows_are_dark() -> None:
    drops = {}
    for name, scenery in LOOKS.items():
        shown, empty = (
            render(solids, scenery, 48, SIDE)
            for solids in (scene(), replace(scene(), shapes=torch.zeros(2, 5).long()))
        )
        drop = empty.video.double() - shown.video.double()
        drops[name] = drop.mean(dim=1)[shown.masks == 0].clamp_min(0).max()
    assert 5 < drops["obj3d"] < 0.5 * drops["obj3d-shadows"]


def test_objects_that_rest_are_drawn_as_if_each_frame_were_alone() -> None:
    frames = [0, 0, 1, 1, 0, 0]
    several = map_tensors(lambda values: values[frames], scene())
    several.poses[3, 0, 0] += 0.4
    together = render(several, LOOKS["obj3d"], 24, SIDE)
    for i in range(len(frames)):
        alone = render(map_tensors(lambda values, i=i: values[i : i + 1], several), Settings(), 24)
        assert torch.equal(together.video[i], alone.video[0])
        assert torch.equal(together.masks[i], alone.masks[0])


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([SPHERE, CYLINDER, CUBE]),
    st.floats(0.3, 0.8),
    st.tuples(st.floats(-3, 3), st.floats(-3, 4), st.floats(-3.1, 3.1)),
)
def test_a_box_holds_all_points_of_its_object_and_touches_some(
    shape: int, radius: float, pose: Vector
) -> None:
    solids = Solids(
        shapes=torch.tensor([[shape]]),
        materials=torch.tensor([[RUBBER]]),
        colors=torch.ones(1, 1, 3, dtype=torch.float64),
        radii=torch.tensor([[radius]], dtype=torch.float64),
        poses=torch.tensor([[pose]], dtype=torch.float64),
    )
    camera = Camera(CAMERA, 64)
    generator = torch.Generator().manual_seed(0)
    at = torch.rand(40000, 3, generator=generator, dtype=torch.float64) * 2 - 1
    if shape == SPHERE:
        at = at / at.norm(dim=1, keepdim=True)
    elif shape == CYLINDER:
        rim = at[:, :2] / at[:, :2].norm(dim=1, keepdim=True)
        at = torch.cat([rim, at[:, 2:].sign()], dim=1)
    else:
        at = at.sign()
    half = float(solids.halves)
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    turn = torch.tensor([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]], dtype=torch.float64)
    points = at * half @ turn + solids.centers[0, 0]
    right, up, ahead = ((points - torch.tensor(CAMERA.position)) @ camera.axes(points).T).T
    x, y = (((v / ahead) / camera.half + 1) * 32 for v in (right, -up))
    left, top, right, bottom = camera.boxes(solids)[0, 0].tolist()
    found = (float(x.min()), float(y.min()), float(x.max()), float(y.max()))
    assert found == pytest.approx((left, top, right, bottom), abs=0.02)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_rays_from_anywhere_meet_solids_where_their_surfaces_are(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    origin = torch.rand(3, 4, 1, generator=rng, dtype=torch.float64) * 8 - 4
    origin[2] += 6
    solids = map_tensors(lambda v: v.double() if v.is_floating_point() else v, scene())
    shapes = shapes_of(solids)[:4]
    target = shapes[:, :3].T[..., None] + torch.randn(3, 4, 1, generator=rng).double() * 0.3
    index = torch.arange(4)
    far = hits(shapes, index, origin, target - origin)[:, 0]
    point = origin[..., 0] + (target - origin)[..., 0] * far
    normal = normals(shapes, index, point)
    for slot in range(4):
        start, way = tuple(origin[:, slot, 0].tolist()), (target - origin)[:, slot, 0].tolist()
        expected = Solid(solids, 0, slot).first(start, tuple(way))
        if expected is None:
            assert far[slot] == math.inf
            continue
        assert float(far[slot]) == pytest.approx(expected[0], rel=1e-9)
        assert normal[:, slot].tolist() == pytest.approx(expected[1], abs=1e-6)


@given(st.lists(st.integers(0, 9), min_size=1), st.integers(1, 20))
def test_cuts_hold_everything_once_and_no_more_than_the_most(sizes: list[int], most: int) -> None:
    runs = cuts(sizes, most)
    assert [i for start, stop in runs for i in range(start, stop)] == list(range(len(sizes)))
    assert all(stop - start == 1 or sum(sizes[start:stop]) <= most for start, stop in runs)
