"""Caches episodes of a world on disk, so that the next start need not generate them.

A set is a folder of raw arrays, one for each part of `StoredEpisodes`, and `set.json` with the
number of complete episodes. Training maps the arrays into memory, without a copy. An interrupted
set is continued, one that another process is writing is not used, and any of them may be deleted at
any time.
"""

import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from gswm.core.errors import UserError
from gswm.core.files import cache_folder, write_whole
from gswm.core.waiting import tell
from gswm.core.words import counted, in_bytes
from gswm.data import worlds
from gswm.data.batches.resident import Progress
from gswm.data.batches.windows import Windows
from gswm.data.storage.stored import StoredEpisodes
from gswm.data.worlds.base import MEMORY, World

MOST_BYTES = 20 << 30
"""Largest size of all sets together; the least recently used ones are removed first."""
FREE_BYTES = 4 << 30
"""Bytes that a set leaves free on the disk."""
LEAST_SECONDS = 15.0
"""Sets that take less time than this to generate are not cached."""


def default_folder() -> Path:
    """The folder for all sets, in the user's cache."""
    return cache_folder() / "episodes"


def keep(
    folder: Path,
    world: World,
    windows: Windows,
    seed: int,
    *,
    memory: int = MEMORY,
    labels: bool = False,
    progress: Progress | None = None,
) -> StoredEpisodes | None:
    """The first episodes of a world's seed, from the cached set in `folder`, completed if needed.

    None if they are not cached: they are generated quickly, the disk is too full, another process
    is writing the set, or the world does not state what its episodes depend on.
    """
    world = world.shortened(windows.num_frames)
    if not (identity := world.identity()):
        return None
    said = [identity, windows.num_frames, seed, labels, generator_version()]
    digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
    kept = KeptSet(folder / f"{world.name}-{world.image_size}-{digest}")
    number = windows.num_episodes
    try:
        if kept.episodes < number:
            with kept.locked() as ours:
                if not ours or not kept.write(world, windows, seed, memory, labels, progress):
                    return None
        return kept.mapped(number)
    except (OSError, UserError):  # a full disk, or a set that is being deleted
        return None


@dataclass(frozen=True)
class KeptSet:
    """One cached set."""

    path: Path

    @property
    def header(self) -> dict[str, Any]:
        """The number of complete episodes, and shape and type of each array; may be empty."""
        try:
            held = json.loads((self.path / "set.json").read_text())
        except (OSError, ValueError):
            return {}
        return held if isinstance(held, dict) and {"episodes", "arrays"} <= held.keys() else {}

    @property
    def episodes(self) -> int:
        """The number of complete episodes, by the header and the size of each array."""
        header = self.header
        numbers = [header.get("episodes", 0)]
        for name, (code, shape) in header.get("arrays", {}).items():
            each = math.prod(shape) * np.dtype(code).itemsize
            with suppress(OSError):
                numbers.append((self.path / name).stat().st_size // each)
                continue
            return 0
        return min(numbers)

    def mapped(self, number: int) -> StoredEpisodes:
        """The first `number` episodes, mapped into memory; changes are not written to the file."""
        os.utime(self.path / "set.json")  # marks it as used
        arrays = {
            name: torch.from_numpy(
                np.memmap(self.path / name, code, mode="c", shape=(number, *shape))
            )
            for name, (code, shape) in self.header["arrays"].items()
        }
        return StoredEpisodes(**arrays)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Lock the set for writing; yields False if another process holds the lock."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
            if not (self.path / "set.json").exists():  # nothing was kept
                shutil.rmtree(self.path, ignore_errors=True)

    def write(
        self,
        world: World,
        windows: Windows,
        seed: int,
        memory: int,
        labels: bool,
        progress: Progress | None = None,
    ) -> bool:
        """Complete the set; False if it is not worth caching, or there is no room."""
        done = self.episodes
        began = time.perf_counter()
        files: dict[str, IO[bytes]] = {}
        try:
            left = windows.num_episodes - done
            for part in world.episodes(seed, left, windows.device, memory, first=done):
                some = StoredEpisodes.of(part, labels=labels).first_frames(windows.num_frames)
                arrays = {
                    f.name: array.contiguous().numpy()
                    for f in fields(some)
                    if (array := getattr(some, f.name)) is not None
                }
                if not files:
                    each = (time.perf_counter() - began) / len(some)
                    size = sum(a.nbytes for a in arrays.values()) // len(some)
                    if each * windows.num_episodes < LEAST_SECONDS:
                        return False
                    if not self.make_room(size * left, size * windows.num_episodes):
                        return False
                    tell(
                        f"caching {counted(windows.num_episodes, 'episode')} of {world.name}, "
                        f"{in_bytes(size * windows.num_episodes)}, in {self.path}, which can be "
                        "deleted"
                    )
                    files = {name: (self.path / name).open("ab") for name in arrays}
                    for name, file in files.items():  # remove an incomplete part
                        file.truncate(done * arrays[name][0].nbytes)
                        file.seek(0, os.SEEK_END)
                for name, array in arrays.items():
                    files[name].write(array.data)
                    files[name].flush()
                done += len(some)
                said = {n: (a.dtype.str.lstrip("|<"), a.shape[1:]) for n, a in arrays.items()}
                header = {"episodes": done, "arrays": said}
                write_whole(self.path / "set.json", json.dumps(header).encode())
                if progress is not None:
                    progress(done)
        finally:
            for file in files.values():
                file.close()
        return self.episodes >= windows.num_episodes

    def make_room(self, more: int, whole: int) -> bool:
        """Whether `more` bytes fit after removing other sets; `whole` is the size of this one."""
        others = sorted(
            (each for each in self.path.parent.iterdir() if each.is_dir() and each != self.path),
            key=lambda each: KeptSet(each).used,
        )
        sizes = {each: KeptSet(each).bytes for each in others}
        if whole > MOST_BYTES:
            return False
        for each in others:
            fits = whole + sum(sizes.values()) <= MOST_BYTES
            if fits and shutil.disk_usage(self.path).free >= more + FREE_BYTES:
                break
            with KeptSet(each).locked() as ours:
                if ours:
                    shutil.rmtree(each, ignore_errors=True)
                    del sizes[each]
        fits = whole + sum(sizes.values()) <= MOST_BYTES
        return fits and shutil.disk_usage(self.path).free >= more + FREE_BYTES

    @property
    def used(self) -> float:
        """Time of the last use."""
        with suppress(OSError):
            return (self.path / "set.json").stat().st_mtime
        return 0.0

    @property
    def bytes(self) -> int:
        """Size on the disk in bytes."""
        with suppress(OSError):
            return sum(file.stat().st_size for file in self.path.iterdir())
        return 0


@cache
def generator_version() -> str:
    """A checksum of the code that generates episodes, since another version may generate others."""
    found = hashlib.sha256()
    root = Path(next(iter(worlds.__path__)))
    for file in sorted(root.rglob("*.py")):
        found.update(file.relative_to(root).as_posix().encode())
        found.update(file.read_bytes())
    return found.hexdigest()
