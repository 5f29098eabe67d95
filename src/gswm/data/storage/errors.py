"""Errors of HDF5 in words: each becomes a UserError that names the file."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gswm.core.errors import UserError


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a UserError."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist") from error
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path}: cannot be read: {reason(error)}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of writing a file into a UserError."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path}: cannot be written: {reason(error)}") from error


def reason(error: Exception) -> str:
    """The reason in a few words; HDF5 puts the system's error number into its message."""
    said = re.search(r"errno = (\d+)", str(error))
    code = int(said[1]) if said else getattr(error, "errno", None)
    if code in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; free some space, or write elsewhere"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "permission denied; check the permissions of the file and its folder"
    if code == errno.EFBIG:
        return "the file is larger than the system allows"
    if code:
        return os.strerror(code).lower()
    if "signature not found" in str(error):
        return "it is not an HDF5 file"
    if "truncated file" in str(error):
        return "the file is truncated; copy or create it again"
    return " ".join(str(error).split())
