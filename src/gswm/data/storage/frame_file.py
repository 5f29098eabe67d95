"""Frames of a data file, read where they lie.

Several threads read windows from a file at once. HDF5 lets one of them read at a time; where the
pictures of an episode lie in one uncompressed piece, as in our files and the authors', each
thread reads the bytes of the file itself. Any other file is read through HDF5.
"""

import os
import zlib
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Int64, UInt8

from gswm.core.errors import UserError
from gswm.data.storage.hdf5 import File
from gswm.data.worlds.base import SplitName

KNOWN_BY = 16
"""Pictures by which data are known again."""


class FrameFile:
    """Windows of a file's episodes, counted in `split` where the file says which are in it."""

    def __init__(
        self, path: str | Path, split: SplitName | None = None, episodes: int | None = None
    ) -> None:
        self.path = Path(path)
        with File(path) as file:
            self._which = file.of_split(split if file.splits is not None else None)
            self.num_frames, self.height, self.width = file.frames, file.height, file.width
        if not 1 <= (episodes or 1) <= len(self._which):
            raise UserError(f"{path}: has {len(self._which)} episodes to take, not {episodes}")
        self._which = self._which[:episodes]
        if not self.num_frames:
            raise UserError(f"{path}: its episodes have no frames")
        self._file = h5py.File(path, "r", rdcc_nbytes=0)
        self._imgs: h5py.Dataset = self._file["imgs"]  # pyright: ignore[reportAttributeAccessIssue]
        self._offsets = _offsets(self._imgs, self._which) if hasattr(os, "preadv") else None
        self._bytes = None if self._offsets is None else os.open(path, os.O_RDONLY)

    def __len__(self) -> int:
        return len(self._which)

    @property
    def direct(self) -> bool:
        """Whether windows are read past HDF5."""
        return self._bytes is not None

    def read(self, episode: int, start: int, out: UInt8[np.ndarray, "time height width 3"]) -> None:
        """Fill `out` with the frames of `episode` from `start` on."""
        try:
            if self._bytes is None or self._offsets is None:
                window = np.s_[int(self._which[episode]), start : start + len(out)]
                self._imgs.read_direct(out, window)
            else:
                at = int(self._offsets[episode]) + start * out[0].nbytes
                if os.preadv(self._bytes, [out.data], at) < out.nbytes:
                    raise OSError("the file is cut short")
        except (OSError, ValueError) as error:
            said = " ".join((getattr(error, "strerror", None) or str(error)).split())
            raise UserError(f"{self.path}: cannot read episode {episode}: {said}") from error

    def checksum(self) -> int:
        """A number by which to know the data again, from a few pictures spread over them."""
        out = np.empty((1, self.height, self.width, 3), np.uint8)
        crc = 0
        for i in range(KNOWN_BY):
            self.read(i * len(self) // KNOWN_BY, i * self.num_frames // KNOWN_BY, out)
            crc = zlib.crc32(out.data, crc)
        return crc

    def close(self) -> None:
        """Read no more."""
        self._file.close()
        if self._bytes is not None:
            os.close(self._bytes)
            self._bytes = None


def _offsets(
    imgs: h5py.Dataset, episodes: Int64[np.ndarray, " episode"]
) -> Int64[np.ndarray, " episode"] | None:
    """Where in the file each episode begins, if each is in one piece, as it is."""
    whole = (1, *imgs.shape[1:])
    if imgs.chunks is None and imgs.id.get_offset() is not None:
        return imgs.id.get_offset() + episodes * int(np.prod(whole))
    filters = imgs.id.get_create_plist().get_nfilters()
    if imgs.chunks != whole or filters or imgs.is_virtual or imgs.file.userblock_size:
        return None
    where = [imgs.id.get_chunk_info_by_coord((int(e), 0, 0, 0, 0)) for e in episodes]
    if any(info.byte_offset is None for info in where):
        return None
    return np.array([info.byte_offset for info in where])
