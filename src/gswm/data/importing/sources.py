"""Sources to import: video files, and folders of images that are the frames of a video.

Folders are searched recursively. Each video file is a video, and so is each folder of images,
sorted by the numbers in their names. Images beside video files are assumed to be previews and are
ignored, and so are hidden files. A file that is named explicitly is tried whatever its ending is.

Every video belongs to one split. If a folder on its path is called train, val or test, as in OBJ3D
(train/000/test_1.png), or video_train, video_validation or video_test, as in CLEVRER, that is its
split. Otherwise it follows from the video's name alone, so that it does not depend on the other
imported videos: about 80 % train, 10 % val and 10 % test. If there would be nothing to train on,
all videos that no folder assigns are train; see `pipeline`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gswm.core.errors import UserError
from gswm.core.words import counted, printable, with_article
from gswm.data.splits import SplitName

VIDEOS = (".mp4", ".webm", ".avi", ".mov", ".mkv", ".gif", ".m4v", ".mpg", ".mpeg", ".wmv", ".ogv")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""Beginning of the address of a video, as a path shows it."""
SPLIT_FOLDER = re.compile(r"(?:videos?[_-])?(train|val|test)(?:ing|id|idation)?", re.IGNORECASE)
SPLITS: dict[str, SplitName] = {"train": "train", "val": "val", "test": "test"}


@dataclass(frozen=True)
class Source:
    """One video: a file, or a folder of images."""

    path: Path
    name: str
    """Path relative to the named folder, including its name; unusual characters are escaped."""
    split: SplitName
    by_name: bool = False
    """Whether the split follows from the video's own name, because no folder names one."""


@dataclass(frozen=True)
class Skipped:
    """A source that cannot be imported, with the reason and a remedy, in one line."""

    name: str
    reason: str
    frames: int | None = None
    """Its number of frames, if too small for an episode."""


def is_name_of_video(name: str | Path) -> bool:
    """Whether a file is a video by its ending."""
    return Path(name).suffix.lower() in VIDEOS


def find(paths: Iterable[Path]) -> Iterator[Source | Skipped]:
    """All videos in `paths`, sorted by name."""
    for path in paths:
        shown = printable(str(path))
        if path.is_dir():
            found = False
            for item in in_folder(path):
                found = True
                yield item
            if not found:
                yield Skipped(shown, "this folder has no videos or images")
        elif not path.exists():
            yield Skipped(shown, "does not exist; check the name")
        elif path.suffix.lower() in IMAGES:
            yield Skipped(
                shown, "is a single image; choose the folder with all images of the video"
            )
        else:
            split = split_of_name(path.name)
            yield Source(path, printable(path.name), split, by_name=True)


def in_folder(root: Path) -> Iterator[Source | Skipped]:
    """All videos in the folder `root` and its subfolders."""
    unreadable: list[Skipped] = []
    seen: set[str] = set()

    def failed(error: OSError) -> None:
        folder = printable(str(error.filename))
        unreadable.append(Skipped(folder, "no permission to read this folder"))

    for folder, folders, files in os.walk(root, onerror=failed, followlinks=True):
        yield from unreadable
        unreadable.clear()
        real = os.path.realpath(folder)
        if real in seen:  # a cyclic link
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted((f for f in folders if not f.startswith(".")), key=natural)
        here = Path(folder)
        videos = named_like(files, VIDEOS)
        for file in videos:
            yield source(root, here / file)
        if not videos and images(here):
            yield source(root, here)
    yield from unreadable


def images(folder: Path) -> list[Path]:
    """The images in `folder`, sorted by the numbers in their names."""
    return [folder / name for name in named_like(os.listdir(folder), IMAGES)]


def named_like(names: Iterable[str], endings: tuple[str, ...]) -> list[str]:
    """The names of visible files with one of these endings, sorted by the numbers in them."""
    kept = (n for n in names if Path(n).suffix.lower() in endings and not n.startswith("."))
    return sorted(kept, key=natural)


def path_of(video: object) -> Path:
    """The path of a video; raises a UserError for anything else, such as a tensor or a camera."""
    if isinstance(video, str | os.PathLike):
        return Path(video)
    kind = with_article(type(video).__name__)
    raise UserError(f"a video must be the path of a file or of a folder of images, not {kind}")


def no_video(path: Path) -> UserError:
    """The error for a video that does not exist."""
    name = printable(str(path))
    if ADDRESS.match(name):
        name = name.replace(":/", "://", 1)
        return UserError(f"{name} is an address: download the video, and pass the file")
    return UserError(f"there is no video {name}; check the name")


def check_one_video(path: Path) -> None:
    """Raise a UserError for a folder of video files, of which only one can be read here.

    Images beside them would pass for a video. Folders that cannot be listed fail when they are
    read.
    """
    try:
        names = os.listdir(path) if path.is_dir() else []
    except OSError:
        return
    if not (videos := named_like(names, VIDEOS)):
        return
    found = counted(len(videos), "video")
    if pictures := len(named_like(names, IMAGES)):
        found += f" and {counted(pictures, 'image')}"
    raise UserError(
        f"{printable(str(path))} is a folder of {found}; pass one file, such as "
        f"{printable(str(path / videos[0]))}, or a folder that has only images"
    )


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts "2" before "10"."""
    parts = re.split(r"(\d+)", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


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
    """The split of a video called `name`, the same on all machines."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    return "train" if share < 0.8 else "val" if share < 0.9 else "test"
