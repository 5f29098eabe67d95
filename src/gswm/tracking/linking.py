"""Identities by motion: an object keeps its id when the tracks of the model change hands.

A track of the model may jump to another object, end where a new one begins, or follow the same
object as another track. In each frame, the boxes are therefore assigned to the known objects anew:

    gain       `WORTH` less the distance of a box from where the object would be at constant
               velocity, in its sizes, at most `FAR`; `OTHERS` less if the object had none of the
               box's tracks before
    possible   any box of the object's own tracks; others of about its size if this distance is
               below its size and the path that it would have covered

The assignment has the largest total gain. So a track that goes on as expected keeps its object, and
one that jumps keeps it if no other object is expected there.

The box of an object that overlaps another may be that of the other one. Such an object keeps its
velocity, and its position is extrapolated from the last frame in which it was alone. A box that no
object gets is that of a new object, or the second box of one that it overlaps, which is dropped.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from gswm.core.shapes import NOBODY
from gswm.eval.metrics.matching import best_pairs
from gswm.tracking.doubles import intersections
from gswm.viz.located import Located

WORTH = 1.5
"""Gain of a box in the expected place."""
FAR = 1.0
"""Distance, in sizes of the object, from which all boxes are equally far."""
OTHERS = 0.25
"""Loss for a box of another track."""
ALIKE = 2.0
"""Largest ratio of the sizes of an object and the box of another track."""
GONE = 8
"""Number of frames without a box after which an object does not come back."""
HIDDEN = 12
"""Number of frames over which the position of an object that overlaps another is extrapolated."""
APART = 0.2
"""IoU of two boxes below which their objects do not count as overlapping."""
SECOND = 0.5
"""IoU with the box of an object above which a box that no object gets is its second one."""
LATEST = 0.5
"""Weight of the latest frame in the velocity."""

Tracks = frozenset[tuple[int, int]]
"""Tracks of the model, each by its window and its id there."""


@dataclass(frozen=True)
class FrameBoxes:
    """The boxes of one frame."""

    center: Float64[np.ndarray, "box 2"]
    size: Float64[np.ndarray, " box"]
    """Geometric means of their sides."""
    iou: Float64[np.ndarray, "box box"]
    """IoU with each other box; 0 with itself."""
    tracks: list[Tracks]
    """The tracks that follow what is in each box."""

    @staticmethod
    def of(rows: Located, tracks: list[Tracks]) -> "FrameBoxes":
        """Boxes in pixels of the video."""
        center = np.stack([rows.x, rows.y], -1)
        size = np.sqrt(rows.width * rows.height)
        return FrameBoxes(center, size, overlaps(rows.corners()), tracks)

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True)
class Known:
    """An object, as it was when it was last alone."""

    id: int
    tracks: Tracks
    """The tracks that followed it last."""
    last: int
    """The last frame in which it had a box."""
    alone: int
    """The last frame in which it overlapped no other object."""
    center: Float64[np.ndarray, "2"]
    velocity: Float64[np.ndarray, "2"]
    """Path from frame to frame."""
    size: float

    @staticmethod
    def new(id: int, frame: int, boxes: FrameBoxes, box: int) -> "Known":
        """An object that is seen for the first time."""
        center, size = boxes.center[box], float(boxes.size[box])
        return Known(id, boxes.tracks[box], frame, frame, center, np.zeros(2), size)

    def at(self, frame: int) -> Float64[np.ndarray, "2"]:
        """Its position at constant velocity."""
        return self.center + self.velocity * (frame - self.alone)

    def reach(self, frame: int) -> float:
        """The distance from there below which it may get the box of another track."""
        return self.size + float(np.linalg.norm(self.at(frame) - self.center))

    def seen(self, frame: int, boxes: FrameBoxes, box: int) -> "Known":
        """The object after a frame in which it has a box."""
        now = replace(self, tracks=boxes.tracks[box], last=frame)
        passed = frame - self.alone
        if boxes.iou[box].max() >= APART and passed <= HIDDEN:
            return now
        center, velocity = boxes.center[box], self.velocity
        if passed <= HIDDEN:
            velocity = velocity + LATEST * ((center - self.center) / passed - velocity)
        size = float(boxes.size[box])
        return replace(now, alone=frame, center=center, velocity=velocity, size=size)


class Linker:
    """Assigns the boxes of a video to objects, frame by frame."""

    def __init__(self) -> None:
        self.known: list[Known] = []
        self.born = 0

    def ids(self, frame: int, rows: Located, tracks: list[Tracks]) -> Int64[np.ndarray, " box"]:
        """The object of each box of the next frame; NOBODY for second boxes of an object.

        Args:
            frame: Number of the frame, among those that the model sees.
            rows: Its boxes.
            tracks: The tracks that follow what is in each box.
        """
        boxes = FrameBoxes.of(rows, tracks)
        self.known = [known for known in self.known if frame - known.last <= GONE]
        pairs = assigned(self.known, frame, boxes)
        ids = np.full(len(boxes), NOBODY, np.int64)
        for known, box in np.argwhere(pairs).tolist():
            ids[box] = self.known[known].id
            self.known[known] = self.known[known].seen(frame, boxes, box)
        taken = ids != NOBODY
        second = (boxes.iou * taken).max(axis=1, initial=0.0) > SECOND
        for box in np.flatnonzero(~taken & ~second):
            ids[box], self.born = self.born, self.born + 1
            self.known.append(Known.new(int(ids[box]), frame, boxes, int(box)))
        return ids


def assigned(known: list[Known], frame: int, boxes: FrameBoxes) -> Bool[np.ndarray, "object box"]:
    """The boxes that the objects get."""
    shape = len(known), len(boxes)
    own = np.array([[bool(one.tracks & each) for each in boxes.tracks] for one in known], bool)
    own = own.reshape(shape)
    at = np.array([one.at(frame) for one in known]).reshape(-1, 1, 2)
    size = np.array([one.size for one in known]).reshape(-1, 1)
    reach = np.array([one.reach(frame) for one in known]).reshape(-1, 1)
    away = np.linalg.norm(boxes.center - at, axis=-1)
    ratio = boxes.size / size
    near = (away < reach) & (ratio < ALIKE) & (ratio > 1 / ALIKE)
    gain = WORTH - np.minimum(away / size, FAR) - OTHERS * ~own
    return best_pairs(torch.from_numpy(np.where(own | near, gain, 0.0))).numpy()


def overlaps(corners: Float64[np.ndarray, "box 4"]) -> Float64[np.ndarray, "box box"]:
    """IoU of each pair of different boxes; 0 for a box and itself."""
    both = intersections(corners)
    area = np.diagonal(both)
    iou = both / (area[:, None] + area - both)
    np.fill_diagonal(iou, 0.0)
    return iou
