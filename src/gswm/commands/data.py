"""`gswm data make`, `gswm data scenes` and `gswm data show`."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tyro.conf import Positional, arg

from gswm.core.errors import UserError
from gswm.core.files import check_output
from gswm.core.limits import LARGEST_SCALE, MOST_FPS, WORKERS, check_range
from gswm.core.words import in_bytes
from gswm.data.episode import Episodes
from gswm.data.storage import hdf5
from gswm.data.storage.writer import Writer
from gswm.data.worlds import registry as worlds
from gswm.data.worlds.base import SplitName, World
from gswm.data.worlds.obj3d import scene_file
from gswm.data.worlds.obj3d.scenes import join, make_scenes
from gswm.data.worlds.obj3d.world import Obj3D, Renderer
from gswm.viz import formats, pictures
from gswm.viz.episodes import frames_of, true_boxes

SceneWorld = Literal["obj3d", "obj3d-two", "obj3d-hard", "obj3d-shadows"]


@dataclass(frozen=True)
class MakeCommand:
    """Settings of `gswm data make`."""

    EXAMPLES: ClassVar = (
        "gswm data make two-layer --split test",
        "gswm data make maze --episodes 100 --size 128 --out maze.hdf5",
    )

    world: Annotated[Positional[str], arg(metavar="WORLD")]
    """Name of a world: interaction, occlusion, two-layer, two-layer-dense, single-ball, maze,
    obj3d, obj3d-128, obj3d-hard, obj3d-shadows, obj3d-two, clips, clips-64, digits, or a world from
    an installed package. obj3d:FOLDER uses the scene files in a folder."""
    split: SplitName = "train"
    """Dataset split."""
    episodes: int | None = None
    """Write only the first n episodes. Default: the whole split."""
    out: Path | None = None
    """Output file. Default: data/WORLD/SPLIT.hdf5."""
    device: str = "cpu"
    """Device for simulation and rendering: cpu or cuda."""
    scenes: Path | None = None
    """obj3d only: render the scenes in this file; does not need MuJoCo."""
    renderer: Renderer | None = None
    """obj3d only: renderer to use; blender is slow. Default: torch."""
    size: int | None = None
    """Frame size in pixels; the episodes are the same at every size. Default: 128 for clips and
    obj3d-128, 64 for other worlds."""
    force: bool = False
    """Overwrite the output file if it exists."""

    def run(self) -> None:
        """Write the dataset, chunk by chunk."""
        world = self.chosen()
        if self.split not in world.splits:
            held = ", ".join(world.splits)
            raise UserError(
                f"{self.world} has no scenes of split '{self.split}'; use --split {held}"
            )
        split = world.splits[self.split]
        n = split.episodes if self.episodes is None else self.episodes
        check_range({"--episodes": n}, 1)
        device = usable(self.device)
        out = self.out or Path("data", world.name, f"{self.split}.hdf5")
        check_output(out, hdf5.SUFFIXES, self.read(), force=self.force)
        attributes = {"world": world.name, "split": self.split, "seed": split.seed}
        writer = Writer(out, world.layout, force=self.force, attributes=attributes)
        with writer, progress() as bar:
            room_for(out, n * world.num_frames * world.image_size**2 * 3)
            task = bar.add_task(f"{world.name} {self.split}", total=n)
            for chunk in world.episodes(split.seed, n, device):
                writer.append(chunk)
                bar.advance(task, len(chunk))
        print(
            f"{out}: {n} episodes of {world.num_frames} frames, {out.stat().st_size / 1e6:,.0f} MB"
        )

    def read(self) -> list[Path]:
        """Read the scene files to draw, if any."""
        _, _, folder = self.world.partition(":")
        found = list(Path(folder).glob("*")) if folder else []
        return [*found, self.scenes] if self.scenes else found

    def chosen(self) -> World:
        """The world with the requested settings."""
        world = worlds.world(self.world)
        if self.scenes is not None:
            world = world.with_scenes(self.scenes)
        if self.size is not None:
            world = world.resized(self.size)
        if self.renderer is not None:
            world = world.drawn_by(self.renderer)
        return world.with_workers(os.cpu_count() or 1)


@dataclass(frozen=True)
class MakeScenesCommand:
    """Settings of `gswm data scenes`."""

    EXAMPLES: ClassVar = ("gswm data scenes --split val --episodes 50 --out scenes/val.hdf5",)

    world: Annotated[Positional[SceneWorld], arg(metavar="[WORLD]")] = "obj3d"
    """World to simulate: obj3d; obj3d-two (one object, hit by a sphere); obj3d-hard (more objects,
    in other colors); or obj3d-shadows (dark shadows, no friction)."""
    split: SplitName = "train"
    """Dataset split."""
    out: Path | None = None
    """Output file. Default: scenes/SPLIT.hdf5."""
    episodes: int | None = None
    """Simulate only the first n episodes. Default: the whole split."""
    workers: int = os.cpu_count() or 1
    """Number of worker processes."""
    force: bool = False
    """Overwrite the output file if it exists."""

    def run(self) -> None:
        """Simulate, and write the scenes."""
        world = worlds.world(self.world)
        assert isinstance(world, Obj3D)
        split = world.splits[self.split]
        n = split.episodes if self.episodes is None else self.episodes
        check_range({"--episodes": n}, 1)
        check_range({"--workers": self.workers}, 1, WORKERS)
        out = self.out or Path("scenes", f"{self.split}.hdf5")
        check_output(out, hdf5.SUFFIXES, force=self.force)
        made = []
        with progress() as bar:
            task = bar.add_task(f"{world.name} {self.split}", total=n)
            for some in make_scenes(world.settings, split.seed, n, workers=self.workers):
                made.append(some)
                bar.advance(task, len(some))
        held = scene_file.SceneFile(join(made), world.settings, self.split, split.seed)
        scene_file.save(out, held, force=self.force)
        print(f"{out}: {n} scenes of {world.num_frames} frames, {out.stat().st_size / 1e6:,.1f} MB")


@dataclass(frozen=True)
class ShowCommand:
    """Settings of `gswm data show`."""

    EXAMPLES: ClassVar = (
        "gswm data show maze --episode 3 --out maze.gif",
        "gswm data show videos.hdf5 --split val --out val.png",
    )

    source: Annotated[Positional[str], arg(metavar="FILE|WORLD")]
    """HDF5 file, or name of a world."""
    out: Path
    """Output file: a .png contact sheet, or a .gif or .mp4 of all frames."""
    episode: int = 0
    """Index of the episode, starting at 0."""
    split: SplitName | None = None
    """Dataset split. Default: test for a world, all episodes for a file."""
    boxes: bool = True
    """Draw boxes and ids, if the source has ground truth."""
    trail: int = 8
    """Length of the trail behind each object, in frames."""
    scale: int = 4
    """Scale factor."""
    frames: int = 20
    """Maximum number of frames on a contact sheet, evenly spaced."""
    fps: int = 10
    """Frame rate of a .gif or .mp4."""
    force: bool = False
    """Overwrite the output file if it exists."""

    def run(self) -> None:
        """Draw the episode."""
        check_range({"--trail": self.trail, "--episode": self.episode}, 0)
        check_range({"--frames": self.frames}, 1)
        check_range({"--scale": self.scale}, 1, LARGEST_SCALE)
        check_range({"--fps": self.fps}, 1, MOST_FPS)
        kinds = formats.STILL + formats.MOVING
        check_output(self.out, kinds, [Path(self.source)], force=self.force)
        video = drawn(
            find(self.source, self.episode, self.split), 0, self.scale, self.boxes, self.trail
        )
        if self.out.suffix.lower() in formats.MOVING:
            formats.save_video(self.out, video, self.fps)
        else:
            title = f"{Path(self.source).name}, episode {self.episode}"
            formats.save_picture(self.out, pictures.wrapped(video, self.frames, title))
        print(self.out)


def find(
    source: str, index: int, split: SplitName | None = None, size: int | None = None
) -> Episodes:
    """One episode of a file, or of a world in frames of `size` pixels."""
    is_world = worlds.base_name(source) != source
    if not is_world and (Path(source).exists() or Path(source).suffix):
        with hdf5.open_file(source) as file:
            indices = file.of_split(split)
            check_index(index, len(indices), source)
            return file.read([int(indices[index])])
    world = worlds.world(source)
    world = world if size is None else world.resized(size)
    name: SplitName = split or "test"
    if name not in world.splits:
        held = ", ".join(world.splits)
        raise UserError(f"{source} has no episodes of split '{name}'; use --split {held}")
    check_index(index, world.splits[name].episodes, f"{source}, {name}")
    return next(world.episodes(world.splits[name].seed, 1, first=index))


def check_index(index: int, number: int, where: str) -> None:
    """Raise a UserError if there is no such episode."""
    if index >= number:
        raise UserError(f"{where} has no episode {index}; it has {number}, starting at 0")


def usable(device: str) -> str:
    """`device`, if this machine has it."""
    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda"):
        raise UserError(f"--device is '{device}'; it must be cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device found; use --device cpu")
    return device


def room_for(out: Path, needed: int) -> None:
    """Raise a UserError if the disk is too full."""
    free = shutil.disk_usage(out.parent).free
    if needed > free:
        raise UserError(
            f"{out}: needs {in_bytes(needed)}, but {in_bytes(free)} are free; "
            f"free some space, write elsewhere, or use fewer --episodes"
        )


def progress() -> Progress:
    """A progress bar, if there is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    return Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    )


def drawn(
    episodes: Episodes,
    index: int,
    scale: int,
    boxes: bool = True,
    trail: int = 8,
    length: int | None = None,
) -> pictures.Frames:
    """The first frames of one episode, or all, enlarged, with their true boxes."""
    video = pictures.enlarge(frames_of(episodes, index)[:length], scale)
    true = true_boxes(episodes, index) if boxes else None
    return video if true is None else pictures.draw_boxes(video, true[:length], scale, trail)
