"""`gswm track`."""

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from tyro.conf import Positional, UseAppendAction, arg

from gswm.commands.data import find
from gswm.commands.films import check_no_episode, check_rate, images_of, own_film
from gswm.commands.imagine import check_bytes
from gswm.commands.resolving import resolve, warn_of_misfit
from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.files import check_output, make_folder
from gswm.core.limits import LARGEST_SCALE, MOST_FPS, check_range
from gswm.core.waiting import tell
from gswm.core.words import closest, counted, printable
from gswm.data.importing.videos import Take
from gswm.data.placement import Fit, Footage, parse_region
from gswm.data.storage import hdf5
from gswm.data.worlds import registry as worlds
from gswm.data.worlds.base import SplitName
from gswm.eval import explained
from gswm.eval.evaluate import actions_of
from gswm.models.base import WorldModel
from gswm.models.track import Track
from gswm.tracking.backgrounds import BackgroundFrom
from gswm.tracking.camera import camera_moves, camera_warning
from gswm.tracking.following import followed, settled
from gswm.tracking.misfit import share_of
from gswm.tracking.windows import WindowedFilm, check_windows, windows_for
from gswm.viz import formats
from gswm.viz.between import SourceBoxes
from gswm.viz.located import Located
from gswm.viz.overlay import LOCATED, save_located
from gswm.weights.finding import for_any_video, is_available

TABLE = Path("states.csv")


