"""File access: atomic writes, no silent overwriting, and no reading from pipes or devices.

A file is written under a temporary name beside its own (a part), and renamed when it is complete
and on disk. Parts have unique names, so that two processes can write the same file, and are locked
while they are written. A part without a lock belongs to a dead process, and the next process that
writes to the folder removes it. The locks of other machines may be invisible, so their parts are
removed after a day.
"""

import errno
import fcntl
import hashlib
import os
import platform
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gswm.core.errors import UserError
from gswm.core.words import listed

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
HOST = hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()
PART = re.compile(r"\..*\.([0-9a-f]{8})-[0-9a-f]{8}\.gswm-part", re.DOTALL)
"""File names of parts; the first number identifies the machine."""
DAY = 24 * 60 * 60
KEPT = 120
"""Bytes of a file name to keep in the name of its part, which may have at most 255 bytes."""
MARKER = ".gswm"
"""File that marks a folder as written by gswm, so that gswm may overwrite it."""

_parts: dict[Path, tuple[int, int]] = {}
"""The process and the locked handle of each part that is being written."""
_cleaned: set[str] = set()
"""Folders in which this process has already looked for parts of dead processes."""


class DiskFullError(UserError):
    """The disk is full; existing files are untouched."""

    code = 4


@contextmanager
def room(what: str | Path) -> Iterator[None]:
    """Turn write errors into a UserError that names `what` and the reason."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in FULL:
            raise DiskFullError(
                f"not enough space to write {what} ({reason}): free some space and start "
                "again; existing files are intact"
            ) from error
        raise UserError(f"cannot write {what}: {reason}") from error


# -- checks before writing


def check_place(path: Path, *, folder: bool = False) -> None:
    """Raise a UserError early for a file or `folder` that cannot be written."""
    wanted = path / "any" if folder else path
    with room(path):
        if path.is_dir() and not folder:
            raise UserError(f"cannot write {path}: it is a folder; choose a file name")
        if folder and path.exists() and not path.is_dir():
            raise UserError(f"cannot write to '{path}': it is a file; choose a folder")
        missing, there = wanted.name, wanted.parent
        while not there.exists():
            missing, there = there.name, there.parent
        with suppress(FileNotFoundError):
            os.lstat(there / missing)  # the name may be too long
        remove_part(new_part(there / missing))


def check_suffix(path: Path, allowed: tuple[str, ...]) -> None:
    """Raise a UserError for a file extension that is not supported."""
    if path.suffix.lower() not in allowed:
        raise UserError(f"cannot write '{path}': the name must end in {listed(allowed)}")


def check_output(
    path: Path, allowed: tuple[str, ...], sources: Iterable[Path] = (), *, force: bool = False
) -> None:
    """Raise a UserError early for an output file that cannot or must not be written.

    It checks the folder, the extension, that the file is no input, and that it does not exist. With
    `force`, an existing file will be overwritten.
    """
    check_place(path)
    check_suffix(path, allowed)
    if not path.exists():
        return
    if any(file.exists() and path.samefile(file) for file in sources):
        raise UserError(f"cannot write '{path}': it is also an input; choose another file")
    check_new(path, force=force)


def check_new(path: Path, *, force: bool) -> None:
    """Raise a UserError if the file exists, unless `force` is set, or if it is no regular file."""
    if path.exists() and not path.is_file():
        raise UserError(f"cannot write '{path}': it is not a regular file; choose another")
    if path.exists() and not force:
        raise UserError(f"{path} exists; use --force to overwrite it, or choose another name")


def check_folder(
    path: Path, names: Iterable[str], *, force: bool = False, option: str = "--out"
) -> None:
    """Raise a UserError early if a folder cannot be written, or if its files would be lost.

    `names` are the names of the files, possibly with wildcards. A folder that gswm has written may
    be overwritten. The message names the `option` that chose the folder.
    """
    check_place(path, folder=True)
    if force or is_ours(path):
        return
    for file in (file for name in names for file in sorted(path.glob(name))):
        raise UserError(f"{file} exists; use --force to overwrite it, or choose another {option}")


def is_ours(folder: Path) -> bool:
    """Whether a folder is new, empty, or was written by gswm."""
    if not folder.is_dir() or (folder / MARKER).is_file():
        return True
    return all(PART.fullmatch(name) for name in os.listdir(folder))


def make_folder(path: Path, by: str | None = None) -> None:
    """Create a folder; mark it as written `by` a command, unless it holds other files."""
    check_place(path, folder=True)
    with room(path):
        path.mkdir(parents=True, exist_ok=True)
        if by is not None and is_ours(path):
            write_whole(
                path / MARKER,
                f"Written by `gswm {by}`, which may overwrite this folder.\n".encode(),
            )


# -- writing


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    with replacing(path) as part:
        part.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; it replaces `path` on success, or is removed."""
    part = begin(path)
    try:
        with room(path):
            yield part
        commit(part, path)
    finally:
        remove_part(part)


