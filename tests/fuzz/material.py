"""Small files of every kind that commands read, to be damaged."""

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import tiny
from test_videos import encode

from gswm.cli import main

CODECS = {
    "film.mp4": ("libx264", "yuv420p"),
    "film.avi": ("mpeg4", "yuv420p"),
    "film.mkv": ("ffv1", "yuv420p"),
    "film.gif": ("gif", "rgb8"),
    "film.webm": ("libvpx-vp9", "yuv420p"),
    "film.mov": ("mjpeg", "yuvj420p"),
}
LAYOUTS = {"video.hdf5": "video", "balls.hdf5": "interaction", "maze.hdf5": "maze"}
MODEL = "single-ball.safetensors"
OTHERS = ("boxes.txt", "boxes.json", "pipe", "folder", "empty.mp4")


def make(folder: Path) -> Path:
    """Write one file of each kind, and return the folder."""
    moving = np.full((12, 24, 32, 3), 60, np.uint8)
    for t, frame in enumerate(moving):
        frame[6:14, t : t + 9] = (200, 180, 30)
    for name, (codec, pixels) in CODECS.items():
        encode(folder / name, list(moving), codec, pixels)
    with contextlib.redirect_stdout(io.StringIO()):
        for name, world in LAYOUTS.items():
            out = ["--out", str(folder / name)]
            words = ["data", "make", world, "--split", "test", "--episodes", "2"]
            if world == "video":
                words = [
                    "data",
                    "import",
                    str(folder / "film.mkv"),
                    "--size",
                    "64",
                    "--frames",
                    "4",
                ]
            assert main([*words, *out]) == 0
            shorten(folder / name)
    tiny.ship(folder, "single-ball")
    (folder / "boxes.txt").write_text("1,1,5,5,9,9,1\n2,1,6,5,9,9,1\n")
    (folder / "boxes.json").write_text("{}")
    (folder / "empty.mp4").touch()
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return folder


def shorten(path: Path) -> None:
    """Keep the first fifth of long episodes in an HDF5 file: commands then take a moment."""
    with h5py.File(path, "r+") as file:
        for key in list(file):
            if len(shape := file[key].shape) > 1 and shape[1] >= 50:
                kept = file[key][:, : shape[1] // 5]
                del file[key]
                file[key] = kept


@contextlib.contextmanager
def copied(material: Path, *names: str) -> Iterator[Path]:
    """A new working directory with a copy of some of the material.

    Without names it has all of the material, as links: commands replace files, and change none.
    """
    with tempfile.TemporaryDirectory(dir=material.parent) as place, contextlib.chdir(place):
        for path in [material / name for name in names] or material.iterdir():
            if path.is_file():
                (shutil.copy if names else os.link)(path, Path(place, path.name))
            elif path.is_fifo():
                os.mkfifo(Path(place, path.name))
            else:
                Path(place, path.name).mkdir()
        before = written(material)
        yield Path(place)
        assert written(material) == before


def written(folder: Path) -> dict[str, int]:
    """When each file in a folder was last written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
