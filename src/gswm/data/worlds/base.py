"""The base class of worlds: sources of episodes, with the ground truth of each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch

from gswm.core.errors import UserError
from gswm.core.limits import check_seed
from gswm.data.episode import Episodes
from gswm.data.splits import SplitName as SplitName

MEMORY = 1 << 30
REUSED = 32 << 20
"""Larger blocks are returned to the system by an allocator, and requested anew. On a CPU, touching
new memory can take as long as drawing in it.
"""

SIZES = range(16, 1025)
"""Possible sizes of frames in pixels, in worlds that draw at any size."""

Layout = Literal["obj3d", "clips", "balls", "single-ball", "maze", "video"]
"""The file layouts; see `storage.layouts`."""
Style = Literal["paths", "maze", "stills"]
"""Style of scenes in figures: paths of objects on a dark square; the same between the walls of a
maze; or the frames themselves, for scenes with light and shadow."""


@dataclass(frozen=True)
class Split:
    """The episodes of a dataset: the first `episodes` of a seed."""

    seed: int
    episodes: int


def check_size(name: str, size: int, sizes: range = SIZES) -> None:
    """Raise a UserError for a frame size that a world cannot draw."""
    if size not in sizes:
        step = f"a multiple of {sizes.step} from " if sizes.step > 1 else ""
        given = f"{step}{sizes[0]} to {sizes[-1]}"
        raise UserError(f"{name} has no frames of {size} pixels; use {given}")


def splits(seed: int, train: int, others: int) -> dict[SplitName, Split]:
    """The paper's datasets: the first has `seed`, and the others the following ones."""
    val, test = Split(seed + 1, others), Split(seed + 2, others)
    return {"train": Split(seed, train), "val": val, "test": test}


def random_state(seed: int) -> np.random.RandomState:
    """The generator of the paper's worlds; raises a UserError for a seed that it refuses."""
    check_seed(seed, "seed", 2**32 - 1)
    return np.random.RandomState(seed)


class World(ABC):
    """A simulator that advances and draws many episodes at once.

    To add a world, subclass this, set the attributes that have no value here, implement
    `episodes`, and register an instance: see `registry`.
    """

    name: str
    """The name of the world in commands and recipes."""
    num_frames: int
    """Frames per episode."""
    image_size: int
    """Side of a frame in pixels."""
    num_objects: int
    """Number of object slots, some of which may be empty."""
    splits: dict[SplitName, Split]
    """The datasets that `gswm data make` writes and that training and evaluation use."""
    layout: Layout
    """The file layout that stores the world's episodes without loss."""
    protocol: str = "gswm-10-90"
    """The default protocol of `gswm eval`: one of `eval.protocols`, or your own, added by
    `gswm.register_protocol`.
    """
    style: Style = "paths"
    """Style of the world's scenes in figures of a report."""
    extra: str = ""
    """The extra of gswm that generates the world's episodes, if they need one."""
    has_scene_files: bool = False
    """Whether the world can draw scenes that were simulated before; see `with_scenes`."""

    @abstractmethod
    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        """The `n` episodes of `seed` from number `first` on, or endless ones, in chunks.

        Episode i of a seed is the same for every `n`, `first`, device and chunk size; those before
        `first` are not generated. Generating a chunk takes about `memory` bytes at most.
        """

    def identity(self) -> str:
        """All settings that episodes depend on, as text, so that episodes can be cached on disk.

        Default: empty (no cache).
        """
        return ""

    def missing(self) -> str:
        """The software that this machine lacks to generate episodes, and how to install it."""
        return ""

    def with_workers(self, workers: int) -> "World":
        """The same world, simulated by up to `workers` processes if it supports several."""
        return self

    def with_scenes(self, path: Path) -> "World":
        """The same world with episodes from a scene file, or from the files of a folder."""
        raise UserError(f"{self.name} does not use scene files: omit {path}")

    def resized(self, size: int) -> "World":
        """The same world in frames of `size` pixels on a side.

        The scenes are the same at every size: positions, velocities and sizes in the ground truth
        are in pixels, and grow with the frame.
        """
        if size == self.image_size:
            return self
        raise UserError(f"{self.name} has only frames of {self.image_size} pixels")

    def shortened(self, frames: int) -> "World":
        """The same world, for a caller that needs only the first `frames` frames of each episode.

        A world that is slow to draw skips the others. Default: draw all.
        """
        return self

    def drawn_by(self, renderer: str) -> "World":
        """The same world drawn by another renderer."""
        raise UserError(f"{self.name} has only one renderer: omit '{renderer}'")


@dataclass(frozen=True)
class Procedural(World):
    """A world whose episodes depend on nothing but its fields, and are drawn at any size."""

    sizes: ClassVar[range] = SIZES
    """Possible sizes of frames in pixels."""

    def identity(self) -> str:
        """See `World`."""
        return repr(self)

    def resized(self, size: int) -> "Procedural":
        """See `World`."""
        check_size(self.name, size, self.sizes)
        return replace(self, image_size=size)
