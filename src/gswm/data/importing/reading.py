"""Read one video as a tensor, or open it as a film to read in parts."""

from pathlib import Path

from jaxtyping import UInt8
from torch import Tensor

from gswm.core.limits import check_integers, check_range
from gswm.data.importing.film import Film
from gswm.data.importing.sources import check_one_video, path_of
from gswm.data.importing.videos import Cut
from gswm.data.placement import Fit, Region, parse_region


def open_video(
    path: str | Path,
    size: int = 64,
    *,
    fps: float | None = None,
    fit: Fit = "letterbox",
    region: Region | str | None = None,
    frames: int | None = None,
    allow_damaged: bool = False,
) -> Film:
    """Open a video file, a GIF or a folder of images, to read it in parts or several times.

        film = gswm.open_video("film.mp4", model.image_size)
        track = model.infer(film.read())
        track.save("boxes.csv", film)       # in pixels and seconds of the file

    Args:
        path: The file, or a folder of images, which are sorted by the numbers in their names.
        size: Height and width of the frames in pixels: `model.image_size`.
        fps: Frames per second to use, by the video's own times. Default: None (every frame).
            Images in a folder have no times: each is a frame.
        fit: "letterbox" shows the whole picture between black bars, "crop" its middle square, and
            "stretch" distorts the whole picture to a square.
        region: Use only this part of the picture: left, top, width and height in pixels of the
            upright video, as integers or as text. Default: None (all of it).
        frames: Maximum number of frames to read. Default: None (all).
        allow_damaged: Use the video even if FFmpeg reports damage, or frames are missing.
    """
    if frames is not None:
        check_integers(frames=frames)
    check_range({"frames": frames}, 1)
    check_one_video(place := path_of(path))
    cut = Cut(size, fps, fit=fit, region=parse_region(region), allow_damaged=allow_damaged)
    return Film(place, cut, frames)


def read_video(
    path: str | Path,
    size: int = 64,
    *,
    fps: float | None = None,
    fit: Fit = "letterbox",
    region: Region | str | None = None,
    frames: int | None = None,
    allow_damaged: bool = False,
) -> UInt8[Tensor, "1 time 3 size size"]:
    """Read a video file, a GIF or a folder of images as a batch of one video.

        video = gswm.read_video("film.mp4", model.image_size)
        track = model.infer(video)

    The arguments are those of `open_video`, whose result also has the position of the model's
    frames in the video.
    """
    how = {"fps": fps, "fit": fit, "region": region, "frames": frames}
    return open_video(path, size, **how, allow_damaged=allow_damaged).read()
