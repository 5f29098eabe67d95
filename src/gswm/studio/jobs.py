"""Exports in progress: imagined in pieces, and drawn by a subprocess."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from gswm.studio import exports
from gswm.studio.exports import ExportOrder
from gswm.studio.protocol import encode

MOST_DRAWN = 2
"""Number of files to draw in parallel for all pages; others wait."""
SECONDS = 900
"""Time limit for drawing, after which the process is killed."""
COMMAND = (sys.executable, "-m", "gswm.studio.drawing")
POLL = 0.2
"""Seconds between checks of whether the page is still open."""
ENDING = 5
"""Seconds to wait for a process that was killed."""

DRAWN = threading.BoundedSemaphore(MOST_DRAWN)


class ExportJob:
    """One export, from the request to the message with the file."""

    def __init__(self, order: ExportOrder, send: Callable[[bytes], None]) -> None:
        self.order, self.send = order, send
        self.work: Iterator[bytes] | None = self.written()
        """The part of the work for the worker, in pieces; None when done."""
        self.drawing = False
        self.over = False
        """Whether the file was sent, or has failed."""
        self.lock = threading.Lock()
        self.closed = False
        self.process: subprocess.Popen[bytes] | None = None
        self.thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The file's name on the page."""
        return f"gswm-branch-{self.order.branches[0].number}.{self.order.request.kind}"

    def written(self) -> Iterator[bytes]:
        """Imagine the futures in the file, and start to draw it."""
        with ExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix="gswm-studio-")
            path = Path(stack.enter_context(folder))
            for _ in exports.write(self.order, path):
                yield b""
            kept = stack.pop_all()
        self.drawing = True
        self.thread = threading.Thread(target=self.draw, args=(path, kept), daemon=True)
        self.thread.start()

    def draw(self, folder: Path, kept: ExitStack) -> None:
        """Wait for a turn, send the file or an error, and remove the folder."""
        message: bytes | None = None
        with kept:
            while not DRAWN.acquire(timeout=POLL):
                if self.closed:
                    break
            else:
                try:
                    message = self.drawn(folder)
                except OSError as failure:
                    message = error((failure.strerror or type(failure).__name__).lower())
                finally:
                    DRAWN.release()
        self.over = True
        if message is not None and not self.closed:
            self.send(message)

    def drawn(self, folder: Path) -> bytes | None:
        """Draw the file; the message for the page, or None if the page is closed."""
        with self.lock:
            if self.closed:
                return None
            self.process = subprocess.Popen(
                [*COMMAND, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        try:
            _, said = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return error("it takes too long: use fewer futures or frames")
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.communicate()
        if self.process.returncode:
            lines = said.decode("utf-8", "replace").strip().splitlines()
            known = lines and self.process.returncode == 1
            return error(lines[-1][:200] if known else "its process crashed: use fewer futures")
        data = (folder / f"export.{self.order.request.kind}").read_bytes()
        return encode({"type": "file", "name": self.name}, data=np.frombuffer(data, np.uint8))

    def close(self) -> None:
        """Cancel the export. On return, the process has ended and the folder is deleted."""
        with self.lock:
            self.closed = True
            if self.process is not None:
                self.process.kill()
        self.work = None  # the generator removes its folder
        if self.thread is not None:
            self.thread.join(ENDING)


def error(why: str) -> bytes:
    """The message for the page in place of a file."""
    return encode({"type": "error", "line": f"cannot create this file: {why}", "request": 0})