def begin(path: Path) -> Path:
    """Create a part of `path` and missing folders; remove parts of dead processes."""
    with room(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        return new_part(path)


def commit(part: Path, path: Path) -> None:
    """Replace `path` by a part that is flushed to disk."""
    with room(path):
        flush(part)
        os.replace(part, path)
        with suppress(OSError):  # not every file system can flush a folder
            flush(path.parent)


def new_part(path: Path) -> Path:
    """Create a file beside `path`, locked by this process."""
    name = os.fsdecode(os.fsencode(path.name)[:KEPT])
    while True:
        part = path.with_name(f".{name}.{HOST}-{secrets.token_hex(4)}.gswm-part")
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        _parts[part] = os.getpid(), handle
        with suppress(OSError):  # the file system has no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:  # otherwise another process has just removed it as a leftover
            return part
        remove_part(part)


def unlock(part: Path) -> None:
    """Release a part's lock, for a library that locks the file itself."""
    with suppress(OSError):
        fcntl.flock(_parts[part][1], fcntl.LOCK_UN)


def remove_part(part: Path) -> None:
    """Remove a part, if it still exists."""
    if part in _parts:
        _, handle = _parts.pop(part)
        try:
            part.unlink(missing_ok=True)
        finally:
            os.close(handle)


def remove_parts() -> None:
    """Remove all parts of this process before it exits."""
    for part in [part for part, (process, _) in _parts.items() if process == os.getpid()]:
        with suppress(OSError):
            remove_part(part)


def remove_leftovers(folder: Path) -> None:
    """Remove parts of dead processes from a folder; once per process and folder."""
    if (known := str(folder.absolute())) in _cleaned:
        return
    _cleaned.add(known)
    for part in filter(None, map(PART.fullmatch, os.listdir(folder))):
        with suppress(OSError):  # it is being written, or belongs to another user
            handle = os.open(folder / part[0], os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if part[1] == HOST or time.time() - os.fstat(handle).st_mtime > DAY:
                    (folder / part[0]).unlink()
            finally:
                os.close(handle)


def write_through(path: Path, data: bytes) -> None:
    """Write a file and flush it to the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- reading


def check_regular(path: Path) -> None:
    """Raise a UserError for a pipe, socket or device, reading from which might never end."""
    if path.exists() and not path.is_file():
        what = "it is a folder" if path.is_dir() else "it is a pipe or a device"
        raise UserError(f"cannot read {path}: {what}; choose a regular file")


def cache_folder() -> Path:
    """The user's cache folder; a relative XDG_CACHE_HOME is ignored, as XDG requires."""
    said = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (said if said.is_absolute() else Path.home() / ".cache") / "gswm"
    except RuntimeError as error:
        raise UserError("no home folder found: set XDG_CACHE_HOME") from error
