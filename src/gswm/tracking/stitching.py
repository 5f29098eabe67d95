"""The objects of a video, from the model's tracks in its windows.

Boxes of different windows are the same object if they overlap. `linking` gives each object the
same id in all frames, also when it passes from one window to the next.
"""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from gswm.core.geometry import coverage, overlap
from gswm.core.shapes import NOBODY
from gswm.data.placement import Footage
from gswm.models.track import Track, to_array
from gswm.tracking.linking import Linker, Tracks
from gswm.tracking.windows import WindowedFilm
from gswm.viz.located import Located

EDGE = 0.1
"""A window does not see objects well whose centers are closer than this to its border, in sides,
unless the picture ends there. Their boxes count only if another window has them too.
"""
SAME, INSIDE = 0.3, 0.5
"""Two boxes of different windows are of the same object if their IoU is larger than the first, or
if a larger fraction than the second of one is inside the other."""


class Stitcher:
    """Turns the tracks in the windows into the objects of the video, chunk by chunk."""

    def __init__(self, windows: WindowedFilm) -> None:
        self.windows = windows
        self.linker = Linker()
        self.done = 0
        """Number of frames of earlier chunks."""

    def located(self, track: Track, footage: Footage) -> Located:
        """The objects of the video in the next chunk, whose windows are the batch of `track`."""
        places = self.windows.placements()
        parts = [
            track.located(replace(footage, placement=place), i) for i, place in enumerate(places)
        ]
        rows = Located.join(parts)
        window = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        time = np.concatenate([np.nonzero(there)[0] for there in to_array(track.present)])
        inside = np.concatenate(
            [self.windows.distances(i, centers(part)) for i, part in enumerate(parts)]
        )
        # In each frame, the boxes that their windows see best come first.
        order = np.lexsort((-inside, time))
        ends = np.searchsorted(time[order], np.arange(len(footage)), side="right")
        found = [
            self.one_frame(self.done + t, rows[here], window[here], inside[here])
            for t, here in enumerate(np.split(order, ends[:-1]))
        ]
        self.done += len(footage)
        return Located.join(found)

    def one_frame(
        self,
        frame: int,
        rows: Located,
        window: Int64[np.ndarray, " box"],
        inside: Float64[np.ndarray, " box"],
    ) -> Located:
        """The objects of one frame, from the boxes of all windows, the best ones first."""
        alike = self.same(rows) & (window[:, None] != window)
        objects: list[list[int]] = []
        for i in range(len(rows)):
            here = [o for o in objects if alike[i, o[0]] and window[i] not in window[o]]
            if here:
                here[0].append(i)
            elif inside[i] >= EDGE:
                objects.append([i])
        tracks = list(zip(window.tolist(), rows.id.tolist(), strict=True))
        followed: list[Tracks] = [frozenset(tracks[i] for i in boxes) for boxes in objects]
        best = rows[np.array([boxes[0] for boxes in objects], np.int64)]
        ids = self.linker.ids(frame, best, followed)
        return replace(best, id=ids)[ids != NOBODY]

    def same(self, rows: Located) -> Bool[np.ndarray, "box box"]:
        """Whether each pair of boxes is of the same object, if it is from different windows."""
        placement = self.windows.film.placement
        wh = np.stack([rows.width, rows.height], -1)
        xy, hw = (
            torch.from_numpy(each.copy())[None] for each in placement.to_model(centers(rows), wh)
        )
        within = coverage(xy, hw, xy, hw)[0]
        alike = (overlap(xy, hw, xy, hw)[0] > SAME) | (within > INSIDE) | (within.mT > INSIDE)
        return alike.numpy()


def centers(rows: Located) -> Float64[np.ndarray, "box 2"]:
    """The centers of boxes, in source pixels."""
    return np.stack([rows.x, rows.y], -1)