@dataclass(frozen=True)
class TrackCommand:
    """Settings of `gswm track`."""

    NOTES: ClassVar = (
        "For a video, the .csv has one row per object and frame that the model saw: time in "
        "seconds, frame (starting at 0), id, the box center x and y, width and height in "
        "pixels of the upright video, depth, and presence. For a world, boxes are in "
        "fractions of the frame size. The .txt and .mp4 cover every frame up to the last one "
        "that the model saw, with interpolated boxes in between; frames and ids in the .txt "
        "start at 1.",
    )
    EXAMPLES: ClassVar = (
        "gswm track film.mp4 --out film.csv --out boxes.mp4",
        "gswm track film.mp4 --model fits/film --out film.txt",
        "gswm track two-layer --episode 3 --picture two-layer.png",
    )

    source: Annotated[Positional[str], arg(metavar="VIDEO|WORLD")]
    """Video file, folder of images, HDF5 file, or name of a world."""
    model: str | None = None
    """Model to use: a run folder, a weights file, or the name of a shipped model. Default: clips,
    which expects a fixed camera; for a world, the model shipped for that world."""
    out: UseAppendAction[tuple[Path, ...]] = ()
    """Output file: .csv (a table of boxes), .txt (MOTChallenge) or .mp4 (the video with boxes, ids,
    trails and the outline of --region). Repeat --out to write several. Default: states.csv."""
    picture: Path | None = None
    """Draw the frames at the model's own resolution, with boxes and ids: a .png contact sheet, or a
    .gif or .mp4 of all frames."""
    episode: int = 0
    """Index of the episode of a world or an HDF5 file, starting at 0."""
    split: SplitName | None = None
    """Dataset split. Default: test for a world, all episodes for a file."""
    frames: int | None = None
    """Track only the first n frames of a video, and compute its background from these. Default:
    all."""
    discover: bool = True
    """Discover new objects in every frame, not only in the first."""
    background: BackgroundFrom = "auto"
    """Background of a video: computed from its frames (video), as stored by `gswm fit` (stored), or
    in each region the emptier of the two (auto), if the model has one of the same scene."""
    windows: int | None = None
    """Number of overlapping windows along the longer side of a video, each of which the model sees
    in a frame of its own: more for smaller objects. Default: 1 to 3, by the size of objects; 1 for
    models that are not for any video."""
    video_fps: float | None = None
    """Frame rate at which to sample the video, by its timestamps; 0 uses every frame. Default: the
    frame rate of the training videos."""
    fit: Fit | None = None
    """Method of making frames square: add black bars (letterbox), keep the central square (crop),
    or distort (stretch). Default: as for the training videos; letterbox for models of worlds."""
    region: str | None = None
    """Use only this region of the upright video: x,y,width,height in pixels, or all. Default: as
    for the training videos."""
    scale: int = 4
    """Scale factor of --picture, at most 16."""
    trail: int = 8
    """Length of the trail behind each object, in frames."""
    fps: int = 10
    """Frame rate of --picture, and of an .mp4 made from a folder of images."""
    allow_damaged: bool = False
    """Accept videos that FFmpeg reports as damaged or that are missing frames."""
    force: bool = False
    """Overwrite output files that exist."""
    device: str = "auto"
    """Device to run on: cpu, cuda, or auto (a GPU if available)."""

    def run(self) -> None:
        """Track the objects, and write the tracks."""
        check_range({"--episode": self.episode, "--trail": self.trail}, 0)
        check_range({"--frames": self.frames}, 1)
        check_range({"--scale": self.scale}, 1, LARGEST_SCALE)
        check_range({"--fps": self.fps}, 1, MOST_FPS)
        check_rate(self.video_fps)
        parse_region(self.region)
        is_world = worlds.base_name(self.source) in worlds.WORLDS
        is_file = not is_world and hdf5.is_name_of_file(self.source)
        if not is_world:
            check_no_world_meant(Path(self.source))
        if not (is_world or is_file):
            check_no_episode(self.source, self.episode, self.split)
        if (is_world or is_file) and self.background != "auto":
            raise UserError(f"--background needs a video, unlike {self.source}: omit it")
        check_windows(self.windows)
        if (is_world or is_file) and self.windows is not None:
            raise UserError(f"--windows needs a video, unlike {self.source}: omit it")
        if self.picture is not None:
            images = [] if is_world else images_of(Path(self.source))
            kinds = formats.STILL + formats.MOVING
            check_output(self.picture, kinds, images, force=self.force)
            if (self.windows or 1) > 1:
                raise UserError(
                    "--picture shows frames of the model: use --windows 1, or --out FILE.mp4"
                )
        kinds = (".csv",) if is_world else (".csv", ".txt") if is_file else LOCATED
        outs = self.out or (TABLE,)
        for out in outs:
            if (is_world or is_file) and out.suffix.lower() in formats.STILL + formats.MOVING:
                raise UserError(
                    f"--out {out} needs a video, unlike {self.source}: use --picture {out}"
                )
            check_output(out, kinds, [Path(self.source)], force=self.force)
        device = find_device(self.device)
        name = self.model or default_model(self.source)
        model, about = resolve(name, device)
        video = Path(self.source).name
        if is_world or is_file:
            share, own = self.track_episode(model, outs, device)
            warn_of_misfit(share, name, video, own=own)
            return
        share, moves, found = self.track_film(model, about["about"].get("videos", {}), outs)
        if moves:
            tell(f"warning: {camera_warning(printable(video))}")
        elif not warn_of_misfit(share, name, video, own=True) and not found:
            film = shlex.quote(printable(self.source))
            tell(f"warning: no object was found: `gswm data look {film}` shows what moves, if any")

    def track_film(
        self, model: WorldModel[Any], known: dict[str, Any], outs: Iterable[Path]
    ) -> tuple[float | None, bool, int]:
        """Track a video in chunks, so that it can be of any length.

        Returns the unexplained share of the first chunk, whether the camera moves in it, and the
        number of boxes.
        """
        how = (self.video_fps, self.fit, self.region, self.frames, self.allow_damaged)
        film = own_film(Path(self.source), known, model.image_size, *how)
        # A picture shows the frames of the model, so it needs a single one.
        along = 1 if self.windows is None and self.picture is not None else self.windows
        windows, behind = windows_for(model, film, along, self.background)
        if along is None and len(windows) > 1:
            say_windows(windows)
        share: float | None = None
        moves = False
        located: list[Located] = []
        kept: list[tuple[Take, Track]] = []
        discover = "always" if self.discover else "first"
        for part in followed(model, windows, behind, discover, draw_first=True):
            if not located:
                share = share_of(model, part.video, part.track, behind)
                moves = camera_moves(windows, part.video, behind)
            located.append(part.located)
            if self.picture is not None:
                kept.append((part.take, replace(part.track, reconstruction=None, background=None)))
                frames = sum(len(take) for take, _ in kept)
                check_bytes(frames, 1, self.scale * model.image_size)
        rows = settled(model, Located.join(located))
        for out in outs:
            save_located(out, windows.film, rows, self.trail, self.fps)
            say(out, rows, windows.film.footage)
        if kept:
            videos = torch.cat([take.batch() for take, _ in kept], dim=1)
            self.draw(model.settled(Track.join([track for _, track in kept])), videos)
        return share, moves, len(rows)

    def track_episode(
        self, model: WorldModel[Any], outs: Iterable[Path], device: Any
    ) -> tuple[float | None, bool]:
        """Track an episode of a world or a file, in the units of its source video if known.

        Returns the result of `explained.measure`, and whether it is a user's video.
        """
        episodes = find(self.source, self.episode, self.split, model.image_size)
        video = episodes.video[:, : self.frames]
        if self.picture is not None:
            check_bytes(video.shape[1], 1, self.scale * model.image_size)
        footage = self.footage_of_episode(video.shape[1])
        if footage is None and any(out.suffix.lower() == ".txt" for out in outs):
            raise UserError(
                f"{self.source} does not store the sizes of its videos; use --out FILE.csv"
            )
        known: dict[str, Any] = {
            "actions": actions_of(model, episodes),
            "background": episodes.background,
        }
        discover = "always" if self.discover else "first"
        track = model.infer(video.to(device), discover=discover, render=False, **known)
        share = explained.measure(model, video, **known)
        for out in outs:
            if footage is None:
                track.to_csv(out, first_episode=self.episode)
                whole = track.present[0]
                found = (len(track.id[0][whole].unique()), int(whole.sum()), len(whole))
                print(f"{out}: {summary(*found)}")
            else:
                rows = track.located(footage)
                if out.suffix.lower() == ".csv":
                    rows.save_csv(out)
                else:
                    SourceBoxes(rows, footage.frames, footage.times).save_mot(out)
                say(out, rows, footage)
        if self.picture is not None:
            self.draw(track, video)
        return share, episodes.truth is None

    def footage_of_episode(self, frames: int) -> Footage | None:
        """Return the source frames of an imported episode, or None if the file has none."""
        if not hdf5.is_name_of_file(self.source):
            return None
        with hdf5.open_file(self.source) as file:
            footage = file.footage(int(file.of_split(self.split)[self.episode]))
        if footage is None:
            return None
        return Footage(footage.placement, footage.frames[:frames], footage.times[:frames])

    def draw(self, track: Track, video: torch.Tensor) -> None:
        """Draw the model's frames with boxes."""
        assert self.picture is not None
        make_folder(self.picture.parent)
        drawn = {"scale": self.scale, "trail": self.trail, "fps": self.fps}
        track.save(self.picture, video, **drawn, title=Path(self.source).name)
        print(self.picture)


