"""Boxes for every frame of a source video, if a model saw only every n-th."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from gswm.viz.located import Located, Numbers, write_lines


class SourceBoxes:
    """The objects in the frames that a model saw, interpolated linearly between them.

    Between two frames, these are the objects that both have; there are none before the first or
    after the last frame.
    """

    def __init__(self, located: Located, frames: Int64[np.ndarray, " time"], times: Numbers):
        """Take the rows of some frames.

        Args:
            located: The objects. For a frame that was seen several times, the last one counts.
            frames: The number of each frame that the model saw, including those without objects.
            times: The time of each frame; NaN if unknown.
        """
        last = {int(n): k for k, n in enumerate(frames)}
        self.frames = sorted(last)
        self.times = [float(times[last[n]]) for n in self.frames]
        self.located = located.last()
        self.rows = np.searchsorted(self.located.frame, [*self.frames, math.inf])
        self._pair: tuple[int, tuple[Located, Located, Located]] | None = None

    def seen(self, k: int) -> Located:
        """The objects in the k-th frame that the model saw."""
        return self.located[self.rows[k] : self.rows[k + 1]]

    def at(self, number: int, time: float = math.nan, *, hold: bool = False) -> Located:
        """The objects in one source frame.

        Args:
            number: The number of the frame, counted from 0.
            time: The time of the frame; without one, frames are assumed to be equally long.
            hold: Keep an object that only the earlier frame has in place until the later one.
        """
        k = bisect_right(self.frames, number) - 1
        if k < 0 or number > self.frames[-1]:
            return self.located[:0]
        if number == self.frames[k]:
            return self.seen(k)
        early, late, left = self.pair(k)
        share = self.share(k, number, time)
        found = mixed(early, late, share, number, time)
        return Located.join([found, mixed(left, left, 0.0, number, time)]) if hold else found

    def every(self, times: Numbers | None = None) -> Iterator[Located]:
        """The objects in each source frame, from the first to the last that the model saw.

        Args:
            times: The time of every source frame, from the first; see `at`.
        """
        for number in range(self.frames[0], self.frames[-1] + 1):
            yield self.at(number, math.nan if times is None else float(times[number]))

    def save_mot(self, path: Path, times: Numbers | None = None) -> None:
        """Write each source frame as MOTChallenge text, in which frames and ids count from 1."""
        write_lines(path, (line for found in self.every(times) for line in found.mot_lines()))

    def pair(self, k: int) -> tuple[Located, Located, Located]:
        """The objects that both the k-th frame and the next have, in each; and those that left."""
        if self._pair is None or self._pair[0] != k:
            now, after = self.seen(k), self.seen(k + 1)
            _, here, there = np.intersect1d(now.id, after.id, return_indices=True)
            left = now[~np.isin(now.id, after.id)]
            self._pair = k, (now[here], after[there], left)
        return self._pair[1]

    def share(self, k: int, number: int, time: float) -> float:
        """Position of a frame between the k-th seen frame and the next, from 0 to 1."""
        begin, end, now = self.times[k], self.times[k + 1], time
        if math.isnan(now) or not end > begin:
            begin, end, now = self.frames[k], self.frames[k + 1], number
        return min(1.0, max(0.0, (now - begin) / (end - begin)))


def mixed(early: Located, late: Located, share: float, number: int, time: float) -> Located:
    """Objects interpolated between two frames."""
    names = ("x", "y", "width", "height", "depth", "presence")
    values = ((1 - share) * getattr(early, n) + share * getattr(late, n) for n in names)
    rows = len(early)
    return Located(np.full(rows, time), np.full(rows, number), early.id, *values)
