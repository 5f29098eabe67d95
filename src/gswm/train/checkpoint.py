"""Checkpoints: tensors as safetensors, the rest as JSON; whole, or not there at all.

A checkpoint is a folder, `checkpoints/00012000`. It is written under another name, flushed, and
then renamed, and the one before it stays until the next: whatever happens, the newest folder with
a number for a name is whole. `state.json` has a checksum of every file, which loading verifies.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from gswm.errors import UserError

KEPT = 2


class DiskFullError(UserError):
    """There is no room for a checkpoint; the one before it is untouched."""

    code = 4


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    """What JSON can hold."""


def save(folder: Path, checkpoint: Checkpoint, part_bytes: int | None = None) -> Path:
    """Write a checkpoint, in files of at most `part_bytes`, and remove all but the last ones."""
    final = folder / f"{checkpoint.step:08d}"
    temporary = folder / f".{final.name}.tmp"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        names = []
        for i, part in enumerate(split(checkpoint.tensors, part_bytes), start=1):
            names.append(f"tensors-{i:02d}.safetensors")
            save_file({k: v.contiguous() for k, v in part.items()}, temporary / names[-1])
        sums = {name: checksum(temporary / name) for name in names}
        text = json.dumps({"step": checkpoint.step, "state": checkpoint.state, "files": sums})
        (temporary / "state.json").write_text(text)
        for path in [*temporary.iterdir(), temporary]:
            flush(path)
        if final.exists():  # the same step again, after a resume: the two are equal
            shutil.rmtree(final)
        os.replace(temporary, final)
        flush(folder)
    except Exception as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space" in str(
            error
        ):
            raise DiskFullError(
                f"no space left for a checkpoint in {folder}: make room and resume; "
                "the last one is kept"
            ) from error
        raise
    for old in numbered(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def load_newest(folder: Path, tell: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; `tell` is told of those that are not."""
    for path in reversed(numbered(folder)):
        try:
            return load(path)
        except UserError as error:
            tell(f"{error}; using the one before it")
    return None


def load(path: Path) -> Checkpoint:
    """A checkpoint, if its files are what was written."""
    try:
        text = json.loads((path / "state.json").read_text())
        tensors: dict[str, Tensor] = {}
        for name, want in text["files"].items():
            if checksum(path / name) != want:
                raise UserError(f"the checkpoint {path} is damaged: {name} has changed")
            tensors |= load_file(path / name)
        return Checkpoint(text["step"], tensors, text["state"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"the checkpoint {path} is damaged: {error}") from error


def numbered(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.isdigit())


def split(tensors: dict[str, Tensor], part_bytes: int | None) -> list[dict[str, Tensor]]:
    """Tensors in parts of at most `part_bytes`."""
    parts: list[dict[str, Tensor]] = [{}]
    room = part_bytes
    for name, tensor in tensors.items():
        if part_bytes is not None and room is not None:
            need = tensor.nbytes + 512  # and its line in the header
            if need > part_bytes:
                raise UserError(f"{name} alone takes {need} bytes: parts must be larger")
            if need > room:
                parts.append({})
                room = part_bytes
            room -= need
        parts[-1][name] = tensor
    return parts


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Have the disk take what was written."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
