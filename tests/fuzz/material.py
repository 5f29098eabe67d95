"""Small files of every kind that commands read, to be damaged."""

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

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
                words = ["data", "import", str(folder / "film.mkv"), "--size", "8", "--frames", "4"]
            assert main([*words, *out]) == 0
    tiny.ship(folder, "single-ball")
    (folder / "boxes.txt").write_text("1,1,5,5,9,9,1\n2,1,6,5,9,9,1\n")
    (folder / "boxes.json").write_text("{}")
    (folder / "empty.mp4").touch()
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return folder


@contextlib.contextmanager
def copied(material: Path, *names: str) -> Iterator[Path]:
    """A new working directory with some of the material; without names, with all of it."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for path in [material / name for name in names] or material.iterdir():
            if path.is_file():
                shutil.copy(path, place)
            elif path.is_fifo():
                os.mkfifo(Path(place, path.name))
            else:
                Path(place, path.name).mkdir()
        yield Path(place)
