"""Training batches of a file or of a world, from wherever its videos fit best."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from gswm.core.errors import UserError
from gswm.core.records import tensors
from gswm.data.batches.kept import keep
from gswm.data.batches.resident import Fresh, Loader, Progress, Resident, write_world
from gswm.data.batches.streaming import Streaming
from gswm.data.batches.windows import Windows
from gswm.data.storage.frame_file import FrameFile
from gswm.data.storage.stored import StoredEpisodes
from gswm.data.worlds.base import MEMORY, SplitName, World

SHARE = 0.6
"""Of the device's free memory, how much the videos may take; the rest is the training's."""
MAKING, LARGEST = 0.1, 16 << 30
"""Of a GPU's free memory, how much making episodes may take, and how many bytes at most."""
PARTS = 8
"""Of a pool that is renewed."""


@dataclass(frozen=True)
class Pool:
    """Fresh episodes of a world in place of a split: how many at a time, and how long."""

    episodes: int = 4096
    chunk: int = 512
    """Episodes that are made anew at a time."""
    uses: int = 16
    """Windows drawn from an episode before it is replaced, on average."""

    @staticmethod
    def of(episodes: int) -> "Pool":
        """About so many at a time, an eighth of which is made anew at once."""
        parts = max(1, min(PARTS, episodes))
        return Pool(episodes // parts * parts, episodes // parts)


def open_loader(
    source: str | Path | World,
    *,
    batch: int,
    length: int,
    seed: int = 0,
    device: str | torch.device = "cpu",
    split: SplitName = "train",
    episodes: int | None = None,
    first_frames: int | None = None,
    fresh: Pool | None = None,
    place: Literal["auto", "resident", "streaming"] = "auto",
    rank: int = 0,
    ranks: int = 1,
    workers: int = 4,
    ahead: int = 8,
    memory: int | None = None,
    progress: Progress | None = None,
    labels: bool = False,
    kept: Path | None = None,
) -> Loader:
    """Batches of windows of `length` frames, of the data at a path or of a world.

    Args:
        source: an HDF5 file, or a world, whose episodes are made on the device.
        batch: windows of all processes together; each of `ranks` gets its rows.
        length: frames of a window, unless `Loader.batch` is asked for another number.
        seed: which windows; the same for every process.
        device: where the batches are to be.
        split: which episodes, where the file says it.
        episodes: only the first so many of them.
        first_frames: only the first so many frames of each.
        fresh: of a world, new episodes without end in place of the split's.
        place: whether all videos are on the device or are read as they are needed; "auto" puts
            them there if they take no more than `SHARE` of its free memory.
        rank: which of the processes this is.
        ranks: how many processes share a batch.
        workers: threads that read, when streaming.
        ahead: batches that they read ahead.
        memory: bytes that making episodes, or copying a file, may take beside the videos. Default:
            1 GiB; more on a GPU with room for it, which makes many episodes as fast as a few.
        progress: is told how many episodes are on the device.
        labels: with the true boxes of a world's objects, or those that a file has.
        kept: of a world on a CPU, keep the episodes in this folder, and take those that are there:
            see `kept`. Default: make them anew.
    """
    device = torch.device(device)
    memory = making_memory(device) if memory is None else memory
    common = {"batch": batch, "seed": seed, "rank": rank, "ranks": ranks, "device": device}
    if not isinstance(source, str | Path):
        num_frames = _first(first_frames, source.num_frames)
        if place == "streaming":
            raise UserError(f"{source.name}: only a file is streamed; make one with `data make`")
        if fresh:
            windows = Windows(fresh.episodes, num_frames, **common)
            windows.check(length)
            _refuse_large(source, windows)
            return Fresh(
                *(source, windows, length),
                chunk=fresh.chunk,
                uses=fresh.uses,
                memory=memory,
                labels=labels,
            )
        there = source.splits[split]
        windows = Windows(_first(episodes, there.episodes, "episodes"), num_frames, **common)
        windows.check(length)
        how = {"memory": memory, "labels": labels}
        held = None
        if kept is not None and device.type == "cpu":
            held = keep(kept, source, windows, there.seed, **how)
        if held is None:
            _refuse_large(source, windows)
            rows = range(windows.num_episodes)
            held = write_world(*(None, rows, windows, source, there.seed), progress=progress, **how)
        data = {"world": source.name, "world_seed": there.seed, **held.extras()}
        return Resident(held, windows, length, data)

    if fresh:
        raise UserError(f"{source}: a file has no fresh episodes; name a world, or leave it off")
    file = FrameFile(source, split, episodes, labels=labels)
    if labels and file.form.labels is None:
        file.close()
        raise UserError(
            f"{source}: has no labels to teach by: set --model.schedule.label-weight to 0, or "
            "prepare the video with `gswm fit --prepare`"
        )
    windows = Windows(len(file), _first(first_frames, file.num_frames), **common)
    windows.check(length)
    shape = windows.num_episodes, windows.num_frames
    size = sum(tensor.nbytes for tensor in tensors(file.form.room(*shape, device="meta")))
    data = {"height": file.height, "width": file.width, "checksum": file.checksum()}
    data |= file.form.extras()
    if place == "streaming" or (place == "auto" and size > SHARE * free_memory(device)):
        return Streaming(file, windows, length, data, workers=workers, ahead=ahead)
    held = file.form.room(*shape, device)
    write_file(held, file, memory=memory, progress=progress)
    file.close()
    return Resident(held, windows, length, data)


def write_file(
    held: StoredEpisodes,
    file: FrameFile,
    *,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> None:
    """Fill `held` with the first frames of the file's episodes, some at a time."""
    frames, cuda = held.video.shape[1], held.video.device.type == "cuda"
    some = max(1, min(len(held), memory // held.video[0].nbytes))
    buffer = held.room(some, frames, pin_memory=cuda)
    for first in range(0, len(held), some):
        part = held[first : first + some]
        for i in range(len(part)):
            file.read(first + i, 0, buffer, i)
        part.copy_(buffer[: len(part)])
        if progress:
            progress(first + len(part))


def making_memory(device: torch.device) -> int:
    """Bytes for making episodes."""
    if device.type != "cuda":
        return MEMORY
    return max(MEMORY, min(LARGEST, int(MAKING * free_memory(device))))


def free_memory(device: torch.device) -> int:
    """Bytes that can be taken on `device` now, as far as is known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 32
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def _first(asked: int | None, there: int, what: str = "frames") -> int:
    if asked is not None and not 1 <= asked <= there:
        raise UserError(f"the first {asked} {what} were asked for, and there are {there}")
    return asked or there


def _refuse_large(world: World, windows: Windows) -> None:
    size = windows.num_episodes * windows.num_frames * world.image_size**2 * 3
    free = free_memory(torch.device(windows.device))
    if size > SHARE * free:
        fewer = max(1, int(windows.num_episodes * SHARE * free / size))
        raise UserError(
            f"{world.name}: {windows.num_episodes} episodes take {size / 1e9:.1f} GB, and of "
            f"{free / 1e9:.1f} GB free they may take {SHARE:.0%}: train on fewer, by "
            f"--data.episodes {fewer}, or on a file of `gswm data make`, which is read as it is "
            "needed"
        )
