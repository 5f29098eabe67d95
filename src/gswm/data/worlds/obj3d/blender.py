"""Renders the same scenes with Blender's Cycles; some seconds per frame.

Blender runs in a separate Python (see `blender_program`): the one in the environment variable
GSWM_BLENDER, or this one if it has bpy. Only the video is Blender's. Masks, depths and all other
ground truth come from the torch renderer; `agreement` measures how well the two agree.
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
"""Rays per pixel."""


@dataclass(frozen=True)
class BlenderFrames:
    """Images drawn by Blender."""

    video: UInt8[Tensor, "frame 3 height width"]
    masks: UInt8[Tensor, "frame height width"]


def render_blender(solids: Solids, settings: Settings, size: int) -> Pictures:
    """Frames by Blender, with the ground truth of the torch renderer."""
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
            raise UserError(f"Blender rendered nothing; its last line of output: {said}")
        with np.load(target) as out:
            video, masks = torch.from_numpy(out["video"]), torch.from_numpy(out["masks"])
    return BlenderFrames(video.permute(0, 3, 1, 2), masks)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in the Python that has bpy, and return its output."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        said = str(error.strerror).lower()
        raise UserError(
            f"GSWM_BLENDER is '{command[0]}', which cannot be run ({said}): set it to a Python "
            f"with bpy"
        ) from error


def described(solids: Solids, settings: Settings, size: int, samples: int) -> dict:
    """The input of the program."""
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
    """Find a Python that has bpy."""
    if named := os.environ.get("GSWM_BLENDER"):
        return named
    if importlib.util.find_spec("bpy") is None:
        raise UserError(
            "rendering with Blender needs bpy in a separate environment: python3.11 -m venv "
            "blender; blender/bin/pip install bpy; export GSWM_BLENDER=blender/bin/python"
        )
    return sys.executable


def agreement(
    one: UInt8[Tensor, "frame height width"], other: UInt8[Tensor, "frame height width"]
) -> list[float]:
    """Intersection over union of every object that at least one of two renderers shows."""
    found = []
    for left, right in zip(one, other, strict=True):
        for number in sorted({*left.unique().tolist(), *right.unique().tolist()} - {0}):
            a, b = left == number, right == number
            found.append(float((a & b).sum() / (a | b).sum()))
    return found
