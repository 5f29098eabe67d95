"""`gswm imagine` and `gswm track`."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from tyro.conf import Positional, arg

from gswm.commands.data import find
from gswm.commands.evaluate import resolve
from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.files import check_output, check_place
from gswm.data.episode import Episodes
from gswm.data.importing.reading import read_video
from gswm.data.importing.videos import Crop, Cut
from gswm.data.storage import hdf5
from gswm.data.worlds import registry as worlds
from gswm.data.worlds.base import SplitName
from gswm.eval.evaluate import actions_of
from gswm.viz import formats, pictures

ABOVE = 16
"""The videos above the futures have the room of so many of them."""
PICTURES = ("imagined.gif", "imagined.mp4", "imagined.png")
LARGEST = 16
"""Of --scale."""
BYTES = 3e9
"""Of a moving picture before it is a file; drawing it takes several times that."""
STEPS = 40
"""Frames to imagine where nothing says how many."""


@dataclass(frozen=True)
class ImagineCommand:
    """Settings of `gswm imagine`."""

    model: Annotated[Positional[str], arg(metavar="NAME|RUN|WEIGHTS")]
    """A trained model: a run's folder, a file of weights, or the name of one that ships."""
    world: str | None = None
    """A world by its name, or an HDF5 file; the one that the model was trained on if not given."""
    video: Path | None = None
    """A video of your own instead: a file, or a folder of images."""
    given: int | None = None
    """Frames that the model sees; as many as in its training's validation if not given."""
    steps: int | None = None
    """Frames that it then imagines; up to the end of the episode if not given, at most 90."""
    futures: int = 16
    out: Path = Path("imagined")
    """The folder for imagined.gif, imagined.mp4, imagined.png and states.csv."""
    sample: bool = True
    """Imagine by samples; by means if not, and then all futures are the same."""
    episode: int = 0
    """Which episode of the world, counted from 0."""
    split: SplitName | None = None
    """Of this split; test for a world, and the whole file for a file, if not given."""
    seed: int = 0
    """Of the samples."""
    scale: int = 2
    """Enlarge the futures so many times, at most 16, and all else twice that."""
    trail: int = 8
    """Draw where each object was in the last so many frames."""
    fps: int = 10
    """Frames per second of the moving pictures."""
    video_fps: float | None = None
    """Frames per second to take of your video, by its own times, and 0 for every frame; as of the
    videos that the model was trained on if not given."""
    crop: Crop | None = None
    """The middle of your video's frames, or all of them; as in the training if not given."""
    mp4: bool = True
    """Write an MP4 beside the GIF."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""

    def run(self) -> None:
        """Imagine, and show it."""
        if self.world is not None and self.video is not None:
            raise UserError("name --world or --video: one of the two")
        futures = self.futures if self.sample else 1
        least_one = {"--futures": futures, "--scale": self.scale, "--fps": self.fps}
        check({"--episode": self.episode, "--trail": self.trail}, 0)
        check(least_one | {"--given": self.given, "--steps": self.steps}, 1)
        check_scale(self.scale)
        check_rate(self.video_fps)
        check_place(self.out, folder=True)
        if self.video is not None:
            for file in (self.out / name for name in PICTURES):
                check_output(file, (file.suffix,), images_of(self.video))
        device = find_device(self.device)
        model, about = resolve(self.model, device)
        if self.video is not None:
            known, size = about["about"].get("videos", {}), model.image_size
            episodes, name = own_video(self.video, known, size, self.video_fps, self.crop)
        else:
            name = self.world or about["world"]
            episodes = find(name, self.episode, self.split)
        there = episodes.video.shape[1]
        given = min(about["given"], there) if self.given is None else self.given
        steps = self.steps or min(90, there - given) or STEPS
        check_bytes(given + steps, futures + ABOVE, self.scale * model.image_size)
        track = model.imagine(
            episodes.video.to(device),
            given,
            steps,
            futures=futures,
            sample=self.sample,
            generator=torch.Generator(device).manual_seed(self.seed),
            actions=actions_of(model, episodes),
        )
        shown = track.imagination(0, episodes.video, pictures.true_boxes(episodes, 0))
        title = f"{Path(name).name}, episode {self.episode}: {given} frames given, {steps} imagined"
        still = shown.still(self.scale, title=title)
        moving = shown.moving(self.scale, self.trail)
        formats.make_folder(self.out)
        track.to_csv(self.out / "states.csv", first_episode=self.episode)
        formats.save_picture(self.out / "imagined.png", still)
        for kind in ("gif", "mp4") if self.mp4 else ("gif",):
            formats.save_video(self.out / f"imagined.{kind}", moving, self.fps)
        print(f"{self.out}: {', '.join(sorted(file.name for file in self.out.iterdir()))}")


@dataclass(frozen=True)
class TrackCommand:
    """Settings of `gswm track`."""

    source: Annotated[Positional[str], arg(metavar="VIDEO|WORLD")]
    """A video, a folder of images, an HDF5 file, or a world by its name."""
    model: str
    """A trained model: a run's folder, a file of weights, or the name of one that ships."""
    out: Path = Path("states.csv")
    """The table, a .csv: one row per object and frame."""
    picture: Path | None = None
    """A .png for a sheet of frames, a .gif or .mp4 for the moving video, with boxes and ids."""
    episode: int = 0
    """Which episode of a world or an HDF5 file, counted from 0."""
    split: SplitName | None = None
    """Of this split; test for a world, and the whole file for a file, if not given."""
    frames: int | None = None
    """The first so many; all if not given."""
    discover: bool = True
    """Look for new objects in every frame; in the first alone if not."""
    video_fps: float | None = None
    """Frames per second to take of a video, by its own times, and 0 for every frame; as of the
    videos that the model was trained on if not given."""
    crop: Crop | None = None
    """The middle of a video's frames, or all of them; as in the training if not given."""
    scale: int = 4
    """Enlarge the frames so many times, at most 16."""
    trail: int = 8
    """Draw where each object was in the last so many frames."""
    fps: int = 10
    """Frames per second of a .gif or .mp4."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""

    def run(self) -> None:
        """Find the objects, and write where they are."""
        check({"--episode": self.episode, "--trail": self.trail}, 0)
        check({"--scale": self.scale, "--fps": self.fps, "--frames": self.frames}, 1)
        check_scale(self.scale)
        check_rate(self.video_fps)
        is_world = worlds.base_name(self.source) in worlds.WORLDS
        if self.picture is not None:
            kinds = formats.STILL + formats.MOVING
            check_output(self.picture, kinds, [] if is_world else images_of(Path(self.source)))
        check_output(self.out, (".csv",), [Path(self.source)])
        device = find_device(self.device)
        model, about = resolve(self.model, device)
        if is_world or hdf5.is_name_of_file(self.source):
            episodes = find(self.source, self.episode, self.split)
        else:
            known, size = about["about"].get("videos", {}), model.image_size
            film = Path(self.source)
            episodes, _ = own_video(film, known, size, self.video_fps, self.crop)
        video = episodes.video[:, : self.frames]
        if self.picture is not None:
            check_bytes(video.shape[1], 1, self.scale * model.image_size)
        how = "always" if self.discover else "first"
        actions = actions_of(model, episodes)
        track = model.infer(video.to(device), discover=how, render=False, actions=actions)
        track.to_csv(self.out, first_episode=self.episode)
        present = track.present[0]
        print(
            f"{self.out}: {len(track.id[0][present].unique())} objects in "
            f"{len(present)} frames, {present.sum(dim=1).double().mean():.1f} a frame"
        )
        if self.picture is None:
            return
        formats.make_folder(self.picture.parent)
        name = Path(self.source).name
        track.save(
            self.picture, video, scale=self.scale, trail=self.trail, fps=self.fps, title=name
        )
        print(self.picture)


def check(settings: Mapping[str, int | None], least: int) -> None:
    """Refuse a number that is too small; one that is not given is not."""
    for name, value in settings.items():
        if value is not None and value < least:
            raise UserError(f"{name} is {value}; it must be at least {least}")


def check_scale(scale: int) -> None:
    """Refuse pictures that nobody can look at."""
    if scale > LARGEST:
        raise UserError(f"--scale is {scale}; it must be at most {LARGEST}")


def check_bytes(frames: int, videos: int, side: int) -> None:
    """Refuse a moving picture, of so many `videos` beside each other, that memory cannot hold."""
    if (needed := 3 * frames * videos * side**2) > BYTES:
        raise UserError(
            f"the pictures would take {needed / 1e9:.1f} GB, and may take {BYTES / 1e9:g}: "
            "give a smaller --scale, or fewer frames"
        )


def check_rate(fps: float | None) -> None:
    """Refuse a rate at which no frames can be taken."""
    if fps is not None and not 0 <= fps < math.inf:
        raise UserError(f"--video-fps is {fps:g}; give a number above 0, or 0 for every frame")


def images_of(video: Path) -> list[Path]:
    """The files of a video: itself, or all that are in its folder."""
    return list(video.iterdir()) if video.is_dir() else [video]


def own_video(
    path: Path, known: Mapping[str, Any], size: int, fps: float | None, crop: Crop | None = None
) -> tuple[Episodes, str]:
    """A video of the user's as an episode of which nothing is known, and its name.

    It is cut as the training's videos were, of which `known` is known, but for what is given.
    """
    cut, plain = Cut.like(known, size, fps, crop), Cut.like({}, size, fps, crop)
    if path.is_dir():  # images have no times
        cut, plain = replace(cut, fps=None), replace(plain, fps=None)
    video = read_video(path, size, fps=cut.fps, crop=cut.crop)
    alike = []
    if cut.fps != plain.fps:
        alike.append(f"{cut.fps:g} frames per second (--video-fps 0 takes all)")
    if cut.crop != plain.crop:
        alike.append("all of each frame, not its middle alone")
    if alike:
        print(f"{path.name}: as in the training, {' and '.join(alike)}", file=sys.stderr)
    return Episodes(video), path.name
