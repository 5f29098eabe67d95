"""Exports: GIF, MP4, PNG and CSV of one branch, or of two side by side.

`write` puts the data for a file into a folder, piece by piece; another process (`drawing`) reads it
and draws one frame at a time. Neither holds everything in memory.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gswm.core.errors import UserError
from gswm.core.files import room
from gswm.models.base import WorldModel
from gswm.studio.branches import Branch, futures_of, join
from gswm.studio.drawing import SCALE
from gswm.studio.protocol import ExportRequest, ViewSettings
from gswm.viz.imagination import tiling
from gswm.viz.pictures import Frames, PixelBoxes

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
