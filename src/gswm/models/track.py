"""Tracks: the objects of some videos, frame by frame, as every model reports them (§3.1).

Evaluation, pictures and the studio see these records only, whichever model made them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.files import write_whole


@dataclass(frozen=True)
class Track:
    """The objects of some videos, frame by frame; imagined ones have an axis more, for futures."""

    xy: Float[Tensor, "*batch time object 2"]
    """Centers; (-1, -1) is the top left corner of the image, (1, 1) its bottom right."""
    hw: Float[Tensor, "*batch time object 2"]
    """Heights and widths, as fractions of the image."""
    depth: Float[Tensor, "*batch time object"]
    """Nearness: the larger covers the smaller."""
    pres: Float[Tensor, "*batch time object"]
    """Presence, from 0 to 1: an object is there if it is above a half."""
    id: Int[Tensor, "*batch time object"]
    """The same number for the same object in all frames; -1 for none."""
    reconstruction: Float[Tensor, "*batch time 3 height width"] | None
    """The frames as the model draws them; None where that was not asked for."""
    background: Float[Tensor, "*batch time 3 height width"] | None
    """The same without objects."""
    states: tuple[Any, ...] = field(default=(), repr=False)
    """After each frame; videos and futures share the first axis."""
    past: "Track | None" = None
    """The given frames from which this was imagined."""
    reward: Float[Tensor, "*batch time"] | None = None
    """What is earned on the way to each frame, where the model was trained to tell."""

    def state_at(self, frame: int) -> Any:
        """Everything that carries on after `frame`: edit it, and imagine from it."""
        if not -len(self.states) <= frame < len(self.states):
            raise UserError(f"there is no state at frame {frame} of {len(self.states)}")
        return self.states[frame]

    def to_frame(self) -> dict[str, list[int | float]]:
        """One row per object and frame, as columns: what pandas.DataFrame takes as it is.

        x, y, w and h are fractions of the image, x and y from its top left corner. Where there
        are futures, `future` says which.
        """
        there = (self.pres > 0.5) & (self.id >= 0)
        index = there.nonzero()
        names = ["episode", "future", "frame"] if self.pres.dim() == 4 else ["episode", "frame"]
        columns = dict(zip(names, index.T.tolist(), strict=False))
        center, size = (self.xy[there] + 1) / 2, self.hw[there]
        values = {"id": self.id[there], "x": center[:, 0], "y": center[:, 1]}
        values |= {"w": size[:, 1], "h": size[:, 0]}
        values |= {"depth": self.depth[there], "presence": self.pres[there]}
        return columns | {name: value.tolist() for name, value in values.items()}

    def to_csv(self, path: str | Path, first_episode: int = 0) -> None:
        """Write what `to_frame` gives, a line per object and frame, to a file.

        Where it was imagined, the given frames come first, as future -1, and frames are counted
        from the first of them. Episodes are counted from `first_episode`.
        """
        columns = self.to_frame()
        if self.past is not None:
            past, given = self.past.to_frame(), self.past.pres.shape[-2]
            past["future"] = [-1] * len(past["id"])
            columns["frame"] = [frame + given for frame in columns["frame"]]
            columns = {name: past[name] + values for name, values in columns.items()}
        columns["episode"] = [first_episode + episode for episode in columns["episode"]]
        rows = zip(*columns.values(), strict=True)
        lines = [columns, *(map(as_text, row) for row in rows)]
        write_whole(Path(path), "".join(",".join(line) + "\n" for line in lines).encode())


def as_text(value: int | float) -> str:
    """A number as a table has it."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"
