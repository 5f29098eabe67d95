"""Files that are written whole or not at all, and what is said when there is no room for them."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gswm.core.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
        trial = there / f".{missing}.tmp"
        try:
            os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:  # of who is writing it now
            return
        trial.unlink()


def check_suffix(path: Path, allowed: tuple[str, ...]) -> None:
    """Refuse a name whose ending is of no format that can be written."""
    if path.suffix.lower() not in allowed:
        raise UserError(f"cannot write '{path}': the name must end in {' or '.join(allowed)}")


def check_output(path: Path, allowed: tuple[str, ...], sources: Iterable[Path] = ()) -> None:
    """Refuse at once a file in a bad place, of the wrong kind, or that is itself to be read."""
    check_place(path)
    check_suffix(path, allowed)
    if path.exists() and any(file.exists() and path.samefile(file) for file in sources):
        raise UserError(f"cannot write '{path}': it is what is to be read; name another file")


def write_whole(path: Path, data: bytes) -> None:
    """A file with `data` in it, or what was there before."""
    temporary = path.with_name(f".{path.name}.tmp")
    with room(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_through(temporary, data)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


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
