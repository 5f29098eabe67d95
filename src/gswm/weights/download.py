"""Downloads that are verified before use, and resumed after interruptions.

A download is written to a hidden, locked file beside its destination; a second process that needs
the same file waits. If the connection breaks, the hidden file is kept, and the next download of the
same content requests the rest (HTTP Range). If the server sends the whole file instead, or if the
checksum does not match, the download starts over.
"""

import errno
import fcntl
import hashlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Timer
from typing import Any, BinaryIO
from urllib import request
from urllib.error import HTTPError

from gswm.core.errors import UserError
from gswm.core.files import commit, room
from gswm.core.waiting import progress_bar, tell
from gswm.core.words import in_bytes

CHUNK = 1 << 16
AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""HTTP status codes after which the same request may succeed."""
RESUMED = 206
UNSATISFIABLE = 416


@dataclass(frozen=True)
class Limits:
    """Limits of a download."""

    seconds: float = 900.0
    """Total time limit in seconds, including the wait for another process."""
    silence: float = 30.0
    """Seconds without data after which an attempt fails."""
    size: int = 500_000_000
    """Maximum size in bytes."""
    attempts: int = 4
    pause: float = 1.0
    """Seconds to wait after the first failed attempt; after attempt n, n times as long."""


class BrokenError(Exception):
    """A failed attempt that may succeed if repeated."""


def download(url: str, path: Path, sha256: str, limits: Limits | None = None) -> None:
    """Download `url` to `path` and verify its checksum."""
    limits = limits or Limits()
    until = time.monotonic() + limits.seconds
    with room(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{sha256[:16]}.gswm-download")
    with locked(part, until) as file:
        if path.is_file() and checksum(path) == sha256:  # another process was faster
            part.unlink()
            return
        try:
            pieced = fetch(url, file, limits, until)
            if pieced and checksum(part) != sha256:
                file.truncate(0)
                fetch(url, file, limits, until)
            if checksum(part) != sha256:
                file.truncate(0)
                raise UserError(
                    f"{url} is not the file that this version of gswm expects: its SHA-256 is wrong"
                )
            commit(part, path)
        finally:
            if part.exists() and not size_of(file):
                part.unlink()


@contextmanager
def locked(part: Path, until: float) -> Iterator[BinaryIO]:
    """Open a file to append to, once no other process has it open."""
    told = False
    while True:
        with room(part), part.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise UserError(
                        f"cannot download to {part.parent}: its file system does not support "
                        "locks; set XDG_CACHE_HOME to a folder on another file system"
                    ) from error
                if time.monotonic() > until:
                    raise UserError(
                        f"another process is still downloading {part.name}: try again later"
                    ) from error
                if not told:
                    tell("waiting for another process that is downloading the same file")
                told = True
                time.sleep(0.1)
                continue
            if is_at(file, part):  # otherwise the other process has renamed it
                yield file
                return


def is_at(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


def size_of(file: BinaryIO) -> int:
    """The size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(url: str, file: BinaryIO, limits: Limits, until: float) -> bool:
    """Append the rest of `url` to a file, in several attempts if necessary.

    Returns:
        Whether the file was assembled from several responses, which may differ in content.
    """
    for attempt in range(1, limits.attempts + 1):
        had = size_of(file)
        try:
            fetch_once(url, file, limits, until)
            return had > 0
        except BrokenError as error:
            had = size_of(file)
            if until - time.monotonic() <= limits.pause * attempt:
                raise UserError(
                    f"downloading {url} took more than {limits.seconds:.0f} s; {kept(had)}"
                ) from error
            if attempt == limits.attempts:
                raise UserError(f"cannot download {url}: {error}; {kept(had)}") from error
            tell(f"{error}: trying again")
            time.sleep(limits.pause * attempt)
    raise AssertionError("the last attempt returns or raises")


def kept(size: int) -> str:
    """The end of an error message: how much of the download is kept."""
    return (
        f"{in_bytes(size)} are kept; run the same command again to continue"
        if size
        else "try again later"
    )


