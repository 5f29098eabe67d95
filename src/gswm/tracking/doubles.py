"""Second boxes: an object that appears in the box of an older one, and stays in it.

The model may find a part of a large object, or one that leaves the frame, a second time. Objects do
not come out of others, and one that passes in front of another was apart from it before. So a box
is left out while it is a second one:

- in each frame since its first one, the object has overlapped an older one;
- for at least `LONG` frames in a row, its box is mostly inside that of an older one of similar
  size.

An object that leaves the other one later is reported from then on.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from gswm.viz.located import Located

LONG = 8
"""Number of frames in a row; crossing objects are inside each other for a shorter time."""
TOUCHES = 0.1
"""Share of a box inside an older one above which both overlap."""
MOSTLY = 0.7
"""Share of a box inside an older one above which it is mostly inside."""
SIMILAR = 0.3
"""IoU of both boxes above which their sizes are similar."""


def doubled(rows: Located) -> Bool[np.ndarray, " row"]:
    """Whether each row is a second box of an older object, which has a smaller id."""
    found = np.zeros(len(rows), bool)
    inside = insides(rows)
    order = np.lexsort((rows.frame, rows.id))
    for one in np.split(order, np.flatnonzero(np.diff(rows.id[order])) + 1):
        since = np.logical_and.accumulate(inside.touches[one])
        found[one] = long_runs(since & inside.mostly[one])
    return found


@dataclass(frozen=True)
class Insides:
    """Whether each box overlaps that of an older object, and is mostly inside one."""

    touches: Bool[np.ndarray, " row"]
    mostly: Bool[np.ndarray, " row"]


def insides(rows: Located) -> Insides:
    """Compare the boxes of each frame; rows of a frame are next to each other."""
    touches, mostly = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    corners = rows.corners()
    for here in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows.frame)) + 1):
        boxes, ids = corners[here], rows.id[here]
        both = intersections(boxes)
        area = np.diagonal(both)[:, None]
        older = ids < ids[:, None]
        similar = both > SIMILAR * (area + area.T - both)
        touches[here] = (older & (both > TOUCHES * area)).any(axis=1)
        mostly[here] = (older & similar & (both > MOSTLY * area)).any(axis=1)
    return Insides(touches, mostly)


def intersections(corners: Float64[np.ndarray, "box 4"]) -> Float64[np.ndarray, "box box"]:
    """Areas that boxes share; their own on the diagonal."""
    low = np.maximum(corners[:, None, :2], corners[None, :, :2])
    high = np.minimum(corners[:, None, 2:], corners[None, :, 2:])
    return (high - low).clip(0).prod(axis=-1)


def long_runs(mask: Bool[np.ndarray, " time"]) -> Bool[np.ndarray, " time"]:
    """The mask, without runs of fewer than `LONG` frames."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    kept = np.zeros(len(mask), bool)
    for first, end in edges.reshape(-1, 2):
        kept[first:end] = end - first >= LONG
    return kept
