"""Boxes of a video in MOTChallenge text: ground truth and tracks, in pixels of the video.

A line is `frame,id,x,y,w,h,conf,class,visibility`; the fields after `h` are optional, and those
after `conf` are ignored. Frames count from 1. In ground truth, a `conf` of 0 marks an ignore
region, whose id is -1.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64

from gswm.core.errors import UserError
from gswm.core.files import check_regular, write_whole

NEEDED = 6
"""Fields of a line, up to the height."""
NAMES = "frame,id,x,y,w,h"
LARGEST = 2**53
"""Largest frame number and id, which a float represents exactly."""


@dataclass(frozen=True)
class MotBoxes:
    """One row per box."""

    frame: Int64[np.ndarray, " row"]
    """Number of the video's frame, counted from 1."""
    id: Int64[np.ndarray, " row"]
    box: Float64[np.ndarray, "row 4"]
    """Left, top, width and height."""
    conf: Float64[np.ndarray, " row"]

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(
        self, which: Bool[np.ndarray, " row"] | Int64[np.ndarray, " part"]
    ) -> "MotBoxes":
        return MotBoxes(self.frame[which], self.id[which], self.box[which], self.conf[which])

    def after(self, frame: float) -> "MotBoxes":
        """The rows of later frames."""
        return self[self.frame > frame]

    def clipped(self, width: int, height: int) -> "MotBoxes":
        """Boxes clipped at the borders of the picture; boxes outside of it are left out."""
        low = self.box[:, :2].clip(0, (width, height))
        high = (self.box[:, :2] + self.box[:, 2:]).clip(0, (width, height))
        cut = MotBoxes(self.frame, self.id, np.concatenate([low, high - low], axis=1), self.conf)
        return cut[np.all(high > low, axis=1)]


def read_mot(path: str | Path) -> MotBoxes:
    """Read the boxes of a MOTChallenge file."""
    check_regular(Path(path))
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise UserError(f"cannot read {path}: {why.lower()}") from error
    rows: list[tuple[int, int, float, float, float, float, float]] = []
    seen: dict[tuple[int, int], int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = parsed(line)
            if row[1] >= 0 and (before := seen.setdefault(row[:2], number)) != number:
                raise ValueError(f"frame {row[0]} has id {row[1]} already in line {before}")
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from error
        rows.append(row)
    table = np.array(rows, np.float64).reshape(-1, 7)
    frame, id = table[:, :2].T.astype(np.int64)
    return MotBoxes(frame, id, table[:, 2:6], table[:, 6])


def parsed(line: str) -> tuple[int, int, float, float, float, float, float]:
    """Frame, id, left, top, width, height and confidence of a line."""
    fields = line.split(",")
    if len(fields) < NEEDED:
        raise ValueError(f"there are {len(fields)} fields; it must begin with {NAMES}")
    values = [as_number(field) for field in fields[: NEEDED + 1]]
    frame, id, x, y, w, h, conf = values if len(values) > NEEDED else [*values, 1.0]
    if frame != int(frame) or not 1 <= frame <= LARGEST:
        raise ValueError(f"the frame is {frame:g}; frames must be integers from 1")
    if id != int(id) or abs(id) > LARGEST or (id < 0 and conf != 0):
        raise ValueError(f"the id is {id:g}; ids must be integers from 0, or -1 where conf is 0")
    if min(w, h) <= 0:
        raise ValueError(f"the box is {w:g} x {h:g}; its width and height must be positive")
    return int(frame), int(id), x, y, w, h, conf


def as_number(field: str) -> float:
    """A finite number."""
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"'{field.strip()}' is not a number; fields are separated by commas")
    return value


def write_mot(path: str | Path, boxes: MotBoxes) -> None:
    """Write boxes as MOTChallenge text, sorted by frame and id."""
    lines = []
    for row in np.lexsort((boxes.id, boxes.frame)):
        box = ",".join(f"{value:.2f}" for value in boxes.box[row])
        lines.append(f"{boxes.frame[row]},{boxes.id[row]},{box},{boxes.conf[row]:g},-1,-1,-1\n")
    write_whole(Path(path), "".join(lines).encode())
