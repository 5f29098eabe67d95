"""Strategies: command lines, headers of weights, trees of HDF5 files, messages, damaged videos."""

import json
import os
import string
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import h5py
import material
import numpy as np
import safetensors.torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from safetensors import safe_open

from gswm.cli import COMMANDS
from gswm.studio.protocol import TYPES
from gswm.weights.files import digest

WORDS = {
    "data make": ["maze", "--episodes", "1", "--out", "new.hdf5"],
    "data import": ["film.mkv", "--out", "new.hdf5", "--size", "8", "--frames", "4"],
    "data look": ["film.mkv"],
    "data info": ["video.hdf5"],
    "data show": ["video.hdf5", "--out", "new.gif"],
    "export": [material.MODEL, "--out", "new.safetensors"],
    "track": ["film.mkv", "--model", material.MODEL, "--out", "new.csv", "--frames", "2"],
    "imagine": [
        *(material.MODEL, "--video", "film.mkv", "--given", "2", "--steps", "1", "--out", "new"),
        *("--futures", "1", "--no-mp4", "--scale", "1"),
    ],
    "eval": ["--labels", "boxes.txt", "--tracks", "boxes.txt", "--json", "new.json"],
    "report": ["boxes.json", "--out", "new"],
    "weights": [],
}
"""Command lines that are right, and take a moment."""
PARSED = sorted(COMMANDS.keys() - WORDS.keys())
"""Commands that take long if nothing is wrong: only their settings are parsed."""
NUMBERS = (
    *("-1", "0", "1", "2", "7", "0.5", "-0.0", "1e-9", "1e9", "1e300", "nan", "inf", "-inf"),
    *(str(2**31), str(2**63), str(2**64), "9" * 400, "1_0", "0x10", "٣"),
)
ODD = ("", " ", "-", "--", "-h", "a\nb", "\x1b[2J", "\udcff", "../x", "/", ".", "~", "*", "None")
FILES = (*material.CODECS, *material.LAYOUTS, material.MODEL, *material.OTHERS, "missing.mp4")

Words = list[str]

CASES = int(os.environ.get("GSWM_FUZZ", "60"))
"""Cases of all tests in this process together; there are 40 times fewer in other processes."""
AT_LENGTH = "GSWM_FUZZ" in os.environ


def tries(share: float) -> Callable[[Any], Any]:
    """Try this share of all cases: the same each time, or others each time if there are many."""
    return settings(
        max_examples=max(1, int(CASES * share)),
        derandomize=not AT_LENGTH,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )


def settings_of(name: str) -> list[str]:
    """The flags of a command."""
    cls = COMMANDS[name].load()
    return [f"--{field.name.replace('_', '-')}" for field in fields(cls)]


FLAGS = {name: settings_of(name) for name in COMMANDS}

values = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(FILES),
    st.sampled_from(ODD),
    st.sampled_from(("maze", "cpu", "meta", "test", "letterbox", "1,2,3,4", "all", "new.csv")),
    st.text(string.printable, max_size=6),
)


@st.composite
def command_lines(draw: st.DrawFn, names: tuple[str, ...] = (*WORDS, *PARSED)) -> Words:
    """A command line with some words replaced, left out or added."""
    name = draw(st.sampled_from(names))
    words = list(WORDS.get(name, ()))
    flags = FLAGS[name]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(words)))
        change = draw(st.sampled_from(("add", "value", "set", "set", "drop")))
        if change == "set" and flags:
            words += [draw(st.sampled_from(flags)), draw(values)]
        elif change == "add":
            words.insert(at, draw(values))
        elif change == "value" and at < len(words):
            words[at] = draw(values)
        elif change == "drop" and at < len(words):
            del words[at]
    if name == "data make" and "--episodes" not in words:  # all episodes take many minutes
        words += ["--episodes", "1"]
    return [*name.split(), *words]


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(max_size=8),
)
keys = st.sampled_from(("step", "fps", "model", "kind", "xy", "id")) | st.text(max_size=5)
trees = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)


def paths_in(tree: Any) -> list[tuple[Any, ...]]:
    """The ways to all parts of a JSON value."""
    if isinstance(tree, dict):
        items = list(tree.items())
    else:
        items = list(enumerate(tree)) if isinstance(tree, list) else []
    return [(), *((key, *rest) for key, value in items for rest in paths_in(value))]


def changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The same JSON value with another part."""
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = changed(tree[path[0]], path[1:], value)
    return copy


@st.composite
def near(draw: st.DrawFn, tree: Any) -> Any:
    """A JSON value of which one or two parts are others."""
    for _ in range(draw(st.integers(1, 2))):
        tree = changed(tree, draw(st.sampled_from(paths_in(tree))), draw(trees))
    return tree


ABOUT = {
    "step": 10,
    "minutes": 1.5,
    "seed": 0,
    "began": {"step": 1, "minutes": 2, "runs": ["a"]},
    "curve": [[1, 0.5, 0.1]],
    "validation": {"error": 0.1},
    "test": {"mota": 0.5},
    "trained_with": {"lr": 0.1},
    "videos": {"fps": 5.0, "fit": "crop", "region": "0,0,8,8"},
}


@st.composite
def headers(draw: st.DrawFn, path: Path) -> dict[str, str]:
    """The header of weights at `path`, with another recipe or other facts about them."""
    with safe_open(path, "pt") as file:
        held = dict(file.metadata())
    held["about"] = json.dumps(draw(near(ABOUT)))
    if draw(st.booleans()):
        held["recipe"] = json.dumps(draw(near(json.loads(held["recipe"]))))
    if draw(st.integers(0, 9)) == 0:
        held[draw(st.sampled_from(sorted(held)))] = draw(st.text(max_size=9))
    return held


def write_weights(path: Path, header: dict[str, str]) -> None:
    """Give weights another header, with the checksum of their tensors."""
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    path.write_bytes(safetensors.torch.save(tensors, {**header, "sha256": digest(tensors)}))


@dataclass(frozen=True)
class Graft:
    """A change of an HDF5 file: another dataset, group or attribute, or none."""

    key: str
    value: Any
    as_attribute: bool

    def apply(self, file: h5py.File) -> None:
        """Make the change."""
        there: Any = file.attrs if self.as_attribute else file
        if self.key in there:
            del there[self.key]
        if self.value is Graft:
            return
        if self.value is h5py.Group and not self.as_attribute:
            file.create_group(self.key)
        elif self.value is not h5py.Group:
            there[self.key] = self.value


SHAPES = ((), (0,), (1,), (2,), (2, 0), (2, 4), (1, 4), (2, 3, 4), (2, 4, 8, 8, 3), (2, 20, 3, 2))
KINDS = ("u1", "i4", "i8", "f4", "f8", "c16", "S3", "?", [("a", "f4")])


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """An array of any kind and one of some shapes, nothing, text, or a group."""
    shape, kind = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(KINDS))
    zeros = np.zeros(shape, kind)
    if zeros.dtype.kind in "iuf":
        number = draw(st.sampled_from((0, 1, -1, 255, 10**6, 1e300, np.nan, np.inf)))
        with np.errstate(all="ignore"):
            zeros[...] = np.asarray(number).astype(zeros.dtype)
    others = (Graft, h5py.Group, h5py.Empty("f4"), "text", b"\xff", "train", zeros, zeros, zeros)
    return draw(st.sampled_from(others))


@st.composite
def grafts(draw: st.DrawFn, path: Path) -> list[Graft]:
    """Some changes of the file at `path`."""
    with h5py.File(path) as file:
        data, attributes = sorted(file), sorted(file.attrs)
    found = []
    for _ in range(draw(st.integers(1, 3))):
        as_attribute = draw(st.integers(0, 2)) == 0
        known = attributes if as_attribute else data
        more = ("fps", "fit", "region", "crop", "actions", "rewards", "backgrounds", "x")
        found.append(Graft(draw(st.sampled_from((*known, *more))), draw(arrays()), as_attribute))
    return found


MESSAGES = (
    {
        "type": "open",
        "model": "a",
        "world": "b",
        "episode": 0,
        "settings": {"given": 3, "steps": 5, "futures": 2, "sample": True, "seed": 1},
        "edits": [{"branch": 0, "frame": 3, "change": {"kind": "move", "id": 1, "xy": [0, 0]}}],
        "current": 0,
    },
    {"type": "edit", "branch": 0, "frame": 3, "change": {"kind": "resize", "id": 1, "hw": [1, 1]}},
    {"type": "show", "branch": 0},
    {"type": "masks", "branch": 0, "future": 1},
    {"type": "export", "kind": "gif", "branch": 0},
)
assert {message["type"] for message in MESSAGES} <= TYPES.keys()


@st.composite
def messages(draw: st.DrawFn) -> str:
    """The text of a message to the studio, nearly right."""
    tree = draw(near(draw(st.sampled_from(MESSAGES))) | trees)
    text = json.dumps(tree, ensure_ascii=draw(st.booleans()))
    return draw(st.sampled_from((text, text, text, text[:-1], text * 2, "[" * 5_000)))


def overwrite(data: bytearray, at: int, junk: bytes) -> None:
    data[at : at + len(junk)] = junk


def insert(data: bytearray, at: int, junk: bytes) -> None:
    data[at:at] = junk


def cut(data: bytearray, at: int, junk: bytes) -> None:
    del data[at:]


def leave_out(data: bytearray, at: int, junk: bytes) -> None:
    del data[at : at + len(junk)]


def repeat(data: bytearray, at: int, junk: bytes) -> None:
    data[at:at] = data[max(0, at - 8 * len(junk)) : at]


def flip(data: bytearray, at: int, junk: bytes) -> None:
    if data:
        data[min(at, len(data) - 1)] ^= 1 << (len(junk) % 8)


DAMAGES: tuple[Callable[[bytearray, int, bytes], None], ...] = (
    *(overwrite, insert, cut, leave_out, repeat, flip),
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with some damage, half of it near the beginning, where headers are."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        end = draw(st.sampled_from((min(200, len(data)), len(data))))
        at, junk = draw(st.integers(0, end)), draw(st.binary(min_size=1, max_size=64))
        draw(st.sampled_from(DAMAGES))(data, at, junk)
    return bytes(data)
