"""The same scenes by Blender's Cycles, for who wants its look; some seconds a frame.

Blender runs in a Python of its own (see `blender_program`): the one that the environment variable
GSWM_BLENDER names, or this one if it has bpy. Only the video is Blender's. Masks, depths and all
else are of the torch renderer's rays; `agreement` says how well the two agree.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.worlds.obj3d import blender_program
from gswm.data.worlds.obj3d.camera import Solids
from gswm.data.worlds.obj3d.renderer import Pictures, render
from gswm.data.worlds.obj3d.settings import Settings

SAMPLES = 64
"""Rays of a pixel."""


@dataclass(frozen=True)
class BlenderFrames:
    """Images drawn by Blender."""

    video: UInt8[Tensor, "frame 3 height width"]
    masks: UInt8[Tensor, "frame height width"]


def render_blender(solids: Solids, settings: Settings, size: int) -> Pictures:
    """Frames by Blender, with what is true of them."""
    pictures = render(solids, settings, size)
    return replace(pictures, video=draw(solids, settings, size).video.to(solids.radii.device))


def draw(solids: Solids, settings: Settings, size: int, samples: int = SAMPLES) -> BlenderFrames:
    """Frames and masks by Blender."""
    python = find_python()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **described(solids, settings, size, samples))
        done = run([python, blender_program.__file__, str(source), str(target)])
        if not target.exists():
            said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
            raise UserError(f"Blender drew nothing; its last line: {said}")
        with np.load(target) as out:
            video, masks = torch.from_numpy(out["video"]), torch.from_numpy(out["masks"])
    return BlenderFrames(video.permute(0, 3, 1, 2), masks)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Have the Python that has bpy do it, and hear what it says."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        said = str(error.strerror).lower()
        raise UserError(
            f"GSWM_BLENDER is '{command[0]}', which cannot be run ({said}): let it name a Python "
            "that has bpy"
        ) from error


def described(solids: Solids, settings: Settings, size: int, samples: int) -> dict:
    """All that the program needs."""
    camera, look = settings.camera, settings.look
    arrays = {name: getattr(solids, name).cpu().numpy() for name in solids.__dataclass_fields__}
    return {
        **arrays,
        "camera": camera.position,
        "target": camera.target,
        "field_of_view": camera.field_of_view,
        "light_positions": [light.position for light in look.lights],
        "light_radii": [light.radius for light in look.lights],
        "light_powers": [light.power for light in look.lights],
        "light_colors": [light.color for light in look.lights],
        "ambient": look.ambient,
        "ground": look.ground,
        "rubber": look.rubber,
        "size": size,
        "samples": samples,
    }


def find_python() -> str:
    """A Python that has bpy."""
    if named := os.environ.get("GSWM_BLENDER"):
        return named
    if importlib.util.find_spec("bpy") is None:
        raise UserError(
            "drawing with Blender needs bpy, in a Python of its own: python3.11 -m venv blender; "
            "blender/bin/pip install bpy; export GSWM_BLENDER=blender/bin/python"
        )
    return sys.executable


def agreement(
    one: UInt8[Tensor, "frame height width"], other: UInt8[Tensor, "frame height width"]
) -> list[float]:
    """Intersection over union of every object that both, or one, of two renderers shows."""
    found = []
    for left, right in zip(one, other, strict=True):
        for number in sorted({*left.unique().tolist(), *right.unique().tolist()} - {0}):
            a, b = left == number, right == number
            found.append(float((a & b).sum() / (a | b).sum()))
    return found
