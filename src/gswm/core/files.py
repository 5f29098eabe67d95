"""Files: written whole or not at all, replaced only if asked for, read only if they are files.

A file is written under a temporary name beside its own (a part), and gets its own name when it is
whole and on the disk. Each part has a name of its own, so that two processes can write the same
file, and is locked while it is written: a part without a lock belongs to a process that has died,
and the next one that writes into the folder removes it. Locks of other machines may be invisible
here, so their parts are removed a day later.
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

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
HOST = hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()
PART = re.compile(r"\..*\.([0-9a-f]{8})-[0-9a-f]{8}\.gswm-part", re.DOTALL)
"""Names of parts; the first number is the machine's."""
DAY = 24 * 60 * 60
KEPT = 120
"""Bytes of a file's name that the name of its part has: names are at most 255 bytes long."""
MARKER = ".gswm"
"""A file in every folder of results that gswm has written: the folder may be written again."""

_parts: dict[Path, tuple[int, int]] = {}
"""Of each part that is being written: the process, and the handle that holds the lock."""
_cleaned: set[str] = set()
"""Folders in which this process has looked for parts of dead ones."""


class DiskFullError(UserError):
    """There is no room; what was there before is untouched."""

    code = 4


@contextmanager
def room(what: str | Path) -> Iterator[None]:
    """Say in one line that `what` cannot be written, and why."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in FULL:
            raise DiskFullError(
                f"no room to write {what}, {reason}: make room and start again; "
                "what was whole before is kept"
            ) from error
        raise UserError(f"cannot write {what}: {reason}") from error


# -- what may be written


def check_place(path: Path, *, folder: bool = False) -> None:
    """Refuse at once a file, or a `folder`, that could not be written later; nothing is left."""
    wanted = path / "any" if folder else path
    with room(path):
        if path.is_dir() and not folder:
            raise UserError(f"cannot write {path}: it is a folder; name a file")
        if folder and path.exists() and not path.is_dir():
            raise UserError(f"cannot write to '{path}': it is a file; name a folder")
        missing, there = wanted.name, wanted.parent
        while not there.exists():
            missing, there = there.name, there.parent
        with suppress(FileNotFoundError):
            os.lstat(there / missing)  # a name may be too long
        remove_part(new_part(there / missing))


def check_suffix(path: Path, allowed: tuple[str, ...]) -> None:
    """Refuse a name whose ending is of no format that can be written."""
    if path.suffix.lower() not in allowed:
        raise UserError(f"cannot write '{path}': the name must end in {' or '.join(allowed)}")


def check_output(
    path: Path, allowed: tuple[str, ...], sources: Iterable[Path] = (), *, force: bool = False
) -> None:
    """Refuse at once a file in a bad place, of the wrong kind, to be read, or that exists.

    With `force`, an existing file will be replaced.
    """
    check_place(path)
    check_suffix(path, allowed)
    if not path.exists():
        return
    if any(file.exists() and path.samefile(file) for file in sources):
        raise UserError(f"cannot write '{path}': it is what is to be read; name another file")
    check_new(path, force=force)


def check_new(path: Path, *, force: bool) -> None:
    """Refuse to replace a file without `force`, and anything that is no file."""
    if path.exists() and not path.is_file():
        raise UserError(f"cannot write '{path}': it is no regular file; name another")
    if path.exists() and not force:
        raise UserError(f"{path} exists; give --force to replace it, or another name")


def check_folder(
    path: Path, names: Iterable[str], *, force: bool = False, option: str = "--out"
) -> None:
    """Refuse at once a folder that cannot be written, or in which files would be replaced.

    `names` are those of the files, and may have wildcards. A folder that gswm has written may be
    written again. The message names the `option` that the folder was given by.
    """
    check_place(path, folder=True)
    if force or is_ours(path):
        return
    for file in (file for name in names for file in sorted(path.glob(name))):
        raise UserError(f"{file} exists; give --force to replace it, or another {option}")


def is_ours(folder: Path) -> bool:
    """Whether a folder is new, empty, or one that gswm has written."""
    if not folder.is_dir() or (folder / MARKER).is_file():
        return True
    return all(PART.fullmatch(name) for name in os.listdir(folder))


def make_folder(path: Path, by: str | None = None) -> None:
    """Make a folder; mark it as written `by` a command, unless it holds files of others."""
    check_place(path, folder=True)
    with room(path):
        path.mkdir(parents=True, exist_ok=True)
        if by is not None and is_ours(path):
            write_whole(path / MARKER, f"Written by `gswm {by}`, which may replace it.\n".encode())


# -- writing


def write_whole(path: Path, data: bytes) -> None:
    """A file with `data` in it, or what was there before."""
    with replacing(path) as part:
        part.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside `path`, to write: it takes its place at the end, or is removed."""
    part = begin(path)
    try:
        with room(path):
            yield part
        commit(part, path)
    finally:
        remove_part(part)


