"""Objects in the pixels and seconds of their source video, as tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from gswm.core.files import replacing
from gswm.data.mot import MotBoxes

Numbers = Float64[np.ndarray, " row"]
Counts = Int64[np.ndarray, " row"]
ROWS = 4096
"""Rows per write."""


@dataclass(frozen=True)
class Located:
    """One row per object and frame, in the order of frames.

        pandas.DataFrame(located.columns())

    Boxes are in pixels of the upright source picture, from its top left corner. A box may reach
    beyond the picture.
    """

    time: Numbers
    """Seconds since the source's first frame; NaN if it has no times."""
    frame: Counts
    """Number of the source frame, counted from 0."""
    id: Counts
    """The same number for the same object in all frames."""
    x: Numbers
    y: Numbers
    """Center of the box."""
    width: Numbers
    height: Numbers
    depth: Numbers
    """Nearness: larger values are in front."""
    presence: Numbers
    """From 0 to 1."""

    @staticmethod
    def join(parts: Sequence["Located"]) -> "Located":
        """Rows of consecutive parts of a video."""
        names = [f.name for f in fields(Located)]
        return Located(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, which: slice | np.ndarray) -> "Located":
        return Located(*(getattr(self, f.name)[which] for f in fields(self)))

    def columns(self) -> dict[str, list[int | float]]:
        """The columns by name, for pandas.DataFrame."""
        return {f.name: getattr(self, f.name).tolist() for f in fields(self)}

    def corners(self) -> Float64[np.ndarray, "row 4"]:
        """Left, top, right and bottom of each box."""
        half = np.stack([self.width, self.height], -1) / 2
        center = np.stack([self.x, self.y], -1)
        return np.concatenate([center - half, center + half], -1)

    def mot(self) -> MotBoxes:
        """The boxes in the convention of MOTChallenge: frames and ids start at 1."""
        corners = self.corners()
        box = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], -1)
        return MotBoxes(self.frame + 1, self.id + 1, box, self.presence)

    def save_csv(self, path: Path) -> None:
        """Write a table with column names in its first line."""
        names = [f.name for f in fields(self)]
        write_lines(path, [",".join(names)], (",".join(map(number, row)) for row in self.rows()))

    def last(self) -> "Located":
        """The last row of each object and source frame."""
        pairs = np.stack([self.frame, self.id], -1)[::-1]
        _, first = np.unique(pairs, axis=0, return_index=True)
        return self[len(self) - 1 - first]

    def mot_lines(self) -> Iterator[str]:
        """MOTChallenge text: frame, id, left, top, width, height, confidence, -1, -1, -1."""
        for at in range(0, len(self), ROWS):
            some = self[at : at + ROWS].mot()
            columns = (values.tolist() for values in (some.frame, some.id, some.box, some.conf))
            for frame, id, box, conf in zip(*columns, strict=True):
                numbers = ",".join(f"{value:.2f}" for value in box)
                yield f"{frame},{id},{numbers},{conf:.4f},-1,-1,-1"

    def rows(self) -> Iterator[tuple[int | float, ...]]:
        """Iterate over rows, without converting all of them to Python objects at once."""
        for at in range(0, len(self), ROWS):
            yield from zip(*self[at : at + ROWS].columns().values(), strict=True)


def number(value: int | float) -> str:
    """A number for a table, with six decimals; empty for NaN."""
    if isinstance(value, int):
        return str(value)
    return "" if np.isnan(value) else f"{value:.6f}".rstrip("0").rstrip(".")


def write_lines(path: Path, *parts: Iterable[str]) -> None:
    """Write a text file with these lines atomically."""
    with replacing(path) as part, part.open("w") as file:
        for lines in parts:
            file.writelines(f"{line}\n" for line in lines)
