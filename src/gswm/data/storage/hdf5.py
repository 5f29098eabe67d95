"""Files of episodes, as HDF5, in the layouts of the authors' release; `writer` makes them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.files import check_regular
from gswm.core.settings import from_dict
from gswm.core.words import printable
from gswm.data.episode import Episodes
from gswm.data.placement import Footage, Placement
from gswm.data.storage.errors import reading
from gswm.data.storage.layouts import (
    EXTRAS,
    IMGS,
    KEYS,
    TEXTS,
    Layout,
    check_values,
    ignored,
    mismatch,
    recognize,
    to_episodes,
)
from gswm.data.worlds.base import SplitName
from gswm.data.worlds.obj3d.layout import SCENES
from gswm.data.worlds.registry import WORLDS, base_name

SUFFIXES = (".hdf5", ".h5")
FOOTAGE = {"placements", "source_frames", "source_times"}
"""Keys of the positions of imported episodes in their source videos."""
PER_EPISODE = {**dict.fromkeys(TEXTS, 1), "source_frames": 2, "source_times": 2}
"""The axes of keys of imported files: episodes and frames."""
NUMBERS = "biuf"
"""NumPy's codes of numeric types."""


class File:
    """A file of episodes, read on demand.

    It can be passed to worker processes, each of which opens it separately.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._pid = -1
        self.shapes: dict[str, tuple[int, ...]] = {
            key: data.shape or () for key, data in self._data.items()
        }
        self.types = {key: _type(data) for key, data in self._data.items()}
        with reading(self.path):
            self.attributes = dict(self._handle.attrs)
        if (about := self.attributes).get("format") == SCENES:
            draws = f"make obj3d --scenes {path} --split {about.get('split')} --out FILE"
            raise UserError(
                f"{path} is a scene file without frames; render it with `gswm data {draws}`"
            )
        if "imgs" not in self.shapes:
            held = ", ".join(sorted(self.shapes)) or "nothing"
            raise UserError(f"{path} has no key `imgs`, the video; it has {held}")
        self.layout: Layout = recognize(self.shapes)
        stated: Any = str(about.get("layout")) if "gswm" in about else self.layout
        keys = KEYS[stated].keys() if stated in KEYS else {"unknown"}
        if stated != self.layout and keys <= self.shapes.keys():
            raise UserError(
                f"{path} declares the layout '{stated}', but its keys do not match; create the "
                f"file again"
            )
        self._check_types()
        if wrong := mismatch(self.layout, self.shapes):
            raise UserError(f"{path}: {wrong}")
        self.episodes, self.frames, self.height, self.width, _ = self.shapes["imgs"]
        for name in ("episodes", "frames", "height", "width"):
            if not getattr(self, name):
                raise UserError(f"{path}: its `imgs` have no {name}; create or import it again")
        for key in self.shapes.keys() & PER_EPISODE.keys():
            wanted = (self.episodes, self.frames)[: PER_EPISODE[key]]
            if self.shapes[key] != wanted:
                raise UserError(
                    f"{path}: `{key}` has the shape {self.shapes[key]}; expected {wanted}"
                )

    def _check_types(self) -> None:
        """Raise a UserError for text in place of numbers, or vice versa."""
        stated = {"imgs": IMGS, **KEYS[self.layout], **EXTRAS}
        for key, (_, expected) in stated.items():
            if key in self.shapes and not _is_like(self._data[key].dtype, expected):
                raise UserError(f"{self.path}: `{key}` is {self.types[key]}; expected {expected}")
        for key in TEXTS & self.shapes.keys():
            if self.types[key] != "text":
                raise UserError(f"{self.path}: `{key}` is {self.types[key]}; expected text")
        for key in (FOOTAGE - TEXTS) & self.shapes.keys():
            if self._data[key].dtype.kind not in NUMBERS:
                raise UserError(f"{self.path}: `{key}` is {self.types[key]}; expected numbers")

    def __len__(self) -> int:
        return self.episodes

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self):
        return File, (self.path,)

    def close(self) -> None:
        """Close the file; reading opens it again."""
        if self._pid == os.getpid():
            self._handle.close()
        self._pid = -1

    @property
    def splits(self) -> np.ndarray | None:
        """The split of each episode, if the file or its name states it."""
        if "splits" in self.shapes:
            return np.array(self._texts("splits"))
        named = str(self.attributes.get("split", self.path.stem))
        return np.full(self.episodes, named) if named in ("train", "val", "test") else None

    @property
    def sources(self) -> list[str] | None:
        """The name of each episode's video, if the file states it."""
        return self._texts("sources") if "sources" in self.shapes else None

    def _texts(self, key: str) -> list[str]:
        with reading(self.path):
            return [printable(text) for text in self._data[key].asstr(errors="replace")[:]]

    def footage(self, episode: int) -> Footage | None:
        """The source frames of an imported episode, if the file states them."""
        if not self.shapes.keys() >= FOOTAGE:
            return None
        with reading(self.path):
            placed = str(self._data["placements"].asstr(errors="replace")[episode])
            frames, times = (self._data[key][episode] for key in ("source_frames", "source_times"))
        try:
            placement = from_dict(Placement, json.loads(placed), "placement")
            return Footage.read(placement, frames, times)
        except ValueError as error:
            raise UserError(f"{self.path}: its placements cannot be read") from error
        except UserError as error:
            raise UserError(f"{self.path}: {error}; import the video again") from error

    @property
    def extras(self) -> dict[str, str]:
        """A description of the keys beyond the layout."""
        words = {"actions": "numbers a frame", "rewards": "one a frame", "backgrounds": "one each"}
        words["labels"] = "boxes a frame"
        found = {key: words[key] for key in EXTRAS if key in self.shapes}
        for key in found.keys() & {"actions", "labels"}:
            found[key] = f"{self.shapes[key][2]} {found[key]}"
        return found

    @property
    def ignored(self) -> str | None:
        """Keys of an incomplete ground truth and the missing ones, in words; None without any."""
        return ignored(self.layout, self.shapes)

    def remedy(self, split: SplitName) -> str:
        """A way to give the file episodes of `split`."""
        if "sources" in self.shapes:
            return f"import some from a folder named {split}"
        return "add the key `splits`, with train, val or test for each episode"

    def of_split(self, split: SplitName | None) -> np.ndarray:
        """The indices of the episodes of `split`, or of all."""
        if split is None:
            return np.arange(self.episodes)
        if (splits := self.splits) is None:
            raise UserError(
                f"{self.path} does not state which episodes belong to '{split}': "
                f"{self.remedy(split)}, or rename it to {split}{self.path.suffix}"
            )
        if not (splits == split).any():
            found = ", ".join(sorted(set(splits)))
            raise UserError(f"{self.path} has no episodes of split '{split}'; it has {found}")
        return np.flatnonzero(splits == split)

    def video(
        self, episodes: Sequence[int], start: int | Sequence[int] = 0, length: int | None = None
    ) -> UInt8[Tensor, "episode time 3 height width"]:
        """`length` frames of each of `episodes` from frame `start` on, one for all or for each."""
        starts = [start] * len(episodes) if isinstance(start, int) else start
        length = self.frames - max(starts, default=0) if length is None else length
        out = np.empty((len(episodes), length, self.height, self.width, 3), np.uint8)
        imgs = self._data["imgs"]
        for i, (episode, first) in enumerate(zip(episodes, starts, strict=True)):
            if not (0 <= episode < self.episodes and 0 <= first <= self.frames - length):
                raise IndexError(f"no frames {first} to {first + length} of episode {episode}")
            with reading(self.path):
                window = np.s_[int(episode), int(first) : int(first) + length]
                imgs.read_direct(out, window, np.s_[i])
        return torch.from_numpy(out).permute(0, 1, 4, 2, 3)

    def read(self, episodes: slice | Sequence[int] = slice(None)) -> Episodes:
        """Read whole episodes, with all their parts."""
        with reading(self.path):
            arrays = {
                key: self._data[key][episodes]
                if isinstance(episodes, slice)
                else np.stack([self._data[key][int(i)] for i in episodes])
                for key in ("imgs", *KEYS[self.layout], *self.extras)
            }
        check_values(arrays, self.path)
        return to_episodes(self.layout, arrays)

    @property
    def _data(self) -> dict[str, h5py.Dataset]:
        if self._pid != os.getpid():
            check_regular(self.path)
            with reading(self.path):
                self._handle = h5py.File(self.path, "r", rdcc_nbytes=0)
                held = {k: d for k, d in self._handle.items() if isinstance(d, h5py.Dataset)}
            self._opened, self._pid = held, os.getpid()
        return self._opened


