"""`gswm imagine`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from tyro.conf import Positional, arg

from gswm.commands.data import find
from gswm.commands.films import check_rate, images_of, own_film
from gswm.commands.resolving import resolve, warn_of_misfit
from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.files import check_folder, check_output, check_place, make_folder
from gswm.core.limits import LARGEST_SCALE, MOST_FPS, check_range, check_seed
from gswm.data.episode import Episodes
from gswm.data.placement import Fit, parse_region
from gswm.data.worlds.base import SplitName
from gswm.eval import explained
from gswm.eval.evaluate import actions_of
from gswm.models.base import Discover
from gswm.viz import formats, pictures

ABOVE = 16
"""The videos above the futures have the room of so many of them."""
PICTURES = ("imagined.gif", "imagined.mp4", "imagined.png")
TABLE = "states.csv"
BYTES = 3e9
"""Of a moving picture before it is a file; drawing it takes several times that."""
STEPS, MOST_STEPS = 40, 90
"""Frames to imagine beyond the end of a video, and at most before it, if not given."""


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
    """Frames that it then imagines; up to the end of the video if not given, at most 90."""
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
    fit: Fit | None = None
    """letterbox: all of each frame of your video, between black bars; crop: its middle square;
    stretch: all of it, squeezed into a square. If not given, as the videos that the model was
    trained on were imported, and letterbox for a model of a world."""
    region: str | None = None
    """Use only this part of your video's frames: x,y,width,height in pixels of the upright video,
    or all. If not given, as the videos that the model was trained on were imported."""
    discover: Discover | None = None
    """Look for new objects in every given frame (always), or only in the first (first), as the
    paper does. If not given, always for your own videos, and first for worlds."""
    mp4: bool = True
    """Write an MP4 beside the GIF."""
    allow_damaged: bool = False
    """Take the video as it is, though FFmpeg reports damage or frames are missing."""
    force: bool = False
    """Replace files in a folder that gswm did not make."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""

    def run(self) -> None:
        """Imagine, and show it."""
        if self.world is not None and self.video is not None:
            raise UserError("name --world or --video: one of the two")
        futures = self.futures if self.sample else 1
        check_range({"--episode": self.episode, "--trail": self.trail}, 0)
        check_range({"--futures": futures, "--given": self.given, "--steps": self.steps}, 1)
        check_range({"--scale": self.scale}, 1, LARGEST_SCALE)
        check_range({"--fps": self.fps}, 1, MOST_FPS)
        check_seed(self.seed)
        check_rate(self.video_fps)
        parse_region(self.region)
        check_place(self.out, folder=True)
        if self.video is not None:
            for file in (self.out / name for name in PICTURES):
                check_output(file, (file.suffix,), images_of(self.video), force=True)
        check_folder(self.out, (*PICTURES, TABLE), force=self.force)
        device = find_device(self.device)
        model, about = resolve(self.model, device)
        if self.video is not None:
            film = own_film(
                self.video,
                about["about"].get("videos", {}),
                model.image_size,
                *(self.video_fps, self.fit, self.region),
                frames=(self.given or about["given"]) + (self.steps or MOST_STEPS),
                allow_damaged=self.allow_damaged,
            )
            episodes, name = Episodes(film.read()), self.video.name
        else:
            name = self.world or about["world"]
            episodes = find(name, self.episode, self.split, model.image_size)
        there = episodes.video.shape[1]
        given = min(about["given"], there) if self.given is None else self.given
        steps = self.steps or min(MOST_STEPS, there - given) or STEPS
        check_bytes(given + steps, futures + ABOVE, self.scale * model.image_size)
        own = episodes.truth is None
        known: dict[str, Any] = {
            "actions": actions_of(model, episodes),
            "background": episodes.background,
        }
        track = model.imagine(
            episodes.video.to(device),
            given,
            steps,
            futures=futures,
            sample=self.sample,
            generator=torch.Generator(device).manual_seed(self.seed),
            discover=self.discover or ("always" if own else "first"),
            **known,
        )
        share = explained.measure(model, episodes.video, **known)
        shown = track.imagination(0, episodes.video, pictures.true_boxes(episodes, 0))
        title = f"{Path(name).name}, episode {self.episode}: {given} frames given, {steps} imagined"
        still = shown.still(self.scale, title=title)
        moving = shown.moving(self.scale, self.trail)
        make_folder(self.out, "imagine")
        track.to_csv(self.out / TABLE, first_episode=self.episode)
        formats.save_picture(self.out / "imagined.png", still)
        for kind in ("gif", "mp4") if self.mp4 else ("gif",):
            formats.save_video(self.out / f"imagined.{kind}", moving, self.fps)
        written = sorted(file.name for file in self.out.iterdir() if file.name[0] != ".")
        print(f"{self.out}: {', '.join(written)}")
        warn_of_misfit(share, self.model, Path(name).name, own=own)


def check_bytes(frames: int, videos: int, side: int) -> None:
    """Refuse a moving picture, of so many `videos` beside each other, that memory cannot hold."""
    if (needed := 3 * frames * videos * side**2) > BYTES:
        raise UserError(
            f"the pictures would take {needed / 1e9:.1f} GB, and may take {BYTES / 1e9:g}: "
            "give a smaller --scale, or fewer frames"
        )
