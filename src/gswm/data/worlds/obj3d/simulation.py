"""Physics, by MuJoCo: each object slides on the plane and rotates about its vertical axis.

Objects do not tip over or leave the plane, whose force is vertical: only friction of the surface,
if the settings have any, changes momentum in the plane. Two touching objects are pushed apart by a
stiff spring, which never pulls; its damping determines the restitution e:

    acceleration = max(k · depth + b · closing speed, 0)
    b = 2 ζ √k, where ζ is such that ln e = -2 acos(ζ) ζ / √(1 - ζ²)
"""

import importlib.util
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from gswm.core.errors import UserError
from gswm.core.words import install
from gswm.data.worlds.obj3d.settings import CUBE, SHAPES, SPHERE, Settings

SUBSTEPS = 64
"""Simulation steps per frame."""
STIFFNESS = 400.0
"""k, per frame squared: at a speed of 0.4 lengths per frame, objects overlap by 0.02."""
APART = 2
"""Number of steps without touch after which touching again is another contact."""


@dataclass(frozen=True)
class Looks:
    """Properties of the objects of a scene."""

    shapes: Int64[np.ndarray, " object"]
    materials: Int64[np.ndarray, " object"]
    colors: Float64[np.ndarray, "object 3"]
    radii: Float64[np.ndarray, " object"]


@dataclass(frozen=True)
class SceneStart:
    """A scene in its first frame."""

    looks: Looks
    poses: Float64[np.ndarray, "object 3"]
    """(x, y, yaw)."""
    motions: Float64[np.ndarray, "object 3"]
    """Change of the pose per frame."""


@dataclass(frozen=True)
class Contact:
    """Two touching objects, from the beginning of the contact to its end."""

    time: float
    """Time of the contact, in frames."""
    pair: tuple[int, int]
    impulse: tuple[float, float]
    """Impulse from the first to the second, in the plane."""
    depth: float
    """Largest overlap of the two."""


@dataclass(frozen=True)
class Path:
    """Result of simulating a scene."""

    poses: Float64[np.ndarray, "time object 3"]
    motions: Float64[np.ndarray, "time object 3"]
    contacts: tuple[Contact, ...]


def volume(shape: int, radius: float) -> float:
    """Volume of an object: cylinders are as high as wide, cubes have a side of √2 r."""
    if shape == CUBE:
        return (math.sqrt(2) * radius) ** 3
    return (4 / 3 if shape == SPHERE else 2) * math.pi * radius**3


def height(shape: int, radius: float) -> float:
    """Height of an object's center above the plane."""
    return radius / math.sqrt(2) if shape == CUBE else radius


def masses(looks: Looks, settings: Settings) -> Float64[np.ndarray, " object"]:
    """Mass of each object."""
    if settings.mass is not None:
        return np.full(len(looks.shapes), settings.mass)
    each = zip(looks.shapes, looks.radii, looks.materials, strict=True)
    return np.array([volume(int(s), float(r)) * settings.densities[int(m)] for s, r, m in each])


def damping_ratio(restitution: float) -> float:
    """ζ of a spring with this restitution."""
    low, high = 0.0, 1.0 - 1e-9
    for _ in range(50):
        middle = (low + high) / 2
        share = math.exp(-2 * math.acos(middle) * middle / math.sqrt(1 - middle * middle))
        low, high = (middle, high) if share > restitution else (low, middle)
    return low if restitution < 1 else 0.0


def mujoco_xml(start: SceneStart, settings: Settings) -> str:
    """The scene in MuJoCo's format."""
    damping = 2 * damping_ratio(settings.restitution) * math.sqrt(STIFFNESS)
    drag = -math.log1p(-settings.friction)
    bodies = []
    for i, mass in enumerate(masses(start.looks, settings)):
        shape, r = int(start.looks.shapes[i]), float(start.looks.radii[i])
        x, y, _ = start.poses[i]
        half = r / math.sqrt(2)
        size = {"sphere": f"{r}", "cylinder": f"{r} {r}", "cube": f"{half} {half} {half}"}
        kind = SHAPES[shape].replace("cube", "box")
        joints = "".join(
            f'<joint type="{kind}" axis="{axis}" damping="{resisted * drag}"/>'
            for kind, axis, resisted in (
                ("slide", "1 0 0", mass),
                ("slide", "0 1 0", mass),
                ("hinge", "0 0 1", mass * r * r / 2),
            )
        )
        bodies.append(
            f'<body pos="{x} {y} {height(shape, r)}">{joints}'
            f'<geom type="{kind}" size="{size[SHAPES[shape]]}" mass="{mass}"/></body>'
        )
    return f"""<mujoco><compiler angle="radian"/>
<option timestep="{1 / SUBSTEPS}" gravity="0 0 0" cone="elliptic" integrator="implicitfast"/>
<default><geom condim="3" friction="{settings.grip} 0 0" solref="{-STIFFNESS} {-damping}"
solimp="0.99 0.99 0.001"/></default><worldbody>{"".join(bodies)}</worldbody></mujoco>"""


def simulate(start: SceneStart, settings: Settings) -> Path:
    """Simulate the scene over all frames."""
    mujoco = import_mujoco()
    model = mujoco.MjModel.from_xml_string(mujoco_xml(start, settings))
    data = mujoco.MjData(model)
    num, frames = len(start.poses), settings.num_frames
    origin = start.poses * [1, 1, 0]
    data.qpos[:] = (start.poses - origin).ravel()
    data.qvel[:] = start.motions.ravel()
    poses, motions = np.empty((2, frames, num, 3))
    touching: dict[tuple[int, int], list] = {}
    met: list[list] = []
    force = np.empty(6)
    for frame in range(frames):
        poses[frame] = origin + data.qpos.reshape(num, 3)
        motions[frame] = data.qvel.reshape(num, 3)
        if frame == frames - 1:
            break
        for step in range(SUBSTEPS):
            mujoco.mj_step(model, data)
            if not data.ncon:
                continue
            now = frame * SUBSTEPS + step
            for i in range(data.ncon):
                contact = data.contact[i]
                mujoco.mj_contactForce(model, data, i, force)
                push = (contact.frame.reshape(3, 3).T @ force[:3])[:2] / SUBSTEPS
                pair = (int(contact.geom[0]), int(contact.geom[1]))
                last = touching.get(pair)
                if last is None or now - last[1] > APART:
                    touching[pair] = last = [now / SUBSTEPS, now, pair, np.zeros(2), 0.0]
                    met.append(last)
                last[1] = now
                last[3] += push
                last[4] = max(last[4], -contact.dist)
    contacts = (
        Contact(time, pair, (float(push[0]), float(push[1])), depth)
        for time, _, pair, push, depth in met
        if push.any()
    )
    return Path(poses, motions, tuple(contacts))


def can_simulate() -> bool:
    """Whether MuJoCo is installed."""
    return importlib.util.find_spec("mujoco") is not None


def import_mujoco() -> Any:
    """MuJoCo; raises a UserError if it is not installed."""
    try:
        import mujoco
    except ImportError as error:
        raise UserError(
            f"simulating 3D scenes needs MuJoCo: {install('sim')}; or use the world "
            "obj3d:FOLDER with scene files from another machine (or `gswm data make --scenes FILE`)"
        ) from error
    return mujoco
