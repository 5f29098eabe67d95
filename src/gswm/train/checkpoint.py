"""Checkpoints: tensors as safetensors and the rest as JSON, written atomically.

A checkpoint is a folder, `checkpoints/00012000`. It is written under a temporary name, flushed, and
then renamed, and its predecessor is kept, so the newest numbered folder is always complete.
`SHA256SUMS` has a checksum of every other file, computed before writing; loading verifies it, and
so does `sha256sum -c SHA256SUMS`.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.files import check_regular, flush, room, write_through
from gswm.core.records import apart

KEPT = 2
SUMS, STATE = "SHA256SUMS", "state.json"
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
HEADER = 512
"""Upper bound of the bytes per tensor in the header of a file."""


@dataclass(frozen=True)
class Checkpoint:
    """The state from which a run resumes."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    """The part of the state that JSON can hold."""


def save(folder: Path, checkpoint: Checkpoint, part_bytes: int | None = None) -> Path:
    """Write a checkpoint, in files of at most `part_bytes`, and remove all but the last two."""
    final = folder / f"{checkpoint.step:08d}"
    temporary = folder / f".{final.name}.tmp"
    with room(final):
        try:
            write(temporary, checkpoint, part_bytes)
            if final.exists():  # a damaged one of the same step, from which the run did not resume
                shutil.rmtree(old := folder / f".{final.name}.old", ignore_errors=True)
                os.rename(final, old)
            os.rename(temporary, final)
            flush(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    keep(folder, checkpoint.step)
    return final


def write(folder: Path, checkpoint: Checkpoint, part_bytes: int | None) -> None:
    """Write the files of a checkpoint to a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sums: dict[str, str] = {}
    for i, part in enumerate(split(checkpoint.tensors, part_bytes), start=1):
        data = safetensors.torch.save(apart(part))
        sums[name := f"tensors-{i:02d}.safetensors"] = hashlib.sha256(data).hexdigest()
        write_through(folder / name, data)
    state = {"step": checkpoint.step, "state": checkpoint.state, "files": list(sums)}
    text = json.dumps(state, allow_nan=False).encode()
    sums[STATE] = hashlib.sha256(text).hexdigest()
    write_through(folder / STATE, text)
    lines = [f"{digest}  {name}\n" for name, digest in sums.items()]
    write_through(folder / SUMS, "".join(lines).encode())
    flush(folder)


def keep(folder: Path, step: int) -> None:
    """Remove all checkpoints except that of `step` and its predecessor.

    A later one exists only if it was damaged, so that the run did not resume from it.
    """
    kept = [path for path in numbered(folder) if int(path.name) <= step][-KEPT:]
    left = [path for path in folder.iterdir() if re.fullmatch(r"\.[0-9]+\.(tmp|old)", path.name)]
    for path in [*numbered(folder), *left]:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def load_newest(folder: Path, tell: Callable[[str], None]) -> Checkpoint | None:
    """The newest intact checkpoint; `tell` is called with a line about each damaged one."""
    paths = numbered(folder)
    for path in reversed(paths):
        try:
            return load(path)
        except UserError as error:
            if path == paths[0]:
                raise UserError(
                    f"{error}; there is no other checkpoint: start a new run with another --out"
                ) from error
            tell(f"{error}; using the previous one")
    return None


def load(path: Path) -> Checkpoint:
    """Load a checkpoint and verify its checksums."""
    try:
        check_regular(path / SUMS)
        lines = (path / SUMS).read_text().splitlines()
        sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
        data = {name: verified(path / name, digest) for name, digest in sums.items()}
        state = json.loads(data.pop(STATE))
        if state["files"] != list(data):
            raise UserError(f"{SUMS} has changed")
        tensors = [safetensors.torch.load(part) for part in data.values()]
        together = {name: tensor for part in tensors for name, tensor in part.items()}
        return Checkpoint(state["step"], together, state["state"])
    except FileNotFoundError as error:
        raise damaged(path, f"{Path(error.filename).name} is missing") from error
    except KeyError as error:
        raise damaged(path, f"{SUMS} has changed") from error
    except (OSError, ValueError, SafetensorError, UserError) as error:
        raise damaged(path, " ".join(str(error).split())) from error


def verified(path: Path, digest: str) -> bytes:
    """The content of a file, if its checksum matches."""
    check_regular(path)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise UserError(f"{path.name} has changed")
    return data


def damaged(path: Path, how: str) -> UserError:
    """The error for a checkpoint that has changed since it was written."""
    return UserError(f"the checkpoint {path} is damaged: {how}")


def numbered(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first."""
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if re.fullmatch("[0-9]+", path.name)]
    return sorted(paths, key=lambda path: int(path.name))


def split(tensors: dict[str, Tensor], part_bytes: int | None) -> list[dict[str, Tensor]]:
    """Split tensors into parts of at most `part_bytes`, including their headers."""
    if part_bytes is None:
        return [tensors]
    parts: list[dict[str, Tensor]] = [{}]
    room = part_bytes - HEADER
    for name, tensor in tensors.items():
        need = tensor.nbytes + HEADER
        if need + HEADER > part_bytes:
            raise UserError(f"{name} alone takes {need + HEADER} bytes; parts must be larger")
        if need > room:
            parts.append({})
            room = part_bytes - HEADER
        room -= need
        parts[-1][name] = tensor
    return parts


def num_bytes(text: str) -> int:
    """A size such as 15M or 15MiB in bytes."""
    found = re.fullmatch(r"([0-9]+)\s*(Ki|Mi|Gi|K|M|G|)B?", text.strip())
    if not found or not int(found[1]):
        raise UserError(f"'{text}' is not a size; use, for example, 15M, 500K or a number of bytes")
    return int(found[1]) * UNITS[found[2]]
