"""Scenes: the poses of all objects in every frame, and their contacts, in arrays and a small file.

Episode i of a seed is drawn and simulated with its own generator, independent of all others. If a
scene does not fit its settings (no object is hit, or too early), the next one of the same generator
is used.
"""

import math
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
from jaxtyping import Float32, Int64, Shaped, UInt8

from gswm.core.ending import ignore_interrupts
from gswm.core.errors import UserError
from gswm.data.worlds.obj3d.settings import (
    COLORS,
    CUBE,
    MATERIALS,
    SHAPES,
    SPHERE,
    CameraSettings,
    Settings,
)
from gswm.data.worlds.obj3d.simulation import (
    Looks,
    Path,
    SceneStart,
    import_mujoco,
    masses,
    simulate,
)

ATTEMPTS = 50
"""Number of times that new objects are drawn, if no scene was found with the previous ones."""
PLACES = 1000
"""Number of attempts to place the objects."""
AT_ONCE = 8
"""Number of episodes that a worker generates at a time."""


@dataclass(frozen=True)
class Contacts:
    """All contacts of two objects, sorted by episode and time."""

    episode: Int64[np.ndarray, " contact"]
    time: Float32[np.ndarray, " contact"]
    """Time of the contact, in frames."""
    pair: UInt8[np.ndarray, "contact 2"]
    """The slots of the two."""
    impulse: Float32[np.ndarray, "contact 2"]
    """Impulse from the first to the second, in the plane."""
    depth: Float32[np.ndarray, " contact"]
    """Largest overlap of the two."""


@dataclass(frozen=True)
class Scenes:
    """Several episodes. The first slot of each is the sphere that is shot; empty ones come last."""

    shapes: UInt8[np.ndarray, "episode object"]
    """See `SHAPES`; 0 for an empty slot."""
    materials: UInt8[np.ndarray, "episode object"]
    colors: Float32[np.ndarray, "episode object 3"]
    radii: Float32[np.ndarray, "episode object"]
    masses: Float32[np.ndarray, "episode object"]
    poses: Float32[np.ndarray, "episode time object 3"]
    """(x, y, yaw)."""
    motions: Shaped[np.ndarray, "episode time object 3"]
    """Change of the pose per frame, in half precision."""
    contacts: Contacts

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, which: slice) -> "Scenes":
        start, stop, _ = which.indices(len(self))
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        first, last = np.searchsorted(self.contacts.episode, [start, stop])
        held = (getattr(self.contacts, f.name)[first:last] for f in fields(Contacts))
        contacts = Contacts(*held)
        parts = {name: part[start:stop] for name, part in parts.items() if name != "contacts"}
        return Scenes(**parts, contacts=replace(contacts, episode=contacts.episode - start))

    def first_frames(self, frames: int) -> "Scenes":
        """The same scenes, up to frame `frames - 1` and its contacts."""
        if frames >= self.poses.shape[1]:
            return self
        kept = np.floor(self.contacts.time) + 1 < frames
        contacts = Contacts(*(getattr(self.contacts, f.name)[kept] for f in fields(Contacts)))
        poses, motions = self.poses[:, :frames], self.motions[:, :frames]
        return replace(self, poses=poses, motions=motions, contacts=contacts)

    def impulses(self) -> Float32[np.ndarray, "episode time object object"]:
        """Impulse between each pair since the previous frame."""
        episodes, time, objects, _ = self.poses.shape
        out = np.zeros((episodes, time, objects, objects), np.float32)
        c = self.contacts
        frame = np.minimum(np.floor(c.time).astype(int) + 1, time - 1)  # the next one
        size = np.linalg.norm(c.impulse, axis=1)
        one, other = c.pair.T.astype(int)
        np.add.at(out, (c.episode, frame, one, other), size)
        np.add.at(out, (c.episode, frame, other, one), size)
        return out


def join(parts: Sequence[Scenes]) -> Scenes:
    """Concatenate scenes."""
    starts = np.cumsum([0, *(len(part) for part in parts)])
    moved = [
        replace(part.contacts, episode=part.contacts.episode + start)
        for part, start in zip(parts, starts, strict=False)
    ]
    kinds = [f.name for f in fields(Contacts)]
    contacts = Contacts(*(np.concatenate([getattr(c, kind) for c in moved]) for kind in kinds))
    names = [f.name for f in fields(Scenes) if f.name != "contacts"]
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Scenes(**arrays, contacts=contacts)


