"""Messages of the page and of the server.

The page sends JSON objects. Each is checked here whole, before anything is done: what comes out
is a frozen record whose numbers are in range. The server sends bytes: the length of a JSON head
(4 bytes, little endian), the head, and the arrays that it lists, one after the other.
"""

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from gswm.core.errors import UserError
from gswm.studio.fields import XY, as_mapping, choice, flag, integer, mapping, number, pair, text

LONGEST = 1 << 18
"""Bytes of a message from the page."""
MOST_GIVEN, MOST_STEPS, MOST_FUTURES = 100, 200, 64
MOST_EDITS, MOST_EPISODES, MOST_IDS = 200, 100, 10**6
CODES = {np.dtype(np.float32): "f4", np.dtype(np.uint8): "u1"}

Kind = Literal["move", "throw", "resize", "depth", "remove", "duplicate", "look"]
FileKind = Literal["gif", "mp4", "png", "csv"]


@dataclass(frozen=True)
class Change:
    """What is done to one object."""

    kind: Kind
    id: int
    xy: XY = (0.0, 0.0)
    """Where to: move, throw and duplicate."""
    velocity: XY = (0.0, 0.0)
    """Per frame: throw."""
    hw: XY = (0.25, 0.25)
    """Height and width: resize."""
    depth: float = 0.0
    other: int = 0
    """Whose look it gets."""


@dataclass(frozen=True)
class Edit:
    """A change in a frame of a branch; of one of its futures, where the frame is imagined."""

    branch: int
    future: int
    frame: int
    change: Change
    live: bool = False
    """While the mouse is down: shown, not kept, and dropped for a newer one."""
    request: int = 0
    """The page's own number for it."""


@dataclass(frozen=True)
class ViewSettings:
    """What is imagined."""

    given: int = 10
    steps: int = 40
    futures: int = 8
    sample: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Open:
    """Show a video to a model, and do some edits again."""

    model: str
    world: str
    """A world, or an upload."""
    episode: int
    settings: ViewSettings
    edits: tuple[Edit, ...]
    current: int
    """The branch that is imagined at once."""


@dataclass(frozen=True)
class ShowRequest:
    """Imagine a branch, again if need be."""

    branch: int


@dataclass(frozen=True)
class Masks:
    """Which object is seen at each pixel, along a branch."""

    branch: int
    future: int


@dataclass(frozen=True)
class ExportRequest:
    """A file to export."""

    kind: FileKind
    branch: int
    future: int
    compare: int
    """Another branch beside it; -1 for none."""
    boxes: bool
    trail: int


Message = Open | Edit | ShowRequest | Masks | ExportRequest


class MessageError(UserError):
    """A message with a bad value."""

    def __init__(self, line: str, kind: str) -> None:
        super().__init__(line)
        self.kind = kind
        """The type of the message."""


def parse(text: str | bytes) -> Message:
    """A message from the page, or one line about what is wrong with it."""
    if len(text) > LONGEST:
        raise UserError(f"a message has at most {LONGEST:,} bytes")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError("a message must be JSON") from error
    if not isinstance(data, dict):
        raise UserError("a message must be a JSON object")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in PARSERS:
        raise UserError(f"a message must have a type: {', '.join(PARSERS)}")
    try:
        return PARSERS[kind](data)
    except UserError as error:
        raise MessageError(str(error), kind) from error


def parse_open(data: Mapping[str, Any]) -> Open:
    """A message of the type `open`."""
    edits = data.get("edits", [])
    if not isinstance(edits, list) or len(edits) > MOST_EDITS:
        raise UserError(f"edits must be a list of at most {MOST_EDITS}")
    return Open(
        model=text(data, "model"),
        world=text(data, "world"),
        episode=integer(data, "episode", 0, MOST_EPISODES - 1, 0),
        settings=parse_settings(mapping(data, "settings")),
        edits=tuple(parse_edit(as_mapping(edit, "an edit")) for edit in edits),
        current=integer(data, "current", 0, MOST_EDITS, 0),
    )


