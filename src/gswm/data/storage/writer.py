"""A new file of episodes.

An interrupted or failed run leaves no file behind; see `core/files.py`. Each episode's video is one
uncompressed chunk, from which HDF5 reads a window of frames with a single read of these frames.
With compression, it would decode the whole episode for each window.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType

import h5py
import numpy as np
from jaxtyping import Float32, UInt8

from gswm.core.ending import check_signals
from gswm.core.errors import UserError
from gswm.core.files import begin, check_new, commit, remove_part, unlock
from gswm.core.settings import to_dict
from gswm.core.words import printable
from gswm.data.episode import Episodes
from gswm.data.placement import Footage
from gswm.data.storage.errors import writing
from gswm.data.storage.layouts import TEXTS, Arrays, Layout, to_arrays
from gswm.data.worlds.base import SplitName
from gswm.data.worlds.obj3d.layout import COMPRESSED

VIDEO_CHUNK, TRUTH_CHUNK = 1 << 26, 1 << 16
"""Largest sizes in bytes of a chunk of frames, and of other values."""


class Writer:
    """A new file, filled by `append` inside a `with` block."""

    def __init__(
        self,
        path: str | Path,
        layout: Layout,
        *,
        force: bool = False,
        attributes: Mapping[str, str | int | float] | None = None,
    ) -> None:
        """`attributes` describe the origin of the episodes: world, split, seed, ..."""
        self.path = Path(path)
        self.layout: Layout = layout
        self.force = force
        self.attributes = {**(attributes or {}), "layout": layout, "gswm": gswm_version()}
        self.episodes = 0
        self._data: dict[str, h5py.Dataset] = {}

    def __enter__(self) -> "Writer":
        self._refuse_existing()
        self._part = begin(self.path)
        try:
            with writing(self.path):
                self._file = new_file(self._part)
                self._file.attrs.update(self.attributes)
        except BaseException:
            remove_part(self._part)
            raise
        return self

    def append(
        self,
        episodes: Episodes,
        *,
        split: SplitName | None = None,
        source: str | None = None,
        footage: Footage | None = None,
    ) -> None:
        """Add `episodes`.

        Imported ones come with their split, the name of their video, and their position in it.
        """
        check_signals()
        arrays = to_arrays(self.layout, episodes)
        placed = None if footage is None else json.dumps(to_dict(footage.placement))
        for key, value in (("splits", split), ("sources", source), ("placements", placed)):
            if value is not None:
                arrays[key] = np.full(len(episodes), printable(value), dtype=object)
        if footage is not None:
            arrays |= {"source_frames": footage.frames[None], "source_times": footage.times[None]}
        self._check_alike(arrays)
        with writing(self.path):
            for key, array in arrays.items():
                if key not in self._data:
                    self._data[key] = self._create(key, array)
                self._data[key].resize(self.episodes + len(episodes), axis=0)
                self._data[key][self.episodes :] = array
        self.episodes += len(episodes)

    def _check_alike(self, arrays: Arrays) -> None:
        """Raise a UserError if episodes have other keys or shapes than earlier ones."""
        if not self.episodes:
            return
        if odd := sorted(arrays.keys() ^ self._data.keys()):
            raise UserError(f"{self.path}: only some of its episodes have `{odd[0]}`")
        for key, array in arrays.items():
            if array.shape[1:] != (shape := self._data[key].shape[1:]):
                differ = f"`{key}` has the shape {array.shape[1:]} in some episodes"
                raise UserError(f"{self.path}: {differ}, but {shape} in earlier ones")

    def truncate(self, episodes: int) -> None:
        """Remove all but the first `episodes`."""
        with writing(self.path):
            for data in self._data.values():
                data.resize(episodes, axis=0)
        self.episodes = episodes

    def assign(self, episodes: slice, split: SplitName) -> None:
        """Move imported episodes to another split."""
        with writing(self.path):
            self._data["splits"][episodes] = split

    def video(self, episode: int) -> UInt8[np.ndarray, "time height width 3"]:
        """The frames of an episode that was appended."""
        with writing(self.path):
            return self._data["imgs"][episode]

    def add_labels(self, labels: Float32[np.ndarray, "episode time box 6"]) -> None:
        """Add boxes to all episodes, after the last one was appended."""
        with writing(self.path):
            self._data["labels"] = self._create("labels", labels)
            self._data["labels"].resize(len(labels), axis=0)
            self._data["labels"][:] = labels

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                with suppress(OSError, RuntimeError):
                    self._file.close()
                return
            if not self.episodes:
                self._file.close()
                raise UserError(f"{self.path} was not written: there are no episodes")
            with writing(self.path):
                self._file.close()
            check_signals()
            self._refuse_existing()
            commit(self._part, self.path)
        finally:
            remove_part(self._part)

    def _refuse_existing(self) -> None:
        if self.path.is_dir():
            raise UserError(f"{self.path} is a folder; choose a file name")
        check_new(self.path, force=self.force)

    def _create(self, key: str, array: np.ndarray) -> h5py.Dataset:
        shape, kind = array.shape[1:], array.dtype
        if key in TEXTS:
            kind, chunk = h5py.string_dtype(), (1024,)
        elif key == "imgs":
            frames = max(1, VIDEO_CHUNK // array[0, 0].nbytes)
            chunk = (1, min(shape[0], frames), *shape[1:])
        else:
            chunk = (max(1, TRUTH_CHUNK // array[0].nbytes), *shape)
        settings = {"maxshape": (None, *shape), "chunks": chunk, **COMPRESSED.get(key, {})}
        return self._file.create_dataset(key, (0, *shape), kind, **settings)


def new_file(part: Path) -> h5py.File:
    """Create a file in the oldest possible format, for readers with old libraries."""
    settings = {"libver": "earliest", "rdcc_nbytes": 0}
    try:
        return h5py.File(part, "w", locking=False, **settings)  # already locked
    except BlockingIOError:  # HDF5_USE_FILE_LOCKING insists
        unlock(part)
        return h5py.File(part, "w", **settings)


def gswm_version() -> str:
    """The version of the installed package."""
    try:
        return version("gswm")
    except PackageNotFoundError:
        return "unknown"
