"""Files to take away: GIF, MP4, PNG and CSV of one branch, or of two beside each other."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gswm.models.track import as_text
from gswm.studio.branches import Branch, Moments, Objects, Pixels, join
from gswm.viz import formats, pictures
from gswm.viz.imagination import Imagination, with_futures
from gswm.viz.pictures import Clip, Frames, PixelBoxes

SCALE = 4
SMALL = 2
SHEET = 12
"""Frames on a sheet."""
FPS = 10


@dataclass(frozen=True)
class BranchLine:
    """A branch from the first frame on."""

    past: Moments
    objects: Objects
    """Of the futures."""
    pixels: Pixels


def line(branch: Branch) -> BranchLine:
    """A branch whose futures are all there."""
    past = join(branch.moments)
    if not branch.futures:
        return BranchLine(past, past.objects[None, :0][:0], past.pixels[None, :0][:0])
    objects = np.concatenate([piece.objects for piece in branch.futures], axis=1)
    return BranchLine(past, objects, np.concatenate([p.pixels for p in branch.futures], axis=1))


@dataclass(frozen=True)
class ExportedView:
    """What is in a file."""

    video: Frames
    truth: PixelBoxes | None
    branches: tuple[BranchLine, ...]
    names: tuple[str, ...]
    future: int
    boxes: bool
    trail: int

    def imaginations(self) -> list[Imagination]:
        """What each branch imagines after its past, beside the truth."""
        truth = Clip(self.video, self.truth if self.boxes else None)
        return [
            Imagination(
                self.clip(each.past.objects, each.past.pixels),
                truth,
                tuple(map(self.clip, each.objects, each.pixels)),
            )
            for each in self.branches
        ]

    def clip(self, objects: Objects, pixels: Pixels) -> Clip:
        """The past of a branch, or one of its futures."""
        return Clip(pixels, boxes_of(objects, pixels.shape[1]) if self.boxes else None)

    def rows(self, imagined: Sequence[Imagination], scale: int) -> list[Frames]:
        """The truth, and a future of each branch."""
        truth = imagined[0].true(scale, self.trail)
        numbers = [min(self.future, len(each.futures) - 1) for each in imagined]
        pairs = zip(imagined, numbers, strict=True)
        return [truth, *(each.future(number, scale, self.trail) for each, number in pairs)]


def boxes_of(objects: Objects, size: int) -> PixelBoxes:
    """The boxes of one future."""
    there = (objects[..., 5] > 0.5) & (objects[..., 6] >= 0)
    xy = ((objects[..., :2] + 1) / 2 * size).astype(np.float64)
    wh = (objects[..., 3:1:-1] * size).astype(np.float64)
    return PixelBoxes(xy, wh, objects[..., 6].astype(np.int64), there)


def moving(shown: ExportedView) -> Frames:
    """The truth, a future of each branch, and the first branch's other futures below."""
    imagined = shown.imaginations()
    upper = pictures.side_by_side(shown.rows(imagined, SCALE), ["truth", *shown.names])
    number = len(imagined[0].futures)
    if number < 2:
        return upper
    return with_futures(upper, [imagined[0].future(i, SMALL, shown.trail) for i in range(number)])


def strip(shown: ExportedView) -> pictures.Picture:
    """A sheet: the truth above, a future of each branch below."""
    imagined = shown.imaginations()
    times = pictures.spread(imagined[0].length, SHEET)
    rows, labels = shown.rows(imagined, SMALL), ["truth", *shown.names]
    return pictures.sheet([row[times] for row in rows], labels, [f"t = {t}" for t in times])


def as_file(kind: str, write: Callable[[Path], None]) -> bytes:
    """What `write` writes."""
    with tempfile.TemporaryDirectory(prefix="gswm-studio-") as folder:
        path = Path(folder) / f"export.{kind}"
        write(path)
        return path.read_bytes()


def table(shown: ExportedView) -> bytes:
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


FILES: dict[str, Callable[[ExportedView], bytes]] = {
    "gif": lambda shown: as_file("gif", lambda path: formats.save_video(path, moving(shown), FPS)),
    "mp4": lambda shown: as_file("mp4", lambda path: formats.save_video(path, moving(shown), FPS)),
    "png": lambda shown: as_file("png", lambda path: formats.save_picture(path, strip(shown))),
    "csv": table,
}