def check_no_world_meant(video: Path) -> None:
    """Raise a UserError for a video that does not exist, if a world has a similar name."""
    meant = None if video.suffix or video.exists() else closest(str(video), worlds.WORLDS)
    if meant is not None:
        raise UserError(f"there is no video {video}: did you mean the world {meant}?")


def default_model(source: str) -> str:
    """The default weights: those shipped for a world, otherwise those for videos."""
    world = worlds.base_name(source)
    return world if world in worlds.WORLDS and is_available(world) else for_any_video()


def say_windows(windows: WindowedFilm) -> None:
    """Print how many windows a video has."""
    print(
        f"{printable(windows.film.path.name)}: objects are small, so the model sees "
        f"{len(windows)} overlapping windows (--windows {windows.along}; 1 shows it the whole "
        "picture)",
        file=sys.stderr,
    )


def say(out: Path, rows: Located, footage: Footage) -> None:
    """Print a summary of the tracks."""
    print(f"{out}: {summary(len(set(rows.id.tolist())), len(rows), len(footage))}")


def summary(tracks: int, rows: int, frames: int) -> str:
    """Numbers of tracks, frames and boxes; an object may have several tracks."""
    found = f"{counted(tracks, 'track')} in {counted(frames, 'frame')}"
    return f"{found}, {rows / frames:.1f} boxes per frame"
