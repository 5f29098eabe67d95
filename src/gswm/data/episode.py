"""Episodes: videos, and what is true of the objects in them.

One record for every world and every file. Positions are in pixels from the top left corner of
the frame, x then y, pixel i covering [i, i + 1); times are frames. A slot that holds no object
has id 0 and is not present.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float64, Int, UInt8
from torch import Tensor


@dataclass(frozen=True)
class Truth:
    """The objects of every frame, in slots that stay an object's own for the episode."""

    positions: Float64[Tensor, "episode time object 2"]
    """Centers (x, y), in pixels."""
    velocities: Float64[Tensor, "episode time object 2"]
    """Pixels per frame."""
    sizes: Float64[Tensor, "episode time object"]
    """Radii, in pixels: an object's box is twice as wide."""
    layers: Int[Tensor, "episode time object"]
    """Objects of one layer collide, where the world has collisions."""
    order: Int[Tensor, "episode time object"]
    """Depth order: of two objects, the one with the larger number is in front."""
    colors: Float64[Tensor, "episode time object 3"]
    """Red, green and blue, from 0 to 1."""
    ids: Int[Tensor, "episode time object"]
    """1, 2, ...: the same object in every frame; 0 where there is none."""
    present: Bool[Tensor, "episode time object"]
    """Whether the slot holds an object that the frame shows, be it behind another."""


@dataclass(frozen=True)
class Corridors:
    """The maze of each episode, and where in it each agent is."""

    grid: Int[Tensor, "episode row column"]
    """1 where agents can be, 0 where they cannot."""
    cells: Int[Tensor, "episode step object 2"]
    """(row, column) of each agent; frame 2s shows step s, frame 2s + 1 is halfway to the next."""


@dataclass(frozen=True)
class Episodes:
    """Some episodes of equal length."""

    video: UInt8[Tensor, "episode time 3 height width"]
    truth: Truth | None = None
    """None for videos of which nothing is known."""
    corridors: Corridors | None = None
    """Mazes only."""

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, which: slice | Tensor) -> "Episodes":
        return self.map(lambda tensor: tensor[which])

    def to(self, device: str | torch.device) -> "Episodes":
        """The same episodes, on `device`."""
        return self.map(lambda tensor: tensor.to(device))

    def map(self, fn: Callable[[Tensor], Tensor]) -> "Episodes":
        """`fn` of every tensor."""
        parts = {
            part.name: replace(
                record, **{f.name: fn(getattr(record, f.name)) for f in fields(record)}
            )
            for part in fields(self)
            if (record := getattr(self, part.name)) is not None and part.name != "video"
        }
        return replace(self, video=fn(self.video), **parts)


def concatenate(parts: list[Episodes]) -> Episodes:
    """All episodes of `parts`, in order."""
    first = parts[0]

    def joined(part: str):
        if (record := getattr(first, part)) is None:
            return None
        records = [getattr(p, part) for p in parts]
        names = [f.name for f in fields(record)]
        return replace(record, **{n: torch.cat([getattr(r, n) for r in records]) for n in names})

    video = torch.cat([p.video for p in parts])
    return Episodes(video, joined("truth"), joined("corridors"))
