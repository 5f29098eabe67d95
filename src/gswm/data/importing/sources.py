"""Sources to import: video files, and folders of images that are the frames of a video.

A folder is searched to its bottom. Each video file in it is a video, and so is each folder of
images, in the order of the numbers in their names. Images beside video files are taken for
previews and left, and so is whatever a dot begins. A file that is named itself is tried
whatever its ending is.

Every video belongs to one split. Where a folder on the way to it is called train, val or test,
as in OBJ3D (train/000/test_1.png), or video_train, video_validation or video_test, as in CLEVRER,
the split is that one. Otherwise it follows from the video's name alone, so that it stays the
same whatever else is imported: about 80 % train, 10 % val and 10 % test. Where that would leave
nothing to train on, all videos that no folder assigns are train: see `pipeline`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gswm.core.words import printable
from gswm.data.splits import SplitName

VIDEOS = (".mp4", ".webm", ".avi", ".mov", ".mkv", ".gif", ".m4v", ".mpg", ".mpeg", ".wmv", ".ogv")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
SPLIT_FOLDER = re.compile(r"(?:videos?[_-])?(train|val|test)(?:ing|id|idation)?", re.IGNORECASE)
SPLITS: dict[str, SplitName] = {"train": "train", "val": "val", "test": "test"}


@dataclass(frozen=True)
class Source:
    """One video: a file, or a folder of images."""

    path: Path
    name: str
    """From the folder on that was named, with its name; odd characters as escapes."""
    split: SplitName
    by_name: bool = False
    """Whether the split follows from the video's name: no folder is called as one."""


@dataclass(frozen=True)
class Skipped:
    """A source that cannot be imported, with the reason and what to do, in one line."""

    name: str
    reason: str
    frames: int | None = None
    """Its number of frames, if that is too small for an episode."""


def find(paths: Iterable[Path]) -> Iterator[Source | Skipped]:
    """Every video in `paths`, in the order of their names."""
    for path in paths:
        shown = printable(str(path))
        if path.is_dir():
            found = False
            for item in in_folder(path):
                found = True
                yield item
            if not found:
                yield Skipped(shown, "there are no videos and no images in this folder")
        elif not path.exists():
            yield Skipped(shown, "does not exist; check the name")
        elif path.suffix.lower() in IMAGES:
            yield Skipped(shown, "is one image; name the folder of a video's images")
        else:
            split = split_of_name(path.name)
            yield Source(path, printable(path.name), split, by_name=True)


def in_folder(root: Path) -> Iterator[Source | Skipped]:
    """Every video in the folder `root` and the folders in it."""
    unreadable: list[Skipped] = []
    seen: set[str] = set()

    def failed(error: OSError) -> None:
        folder = printable(str(error.filename))
        unreadable.append(Skipped(folder, "no permission to read this folder"))

    for folder, folders, files in os.walk(root, onerror=failed, followlinks=True):
        yield from unreadable
        unreadable.clear()
        real = os.path.realpath(folder)
        if real in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted((f for f in folders if not f.startswith(".")), key=natural)
        here = Path(folder)
        videos = [f for f in files if Path(f).suffix.lower() in VIDEOS and f[0] != "."]
        for file in sorted(videos, key=natural):
            yield source(root, here / file)
        if not videos and images(here):
            yield source(root, here)
    yield from unreadable


def images(folder: Path) -> list[Path]:
    """The images in `folder`, in the order of the numbers in their names."""
    names = [f for f in os.listdir(folder) if Path(f).suffix.lower() in IMAGES and f[0] != "."]
    return [folder / name for name in sorted(names, key=natural)]


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which "2" comes before "10"."""
    parts = re.split(r"(\d+)", name.lower())
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def source(root: Path, path: Path) -> Source:
    """The video at `path` below the folder `root`."""
    below = path.relative_to(root)
    top = root.resolve().name
    folders = below.parts if path.is_dir() else below.parts[:-1]
    for folder in reversed((top, *folders)):
        if named := SPLIT_FOLDER.fullmatch(folder):
            split = SPLITS[named[1].lower()]
            break
    else:
        named, split = None, split_of_name(below.as_posix() if below.parts else top)
    name = printable((Path(top) / below).as_posix())
    return Source(path, name, split, by_name=named is None)


def split_of_name(name: str) -> SplitName:
    """The split of a video called `name`, the same at all times and on all machines."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    return "train" if share < 0.8 else "val" if share < 0.9 else "test"
