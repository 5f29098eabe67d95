"""The world `obj3d`: scenes, simulated or read from files, and their pictures."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.limits import check_seed
from gswm.core.records import regroup
from gswm.core.words import install
from gswm.data.episode import Episodes, Space, Truth
from gswm.data.worlds.base import MEMORY, Split, SplitName, World, check_size, splits
from gswm.data.worlds.obj3d import scene_file
from gswm.data.worlds.obj3d.camera import Camera, Solids
from gswm.data.worlds.obj3d.layout import nearness
from gswm.data.worlds.obj3d.renderer import SIDE, Pictures, render
from gswm.data.worlds.obj3d.scene_file import SceneFile
from gswm.data.worlds.obj3d.scenes import Scenes, join, make_scenes
from gswm.data.worlds.obj3d.settings import HARD, SHADOWS, TWO, Settings
from gswm.data.worlds.obj3d.simulation import can_simulate

Renderer = Literal["torch", "blender"]
FRAME = 16
"""Bytes per pixel of a frame: video, mask, depth, and copies."""
SIZES = range(8, 1025)
"""Possible frame sizes in pixels."""
ROUND = 256
"""Number of scenes that are simulated at a time, if they are endless."""
SPLITS = splits(31, train=2920, others=200)


@dataclass(frozen=True)
class Obj3D(World):
    """Solids on a plane, and a sphere that is shot into them."""

    name: str = "obj3d"
    settings: Settings = field(default_factory=Settings)
    image_size: int = 64
    renderer: Renderer = "torch"
    side: int = SIDE
    """Rays per pixel along each axis."""
    workers: int = 1
    """Number of simulating processes."""
    frames: int | None = None
    """Number of frames to draw of each episode. Default: None (all)."""
    files: tuple[SceneFile, ...] = field(default=(), repr=False)
    """Scene files to draw; empty to simulate."""
    num_frames: int = field(init=False, repr=False, compare=False)
    num_objects: int = field(init=False, repr=False, compare=False)
    """Object slots, the sphere that is shot first."""
    splits: dict[SplitName, Split] = field(init=False, repr=False, compare=False)
    """The paper's datasets, or those in the files."""
    layout = "obj3d"
    protocol = "gswm-3d-10-90"
    style = "stills"
    extra = "sim"
    has_scene_files = True

    def __post_init__(self) -> None:
        held: dict[SplitName, Split] = {
            file.split: Split(file.seed, len(file.scenes)) for file in self.files
        }
        all_frames = self.settings.num_frames
        object.__setattr__(self, "num_frames", min(self.frames or all_frames, all_frames))
        object.__setattr__(self, "num_objects", self.settings.num_slots)
        object.__setattr__(self, "splits", held or SPLITS)

    @staticmethod
    def of_files(paths: list[Path]) -> "Obj3D":
        """The world with the episodes in these scene files, one per split."""
        files = tuple(scene_file.load(path) for path in paths)
        if len({file.split for file in files}) < len(files):
            raise UserError(
                f"{paths[0].parent}: two files have scenes of the same split; delete one"
            )
        if any(file.settings != files[0].settings for file in files):
            raise UserError(
                f"{paths[0].parent}: the files have different settings; keep those of one world"
            )
        return Obj3D(settings=files[0].settings, files=files)

    @staticmethod
    def of_folder(folder: Path) -> "Obj3D":
        """The world with the episodes in a folder's files, which are named after their splits."""
        paths = [path for name in SPLITS if (path := folder / f"{name}.hdf5").exists()]
        if not paths:
            raise UserError(
                f"{folder} has no train.hdf5, val.hdf5 or test.hdf5; `gswm data scenes` creates "
                "them"
            )
        return Obj3D.of_files(paths)

    def missing(self) -> str:
        """See `World`: MuJoCo, unless there are scene files."""
        return "" if self.files or can_simulate() else f"MuJoCo: {install(self.extra)}"

    def identity(self) -> str:
        """See `World`; empty for scenes of files, and for Blender's pictures."""
        return "" if self.files or self.renderer != "torch" else repr(replace(self, workers=1))

    def with_workers(self, workers: int) -> "Obj3D":
        """See `World`."""
        return replace(self, workers=workers)

    def with_scenes(self, path: Path) -> "Obj3D":
        """See `World`: an .hdf5 is one file, any other name a folder of files."""
        is_file = path.suffix.lower() == ".hdf5" and not path.is_dir()
        held = Obj3D.of_files([path]) if is_file else Obj3D.of_folder(path)
        owner = next((each.name for each in NAMED if each.settings == held.settings), None)
        if owner is not None and held.settings != self.settings:
            raise UserError(f"{path} has scenes of {owner}, not of {self.name}: use {owner}")
        return replace(self, settings=held.settings, files=held.files)

    def shortened(self, frames: int) -> "Obj3D":
        """See `World`. Scenes are simulated to their end, so that they do not change."""
        return replace(self, frames=frames)

    def resized(self, size: int) -> "Obj3D":
        """See `World`."""
        check_size(self.name, size, SIZES)
        return replace(self, image_size=size)

    def drawn_by(self, renderer: str) -> "Obj3D":
        """See `World`."""
        for known in get_args(Renderer):
            if renderer == known:
                return replace(self, renderer=known)
        raise UserError(
            f"there is no renderer '{renderer}'; choose {' or '.join(get_args(Renderer))}"
        )

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        """See `World`."""
        device = find_device(device)
        step = max(1, memory // 4 // (self.num_frames * self.image_size**2 * FRAME))
        for scenes in self.scenes(seed, n, step, first):
            yield self.show(scenes, device, memory // 4)

    def scenes(self, seed: int, n: int | None, step: int, first: int = 0) -> Iterator[Scenes]:
        """The `n` scenes of `seed` from `first` on, or endless ones, in groups of `step`."""
        if self.files:
            held = next((file.scenes for file in self.files if file.seed == seed), None)
            if held is None:
                seeds = ", ".join(str(file.seed) for file in self.files)
                raise UserError(f"{self.name}: the files have scenes of seeds {seeds}")
            if n is None or first + n > len(held):
                asked = "episodes without end" if n is None else f"{first + n} episodes"
                raise UserError(f"{self.name}: {asked} were requested, but there are {len(held)}")
            some = held[first : first + n]
            yield from (some[i : i + step] for i in range(0, n, step))
            return
        check_seed(seed, "seed")
        for start in count(first, ROUND) if n is None else (first,):
            number = ROUND if n is None else n
            made = make_scenes(self.settings, seed, number, start, self.workers)
            yield from regroup(made, step, join)

    def show(
        self, scenes: Scenes, device: str | torch.device = "cpu", memory: int = MEMORY
    ) -> Episodes:
        """Scenes with their pictures."""
        scenes = scenes.first_frames(self.num_frames)
        solids = solids_of(scenes, device)
        pictures = self.draw(solids, memory)
        camera = Camera(self.settings.camera, self.image_size)
        return described(scenes, solids, pictures, camera)

    def draw(self, solids: Solids, memory: int) -> Pictures:
        """Draw the pictures of several frames."""
        if self.renderer == "blender":
            from gswm.data.worlds.obj3d.blender import render_blender

            return render_blender(solids, self.settings, self.image_size)
        return render(solids, self.settings, self.image_size, self.side, memory)


def solids_of(scenes: Scenes, device: str | torch.device = "cpu") -> Solids:
    """The objects of every frame of every episode, in sequence."""
    time = scenes.poses.shape[1]

    def each(values: np.ndarray) -> Tensor:
        """Values per episode as values per frame."""
        return torch.from_numpy(values).to(device).repeat_interleave(time, dim=0)

    return Solids(
        shapes=each(scenes.shapes).long(),
        materials=each(scenes.materials).long(),
        colors=each(scenes.colors),
        radii=each(scenes.radii),
        poses=torch.from_numpy(scenes.poses).to(device).flatten(0, 1),
    )


def described(scenes: Scenes, solids: Solids, pictures: Pictures, camera: Camera) -> Episodes:
    """Episodes with their ground truth."""
    episodes, time = scenes.poses.shape[:2]
    device = solids.radii.device
    at = partial(torch.as_tensor, device=device)
    motions = at(scenes.motions.astype(np.float32)).flatten(0, 1)
    box, box_next = (
        camera.boxes(replace(solids, poses=poses)).double()
        for poses in (solids.poses, solids.poses + motions)
    )
    center, center_next = ((b[..., :2] + b[..., 2:]) / 2 for b in (box, box_next))
    hw = (box[..., 2:] - box[..., :2]).flip(-1)
    there, exists = pictures.seen, solids.shapes > 0
    seen = there[..., None]
    number = torch.arange(1, exists.shape[1] + 1, device=device)
    height = (solids.halves * exists)[..., None]

    def of_frames(values: Tensor) -> Tensor:
        return values.unflatten(0, (episodes, time))

    truth = Truth(
        positions=of_frames(center * seen),
        velocities=of_frames((center_next - center) * seen),
        sizes=of_frames(hw.prod(dim=-1).sqrt() / 2 * there),
        layers=of_frames(torch.zeros_like(solids.shapes)),
        order=of_frames(nearness(solids.poses)),
        colors=of_frames(solids.colors.double()),
        ids=of_frames(number * exists),
        present=of_frames(there),
        hw=of_frames(hw * seen),
    )
    space = Space(
        masks=of_frames(pictures.masks),
        depth=of_frames(pictures.depth),
        visibility=of_frames(pictures.visibility),
        poses=of_frames(torch.cat([solids.poses[..., :2], height, solids.poses[..., 2:]], dim=-1)),
        motions=of_frames(torch.cat([motions[..., :2], 0 * height, motions[..., 2:]], dim=-1)),
        contacts=at(scenes.impulses()),
        shapes=at(scenes.shapes).long(),
        materials=at(scenes.materials).long(),
        radii=at(scenes.radii),
        masses=at(scenes.masses),
    )
    return Episodes(of_frames(pictures.video), truth, space=space)


OBJ3D, OBJ3D_HARD = Obj3D(), Obj3D(name="obj3d-hard", settings=HARD)
OBJ3D_128 = Obj3D(name="obj3d-128", image_size=128)
OBJ3D_TWO = Obj3D(name="obj3d-two", settings=TWO)
OBJ3D_SHADOWS = Obj3D(name="obj3d-shadows", settings=SHADOWS)
NAMED = (OBJ3D, OBJ3D_HARD, OBJ3D_TWO, OBJ3D_SHADOWS)
"""One world for each kind of scenes."""
