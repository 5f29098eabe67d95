"""Second boxes: two tracks of the model follow the same object.

The model may find a part of a large object, or one that leaves the frame, a second time. Or the
track of an object that another one has hidden goes on with that one. Objects do not come out of
others, and do not hide each other for long, so the younger one of two boxes is left out

- while it is mostly inside the other one, of similar size, for at least `LONG` frames in a row, if
  its object has overlapped an older one in each frame since its first;
- while both coincide, for at least `LONGER` frames in a row.

An object that leaves the other one is reported again from then on.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from gswm.viz.located import Located

LONG, LONGER = 8, 16
"""Numbers of frames in a row; objects that cross overlap for a shorter time."""
TOUCHES = 0.1
"""Share of a box inside an older one above which both overlap."""
MOSTLY = 0.7
"""Share of a box inside an older one above which it is mostly inside."""
SIMILAR = 0.3
"""IoU of both boxes above which their sizes are similar."""
COINCIDE = 0.5
"""IoU above which two boxes coincide."""


def doubled(rows: Located) -> Bool[np.ndarray, " row"]:
    """Whether each row is a second box of an older object, which has a smaller id."""
    found = np.zeros(len(rows), bool)
    inside = insides(rows)
    order = np.lexsort((rows.frame, rows.id))
    for one in np.split(order, np.flatnonzero(np.diff(rows.id[order])) + 1):
        since = np.logical_and.accumulate(inside.touches[one])
        part = long_runs(since & inside.mostly[one], LONG)
        found[one] = part | long_runs(inside.coincides[one], LONGER)
    return found


@dataclass(frozen=True)
class Insides:
    """The relations of each box to those of older objects."""

    touches: Bool[np.ndarray, " row"]
    mostly: Bool[np.ndarray, " row"]
    coincides: Bool[np.ndarray, " row"]


def insides(rows: Located) -> Insides:
    """Compare the boxes of each frame; rows of a frame are next to each other."""
    found = Insides(*(np.zeros(len(rows), bool) for _ in range(3)))
    corners = rows.corners()
    for here in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows.frame)) + 1):
        boxes, ids = corners[here], rows.id[here]
        both = intersections(boxes)
        area = np.diagonal(both)[:, None]
        iou = both / (area + area.T - both)
        older = ids < ids[:, None]
        found.touches[here] = (older & (both > TOUCHES * area)).any(axis=1)
        found.mostly[here] = (older & (iou > SIMILAR) & (both > MOSTLY * area)).any(axis=1)
        found.coincides[here] = (older & (iou > COINCIDE)).any(axis=1)
    return found


def intersections(corners: Float64[np.ndarray, "box 4"]) -> Float64[np.ndarray, "box box"]:
    """Areas that boxes share; their own on the diagonal."""
    low = np.maximum(corners[:, None, :2], corners[None, :, :2])
    high = np.minimum(corners[:, None, 2:], corners[None, :, 2:])
    return (high - low).clip(0).prod(axis=-1)


def long_runs(mask: Bool[np.ndarray, " time"], least: int) -> Bool[np.ndarray, " time"]:
    """The mask, without runs of fewer than `least` frames."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    kept = np.zeros(len(mask), bool)
    for first, end in edges.reshape(-1, 2):
        kept[first:end] = end - first >= least
    return kept