def parse_settings(data: Mapping[str, Any]) -> ViewSettings:
    """What an `open` says about imagination."""
    usual = ViewSettings()
    return ViewSettings(
        given=integer(data, "given", 1, MOST_GIVEN, usual.given),
        steps=integer(data, "steps", 1, MOST_STEPS, usual.steps),
        futures=integer(data, "futures", 1, MOST_FUTURES, usual.futures),
        sample=flag(data, "sample", usual.sample),
        seed=integer(data, "seed", 0, 2**31 - 1, usual.seed),
    )


def parse_edit(data: Mapping[str, Any]) -> Edit:
    """A message of the type `edit`, or one of the edits of an `open`."""
    return Edit(
        branch=integer(data, "branch", 0, MOST_EDITS),
        future=integer(data, "future", 0, MOST_FUTURES - 1, 0),
        frame=integer(data, "frame", 0, MOST_GIVEN + MOST_STEPS),
        change=parse_change(mapping(data, "change")),
        live=flag(data, "live", False),
        request=integer(data, "request", 0, 2**31 - 1, 0),
    )


def parse_change(data: Mapping[str, Any]) -> Change:
    """What an edit does, with what this kind of change needs."""
    kind, id = choice(data, "kind", get_args(Kind)), integer(data, "id", 0, MOST_IDS)
    match kind:
        case "move" | "duplicate":
            return Change(kind, id, xy=pair(data, "xy", -2, 2))
        case "throw":
            xy, velocity = pair(data, "xy", -2, 2), pair(data, "velocity", -2, 2)
            return Change(kind, id, xy=xy, velocity=velocity)
        case "resize":
            return Change(kind, id, hw=pair(data, "hw", 0.02, 1))
        case "depth":
            return Change(kind, id, depth=number(data, "depth", -1e3, 1e3))
        case "look":
            return Change(kind, id, other=integer(data, "other", 0, MOST_IDS))
    return Change(kind, id)


def parse_show(data: Mapping[str, Any]) -> ShowRequest:
    """A message of the type `show`."""
    return ShowRequest(integer(data, "branch", 0, MOST_EDITS))


def parse_masks(data: Mapping[str, Any]) -> Masks:
    """A message of the type `masks`."""
    future = integer(data, "future", 0, MOST_FUTURES - 1, 0)
    return Masks(integer(data, "branch", 0, MOST_EDITS), future)


def parse_export(data: Mapping[str, Any]) -> ExportRequest:
    """A message of the type `export`."""
    return ExportRequest(
        kind=choice(data, "kind", get_args(FileKind)),
        branch=integer(data, "branch", 0, MOST_EDITS),
        future=integer(data, "future", 0, MOST_FUTURES - 1, 0),
        compare=integer(data, "compare", -1, MOST_EDITS, -1),
        boxes=flag(data, "boxes", True),
        trail=integer(data, "trail", 0, 50, 8),
    )


PARSERS: dict[str, Callable[[Mapping[str, Any]], Message]] = {
    "open": parse_open,
    "edit": parse_edit,
    "show": parse_show,
    "masks": parse_masks,
    "export": parse_export,
}


def encode(head: dict[str, Any], **arrays: np.ndarray) -> bytes:
    """A message to the page."""
    codes = {name: CODES[array.dtype] for name, array in arrays.items()}
    parts = [{"name": n, "type": codes[n], "shape": a.shape} for n, a in arrays.items()]
    words = json.dumps(head | {"parts": parts}, allow_nan=False).encode()
    words += b" " * (-(len(words) + 4) % 4)  # numbers of 4 bytes begin where a page can read them
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    assert [name for name, _ in ordered] == list(arrays), "the widest numbers come first"
    data = [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    return struct.pack("<I", len(words)) + words + b"".join(data)


def decode(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `encode` was given."""
    (length,) = struct.unpack_from("<I", message)
    head = json.loads(message[4 : 4 + length])
    types = {code: dtype for dtype, code in CODES.items()}
    arrays, at = {}, 4 + length
    for part in head.pop("parts"):
        dtype, shape = types[part["type"]], tuple(part["shape"])
        count = math.prod(shape)
        arrays[part["name"]] = np.frombuffer(message, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return head, arrays
