"""Training batches from a file or a world, kept where its videos fit best."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.limits import check_range
from gswm.core.records import tensors
from gswm.data.batches.kept import keep
from gswm.data.batches.resident import Fresh, Loader, Progress, Resident, write_world
from gswm.data.batches.streaming import Streaming
from gswm.data.batches.windows import Windows
from gswm.data.storage.frame_file import FrameFile
from gswm.data.storage.stored import StoredEpisodes
from gswm.data.worlds.base import MEMORY, SplitName, World

SHARE = 0.6
"""Fraction of the device's free memory that videos may take."""
MAKING, LARGEST = 0.1, 16 << 30
"""Fraction of a GPU's free memory that generating episodes may take, and its limit in bytes."""
PARTS = 8
"""Number of parts of a renewed pool."""


@dataclass(frozen=True)
class Pool:
    """Fresh episodes of a world instead of a fixed split: the size of the pool and its renewal."""

    episodes: int = 4096
    chunk: int = 512
    """Number of episodes that are renewed at a time."""
    uses: int = 16
    """Average number of windows drawn from an episode before it is replaced."""

    @staticmethod
    def of(episodes: int) -> "Pool":
        """A pool of about this many episodes, an eighth of which is renewed at a time."""
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
        source: an HDF5 file, or a world, whose episodes are generated on the device.
        batch: windows of all processes together; each of `ranks` gets its rows.
        length: frames per window, unless `Loader.batch` is called with another number.
        seed: seed of the windows; the same for every process.
        device: device of the batches.
        split: the split to use, if the file has splits.
        episodes: use only the first episodes, this many.
        first_frames: use only the first frames of each episode, this many.
        fresh: for a world, endless new episodes instead of the split's.
        place: whether all videos are on the device or are read on demand; "auto" puts them there
            if they take no more than `SHARE` of its free memory.
        rank: index of this process.
        ranks: number of processes that share a batch.
        workers: number of reading threads, when streaming.
        ahead: number of batches that they read ahead.
        memory: bytes that generating episodes, or copying a file, may take besides the videos.
            Default: 1 GiB; more on a GPU with free memory, where many episodes take as long as few.
        progress: called with the number of episodes on the device.
        labels: include the true boxes of a world's objects, or those of a file.
        kept: for a world on a CPU, a folder in which episodes are cached; see `kept`. Default:
            None (no cache).
    """
    device = find_device(device)
    memory = making_memory(device) if memory is None else memory
    common = {"batch": batch, "seed": seed, "rank": rank, "ranks": ranks, "device": device}
    if not isinstance(source, str | Path):
        num_frames = _first(first_frames, source.num_frames)
        if place == "streaming":
            raise UserError(
                f"{source.name}: only files can be streamed; create one with `gswm data make`"
            )
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
        windows = Windows(_first(episodes, there.episodes, "--data.episodes"), num_frames, **common)
        windows.check(length)
        how = {"memory": memory, "labels": labels}
        held = None
        if kept is not None and device.type == "cpu":
            held = keep(kept, source, windows, there.seed, progress=progress, **how)
        if held is None:
            _refuse_large(source, windows)
            rows = range(windows.num_episodes)
            held = write_world(*(None, rows, windows, source, there.seed), progress=progress, **how)
        data = {"world": source.name, "world_seed": there.seed, **held.extras()}
        return Resident(held, windows, length, data)

    if fresh:
        raise UserError(
            f"{source}: a file cannot provide fresh episodes; use a world, or omit --data.fresh"
        )
    file = FrameFile(source, split, episodes, labels=labels)
    if labels and file.form.labels is None:
        file.close()
        raise UserError(
            f"{source} has no labels for supervision: set --model.schedule.label-weight to 0, or "
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
    """Fill `held` with the first frames of the file's episodes, in parts."""
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
    """Number of bytes available for generating episodes."""
    if device.type != "cuda":
        return MEMORY
    return max(MEMORY, min(LARGEST, int(MAKING * free_memory(device))))


def free_memory(device: torch.device) -> int:
    """Free memory of `device` in bytes, as far as known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1 << 32
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def _first(asked: int | None, there: int, option: str = "--data.first-frames") -> int:
    check_range({option: asked}, 1, there)
    return asked or there


def _refuse_large(world: World, windows: Windows) -> None:
    size = windows.num_episodes * windows.num_frames * world.image_size**2 * 3
    free = free_memory(torch.device(windows.device))
    if size > SHARE * free:
        fewer = max(1, int(windows.num_episodes * SHARE * free / size))
        raise UserError(
            f"{world.name}: {windows.num_episodes} episodes take {size / 1e9:.1f} GB, more than "
            f"{SHARE:.0%} of the {free / 1e9:.1f} GB that are free: train on fewer with "
            f"--data.episodes {fewer}, or on a file of `gswm data make`, which is streamed"
        )
