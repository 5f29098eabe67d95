"""`gswm.track`: track the objects of a video file."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gswm.core.files import check_output
from gswm.core.words import counted, printable
from gswm.data.importing.film import Film
from gswm.data.importing.reading import open_video
from gswm.data.importing.videos import Cut
from gswm.data.placement import Fit, Region, as_text
from gswm.fast.loading import load
from gswm.models.base import Discover, WorldModel
from gswm.tracking.backgrounds import BackgroundFrom, check_source
from gswm.tracking.camera import camera_moves, camera_warning
from gswm.tracking.following import followed, settled
from gswm.tracking.misfit import MisfitWarning, share_of, warning
from gswm.tracking.windows import check_windows, windows_for
from gswm.viz.located import Located
from gswm.viz.overlay import LOCATED, save_located
from gswm.weights.files import read_header
from gswm.weights.finding import find, for_any_video


@dataclass(frozen=True, repr=False)
class VideoTracks:
    """Tracked objects of a video file, in its own pixels and seconds.

        tracks = gswm.track("film.mp4")
        print(tracks)                 # number of tracks and frames
        tracks.boxes.x                # an array; also y, width, height, id, frame, time, ...
        pandas.DataFrame(tracks.to_frame())
        tracks.save("film.csv")       # also .txt and .mp4

    `gswm.track` returns it.
    """

    film: Film
    """The video, in the frame that contains all windows in which the model saw it."""
    boxes: Located
    """Arrays with one row per object and frame."""

    def __repr__(self) -> str:
        frames = len(self.film.footage)
        tracks = counted(len(set(self.boxes.id.tolist())), "track")
        return (
            f"VideoTracks: {self.film.path.name}, {tracks} in {counted(frames, 'frame')} "
            f"({len(self.boxes) / frames:.1f} boxes per frame)"
        )

    def to_frame(self) -> dict[str, list[int | float]]:
        """Return the columns of `boxes` by name, for pandas.DataFrame."""
        return self.boxes.columns()

    def save(self, path: str | Path, *, trail: int = 8, fps: int = 10) -> None:
        """Write the tracks to a file in the format given by its ending; replaces an existing file.

        `.csv` is a table of the frames that the model saw, `.txt` is MOTChallenge text, and `.mp4`
        is the video with boxes, ids and trails. The last two have every frame up to the last one
        that the model saw, with boxes interpolated in between.

        Args:
            path: The file.
            trail: Number of past frames in which the path of each object is drawn.
            fps: Frames per second of an `.mp4` from images, which have no times.
        """
        path = Path(path)
        check_output(path, LOCATED, [self.film.path], force=True)
        save_located(path, self.film, self.boxes, trail, fps)


def track(
    video: str | Path,
    model: str | Path | WorldModel[Any] | None = None,
    *,
    fps: float | None = None,
    fit: Fit | None = None,
    region: Region | str | None = None,
    frames: int | None = None,
    discover: Discover = "always",
    background: BackgroundFrom = "auto",
    windows: int | None = None,
    device: str = "auto",
    allow_damaged: bool = False,
) -> VideoTracks:
    """Track the objects of a video file of any length.

        tracks = gswm.track("film.mp4")
        tracks.save("film.csv")       # also .txt and .mp4

    If the camera moves, or the model does not fit the video, a warning is issued
    (`warnings.warn`), unless the model is given as an object: the warning depends on facts about
    the training in the model's file.

    Args:
        video: A video file, a GIF, or a folder of images.
        model: A trained model, or what `gswm.load` takes. Default: the weights `clips`, for videos
            of a fixed camera.
        fps: Frames per second to use, by the video's own times; 0 for every frame. Default: as in
            training, and every frame for a model of a world.
        fit: See `gswm.open_video`. Default: as in training, and letterbox for a model of a world.
        region: Use only this part of the picture: left, top, width and height in pixels of the
            upright video, as a tuple or as text, or "all". Default: as in training.
        frames: Maximum number of frames to read.
        discover: Look for new objects in every frame ("always"), or only in the first ("first").
        background: The scene without its objects, for a model that uses one: computed from frames
            of the whole video ("video"), the one that `gswm fit` stored with the model ("stored"),
            or the emptier of the two in each region ("auto"), if the stored one shows the same
            scene.
        windows: Number of overlapping windows along the longer side of the picture, each of which
            the model sees in a frame of its own: more for smaller objects. Default: 1 to 3, by the
            size of objects; 1 for a model that is not for any video.
        device: Device for a model that is given by name: cpu, cuda, or auto.
        allow_damaged: See `gswm.open_video`.
    """
    check_source(background)
    check_windows(windows)
    header = None
    if not isinstance(model, WorldModel):
        path = find(for_any_video() if model is None else model)
        header, model = read_header(path), load(path, device)
    part = as_text(region) if isinstance(region, tuple) else region
    cut = Cut.like(model.videos, model.image_size, fps, fit, part)
    how = {"fps": cut.fps, "fit": cut.fit, "region": cut.region, "frames": frames}
    film = open_video(video, cut.size, **how, allow_damaged=allow_damaged)
    _ = film.placement  # raises UserError for a missing or unreadable file
    seen, behind = windows_for(model, film, windows, background)
    rows, line = list[Located](), None
    for part in followed(model, seen, behind, discover, draw_first=header is not None):
        if header is not None and not rows:
            name, share = printable(film.path.name), share_of(model, part.video, part.track, behind)
            line = warning(share, header, video=name, own=True)
            if camera_moves(seen, part.video, behind):
                line = camera_warning(name)
        rows.append(part.located)
    if line is not None:
        warnings.warn(line, MisfitWarning, stacklevel=2)
    return VideoTracks(seen.film, settled(model, Located.join(rows)))
