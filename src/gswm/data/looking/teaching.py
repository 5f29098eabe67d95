"""Labels of moving objects in a video, for supervision.

Traces that differ from the background and travel, or stand like an object, are objects (see
`moving`). Some boxes are unclear and are ignored in training: frames in which a blob is much larger
or smaller than in neighboring ones, for example because two of them touch; the position of a trace
just before it begins and after it ends inside the frame, where the object may stand still; and
things that stay in place and may not be objects. Everything else is background.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Float32, UInt8
from scipy import ndimage
from torch import Tensor

from gswm.data.labels import NUMBERS, UNCLEAR
from gswm.data.looking.footage import Stretch
from gswm.data.looking.measuring import Followed, chosen, follow
from gswm.data.looking.moving import Blob, Trace

BOXES = 48
"""Largest number of simultaneous boxes of a stretch."""
AROUND = 15
"""Number of neighboring frames over which a blob's usual area is measured."""
JUMP = 1.5
"""Factor on the usual area above which a blob is unclear."""
NEAR = 12
"""Number of frames before and after a trace in which its object may stand still. A slot of the
labels becomes free for another trace only after as many again.
"""

Frames = UInt8[np.ndarray, "_time size size 3"]
Boxes = Float32[np.ndarray, "_time _box 6"]
"""Boxes of a stretch; see `Labels.packed`."""
Row = tuple[int, float, Blob]
"""Frame, presence of an object, and its blob, which may be from another frame."""


def motion_labels(
    stretches: Sequence[Frames], background: Float[Tensor, "3 size size"]
) -> list[Boxes]:
    """Label stretches of consecutive frames of one video, all with as many boxes.

    Args:
        stretches: Square frames, as the model's input.
        background: From 0 to 1.
    """
    if not stretches:
        return []
    scene = [Stretch(frames, 0, 0) for frames in stretches]
    noise, traces = follow(scene, background)
    parts = [slotted([*rows_of(each)]) for each in chosen(traces, noise)]
    most = max(1, *(len(slots) for slots in parts))
    return [
        filled(slots, each.shape[:2], most) for slots, each in zip(parts, stretches, strict=True)
    ]


def nothing_known(frames: int, boxes: int) -> Boxes:
    """Labels without information: one unclear box that covers the whole frame."""
    values = np.zeros((frames, boxes, NUMBERS), np.float32)
    values[:, 0] = (0, UNCLEAR, 0, 0, 1, 1)
    return values


def rows_of(each: Followed) -> Iterator[list[Row]]:
    """The boxes of each object, then those of each possible object."""
    length, size = each.stretch.frames.shape[:2]
    for trace in each.objects:
        yield object_rows(trace, size, length)
    for trace in each.doubtful:
        yield [(blob.time, 0.0, blob) for blob in trace]


def object_rows(trace: Trace, size: int, length: int) -> list[Row]:
    """The boxes of one object: clear ones, interpolated ones, and where it may stand still."""
    areas = np.log([blob.area for blob in trace])
    usual = ndimage.median_filter(areas, min(AROUND, len(areas)), mode="nearest")
    clear = np.abs(areas - usual) < np.log(JUMP)
    rows: list[Row] = []
    for i, blob in enumerate(trace):
        rows.append((blob.time, float(clear[i]), blob))
        after = trace[i + 1] if i + 1 < len(trace) else blob
        sure = float(clear[i] and clear[min(i + 1, len(trace) - 1)])
        for time in range(blob.time + 1, after.time):
            rows.append((time, sure, between(blob, after, time)))
    first, last = trace[0], trace[-1]
    if not last.at_border(size, size):
        later = range(last.time + 1, min(length, last.time + 1 + NEAR))
        rows += [(time, 0.0, last) for time in later]
    if not first.at_border(size, size):
        earlier = range(max(0, first.time - NEAR), first.time)
        rows = [(time, 0.0, first) for time in earlier] + rows
    return rows


def between(one: Blob, other: Blob, time: int) -> Blob:
    """The interpolated blob of a frame in which it was lost."""
    share = (time - one.time) / (other.time - one.time)
    left, top, right, bottom = (
        a + share * (b - a) for a, b in zip(one.box, other.box, strict=True)
    )
    x, y = (a + share * (b - a) for a, b in zip(one.center, other.center, strict=True))
    area = one.area + share * (other.area - one.area)
    return Blob(time, (left, top, right, bottom), (x, y), area, one.contrast, one.edges, 0.0)


def slotted(things: list[list[Row]]) -> list[list[Row]]:
    """Assign things to slots, which may be reused over time, at most `BOXES`."""
    slots: list[list[Row]] = []
    free: list[int] = []
    for rows in sorted(things, key=lambda rows: rows[0][0]):
        begin, end = rows[0][0], rows[-1][0]
        able = [i for i, when in enumerate(free) if when <= begin]
        if able:
            slots[able[0]] += rows
            free[able[0]] = end + 1 + NEAR
        elif len(slots) < BOXES:
            slots.append(list(rows))
            free.append(end + 1 + NEAR)
    return slots


def filled(slots: list[list[Row]], shape: tuple[int, ...], boxes: int) -> Boxes:
    """The label array of a stretch."""
    frames, size = shape
    values = np.zeros((frames, boxes, NUMBERS), np.float32)
    for slot, rows in enumerate(slots):
        for time, present, blob in rows:
            left, top, right, bottom = blob.box
            xy = (left + right) / size - 1, (top + bottom) / size - 1
            hw = (bottom - top) / size, (right - left) / size
            values[time, slot] = (present, 1.0 if present else UNCLEAR, *xy, *hw)
    return values