def make_scenes(
    settings: Settings, seed: int, n: int, first: int = 0, workers: int | None = None
) -> Iterator[Scenes]:
    """Generate episodes `first`, ..., `first + n - 1` of `seed` in other processes, in chunks."""
    import_mujoco()
    workers = min(workers or os.cpu_count() or 1, -(-n // AT_ONCE))
    starts = range(first, first + n, AT_ONCE)
    ranges = [range(start, min(start + AT_ONCE, first + n)) for start in starts]
    make = partial(_make, settings, seed)
    if workers <= 1:
        yield from map(make, ranges)
        return
    with multiprocessing.get_context("spawn").Pool(workers, ignore_interrupts) as pool:
        yield from pool.imap(make, ranges)


def _make(settings: Settings, seed: int, indices: range) -> Scenes:
    return join([one_scene(settings, seed, index) for index in indices])


def one_scene(settings: Settings, seed: int, index: int) -> Scenes:
    """Episode `index` of `seed`."""
    rng = np.random.default_rng([seed, index])
    low, high = settings.first_contact
    for _ in range(ATTEMPTS):
        looks = draw_looks(rng, settings)
        for _ in range(PLACES):
            start = place(rng, looks, settings)
            if start is None or not low <= first_touch(start, settings.friction) <= high:
                continue
            path = simulate(start, settings)
            if path.contacts and low <= path.contacts[0].time <= high:
                return record(start, path, settings)
    raise UserError(
        f"no scene found in {ATTEMPTS * PLACES} attempts: use fewer or smaller objects, a smaller "
        f"gap, or another time of the first contact"
    )


def draw_looks(rng: np.random.Generator, settings: Settings) -> Looks:
    """Draw the properties of the objects."""
    num = 1 + int(rng.integers(settings.objects[0], settings.objects[1] + 1))
    shapes = np.array([SHAPES.index(s) for s in rng.choice(settings.shapes, num)])
    shapes[0] = SPHERE
    names = rng.choice(settings.materials, num)
    if names[0] not in settings.shot_materials:
        names[0] = settings.shot_materials[0]
    materials = np.array([MATERIALS.index(name) for name in names])
    palette = np.array([COLORS[name] for name in settings.colors])
    colors = palette[rng.integers(len(palette), size=num)]
    radii = rng.choice(settings.radii, num) * np.where(shapes == CUBE, settings.cube_scale, 1.0)
    return Looks(shapes, materials, colors, radii)


def place(rng: np.random.Generator, looks: Looks, settings: Settings) -> SceneStart | None:
    """A sphere that is shot at objects on the plane; None if they overlap."""
    num, radii = len(looks.radii), looks.radii
    left, right = np.array([settings.entry_across, *[settings.across] * (num - 1)]).T
    across = rng.uniform(left, right)
    down = np.array([rng.uniform(*settings.entry), *rng.uniform(*settings.down, num - 1)])
    yaw = rng.uniform(-math.pi, math.pi, num)
    target = int(rng.integers(1, num))
    off = rng.uniform(-0.5, 0.5, 2)
    speed = rng.uniform(*settings.speed)
    xy = on_plane(settings.camera, across, down)
    apart = np.linalg.norm(xy[:, None] - xy[None], axis=-1) - radii[:, None] - radii
    if (apart[~np.eye(num, dtype=bool)] < settings.gap).any():
        return None
    aim = xy[target] + off * (radii[0] + radii[target]) - xy[0]
    motions = np.zeros((num, 3))
    motions[0, :2] = aim / np.linalg.norm(aim) * speed
    return SceneStart(looks, np.column_stack([xy, yaw]), motions)


def on_plane(camera: CameraSettings, across: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Points on the plane at these fractions of the picture."""
    eye = np.array(camera.position)
    ahead = np.array(camera.target) - eye
    ahead /= np.linalg.norm(ahead)
    right = np.array([ahead[1], -ahead[0], 0]) / np.hypot(ahead[0], ahead[1])
    half = math.tan(math.radians(camera.field_of_view) / 2)
    x, y = (2 * across - 1) * half, (1 - 2 * down) * half
    ways = ahead + x[:, None] * right + y[:, None] * np.cross(right, ahead)
    return (eye + ways * (-eye[2] / ways[:, 2:]))[:, :2]


def first_touch(start: SceneStart, friction: float = 0.0) -> float:
    """Time at which the sphere would first reach the base of an object; infinity for never."""
    way = start.motions[0, :2]
    offset = start.poses[1:, :2] - start.poses[0, :2]
    reach = start.looks.radii[1:] + start.looks.radii[0]
    along = offset @ way / (way @ way)
    beside = np.square(offset).sum(axis=1) - along**2 * (way @ way)
    hit = (beside < reach**2) & (along > 0)
    if not hit.any():
        return math.inf
    before = np.sqrt((reach[hit] ** 2 - beside[hit]) / (way @ way))
    moved = float((along[hit] - before).min())  # in steps of the first frame
    if not friction:
        return moved
    drag = -math.log1p(-friction)
    return -math.log1p(-moved * drag) / drag if moved * drag < 1 else math.inf


def record(start: SceneStart, path: Path, settings: Settings) -> Scenes:
    """Record one episode."""
    looks = start.looks
    empty = settings.num_slots - len(looks.shapes)
    c = path.contacts

    def slots(values: np.ndarray, kind: type, axis: int = 0) -> np.ndarray:
        widths = [(0, empty if i == axis else 0) for i in range(values.ndim)]
        return np.pad(values.astype(kind), widths)[None]

    return Scenes(
        shapes=slots(looks.shapes, np.uint8),
        materials=slots(looks.materials, np.uint8),
        colors=slots(looks.colors, np.float32),
        radii=slots(looks.radii, np.float32),
        masses=slots(masses(looks, settings), np.float32),
        poses=slots(path.poses, np.float32, axis=1),
        motions=slots(path.motions, np.float16, axis=1),
        contacts=Contacts(
            episode=np.zeros(len(c), np.int64),
            time=np.array([each.time for each in c], np.float32),
            pair=np.array([each.pair for each in c], np.uint8).reshape(-1, 2),
            impulse=np.array([each.impulse for each in c], np.float32).reshape(-1, 2),
            depth=np.array([each.depth for each in c], np.float32),
        ),
    )
