"""Reads windows of the episodes in a data file.

Several threads read windows from a file at once. HDF5 lets only one of them read at a time. If the
values of an episode are contiguous and uncompressed, as in our files and the authors', each thread
reads the bytes of the file directly. Otherwise it reads through HDF5.
"""

import os
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from jaxtyping import Int64

from gswm.core.errors import UserError
from gswm.data.splits import SplitName
from gswm.data.storage.hdf5 import File
from gswm.data.storage.stored import StoredEpisodes

KNOWN_BY = 16
"""Number of pictures that identify the data."""
KEYS = {
    **{"video": "imgs", "actions": "actions", "rewards": "rewards"},
    **{"background": "backgrounds", "labels": "labels"},
}
"""Keys of a file for the parts of episodes."""
TYPES = {
    **dict.fromkeys(("video", "background"), torch.uint8),
    **dict.fromkeys(("actions", "rewards", "labels"), torch.float32),
}


class FrameFile:
    """Windows of a file's episodes, restricted to `split` if the file has splits."""

    def __init__(
        self,
        path: str | Path,
        split: SplitName | None = None,
        episodes: int | None = None,
        *,
        labels: bool = False,
    ) -> None:
        """Use the first `episodes`; `labels` also reads the boxes of the file."""
        self.path = Path(path)
        with File(path) as file:
            which = file.of_split(split if file.splits is not None else None)
            self.num_frames, self.height, self.width = file.frames, file.height, file.width
            shapes = file.shapes
        if not 1 <= (episodes or 1) <= len(which):
            raise UserError(f"{path} has {len(which)} matching episodes, not {episodes}")
        self._which = which[:episodes]
        if not self.num_frames:
            raise UserError(f"{path}: its episodes have no frames")
        held: dict[str, Any] = {
            part: torch.empty(shapes[key], dtype=TYPES[part], device="meta")
            for part, key in KEYS.items()
            if key in shapes and (labels or part != "labels")
        }
        self.form = StoredEpisodes(**held)
        """Shapes and types of all parts of the file, without values."""
        self._file = h5py.File(path, "r", rdcc_nbytes=0)
        self._bytes = os.open(path, os.O_RDONLY) if hasattr(os, "preadv") else None
        self._data: dict[str, h5py.Dataset] = {part: self._file[KEYS[part]] for part in held}  # pyright: ignore[reportAttributeAccessIssue]
        self._offsets = {part: self._lie(part) for part in held}

    def _lie(self, part: str) -> Int64[np.ndarray, " episode"] | None:
        """Offsets of the episodes of a part, if its bytes can be read directly."""
        data, kind = self._data[part], torch.empty(0, dtype=TYPES[part]).numpy().dtype
        return (
            _offsets(data, self._which) if self._bytes is not None and data.dtype == kind else None
        )

    def __len__(self) -> int:
        return len(self._which)

    @property
    def direct(self) -> bool:
        """Whether pictures are read directly, without HDF5."""
        return self._offsets["video"] is not None

    def read(self, episode: int, start: int, out: StoredEpisodes, row: int) -> None:
        """Fill a row of `out` with the frames of `episode` from `start` on."""
        for part in self._data:
            first = 0 if part == "background" else start
            self._read(part, episode, first, getattr(out, part)[row].numpy())

    def _read(self, part: str, episode: int, start: int, out: np.ndarray) -> None:
        offsets = self._offsets[part]
        try:
            if self._bytes is None or offsets is None:
                window = np.s_[int(self._which[episode]), start : start + len(out)]
                self._data[part].read_direct(out, window)
            else:
                at = int(offsets[episode]) + start * out[0].nbytes
                if os.preadv(self._bytes, [out.data], at) < out.nbytes:
                    raise OSError("the file is truncated")
        except (OSError, ValueError) as error:
            said = " ".join((getattr(error, "strerror", None) or str(error)).split())
            raise UserError(f"{self.path}: cannot read episode {episode}: {said}") from error

    def checksum(self) -> int:
        """A checksum of a few pictures spread over the data, which identifies them.

        If there are actions, rewards, backgrounds or labels, all those of these episodes count.
        """
        frame = np.empty((1, self.height, self.width, 3), np.uint8)
        episodes = [i * len(self) // KNOWN_BY for i in range(KNOWN_BY)]
        crc = 0
        for i, episode in enumerate(episodes):
            self._read("video", episode, i * self.num_frames // KNOWN_BY, frame)
            crc = zlib.crc32(frame.data, crc)
        for part in (part for part in self._data if part != "video"):
            whole = torch.empty(self._data[part].shape[1:], dtype=TYPES[part]).numpy()
            for episode in episodes:
                self._read(part, episode, 0, whole)
                crc = zlib.crc32(whole.data, crc)
        return crc

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        if self._bytes is not None:
            os.close(self._bytes)
            self._bytes = None


def _offsets(
    data: h5py.Dataset, episodes: Int64[np.ndarray, " episode"]
) -> Int64[np.ndarray, " episode"] | None:
    """Offset of each episode in the file, if each is contiguous and uncompressed."""
    whole = data.shape[1:]
    size = int(np.prod(whole)) * data.dtype.itemsize
    if data.chunks is None and data.id.get_offset() is not None:
        return data.id.get_offset() + episodes * size
    filters = data.id.get_create_plist().get_nfilters()
    if data.chunks is None or data.chunks[1:] != whole or filters:
        return None
    if data.is_virtual or data.file.userblock_size:
        return None
    together = data.chunks[0]
    rest = (0,) * len(whole)
    first = np.unique(episodes // together)
    where = {i: data.id.get_chunk_info_by_coord((int(i) * together, *rest)) for i in first}
    if any(info.byte_offset is None for info in where.values()):
        return None
    return np.array([where[e // together].byte_offset + e % together * size for e in episodes])
