"""Messages between the page and the server.

The page sends JSON objects, which msgspec validates completely before use: the result is a frozen
record whose numbers are in range. The server sends bytes: the length of a JSON header (4 bytes,
little endian), the header, and the arrays that it lists.

The page hears of a video that it opens in this order, and may send further requests meanwhile,
which the server answers afterwards:

    opened   the frames of the video and the settings, before any inference
    seen     the objects and the reconstruction of some given frames; one message per chunk
    truth    the ground-truth boxes, if known, with the ids of the model
    branch   the given frames as branch 0; then one message per edit of the request
    futures  imagined frames of the current branch, in pieces; then `done`
    seen     the frames after the given ones

An error with `of: "open"` ends this at any point. One with `of: "edits"` ends the list of branches.
"""

import json
import math
import re
import struct
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from gswm.core.errors import UserError
from gswm.core.limits import LARGEST_DEPTH
from gswm.core.words import install

try:
    import msgspec
    from msgspec import Meta
except ImportError as error:
    raise UserError(f"the studio needs more packages: {install('studio')}") from error

LONGEST = 1 << 18
"""Maximum bytes of a message from the page."""
MOST_GIVEN, MOST_STEPS, MOST_FUTURES = 100, 200, 64
MOST_EDITS, MOST_EPISODES, MOST_IDS = 200, 100, 10**6
CODES = {np.dtype(np.float32): "f4", np.dtype(np.uint8): "u1"}

Kind = Literal["move", "throw", "resize", "depth", "remove", "duplicate", "look"]
FileKind = Literal["gif", "mp4", "png", "csv"]
NEEDS = {
    **{"move": ("xy",), "duplicate": ("xy",), "throw": ("xy", "velocity")},
    **{"resize": ("hw",), "depth": ("depth",), "look": ("other",)},
}
"""Fields of a change besides the object, by its kind."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Id = Annotated[int, Meta(ge=0, le=MOST_IDS)]
BranchNumber = Annotated[int, Meta(ge=0, le=MOST_EDITS)]
FutureNumber = Annotated[int, Meta(ge=0, le=MOST_FUTURES - 1)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Coordinate = Annotated[float, Meta(ge=-2, le=2)]
Side = Annotated[float, Meta(ge=0.02, le=1)]
XY = tuple[Coordinate, Coordinate]


@dataclass(frozen=True)
class Change:
    """An edit of one object."""

    kind: Kind
    id: Id
    xy: XY = (0.0, 0.0)
    """The new position: move, throw and duplicate."""
    velocity: XY = (0.0, 0.0)
    """The velocity per frame: throw."""
    hw: tuple[Side, Side] = (0.25, 0.25)
    """Height and width: resize."""
    depth: Annotated[float, Meta(ge=-LARGEST_DEPTH, le=LARGEST_DEPTH)] = 0.0
    other: Id = 0
    """The object whose appearance it gets."""


@dataclass(frozen=True)
class Edit:
    """A change in a frame of a branch; `future` matters if the frame is imagined."""

    branch: BranchNumber
    frame: Annotated[int, Meta(ge=0, le=MOST_GIVEN + MOST_STEPS)]
    change: Change
    future: FutureNumber = 0
    live: bool = False
    """Whether this is a preview during a drag, which is not kept."""
    request: Number = 0
    """An id chosen by the page."""


@dataclass(frozen=True)
class ViewSettings:
    """Settings of the imagination."""

    given: Annotated[int, Meta(ge=1, le=MOST_GIVEN)] = 10
    steps: Annotated[int, Meta(ge=1, le=MOST_STEPS)] = 40
    futures: Annotated[int, Meta(ge=1, le=MOST_FUTURES)] = 8
    sample: bool = True
    seed: Number = 0


@dataclass(frozen=True)
class Open:
    """Open a video with a model, and apply edits."""

    model: Name
    world: Name
    """A world, or an upload."""
    episode: Annotated[int, Meta(ge=0, le=MOST_EPISODES - 1)] = 0
    settings: ViewSettings = ViewSettings()
    edits: Annotated[tuple[Edit, ...], Meta(max_length=MOST_EDITS)] = ()
    current: BranchNumber = 0
    """The branch to imagine first."""


@dataclass(frozen=True)
class ShowRequest:
    """Imagine a branch, again if necessary."""

    branch: BranchNumber


@dataclass(frozen=True)
class Masks:
    """Request the visible object at each pixel of a branch."""

    branch: BranchNumber
    future: FutureNumber = 0


@dataclass(frozen=True)
class ExportRequest:
    """A file to export."""

    kind: FileKind
    branch: BranchNumber
    future: FutureNumber = 0
    compare: Annotated[int, Meta(ge=-1, le=MOST_EDITS)] = -1
    """Another branch to compare with; -1 for none."""
    boxes: bool = True
    trail: Annotated[int, Meta(ge=0, le=50)] = 8


Message = Open | Edit | ShowRequest | Masks | ExportRequest
TYPES: dict[str, type[Message]] = {
    "open": Open,
    "edit": Edit,
    "show": ShowRequest,
    "masks": Masks,
    "export": ExportRequest,
}


class MessageError(UserError):
    """An invalid message."""

    def __init__(self, line: str, kind: str) -> None:
        super().__init__(line)
        self.kind = kind
        """The type of the message."""


def parse(text: str | bytes) -> Message:
    """Parse a message from the page; raise MessageError if it is invalid."""
    if len(text) > LONGEST:
        raise UserError(f"a message has at most {LONGEST:,} bytes")
    try:
        data = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise UserError("a message must be JSON") from error
    if not isinstance(data, dict):
        raise UserError("a message must be a JSON object")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise UserError(f"a message must have a type: {', '.join(TYPES)}")
    try:
        message = msgspec.convert(data, TYPES[kind])
    except msgspec.ValidationError as error:
        raise MessageError(one_line(str(error)), kind) from error
    for edit in data.get("edits", []) if isinstance(message, Open) else [data]:
        check_change(edit.get("change", {}), kind)
    return message


def check_change(change: dict[str, Any], kind: str) -> None:
    """Raise MessageError if a change lacks a field that its kind needs."""
    for name in NEEDS.get(change.get("kind", ""), ()):
        if name not in change:
            raise MessageError(f"change.{name}: missing, and `{change['kind']}` needs it", kind)


def one_line(said: str) -> str:
    """Rewrite an error of msgspec so that the field comes first: `frame: expected int >= 0`."""
    found = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", said, re.S)
    assert found is not None
    words = found[1][:1].lower() + found[1][1:].replace("`", "")
    return f"{found[2]}: {words}" if found[2] else words


def encode(head: dict[str, Any], **arrays: np.ndarray) -> bytes:
    """Encode a message to the page."""
    codes = {name: CODES[array.dtype] for name, array in arrays.items()}
    parts = [{"name": n, "type": codes[n], "shape": a.shape} for n, a in arrays.items()]
    words = json.dumps(head | {"parts": parts}, allow_nan=False).encode()
    words += b" " * (-(len(words) + 4) % 4)  # align arrays to 4 bytes for typed arrays of the page
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    assert [name for name, _ in ordered] == list(arrays), "the widest numbers come first"
    data = [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    return struct.pack("<I", len(words)) + words + b"".join(data)


def decode(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The inverse of `encode`."""
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
