"""`gswm imagine`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from tyro.conf import Positional, arg

from gswm.commands.data import find
from gswm.commands.films import check_no_episode, check_rate, images_of, own_film
from gswm.commands.resolving import check_no_video, resolve, warn_of_misfit
from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.files import check_folder, check_output, check_place, is_ours, make_folder, room
from gswm.core.limits import LARGEST_SCALE, MOST_FPS, check_range, check_seed
from gswm.data.episode import Episodes
from gswm.data.placement import Fit, parse_region
from gswm.data.worlds.base import SplitName
from gswm.eval import explained
from gswm.eval.evaluate import actions_of
from gswm.models.base import Discover
from gswm.viz import formats
from gswm.viz.episodes import true_boxes
from gswm.weights.finding import ANY_VIDEO

ABOVE = 16
"""Size of the videos above the futures, in futures."""
FILM = "imagined.mp4"
PICTURES = ("imagined.gif", FILM, "imagined.png")
TABLE = "states.csv"
BYTES = 3e9
"""Largest size of an animation in memory; drawing takes several times that."""
STEPS, MOST_STEPS = 40, 90
"""Default numbers of frames to imagine after the end of a video, and at most before it."""


@dataclass(frozen=True)
class ImagineCommand:
    """Settings of `gswm imagine`."""

    EXAMPLES: ClassVar = (
        "gswm imagine two-layer --futures 4 --out seen",
        "gswm imagine fits/film --video film.mp4 --given 10 --steps 30",
        "gswm imagine runs/maze-0 --split val --episode 3 --no-mp4",
    )

    model: Annotated[Positional[str], arg(metavar="NAME|RUN|WEIGHTS")]
    """Model to use: a run folder, a weights file, or the name of a shipped model."""
    world: str | None = None
    """Name of a world, or an HDF5 file. Default: the world the model was trained on."""
    video: Path | None = None
    """Use your own video instead: a video file or a folder of images."""
    given: int | None = None
    """Number of given frames. Default: as in validation during training."""
    steps: int | None = None
    """Number of frames to imagine. Default: up to the end of the video, at most 90."""
    futures: int = 16
    """Number of futures to imagine."""
    out: Path = Path("imagined")
    """Output folder for imagined.gif, imagined.mp4, imagined.png and states.csv. Those of an
    earlier run are replaced."""
    sample: bool = True
    """Sample the futures. With --no-sample, the prior's means are used, and all futures agree."""
    episode: int = 0
    """Index of the episode, starting at 0."""
    split: SplitName | None = None
    """Dataset split. Default: test for a world, all episodes for a file."""
    seed: int = 0
    """Random seed for sampling."""
    scale: int = 2
    """Scale factor of the futures, at most 16; other pictures are drawn twice as large."""
    trail: int = 8
    """Length of the trail behind each object, in frames."""
    fps: int = 10
    """Frame rate of the GIF and the MP4."""
    video_fps: float | None = None
    """Frame rate at which to sample the video, by its timestamps; 0 uses every frame. Default: the
    frame rate of the training videos."""
    fit: Fit | None = None
    """Method of making frames square: add black bars (letterbox), keep the central square (crop),
    or distort (stretch). Default: as for the training videos; letterbox for models of worlds."""
    region: str | None = None
    """Use only this region of the upright video: x,y,width,height in pixels, or all. Default: as
    for the training videos."""
    discover: Discover | None = None
    """Discover new objects in every given frame (always), or only in the first one, as in the paper
    (first). Default: always for your own videos, first for worlds."""
    mp4: bool = True
    """Write an MP4 as well as a GIF."""
    allow_damaged: bool = False
    """Accept videos that FFmpeg reports as damaged or that are missing frames."""
    force: bool = False
    """Overwrite files in a folder that gswm did not create."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""

    def run(self) -> None:
        """Imagine, and write the pictures."""
        check_no_video(self.model, "gswm", "imagine", ANY_VIDEO, "--video")
        if self.world is not None and self.video is not None:
            raise UserError("use either --world or --video")
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
            check_no_episode(self.video, self.episode, self.split)
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
        shown = track.imagination(0, episodes.video, true_boxes(episodes, 0))
        title = f"{Path(name).name}, episode {self.episode}: {given} frames given, {steps} imagined"
        still = shown.still(self.scale, title=title)
        moving = shown.moving(self.scale, self.trail)
        make_folder(self.out, "imagine")
        track.to_csv(self.out / TABLE, first_episode=self.episode)
        formats.save_picture(self.out / "imagined.png", still)
        for kind in ("gif", "mp4") if self.mp4 else ("gif",):
            formats.save_video(self.out / f"imagined.{kind}", moving, self.fps)
        written = [name for name in (*PICTURES, TABLE) if self.mp4 or name != FILM]
        if FILM not in written and is_ours(self.out):  # it shows what an earlier run imagined
            with room(self.out / FILM):
                (self.out / FILM).unlink(missing_ok=True)
        print(f"{self.out}: {', '.join(written)}")
        warn_of_misfit(share, self.model, Path(name).name, own=own)


def check_bytes(frames: int, videos: int, side: int) -> None:
    """Raise a UserError for an animation of `videos` side by side that memory cannot hold."""
    if (needed := 3 * frames * videos * side**2) > BYTES:
        raise UserError(
            f"the pictures would take {needed / 1e9:.1f} GB, more than the limit of "
            f"{BYTES / 1e9:g} GB: use a smaller --scale, or fewer frames"
        )
