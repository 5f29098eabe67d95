"""`gswm data make` and `gswm data show`."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tyro.conf import Positional, arg

from gswm.data import hdf5, picture_files, pictures, worlds
from gswm.data.episode import Episodes
from gswm.data.layouts import Layout
from gswm.data.world import SplitName, World
from gswm.errors import UserError

COLUMNS = 10


@dataclass(frozen=True)
class Make:
    """Settings of `gswm data make`."""

    world: Annotated[Positional[str], arg(metavar="WORLD")]
    """interaction, occlusion, two-layer, two-layer-dense, single-ball or maze."""
    split: SplitName = "train"
    """Which episodes: each split has a seed of its own."""
    episodes: int | None = None
    """The first so many of the split; the paper's number if not given."""
    out: Path | None = None
    """The file; data/WORLD/SPLIT.hdf5 if not given."""
    device: str = "cpu"
    """Where to simulate and draw: cpu or cuda."""
    force: bool = False
    """Replace the file if it exists."""

    def run(self) -> None:
        """Write the data set, chunk by chunk."""
        world = worlds.world(self.world)
        split = world.splits[self.split]
        n = split.episodes if self.episodes is None else self.episodes
        if n < 1:
            raise UserError(f"--episodes is {n}; it must be at least 1")
        device = usable(self.device)
        out = self.out or Path("data", world.name, f"{self.split}.hdf5")
        attributes = {"world": world.name, "split": self.split, "seed": split.seed}
        writer = hdf5.Writer(out, layout(world), force=self.force, attributes=attributes)
        with writer, progress() as bar:
            room_for(out, n * world.num_frames * world.image_size**2 * 3)
            task = bar.add_task(f"{world.name} {self.split}", total=n)
            for chunk in world.episodes(split.seed, n, device):
                writer.append(chunk)
                bar.advance(task, len(chunk))
        print(
            f"{out}: {n} episodes of {world.num_frames} frames, {out.stat().st_size / 1e6:,.0f} MB"
        )


@dataclass(frozen=True)
class Show:
    """Settings of `gswm data show`."""

    source: Annotated[Positional[str], arg(metavar="FILE|WORLD")]
    """A file of episodes, or the name of a world."""
    out: Path
    """A .png for a sheet of frames, a .gif or .mp4 for the moving episode."""
    episode: int = 0
    """Which episode, counted from 0."""
    split: SplitName | None = None
    """Count in this split; test for a world, and the whole file for a file, if not given."""
    boxes: bool = True
    """Draw boxes and ids where the truth is known."""
    trail: int = 8
    """Draw where each object was in the last so many frames."""
    scale: int = 4
    """Enlarge the frames so many times."""
    frames: int = 20
    """At most so many frames on a sheet, evenly spaced."""
    fps: int = 10
    """Frames per second of a .gif or .mp4."""

    def run(self) -> None:
        """Draw the episode."""
        picture_files.check_suffix(self.out, picture_files.STILL + picture_files.MOVING)
        if min(self.scale, self.frames, self.fps) < 1 or min(self.trail, self.episode) < 0:
            raise UserError(
                "--scale, --frames and --fps must be above 0, --trail and --episode not below"
            )
        video = drawn(
            find(self.source, self.episode, self.split), 0, self.scale, self.boxes, self.trail
        )
        if self.out.suffix.lower() in picture_files.MOVING:
            picture_files.save_video(self.out, video, self.fps)
        else:
            title = f"{Path(self.source).name}, episode {self.episode}"
            picture_files.save_picture(self.out, wrapped(video, self.frames, title))
        print(self.out)


def find(source: str, index: int, split: SplitName | None = None) -> Episodes:
    """One episode of a file, or of a world, alone."""
    if Path(source).exists() or Path(source).suffix:
        with hdf5.open_file(source) as file:
            indices = file.of_split(split)
            if index >= len(indices):
                held = f"it has {len(indices)}, counted from 0"
                raise UserError(f"{source}: has no episode {index}; {held}")
            return file.read([int(indices[index])])
    world = worlds.world(source)
    return next(world.episodes(world.splits[split or "test"].seed, 1, first=index))


def usable(device: str) -> str:
    """`device`, if this machine has it."""
    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda"):
        raise UserError(f"--device is '{device}'; it must be cpu or cuda")
    if kind == "cuda" and not torch.cuda.is_available():
        raise UserError("--device is cuda, but torch finds no GPU here; use --device cpu")
    return device


def layout(world: World) -> Layout:
    """The layout of the release's files of this world."""
    return next((name for name in get_args(Layout) if name == world.name), "balls")


def room_for(out: Path, needed: int) -> None:
    """Refuse to begin what the disk cannot hold."""
    free = shutil.disk_usage(out.parent).free
    if needed > free:
        raise UserError(
            f"{out}: needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; "
            "free some space, write elsewhere, or ask for fewer --episodes"
        )


def progress() -> Progress:
    """A bar on the terminal, where there is one."""
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
    video = pictures.enlarge(pictures.frames_of(episodes, index)[:length], scale)
    true = pictures.true_boxes(episodes, index) if boxes else None
    return video if true is None else pictures.draw_boxes(video, true[:length], scale, trail)


def wrapped(video: pictures.Frames, most: int, title: str) -> pictures.Picture:
    """At most so many frames of one video, evenly spaced, as a sheet."""
    every = -(-len(video) // most)
    shown = video[::every]
    rows = [shown[i : i + COLUMNS] for i in range(0, len(shown), COLUMNS)]
    times = [f"t = {i * every}" for i in range(0, len(shown), COLUMNS)]
    return pictures.sheet(rows, times, [f"+{i * every}" for i in range(len(rows[0]))], title)
