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
"""Size of the videos above the futures, in futures."""
PICTURES = ("imagined.gif", "imagined.mp4", "imagined.png")
TABLE = "states.csv"
BYTES = 3e9
"""Largest size of an animation in memory; drawing takes several times that."""
STEPS, MOST_STEPS = 40, 90
"""Default numbers of frames to imagine after the end of a video, and at most before it."""


@dataclass(frozen=True)
class ImagineCommand:
    """Settings of `gswm imagine`."""

    model: Annotated[Positional[str], arg(metavar="NAME|RUN|WEIGHTS")]
    """A run folder, a weights file, or the name of a shipped model."""
    world: str | None = None
    """A world by name, or an HDF5 file. Default: the world that the model was trained on."""
    video: Path | None = None
    """Your own video instead: a file, or a folder of images."""
    given: int | None = None
    """Number of given frames. Default: as in the validation during training."""
    steps: int | None = None
    """Number of imagined frames. Default: up to the end of the video, at most 90."""
    futures: int = 16
    out: Path = Path("imagined")
    """The output folder for imagined.gif, imagined.mp4, imagined.png and states.csv."""
    sample: bool = True
    """Sample futures; otherwise use means, and all futures are the same."""
    episode: int = 0
    """The number of the episode, from 0."""
    split: SplitName | None = None
    """The split. Default: test for a world, and the whole file for a file."""
    seed: int = 0
    """Seed of the samples."""
    scale: int = 2
    """Enlargement factor of futures, at most 16; everything else is twice as large."""
    trail: int = 8
    """Length of the trail behind each object, in frames."""
    fps: int = 10
    """Frames per second of the GIF and the MP4."""
    video_fps: float | None = None
    """Frames per second to take from your video, according to its timestamps; 0 takes every frame.
    Default: as in the training videos."""
    fit: Fit | None = None
    """letterbox: the whole frame between black bars; crop: its middle square; stretch: the whole
    frame, squeezed into a square. Default: as the training videos were imported, and letterbox for
    a model of a world."""
    region: str | None = None
    """Use only this part of your video: x,y,width,height in pixels of the upright video, or all.
    Default: as the training videos were imported."""
    discover: Discover | None = None
    """Look for new objects in every given frame (always), or only in the first (first), as in the
    paper. Default: always for your own videos, first for worlds."""
    mp4: bool = True
    """Write an MP4 beside the GIF."""
    allow_damaged: bool = False
    """Use a video that FFmpeg reports as damaged, or that lacks frames."""
    force: bool = False
    """Replace files in a folder that gswm did not create."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU if there is one."""

    def run(self) -> None:
        """Imagine, and write the pictures."""
        if self.world is not None and self.video is not None:
            raise UserError("name either --world or --video")
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
    """Raise a UserError for an animation of `videos` side by side that memory cannot hold."""
    if (needed := 3 * frames * videos * side**2) > BYTES:
        raise UserError(
            f"the pictures would take {needed / 1e9:.1f} GB, and may take {BYTES / 1e9:g}: "
            "give a smaller --scale, or fewer frames"
        )
