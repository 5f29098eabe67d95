"""Files to take away: GIF, MP4, PNG and CSV of one branch, or of two beside each other."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gswm.models.track import as_text
from gswm.studio.branches import Branch, Moments, Objects, Pixels, join
from gswm.viz import files as picture_files
from gswm.viz import pictures
from gswm.viz.imagination import GENERATED, dimmed, drawn, with_futures
from gswm.viz.pictures import Boxes, Frames

SCALE = 4
SMALL = 2
SHEET = 12
"""Frames on a sheet."""
FPS = 10


@dataclass(frozen=True)
class Line:
    """A branch from the first frame on."""

    past: Moments
    objects: Objects
    """Of the futures."""
    pixels: Pixels

    @property
    def length(self) -> int:
        """How many frames there are."""
        return len(self.past) + self.objects.shape[1]

    def future(self, number: int) -> tuple[Objects, Pixels]:
        """The past and one future."""
        number = min(number, len(self.objects) - 1)
        if number < 0:
            return self.past.objects, self.past.pixels
        objects = np.concatenate([self.past.objects, self.objects[number]])
        return objects, np.concatenate([self.past.pixels, self.pixels[number]])


def line(branch: Branch) -> Line:
    """A branch whose futures are all there."""
    past = join(branch.moments)
    if not branch.futures:
        return Line(past, past.objects[None, :0][:0], past.pixels[None, :0][:0])
    objects = np.concatenate([piece.objects for piece in branch.futures], axis=1)
    return Line(past, objects, np.concatenate([p.pixels for p in branch.futures], axis=1))


@dataclass(frozen=True)
class Shown:
    """What is in a file."""

    video: Frames
    truth: Boxes | None
    branches: tuple[Line, ...]
    names: tuple[str, ...]
    future: int
    boxes: bool
    trail: int

    def true(self, scale: int) -> Frames:
        """What happened; dark where that is not known."""
        length = self.branches[0].length
        known = self.video[:length]
        boxes = self.truth[: len(known)] if self.truth is not None and self.boxes else None
        video = drawn(known, boxes, scale, self.trail)
        return np.concatenate([video, *[dimmed(video[-1:])] * (length - len(video))])

    def imagined(self, which: int, future: int, scale: int) -> Frames:
        """One future of a branch, in a border where it is imagined."""
        branch = self.branches[which]
        objects, pixels = branch.future(future)
        boxes = boxes_of(objects, pixels.shape[1]) if self.boxes else None
        video, given = drawn(pixels, boxes, scale, self.trail), len(branch.past)
        made = pictures.border(video[given:], GENERATED, max(2, video.shape[1] // 64))
        return np.concatenate([video[:given], made])


def boxes_of(objects: Objects, size: int) -> Boxes:
    """The boxes of one future."""
    there = (objects[..., 5] > 0.5) & (objects[..., 6] >= 0)
    xy = ((objects[..., :2] + 1) / 2 * size).astype(np.float64)
    wh = (objects[..., 3:1:-1] * size).astype(np.float64)
    return Boxes(xy, wh, objects[..., 6].astype(np.int64), there)


def moving(shown: Shown) -> Frames:
    """The truth, a future of each branch, and the first branch's other futures below."""
    top = [shown.true(SCALE)]
    top += [shown.imagined(i, shown.future, SCALE) for i in range(len(shown.branches))]
    upper = pictures.side_by_side(top, ["truth", *shown.names])
    number = len(shown.branches[0].objects)
    if number < 2:
        return upper
    futures = [shown.imagined(0, i, SMALL) for i in range(number)]
    return with_futures(upper, futures)


def strip(shown: Shown) -> pictures.Picture:
    """A sheet: the truth above, a future of each branch below."""
    length = shown.branches[0].length
    times = np.unique(np.linspace(0, length - 1, SHEET).round().astype(int))
    rows = [shown.true(SMALL)]
    rows += [shown.imagined(i, shown.future, SMALL) for i in range(len(shown.branches))]
    labels = ["truth", *shown.names]
    return pictures.sheet([row[times] for row in rows], labels, [f"t = {t}" for t in times])


def as_file(kind: str, write: Callable[[Path], None]) -> bytes:
    """What `write` writes."""
    with tempfile.TemporaryDirectory(prefix="gswm-studio-") as folder:
        path = Path(folder) / f"export.{kind}"
        write(path)
        return path.read_bytes()


def table(shown: Shown) -> bytes:
    """A row per object and frame of the first branch; what is not imagined is future -1."""
    branch = shown.branches[0]
    head = "future,frame,id,x,y,w,h,depth,presence"
    rows = rows_of(branch.past.objects, -1, 0)
    for number, objects in enumerate(branch.objects):
        rows += rows_of(objects, number, len(branch.past))
    lines = [",".join(map(as_text, row)) for row in rows]
    return "\n".join([head, *lines, ""]).encode()


def rows_of(objects: Objects, future: int, first: int) -> list[list[int | float]]:
    """The objects that are there, with x, y, w and h as fractions of the image."""
    rows: list[list[int | float]] = []
    there = (objects[..., 5] > 0.5) & (objects[..., 6] >= 0)
    for frame, slot in zip(*there.nonzero(), strict=True):
        x, y, h, w, depth, presence, id = objects[frame, slot, :7].tolist()
        place = [(x + 1) / 2, (y + 1) / 2, w, h]
        rows.append([future, int(frame) + first, int(id), *place, depth, presence])
    return rows


FILES: dict[str, Callable[[Shown], bytes]] = {
    "gif": lambda shown: as_file(
        "gif", lambda path: picture_files.save_video(path, moving(shown), FPS)
    ),
    "mp4": lambda shown: as_file(
        "mp4", lambda path: picture_files.save_video(path, moving(shown), FPS)
    ),
    "png": lambda shown: as_file(
        "png", lambda path: picture_files.save_picture(path, strip(shown))
    ),
    "csv": table,
}
