"""Training batches from videos that are on the device: a data set, or a world without end.

Every loader gives the same windows for the same seed (see `windows`): they differ in where the
videos are. A batch is uint8, or float in [0, 1] where that was asked for; its memory is in the
order (batch, time, height, width, 3), which convolutions like best.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.batches.windows import Windows, mix, signed
from gswm.data.worlds.base import MEMORY, World

Batch = UInt8[Tensor, "batch time 3 height width"] | Float32[Tensor, "batch time 3 height width"]
Pictures = UInt8[Tensor, "episode time height width 3"]
Progress = Callable[[int], None]
"""Called with the number of episodes that are there so far."""


class Loader(ABC):
    """Batches of windows; `next(loader)` is the batch of `loader.step`, and moves to the next."""

    def __init__(self, windows: Windows, length: int, data: dict[str, Any], as_float: bool) -> None:
        windows.check(length)
        self.windows = windows
        self.length = length
        self.data = data
        self.as_float = as_float
        self.step = 0

    def prepare(self, step: int) -> None:  # noqa: B027
        """Have ready what `step` needs; to be called before a captured `batch` is replayed."""

    def close(self) -> None:  # noqa: B027
        """Give back what is not memory; the loader is of no more use."""

    @abstractmethod
    def _gather(self, step: int | Int64[Tensor, ""], length: int) -> Pictures:
        """The windows of `step`."""

    def batch(self, step: int | Int64[Tensor, ""], length: int | None = None) -> Batch:
        """The batch of `step`, of windows of `length` frames."""
        if isinstance(step, int):
            self.prepare(step)
        video = self._gather(step, length or self.length).permute(0, 1, 4, 2, 3)
        return video / 255 if self.as_float else video

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self.batch(self.step)
        self.step += 1
        return batch

    def _fingerprint(self) -> dict[str, Any]:
        w = self.windows
        seen = {"seed": w.seed, "batch": w.batch, "episodes": w.num_episodes}
        return seen | {"frames": w.num_frames} | self.data

    def state_dict(self) -> dict[str, Any]:
        """The step, and which data these are; for any number of processes the same."""
        return {"step": self.step, **self._fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`; raise if it is one of other data, which would go on elsewhere."""
        ours = self._fingerprint()
        for name in sorted(ours.keys() | (state.keys() - {"step"})):
            if (theirs := state.get(name)) != ours.get(name):
                raise UserError(
                    f"the saved state is of other data: its {name} is {theirs}, "
                    f"not {ours.get(name)}; resume with the data it was made with"
                )
        step = state.get("step")
        if not isinstance(step, int) or step < 0:
            raise UserError(f"the saved state's step is {step}: it must be a number from 0 on")
        self.step = step


class Resident(Loader):
    """Videos that are on the device, all of them; a batch is gathered there.

    With a step on the device, `batch` waits for nothing on the host and can be captured in a
    CUDA graph.
    """

    def __init__(
        self,
        video: Pictures,
        windows: Windows,
        length: int,
        data: dict[str, Any],
        as_float: bool = False,
    ) -> None:
        super().__init__(windows, length, data, as_float)
        self.video = video

    def _gather(self, step: int | Int64[Tensor, ""], length: int) -> Pictures:
        episode, start = self.windows.at(step, length)
        first = torch.add(start, episode, alpha=self.windows.num_frames)
        frames = first[:, None] + torch.arange(length, device=first.device)
        pictures = self.video.flatten(0, 1).index_select(0, frames.flatten())
        return pictures.unflatten(0, frames.shape)


class Fresh(Resident):
    """Videos of a world without end: a pool on the device that is renewed chunk by chunk.

    At step s the pool holds the chunks s // every, s // every + 1, …, whatever came before, so a
    resumed run makes one pool and goes on. Chunk k is the first `chunk` episodes of a world's
    seed of its own, from 2³¹ on, where no split has its seed. An episode is drawn from `uses`
    times on average before it is gone.
    """

    def __init__(
        self,
        world: World,
        windows: Windows,
        length: int,
        *,
        chunk: int,
        uses: int,
        as_float: bool = False,
        memory: int = MEMORY,
    ) -> None:
        if not 1 <= chunk <= windows.num_episodes or windows.num_episodes % chunk or uses <= 0:
            raise UserError(
                f"a pool of {windows.num_episodes} episodes cannot be renewed by {chunk}, each "
                f"used {uses} times: choose chunks that divide the pool and more than 0 uses"
            )
        shape = (windows.num_episodes, windows.num_frames, world.image_size, world.image_size, 3)
        video = torch.empty(shape, dtype=torch.uint8, device=windows.device)
        self.every = max(1, round(uses * chunk / windows.batch))
        data = {"world": world.name, "chunk": chunk, "every": self.every}
        super().__init__(video, windows, length, data, as_float)
        self._world = world
        self._chunk = chunk
        self._memory = memory
        self._held: list[int | None] = [None] * (windows.num_episodes // chunk)

    def prepare(self, step: int) -> None:
        """Make the episodes that are new at `step`."""
        oldest = step // self.every
        for k in range(oldest, oldest + len(self._held)):
            slot = k % len(self._held)
            if self._held[slot] != k:
                part = self.video[slot * self._chunk :][: self._chunk]
                self._held[slot] = None
                write_world(part, self._world, self.seed_of(k), memory=self._memory)
                self._held[slot] = k

    def seed_of(self, k: int) -> int:
        """The world's seed of chunk `k`: 32 bit, no two chunks' the same."""
        base = int(mix(torch.tensor(signed(self.windows.seed))))
        return (1 << 31) + (base + k) % (1 << 31)


def write_world(
    video: Pictures,
    world: World,
    seed: int,
    *,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> None:
    """Fill `video` with the world's first episodes of `seed`, their first frames, where it is."""
    done = 0
    for part in world.episodes(seed, len(video), video.device, memory):
        pictures = part.video[:, : video.shape[1]].permute(0, 1, 3, 4, 2)
        video[done : done + len(part)].copy_(pictures)
        done += len(part)
        if progress:
            progress(done)
