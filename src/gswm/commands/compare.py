"""`gswm data compare`: frames of the 3D world by both renderers."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from gswm.core.files import check_output
from gswm.core.limits import LARGEST_SIDE, check_range, check_seed
from gswm.core.records import map_tensors
from gswm.data.worlds.obj3d import blender
from gswm.data.worlds.obj3d.renderer import render
from gswm.data.worlds.obj3d.world import Obj3D, solids_of
from gswm.viz import formats, pictures


@dataclass(frozen=True)
class CompareCommand:
    """Settings of `gswm data compare`."""

    EXAMPLES: ClassVar = (
        "gswm data compare --scenes scenes/test.hdf5 --frames 20 --out renderers.png",
    )

    scenes: Path
    """Scene file; random frames of it are compared."""
    frames: int = 20
    """Number of frames to compare."""
    size: int = 64
    """Frame size in pixels."""
    samples: int = 64
    """Blender's samples per pixel; 0 renders only masks."""
    seed: int = 0
    """Random seed for choosing frames."""
    out: Path | None = None
    """Write a .png with torch's frames above Blender's."""
    force: bool = False
    """Overwrite the .png if it exists."""

    def run(self) -> None:
        """Draw, and report the agreement of the masks."""
        check_range({"--frames": self.frames}, 1)
        check_range({"--size": self.size}, 1, LARGEST_SIDE)
        check_range({"--samples": self.samples}, 0)
        check_seed(self.seed)
        if self.out is not None:
            check_output(self.out, formats.STILL, [self.scenes], force=self.force)
        world = Obj3D.of_files([self.scenes])
        solids = solids_of(world.files[0].scenes)
        generator = torch.Generator().manual_seed(self.seed)
        chosen = torch.randperm(len(solids.radii), generator=generator)[: self.frames]
        solids = map_tensors(lambda values: values[chosen], solids)
        ours = render(solids, world.settings, self.size)
        theirs = blender.draw(solids, world.settings, self.size, self.samples)
        overlap = blender.agreement(ours.masks, theirs.masks)
        if overlap:
            mean, least = sum(overlap) / len(overlap), min(overlap)
            print(f"{len(overlap)} objects in {len(chosen)} frames of {self.size} pixels")
            print(f"IoU of masks: {mean:.4f} on average, {least:.4f} at worst")
        if self.out is not None and self.samples:
            rows = [v.permute(0, 2, 3, 1).numpy() for v in (ours.video, theirs.video)]
            sheet = pictures.sheet(rows, ["torch", "blender"], [""] * len(chosen), "")
            formats.save_picture(self.out, sheet)
            print(self.out)
