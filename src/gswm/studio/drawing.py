"""Draw one file under limits: `python -m gswm.studio.drawing FOLDER`.

It runs in a separate process, so that no page waits for it and it can be killed. It reads the
output of `exports.write` and writes `export.KIND` beside it, or prints an error in one line on
stderr. It does not import torch, which would take longer than most files.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from gswm.core.errors import UserError
from gswm.core.words import plain
from gswm.studio.limits import limit
from gswm.studio.protocol import ExportRequest, FileKind
from gswm.viz import formats, pictures
from gswm.viz.imagination import Imagination, tiling, with_futures
from gswm.viz.pictures import Clip, DrawnVideo, Frames, PixelBoxes

MEMORY = 1 << 30
"""Bytes of memory beyond the initial ones; a GIF takes one byte per pixel."""
SECONDS = 600
"""Seconds of processor time."""
MOST_BYTES = 1 << 28
"""Maximum file size in bytes."""
SCALE = 4
SMALL = 2
SHEET = 12
"""Frames on a sheet."""
FPS = 10

ObjectRows = Float[np.ndarray, "_time object 11"]
"""The rows of `branches.Objects`."""


def main(args: list[str]) -> int:
    """Read FOLDER and draw the file."""
    folder = Path(args[0])
    if hasattr(os, "nice"):
        os.nice(10)  # pages that are in use come first
    limit(MEMORY, SECONDS, MOST_BYTES)
    try:
        kind, view = read(folder)
        save(kind, view, folder / f"export.{kind}")
    except (UserError, OSError, ValueError, MemoryError) as error:
        said = str(error) if isinstance(error, UserError) else type(error).__name__
        print(said, file=sys.stderr)
        return 1
    return 0


@dataclass(frozen=True)
class BranchLine:
    """A branch from the first frame on."""

    name: str
    past_objects: ObjectRows
    past_pixels: UInt8[np.ndarray, "past height width 3"]
    objects: Float[np.ndarray, "future time object 11"]
    pixels: UInt8[np.ndarray, "_future _time height width 3"]
    """The pixels of the futures; empty for a CSV."""


@dataclass(frozen=True)
class ExportedView:
    """The data for a file, read from disk."""

    video: Frames
    truth: PixelBoxes | None
    branches: tuple[BranchLine, ...]
    future: int
    boxes: bool
    trail: int

    @cached_property
    def imaginations(self) -> list[Imagination]:
        """The imagination of each branch after its past, beside the ground truth."""
        truth = Clip(self.video, self.truth if self.boxes else None)
        return [
            Imagination(
                self.clip(each.past_objects, each.past_pixels),
                truth,
                tuple(map(self.clip, each.objects, each.pixels)),
            )
            for each in self.branches
        ]

    def clip(self, objects: ObjectRows, pixels: Frames) -> Clip:
        """The past of a branch, or one of its futures."""
        return Clip(pixels, boxes_of(objects, pixels.shape[1]) if self.boxes else None)

    def rows(self, scale: int) -> list[DrawnVideo]:
        """The ground truth, and one future of each branch."""
        rows = [self.imaginations[0].true_drawn(scale, self.trail)]
        for each in self.imaginations:
            number = min(self.future, len(each.futures) - 1)
            rows.append(each.future_drawn(number, scale, self.trail))
        return rows

    @property
    def labels(self) -> list[str]:
        """Labels of the rows."""
        return ["truth", *(branch.name for branch in self.branches)]


def read(folder: Path) -> tuple[FileKind, ExportedView]:
    """Read what `exports.write` has written; futures are mapped into memory and read when drawn."""
    head = json.loads((folder / "order.json").read_text())
    request = ExportRequest(**head["request"])
    names = [each.name for each in fields(PixelBoxes)]
    truth = [np.load(folder / f"truth-{name}.npy") for name in names] if head["truth"] else None
    view = ExportedView(
        video=np.load(folder / "video.npy"),
        truth=None if truth is None else PixelBoxes(*truth),
        branches=tuple(read_branch(folder, i, each) for i, each in enumerate(head["branches"])),
        future=request.future,
        boxes=request.boxes,
        trail=request.trail,
    )
    return request.kind, view


def read_branch(folder: Path, number: int, head: dict[str, Any]) -> BranchLine:
    """Read one branch."""
    objects = np.load(folder / f"{number}-past-objects.npy")
    pixels = np.load(folder / f"{number}-past-pixels.npy")

    def futures(name: str, dtype: type, empty: np.ndarray) -> np.ndarray:
        if name not in head["shapes"]:
            return empty
        file, shape = folder / f"{number}-{name}", tuple(head["shapes"][name])
        return np.memmap(file, dtype, "r", shape=shape).swapaxes(0, 1)

    return BranchLine(
        head["name"],
        objects,
        pixels,
        futures("objects", np.float32, objects[None, :0][:0]),
        futures("pixels", np.uint8, pixels[None, :0][:0]),
    )


def boxes_of(objects: ObjectRows, size: int) -> PixelBoxes:
    """The boxes of one future."""
    there = (objects[..., 5] > 0.5) & (objects[..., 6] >= 0)
    xy = ((objects[..., :2] + 1) / 2 * size).astype(np.float64)
    wh = (objects[..., 3:1:-1] * size).astype(np.float64)
    return PixelBoxes(xy, wh, objects[..., 6].astype(np.int64), there)


def moving(shown: ExportedView) -> DrawnVideo:
    """The ground truth, one future of each branch, and the other futures of the first branch."""
    imagined, rows = shown.imaginations[0], shown.rows(SCALE)
    number = len(imagined.futures)
    scale, columns = tiling(len(rows), SCALE, max(1, number))
    small = [imagined.future_drawn(i, scale, shown.trail) for i in range(number)]

    def draw(time: int) -> pictures.Picture:
        upper = pictures.side_by_side(one_of(rows, time), shown.labels)
        return (upper if number < 2 else with_futures(upper, one_of(small, time), columns))[0]

    return DrawnVideo(imagined.length, draw)


def one_of(videos: Sequence[DrawnVideo], time: int) -> list[Frames]:
    """One frame of each video, as videos of length 1."""
    return [video[time][None] for video in videos]


def strip(shown: ExportedView) -> pictures.Picture:
    """A contact sheet: the ground truth above one future of each branch."""
    times = pictures.spread(shown.imaginations[0].length, SHEET)
    frames = [np.stack([row[t] for t in times]) for row in shown.rows(SMALL)]
    return pictures.sheet(frames, shown.labels, [f"t = {t}" for t in times])


def table(shown: ExportedView) -> Iterator[str]:
    """One row per object and frame of the first branch; future -1 is the past."""
    branch = shown.branches[0]
    yield "future,frame,id,x,y,w,h,depth,presence\n"
    yield from rows_of(branch.past_objects, -1, 0)
    for number, objects in enumerate(branch.objects):
        yield from rows_of(objects, number, len(branch.past_objects))


def rows_of(objects: ObjectRows, future: int, first: int) -> Iterator[str]:
    """The present objects, with x, y, w and h as fractions of the image."""
    there = (objects[..., 5] > 0.5) & (objects[..., 6] >= 0)
    for frame, slot in zip(*there.nonzero(), strict=True):
        x, y, h, w, depth, presence, id = objects[frame, slot, :7].tolist()
        place = [(x + 1) / 2, (y + 1) / 2, w, h]
        row = [future, int(frame) + first, int(id), *place, depth, presence]
        yield ",".join(map(plain, row)) + "\n"


def save(kind: FileKind, shown: ExportedView, path: Path) -> None:
    """Draw a file."""
    if kind == "csv":
        with path.open("w", encoding="utf-8") as file:
            file.writelines(table(shown))
    elif kind == "png":
        formats.save_picture(path, strip(shown))
    else:
        formats.save_video(path, moving(shown), FPS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
