"""Files on their way to a page: imagined in pieces, and drawn by a process that can be killed."""

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
"""Files of all pages that are drawn at a time; others wait."""
SECONDS = 900
"""How long a file may take before its process is killed."""
COMMAND = (sys.executable, "-m", "gswm.studio.drawing")
POLL = 0.2
"""Seconds between looks at whether the page is still there, while a file waits for its turn."""

DRAWN = threading.BoundedSemaphore(MOST_DRAWN)


class ExportJob:
    """One file, from the order to the message that has it."""

    def __init__(self, order: ExportOrder, send: Callable[[bytes], None]) -> None:
        self.order, self.send = order, send
        self.work: Iterator[bytes] | None = self.written()
        """What the worker has to do for it, in pieces; None when that is done."""
        self.drawing = False
        self.over = False
        """Whether nothing more will come of it."""
        self.lock = threading.Lock()
        self.closed = False
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The file's name on the page."""
        return f"gswm-branch-{self.order.branches[0].number}.{self.order.request.kind}"

    def written(self) -> Iterator[bytes]:
        """Imagine what is in the file, and have it drawn."""
        with ExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix="gswm-studio-")
            path = Path(stack.enter_context(folder))
            for _ in exports.write(self.order, path):
                yield b""
            kept = stack.pop_all()
        self.drawing = True
        threading.Thread(target=self.draw, args=(path, kept), daemon=True).start()

    def draw(self, folder: Path, kept: ExitStack) -> None:
        """Wait for a turn, and send the file or what went wrong; the folder is removed."""
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
        """The message for the page; None if it is gone."""
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
            return error("it takes too long: take fewer futures or frames")
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.communicate()
        if self.process.returncode:
            lines = said.decode("utf-8", "replace").strip().splitlines()
            known = lines and self.process.returncode == 1
            return error(lines[-1][:200] if known else "its process ended: take fewer futures")
        data = (folder / f"export.{self.order.request.kind}").read_bytes()
        return encode({"type": "file", "name": self.name}, data=np.frombuffer(data, np.uint8))

    def close(self) -> None:
        """End it: the page is gone."""
        with self.lock:
            self.closed = True
            if self.process is not None:
                self.process.kill()
        self.work = None  # which removes its folder


def error(why: str) -> bytes:
    """What the page hears instead of a file."""
    return encode({"type": "error", "line": f"this file cannot be made: {why}", "request": 0})
