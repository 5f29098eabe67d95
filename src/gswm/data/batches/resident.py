"""Training batches from episodes in device memory: a dataset, or endless episodes of a world.

Every loader gives the same windows for the same seed (see `windows`); loaders differ in where the
episodes are. Videos are uint8, in the memory order (batch, time, height, width, 3), which is best
for convolutions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.data.batches.batch import Batch
from gswm.data.batches.windows import Windows, mix, signed
from gswm.data.labels import Labels
from gswm.data.storage.stored import StoredEpisodes
from gswm.data.worlds.base import MEMORY, World

Progress = Callable[[int], None]
"""Called with the number of episodes so far."""


class Loader(ABC):
    """Batches of windows; `next(loader)` returns the batch of `loader.step` and advances."""

    def __init__(self, windows: Windows, length: int, data: dict[str, Any]) -> None:
        windows.check(length)
        self.windows = windows
        self.length = length
        self.data = data
        self.step = 0

    def prepare(self, step: int) -> None:  # noqa: B027
        """Provide the episodes for `step`; call it before replaying a captured `batch`."""

    def close(self) -> None:  # noqa: B027
        """Release resources; the loader cannot be used afterwards."""

    @abstractmethod
    def _gather(self, step: int | Int64[Tensor, ""], length: int) -> StoredEpisodes:
        """Gather the windows of `step`."""

    def batch(self, step: int | Int64[Tensor, ""], length: int | None = None) -> Batch:
        """The batch of `step`, with windows of `length` frames."""
        if isinstance(step, int):
            self.prepare(step)
        found = self._gather(step, length or self.length)
        background = found.background
        return Batch(
            video=found.video.permute(0, 1, 4, 2, 3),
            actions=found.actions,
            rewards=found.rewards,
            background=None if background is None else background.permute(0, 3, 1, 2),
            labels=None if found.labels is None else Labels.unpacked(found.labels),
        )

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
        """The step and the identity of the data; the same for any number of processes."""
        return {"step": self.step, **self._fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from `state`; raises a UserError if it belongs to other data."""
        ours = self._fingerprint()
        for name in sorted(ours.keys() | (state.keys() - {"step"})):
            if (theirs := state.get(name)) != ours.get(name):
                raise UserError(
                    f"the saved state belongs to other data: its {name} is "
                    f"{theirs}, not {ours.get(name)}; resume with the original data"
                )
        step = state.get("step")
        if not isinstance(step, int) or step < 0:
            raise UserError(f"the saved state's step is {step}; it must be a non-negative integer")
        self.step = step


class Resident(Loader):
    """Episodes that are all on the device, where batches are gathered.

    If the step is a tensor on the device, `batch` does not synchronize with the host and can be
    captured in a CUDA graph.
    """

    def __init__(
        self, held: StoredEpisodes | None, windows: Windows, length: int, data: dict[str, Any]
    ) -> None:
        """`held` may be None if `prepare` generates the episodes."""
        super().__init__(windows, length, data)
        self.held = held

    def _gather(self, step: int | Int64[Tensor, ""], length: int) -> StoredEpisodes:
        held = self.held
        if held is None:
            raise UserError("there are no episodes yet: call `prepare` before capturing the step")
        episode, start = self.windows.at(step, length)
        first = torch.add(start, episode, alpha=self.windows.num_frames)
        frames = first[:, None] + torch.arange(length, device=first.device)
        which = frames.flatten()

        def of_frames(values: Tensor) -> Tensor:
            return values.flatten(0, 1).index_select(0, which).unflatten(0, frames.shape)

        timed = held.video, held.actions, held.rewards, held.labels
        video, actions, rewards, labels = map_tensors(of_frames, timed)
        behind = map_tensors(lambda values: values.index_select(0, episode), held.background)
        return StoredEpisodes(video, actions, rewards, behind, labels)


class Fresh(Resident):
    """Endless episodes of a world: a pool on the device that is renewed in chunks.

    At step s the pool holds the chunks k, k + 1, …, where k is s divided by `every` and rounded
    down, so a resumed run generates one pool and continues. Each chunk has its own seed of the
    world, from 2³¹ on, which no split uses: it is the first `chunk` episodes of that seed. An
    episode is used `uses` times on average before it is replaced.
    """

    def __init__(
        self,
        world: World,
        windows: Windows,
        length: int,
        *,
        chunk: int,
        uses: int,
        memory: int = MEMORY,
        labels: bool = False,
    ) -> None:
        if not 1 <= chunk <= windows.num_episodes or windows.num_episodes % chunk or uses <= 0:
            raise UserError(
                f"a pool of {windows.num_episodes} episodes cannot be renewed by {chunk}, each "
                f"used {uses} times: choose chunks that divide the pool and more than 0 uses"
            )
        self.every = max(1, round(uses * chunk / windows.batch))
        data = {"world": world.name, "chunk": chunk, "every": self.every}
        super().__init__(None, windows, length, data)
        self._world = world
        self._chunk = chunk
        self._memory = memory
        self._labels = labels
        self._chunks: list[int | None] = [None] * (windows.num_episodes // chunk)

    def prepare(self, step: int) -> None:
        """Generate the episodes that are new at `step`."""
        oldest = step // self.every
        for k in range(oldest, oldest + len(self._chunks)):
            slot = k % len(self._chunks)
            if self._chunks[slot] != k:
                self._chunks[slot] = None
                rows = range(slot * self._chunk, (slot + 1) * self._chunk)
                self.held = write_world(
                    *(self.held, rows, self.windows, self._world, self.seed_of(k)),
                    memory=self._memory,
                    labels=self._labels,
                )
                self._chunks[slot] = k

    def seed_of(self, k: int) -> int:
        """The world's seed of chunk `k`: 32 bits, different for each chunk."""
        base = int(mix(torch.tensor(signed(self.windows.seed))))
        return (1 << 31) + (base + k) % (1 << 31)


def write_world(
    held: StoredEpisodes | None,
    rows: range,
    windows: Windows,
    world: World,
    seed: int,
    *,
    memory: int = MEMORY,
    progress: Progress | None = None,
    labels: bool = False,
) -> StoredEpisodes:
    """Write the first frames of the first episodes of `seed` to rows of `held`.

    The first episodes determine which parts there are; then memory for all of `windows` is
    allocated.
    """
    at, world = rows.start, world.shortened(windows.num_frames)
    for part in world.episodes(seed, len(rows), windows.device, memory):
        some = StoredEpisodes.of(part, labels=labels).first_frames(windows.num_frames)
        if held is None:
            held = some.room(windows.num_episodes, windows.num_frames, windows.device)
        if some.extras() != held.extras():
            raise UserError(
                f"{world.name}: its episodes have different fields: {some.extras()} in some, "
                f"but {held.extras()} in earlier ones"
            )
        held[at : at + len(some)].copy_(some)
        at += len(some)
        if progress:
            progress(at - rows.start)
    if held is None or at < rows.stop:
        raise UserError(f"{world.name}: generated {at - rows.start} of {len(rows)} episodes")
    return held
