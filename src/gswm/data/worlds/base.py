"""What a world is: a source of episodes, with the truth about each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from gswm.data.episode import Episodes
from gswm.data.splits import SplitName as SplitName

MEMORY = 1 << 30
REUSED = 32 << 20
"""Blocks of more bytes an allocator gives back to the system, and takes anew. To touch new memory
on a CPU can take as long as to draw in it."""


@dataclass(frozen=True)
class Split:
    """Which episodes of a world a data set has: the first `episodes` of those of `seed`."""

    seed: int
    episodes: int


def splits(seed: int, train: int, others: int) -> dict[SplitName, Split]:
    """The paper's data sets: `seed` is of the first, and the others' follow it."""
    val, test = Split(seed + 1, others), Split(seed + 2, others)
    return {"train": Split(seed, train), "val": val, "test": test}


@runtime_checkable
class World(Protocol):
    """A simulator that advances and draws many episodes at once."""

    @property
    def name(self) -> str:
        """What the world is called."""
        ...

    @property
    def num_frames(self) -> int:
        """Frames of an episode."""
        ...

    @property
    def image_size(self) -> int:
        """Pixels on a side of a frame."""
        ...

    @property
    def num_objects(self) -> int:
        """Slots for objects, some of which may be empty."""
        ...

    @property
    def splits(self) -> dict[SplitName, Split]:
        """The paper's data sets."""
        ...

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        """The `n` episodes of `seed` from number `first` on, or all, without end, in chunks.

        Episode i of a seed is the same for every `n`, `first` and device, and however it is
        chunked; those before `first` are not made. A chunk's making takes no more than about
        `memory` bytes.
        """
        ...