def begin(path: Path) -> Path:
    """A part of `path`, with the folders to it; what dead processes left there is removed."""
    with room(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        return new_part(path)


def commit(part: Path, path: Path) -> None:
    """Put a part in the place of `path`, when the disk has all of it."""
    with room(path):
        flush(part)
        os.replace(part, path)
        with suppress(OSError):  # not every file system can do that for a folder
            flush(path.parent)


def new_part(path: Path) -> Path:
    """A new file beside `path`, locked by this process."""
    name = os.fsdecode(os.fsencode(path.name)[:KEPT])
    while True:
        part = path.with_name(f".{name}.{HOST}-{secrets.token_hex(4)}.gswm-part")
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        _parts[part] = os.getpid(), handle
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:  # else another process took it for a leftover just now
            return part
        remove_part(part)


def unlock(part: Path) -> None:
    """Let go of a part's lock, for a library that locks the file itself."""
    with suppress(OSError):
        fcntl.flock(_parts[part][1], fcntl.LOCK_UN)


def remove_part(part: Path) -> None:
    """Remove a part, if it is still one."""
    if part in _parts:
        _, handle = _parts.pop(part)
        try:
            part.unlink(missing_ok=True)
        finally:
            os.close(handle)


def remove_parts() -> None:
    """Remove every part of this process: it is about to end."""
    for part in [part for part, (process, _) in _parts.items() if process == os.getpid()]:
        with suppress(OSError):
            remove_part(part)


def remove_leftovers(folder: Path) -> None:
    """Remove the parts that dead processes left in a folder; once per process and folder."""
    if (known := str(folder.absolute())) in _cleaned:
        return
    _cleaned.add(known)
    for part in filter(None, map(PART.fullmatch, os.listdir(folder))):
        with suppress(OSError):  # it is being written, or belongs to somebody else
            handle = os.open(folder / part[0], os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if part[1] == HOST or time.time() - os.fstat(handle).st_mtime > DAY:
                    (folder / part[0]).unlink()
            finally:
                os.close(handle)


def write_through(path: Path, data: bytes) -> None:
    """A file with `data` in it, on the disk when this returns."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def flush(path: Path) -> None:
    """Have the disk take what is in a file, or which files are in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- reading


def check_regular(path: Path) -> None:
    """Refuse a pipe, a socket or a device, which might never end; a missing file passes."""
    if path.exists() and not path.is_file():
        what = "it is a folder" if path.is_dir() else "it is no regular file but a pipe or device"
        raise UserError(f"cannot read {path}: {what}; name a file")


def cache_folder() -> Path:
    """The user's cache; a relative XDG_CACHE_HOME is ignored, as XDG demands."""
    said = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (said if said.is_absolute() else Path.home() / ".cache") / "gswm"
    except RuntimeError as error:
        raise UserError("there is no home folder: set XDG_CACHE_HOME") from error