def open_file(path: str | Path) -> File:
    """Open the file at `path` for reading on demand."""
    return File(path)


def read(
    path: str | Path, episodes: slice = slice(None), split: SplitName | None = None
) -> Episodes:
    """Read `episodes` of the file at `path`, counted within `split` if one is given."""
    with File(path) as file:
        return file.read(episodes if split is None else file.of_split(split)[episodes].tolist())


def _type(data: h5py.Dataset) -> str:
    if data.shape is None:
        return "empty"
    return "text" if h5py.check_string_dtype(data.dtype) else str(data.dtype)


def _is_like(found: np.dtype, expected: str) -> bool:
    """Whether a type is compatible with the expected one: bytes for pixels, else any number.

    Numbers of more than 64 bits are none of torch's.
    """
    return (
        found == expected if expected == "uint8" else found.kind in NUMBERS and found.itemsize <= 8
    )


def is_name_of_file(name: str) -> bool:
    """Whether a data source is a file rather than a world."""
    return Path(name).suffix.lower() in SUFFIXES


def world_of(name: str) -> str:
    """The name of a world, or of the world in a file; its layout if the world is not installed."""
    if not is_name_of_file(name):
        return base_name(name)
    with open_file(name) as file:
        stated = str(file.attributes.get("world", ""))
        return stated if stated in WORLDS else file.layout
