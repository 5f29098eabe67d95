"""Exports: GIF, MP4, PNG and CSV of one branch, or of two side by side.

`write` puts the data for a file into a folder, piece by piece; another process reads it and draws
one frame at a time. Neither holds everything in memory.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from gswm.core.errors import UserError
from gswm.core.files import room
from gswm.models.base import WorldModel
from gswm.models.track import as_text
from gswm.studio.branches import Branch, Objects, Pixels, futures_of, join
from gswm.studio.protocol import ExportRequest, FileKind, ViewSettings
from gswm.viz import formats, pictures
from gswm.viz.imagination import Imagination, tiling, with_futures
from gswm.viz.pictures import Clip, DrawnVideo, Frames, PixelBoxes

SCALE = 4
SMALL = 2
SHEET = 12
"""Frames on a sheet."""
FPS = 10
MOST_PIXELS = 1 << 28
"""Maximum number of pixels in all frames of an animation."""
MOVING = ("gif", "mp4")


@dataclass(frozen=True)
class ExportOrder:
    """The data for a file, as of the request."""

    request: ExportRequest
    model: WorldModel[Any]
    settings: ViewSettings
    video: Frames
    truth: PixelBoxes | None
    branches: tuple[Branch, ...]

    @property
    def length(self) -> int:
        """Total number of frames, given and imagined."""
        return self.settings.given + self.settings.steps

    def check(self) -> None:
        """Raise a UserError early for an animation with too many pixels."""
        futures = self.settings.futures if self.settings.sample else 1
        panels = 1 + len(self.branches)
        small, _ = tiling(panels, SCALE, futures)
        side = SCALE**2 * panels + (small**2 * futures if futures > 1 else 0)
        pixels = self.length * side * self.video.shape[1] * self.video.shape[2]
        if self.request.kind in MOVING and pixels > MOST_PIXELS:
            raise UserError(
                f"{self.length} frames with {futures} futures have {pixels / 1e6:.0f} million "
                f"pixels; at most {MOST_PIXELS / 1e6:.0f} million can be exported: export fewer"
            )

    def shown(self, number: int) -> slice:
        """The futures of a branch in the file: all futures of the first branch, except in a PNG."""
        if number == 0 and self.request.kind != "png":
            return slice(None)
        last = self.settings.futures - 1 if self.settings.sample else 0
        future = min(self.request.future, last)
        return slice(future, future + 1)


def write(order: ExportOrder, folder: Path) -> Iterator[None]:
    """Write the data for a file in pieces; most of the work is to imagine the futures."""
    request, drawn = order.request, order.request.kind != "csv"
    with room("the file"):
        head: dict[str, Any] = {"request": asdict(request), "truth": order.truth is not None}
        np.save(folder / "video.npy", order.video[: order.length])
        if order.truth is not None:
            for each in fields(PixelBoxes):
                np.save(folder / f"truth-{each.name}.npy", getattr(order.truth, each.name))
        head["branches"] = []
        for number, branch in enumerate(order.branches):
            past = join(branch.moments)
            np.save(folder / f"{number}-past-objects.npy", past.objects)
            np.save(folder / f"{number}-past-pixels.npy", past.pixels)
            shapes: dict[str, tuple[int, ...]] = {}
            with ExitStack() as stack:
                files = {
                    name: stack.enter_context((folder / f"{number}-{name}").open("wb"))
                    for name in ("objects", "pixels")
                }
                steps = order.length - branch.frame - 1
                for piece in futures_of(order.model, branch, order.settings, steps):
                    for name, file in files.items():
                        if name == "objects" or drawn:
                            some = getattr(piece, name)[order.shown(number)].swapaxes(0, 1)
                            time = shapes.get(name, (0,))[0] + len(some)
                            shapes[name] = (time, *some.shape[1:])
                            file.write(np.ascontiguousarray(some).data)
                    yield
            head["branches"].append({"name": f"branch {branch.number}", "shapes": shapes})
        (folder / "order.json").write_text(json.dumps(head))


@dataclass(frozen=True)
class BranchLine:
    """A branch from the first frame on."""

    name: str
    past_objects: Float[np.ndarray, "past object 11"]
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

    def clip(self, objects: Objects, pixels: Pixels) -> Clip:
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
    """Read what `write` has written; futures are mapped into memory and read when drawn."""
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


def boxes_of(objects: Objects, size: int) -> PixelBoxes:
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


def rows_of(objects: Objects, future: int, first: int) -> Iterator[str]:
    """The present objects, with x, y, w and h as fractions of the image."""
    there = (objects[..., 5] > 0.5) & (objects[..., 6] >= 0)
    for frame, slot in zip(*there.nonzero(), strict=True):
        x, y, h, w, depth, presence, id = objects[frame, slot, :7].tolist()
        place = [(x + 1) / 2, (y + 1) / 2, w, h]
        row = [future, int(frame) + first, int(id), *place, depth, presence]
        yield ",".join(map(as_text, row)) + "\n"


def save(kind: FileKind, shown: ExportedView, path: Path) -> None:
    """Draw a file."""
    if kind == "csv":
        with path.open("w", encoding="utf-8") as file:
            file.writelines(table(shown))
    elif kind == "png":
        formats.save_picture(path, strip(shown))
    else:
        formats.save_video(path, moving(shown), FPS)