def fetch_once(url: str, file: BinaryIO, limits: Limits, until: float) -> None:
    """Append the rest of `url` to a file."""
    had = size_of(file)
    asked = request.Request(url, headers={"User-Agent": "gswm"})
    if had:
        asked.add_header("Range", f"bytes={had}-")
    left = max(0.001, until - time.monotonic())
    sockets: list[socket.socket] = []
    timer = Timer(left, hang_up, [sockets])
    timer.daemon = True
    timer.start()
    try:
        with opener(sockets).open(asked, timeout=min(limits.silence, left)) as answer:
            take(answer, url, file, limits)
        if time.monotonic() >= until:
            raise BrokenError("the time limit is reached")
    except HTTPError as error:
        error.close()
        if error.code == UNSATISFIABLE and had:
            file.truncate(0)
            raise BrokenError("the server's file is smaller than the partial download") from error
        if error.code in AGAIN:
            raise BrokenError(f"the server answers {error.code} {error.reason}") from error
        raise UserError(f"cannot download {url}: {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise BrokenError(f"the connection failed ({reason or type(error).__name__})") from error
    finally:
        timer.cancel()


def take(answer: HTTPResponse, url: str, file: BinaryIO, limits: Limits) -> None:
    """Write the server's response."""
    had = size_of(file)
    length = answer.headers.get("Content-Length", "")
    rest = int(length) if re.fullmatch(r"\d{1,18}", length) else None
    if answer.status != RESUMED:
        file.truncate(0)
        had = 0
    elif not re.match(rf"bytes {had}-", answer.headers.get("Content-Range", "")):
        file.truncate(0)
        raise BrokenError("the server sent a different range than requested")
    too_much = UserError(f"cannot download {url}: it is larger than {in_bytes(limits.size)}")
    if had + (rest or 0) > limits.size:
        raise too_much
    what = f"the rest of {url}, starting at {in_bytes(had)}" if had else url
    tell(f"downloading {what}" + (f": {in_bytes(rest)}" if rest else ""))
    got, total = 0, None if rest is None else rest // 1000
    with progress_bar("downloading", "kB", total) as advance:
        while data := answer.read1(CHUNK):
            got += len(data)
            if had + got > limits.size:
                file.truncate(0)
                raise too_much
            with room(file.name):
                file.write(data)
                file.flush()
            advance(got // 1000)
    if rest is not None and got < rest:
        raise BrokenError(f"the connection was lost {in_bytes(rest - got)} before the end")


# -- connections


def opener(sockets: list[socket.socket]) -> request.OpenerDirector:
    """Open only http and https URLs, even after redirects, and record all sockets."""
    director = request.OpenerDirector()
    handlers = (
        *(request.ProxyHandler(), request.UnknownHandler(), NotingHTTP(sockets)),
        *(NotingHTTPS(sockets), request.HTTPRedirectHandler()),
        *(request.HTTPDefaultErrorHandler(), request.HTTPErrorProcessor()),
    )
    for handler in handlers:
        director.add_handler(handler)
    return director


class NotingHTTP(request.HTTPHandler):
    """Opens http URLs and records sockets."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self.sockets = sockets

    def http_open(self, req: request.Request) -> HTTPResponse:
        """See `AbstractHTTPHandler`."""
        return self.do_open(noting(HTTPConnection, self.sockets), req)


class NotingHTTPS(request.HTTPSHandler):
    """Opens https URLs and records sockets."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self.sockets = sockets

    def https_open(self, req: request.Request) -> HTTPResponse:
        """See `AbstractHTTPHandler`."""
        return self.do_open(noting(HTTPSConnection, self.sockets), req)


def noting(kind: type[HTTPConnection], sockets: list[socket.socket]) -> Callable[..., Any]:
    """Make connections that record their sockets, so that another thread can close them."""

    def make(*args: Any, **settings: Any) -> HTTPConnection:
        connection = kind(*args, **settings)
        connect = connection.connect

        def noted() -> None:
            connect()
            sockets.append(connection.sock)

        connection.connect = noted
        return connection

    return make


def hang_up(sockets: list[socket.socket]) -> None:
    """Close all connections, which ends all reads from them."""
    for each in sockets:
        with suppress(OSError, ValueError):
            each.shutdown(socket.SHUT_RDWR)
