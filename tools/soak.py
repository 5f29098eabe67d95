"""Use a studio in several tabs for a while, and measure response times and memory.

    python tools/soak.py                   # 10 minutes with 8 tabs
    python tools/soak.py --seconds 120

Each tab opens episodes, edits, drags, asks for masks, uploads videos and exports files, and pauses
between them as a person does. It edits what it sees: the first given frames, while the server still
infers the others. Now and then it cuts its connection while it waits for an answer, or breaks off
an upload; and processes of the server are killed. The soak fails (exit code 1) if

- a request other than an export takes more than 2 seconds: the time until its first answer, and for
  a video that is opened also the times until its first objects and until all given frames;
- memory grows after the warm-up: the server's mean over the last third is more than 10 % above
  that over the first third;
- the server ends, reports an error that the tab did not cause, or leaves a process or a file
  behind after all tabs are closed.

The times hold for a machine that does nothing else: the figures include its load.
"""

import argparse
import io
import json
import os
import signal
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from PIL import Image
from websockets.sync.client import ClientConnection, connect

from gswm.studio.protocol import decode

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Studio

SLOW = 2.0
"""Seconds that a request may take."""
PATIENCE = 120.0
"""Seconds to wait for an answer."""
WARM = 0.25
"""The part of the time that is warm-up."""
GROWTH = 1.1
MODELS = ("two-layer", "interaction", "single-ball")
ANSWERS = {
    "page": ("hello",), "open": ("opened",), "objects": ("seen",), "given": ("branch",),
    "edit": ("branch",), "drag": ("preview",), "show": ("futures", "done"), "masks": ("masks",),
    "export": ("file",),
}  # fmt: skip
"""The message that ends each wait; `show` of a branch without futures is just done."""
MEANING = {
    "page": "until a new page has its list of models",
    "open": "from opening a video until the page shows it",
    "objects": "from opening a video until the page shows the objects of its first frames",
    "given": "from opening a video until all given frames are inferred",
    "edit": "until the edited frame is there",
    "drag": "until the preview is there",
    "show": "until the first imagined frame is there",
    "masks": "until the first masks are there",
    "upload": "from sending a video until it can be opened",
    "export": "until the file is there; no limit",
}
"""The wait that each time measures."""
UNLIMITED = ("export",)
VIDEO = ("open", "objects", "given")
"""The waits that an error about opening a video ends."""
WHICH = {"request": ("edit", "drag"), "branch": ("show", "masks")}
"""The field that tells an answer from one to an earlier request."""
EXPECTED = (
    "there is no object", "every slot holds", "limit of 200 edits", "no longer available",
    "cannot create this file",
)  # fmt: skip
"""Errors after requests for what is not there, and after a kill."""


@dataclass
class Record:
    """Measurements of all tabs."""

    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    slow: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """When slow answers came, in seconds since it began."""
    did: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, kind: str, seconds: float) -> None:
        """Add a response time."""
        with self.lock:
            self.seconds[kind].append(seconds)
            if seconds > SLOW:
                self.slow[kind].append(time.monotonic() - self.began)

    def note(self, what: str) -> None:
        """Count an event."""
        with self.lock:
            self.did[what] += 1

    def complain(self, line: str) -> None:
        """Count a failure."""
        with self.lock:
            self.wrong[line] += 1


class Tab:
    """A user with one page."""

    def __init__(self, address: str, seed: int, record: Record, ends: float) -> None:
        self.address, self.record, self.ends = address, record, ends
        self.dice = np.random.default_rng(seed)
        self.socket: ClientConnection | None = None
        self.model, self.ids, self.request = "", [0], 0
        self.frames: dict[int, int] = {}
        """The frames of each branch that have arrived."""
        self.complete = False
        """Whether all given frames of the open video have arrived."""

    def run(self) -> None:
        """Work until the end."""
        acts = (
            (self.edit, 10), (self.drag, 4), (self.open, 4), (self.show, 2), (self.masks, 2),
            (self.export, 2), (self.upload, 2), (self.break_off, 1), (self.cut, 1),
        )  # fmt: skip
        shares = np.array([share for _, share in acts], float)
        while time.monotonic() < self.ends:
            try:
                if self.socket is None:
                    self.connect()
                    self.open()
                acts[int(self.dice.choice(len(acts), p=shares / shares.sum()))][0]()
                self.pause(float(self.dice.exponential(0.7)))
            except Exception as error:  # any exception is a failure, and the tab goes on
                self.record.complain(f"{type(error).__name__}: {error}"[:100])
                self.socket = None
        if self.socket is not None:
            self.socket.close()

    def url(self, path: str, scheme: str = "http") -> str:
        """An address with the token."""
        parts = urlsplit(self.address)
        return f"{scheme}://{parts.netloc}{path}?{parts.query}"

    def connect(self) -> None:
        """Open the page."""
        begin = time.monotonic()
        with httpx.Client() as client:
            client.get(self.address).raise_for_status()
        self.socket = connect(
            self.url("/session", "ws"), max_size=None, max_queue=None, compression=None
        ).__enter__()
        self.hear("page", {}, begin)

    def say(self, **message: Any) -> None:
        """Send a message."""
        assert self.socket is not None
        self.socket.send(json.dumps(message))

    def ask(self, kind: str, /, **message: Any) -> bool:
        """Send a message, and wait for the first answer or an error; whether there is an answer."""
        begin = time.monotonic()
        if message["type"] == "edit":
            self.request += 1
            message["request"] = self.request
        self.say(**message)
        which = {name: message[name] for name in ("request", "branch") if kind in WHICH[name]}
        return self.hear(kind, which, begin)

    def hear(self, kind: str, which: dict[str, int], begin: float) -> bool:
        """Wait for an answer or an error, and record the time; whether there is an answer."""
        while True:
            head = self.receive(PATIENCE)
            failed = head["type"] == "error" and (head.get("of") == "open") == (kind in VIDEO)
            ours = all(head.get(name) == value for name, value in which.items())
            if failed or (head["type"] in ANSWERS[kind] and ours):
                self.record.answered(kind, time.monotonic() - begin)
                return not failed

    def receive(self, timeout: float) -> dict[str, Any]:
        """The next message; note which frames have arrived."""
        assert self.socket is not None
        data = self.socket.recv(timeout=timeout)
        assert isinstance(data, bytes)
        head, arrays = decode(data)
        if head["type"] == "error" and not any(known in head["line"] for known in EXPECTED):
            self.record.complain(head["line"])
        elif head["type"] == "opened":
            self.frames, self.complete = {}, False
        elif head["type"] == "seen" and not self.complete:
            self.frames[0] = head["at"] + len(arrays["objects"])
            self.ids = present(arrays["objects"][-1]) or self.ids
        elif head["type"] == "branch":
            self.frames[head["branch"]], self.complete = head["frame"] + 1, True
            self.ids = present(arrays["objects"][-1]) or self.ids
        elif head["type"] == "futures":
            self.frames[head["branch"]] = head["at"] + arrays["objects"].shape[1]
        return head

    def pause(self, seconds: float) -> None:
        """Read what arrives for a while."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if self.socket is None:
                return time.sleep(left)
            with suppress(TimeoutError):
                self.receive(left)

    def open(self, world: str | None = None) -> None:
        """Open an episode of a world, or an upload; wait for its first objects, or for all."""
        begin = time.monotonic()
        self.model = str(self.dice.choice(MODELS)) if world is None else self.model
        settings = {"given": int(self.dice.integers(4, 20)), "seed": int(self.dice.integers(99))}
        settings |= {"steps": int(self.dice.integers(10, 40))}
        settings |= {"futures": int(self.dice.choice([1, 4, 8, 16]))}
        asked = {"model": self.model, "world": world or self.model, "settings": settings}
        if self.ask("open", type="open", episode=int(self.dice.integers(20)), **asked):
            self.hear("objects", {"at": 0}, begin)
            if self.dice.random() < 0.5:
                self.hear("given", {"branch": 0}, begin)
        elif not self.complete:  # nothing is open, as the server has given up the last video
            self.open()

    def change(self) -> dict[str, Any]:
        """A random change of an object."""
        kind = str(self.dice.choice(["move", "throw", "resize", "depth", "duplicate"]))
        xy, velocity = self.dice.uniform(-0.8, 0.8, (2, 2))
        change = {"kind": kind, "id": int(self.dice.choice(self.ids)), "xy": xy.tolist()}
        change |= {"velocity": (velocity / 4).tolist(), "hw": [0.2, 0.3], "depth": float(xy[0])}
        return change

    def place(self) -> dict[str, Any]:
        """A random frame of the newest branch, of those that have arrived."""
        branch = self.newest
        return {"branch": branch, "frame": int(self.dice.integers(1, self.frames[branch]))}

    @property
    def newest(self) -> int:
        """The newest branch; waits for the first one."""
        while not self.frames:
            self.receive(PATIENCE)
        return max(self.frames)

    def edit(self) -> None:
        """Edit an object."""
        self.ask("edit", type="edit", **self.place(), change=self.change())

    def drag(self) -> None:
        """Drag an object for a while."""
        place, change = self.place(), self.change() | {"kind": "move"}
        for _ in range(10):
            change["xy"] = [float(x) for x in self.dice.uniform(-0.8, 0.8, 2)]
            self.ask("drag", type="edit", live=True, **place, change=change)
            self.pause(0.03)

    def show(self) -> None:
        """Show another branch."""
        self.ask("show", type="show", branch=int(self.dice.integers(len(self.frames) or 1)))

    def masks(self) -> None:
        """Ask for the masks of a branch."""
        self.ask("masks", type="masks", branch=self.newest)

    def export(self) -> None:
        """Export a file."""
        kind = str(self.dice.choice(["gif", "mp4", "png", "csv"]))
        self.ask("export", type="export", kind=kind, branch=self.newest)

    def film(self) -> bytes:
        """A video to upload."""
        colors = [tuple(map(int, self.dice.integers(0, 255, 3))) for _ in range(20)]
        frames = [Image.new("RGB", (96, 64), color) for color in colors]
        file = io.BytesIO()
        frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
        return file.getvalue()

    def upload(self) -> None:
        """Upload a video and open it."""
        begin = time.monotonic()
        with httpx.Client(timeout=PATIENCE) as client:
            query = f"{self.url('/upload')}&model={self.model}"
            answer = client.post(query, content=self.film())
        self.record.answered("upload", time.monotonic() - begin)
        if answer.status_code == 200:
            self.open(answer.json()["name"])
        elif "needs too much memory" not in answer.text:  # its process was killed
            self.record.complain(answer.text[:100])

    def break_off(self) -> None:
        """Begin an upload, and cut the connection."""
        parts = urlsplit(self.url("/upload"))
        with socket.create_connection((parts.hostname, parts.port)) as raw:
            head = f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            raw.sendall(f"{head}Content-Length: 5000\r\n\r\n".encode() + self.film()[:500])
            time.sleep(float(self.dice.uniform(0, 1)))
            reset(raw)
        self.record.note("uploads broken off")

    def cut(self) -> None:
        """Ask for something that takes long, and cut the connection."""
        assert self.socket is not None
        self.say(type="export", kind="gif", branch=0)
        self.say(type="edit", **self.place(), change=self.change())
        time.sleep(float(self.dice.uniform(0, 2)))
        reset(self.socket.socket)
        self.socket.close()
        self.socket = None
        self.record.note("connections cut")


def present(objects: np.ndarray) -> list[int]:
    """The ids of the objects that are present in a frame."""
    return [int(row[6]) for row in objects if row[5] > 0.5]


def reset(raw: socket.socket) -> None:
    """Have a connection end with a reset when its owner closes it, which is woken to do so."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.shutdown(socket.SHUT_RD)


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


def resident(pid: int) -> float:
    """The resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def watch(pid: int, ends: float, record: Record, dice: np.random.Generator) -> list[float]:
    """Measure the server's memory once a second, and now and then kill one of its children."""
    memory = []
    while time.monotonic() < ends:
        memory.append(resident(pid))
        if dice.random() < 0.1 and (found := children(pid)):
            try:
                os.kill(int(dice.choice(found)), signal.SIGKILL)
                record.note("processes killed")
            except ProcessLookupError:
                pass
        time.sleep(1)
    return memory


def settled(pid: int, folder: Path) -> str:
    """Processes and files that are left half a minute after all tabs were closed."""
    left = ""
    for _ in range(60):
        processes, files = children(pid), [path.name for path in folder.iterdir()]
        left = f"{len(processes)} processes, {len(files)} files" if processes or files else ""
        if not left:
            break
        time.sleep(0.5)
    return left


@dataclass(frozen=True)
class Figures:
    """The results of a soak."""

    seconds: float
    tabs: int
    load: float
    """The machine's load average over five minutes, at the end."""
    answers: dict[str, dict[str, float]]
    slow: dict[str, list[float]]
    """When answers came that took too long, in seconds since the start."""
    did: dict[str, int]
    wrong: dict[str, int]
    memory_mb: dict[str, float]
    course_mb: list[float]
    """The mean memory of each tenth of the time."""
    left: str

    def failures(self) -> list[str]:
        """One line for each requirement that does not hold."""
        slow = [
            f"{kind}: {len(when)} of {self.answers[kind]['count']:.0f} answers after more than "
            f"{SLOW:g} s (at {', '.join(f'{at:.0f}' for at in when)} s)"
            for kind, when in self.slow.items()
            if kind not in UNLIMITED
        ]
        first, last = self.memory_mb["first third"], self.memory_mb["last third"]
        grown = [f"memory grew from {first:.0f} to {last:.0f} MB"] if last > GROWTH * first else []
        left = [f"left behind: {self.left}"] if self.left else []
        return [*slow, *grown, *left, *(f"{n} times: {line}" for line, n in self.wrong.items())]

    def table(self) -> str:
        """The figures as text."""
        lines = [f"{self.tabs} tabs for {self.seconds:g} s; load of the machine {self.load:.1f}"]
        lines.append(f"{'answer':<10}{'count':>7}{'median':>9}{'99 %':>9}{'worst':>9}  seconds")
        for kind, meaning in MEANING.items():
            if (each := self.answers.get(kind)) is None:
                continue
            times = "".join(f"{each[name]:>9.2f}" for name in ("median", "99 %", "worst"))
            lines.append(f"{kind:<10}{each['count']:>7.0f}{times}  {meaning}")
        lines.append(", ".join(f"{n} {what}" for what, n in self.did.items()))
        memory = ", ".join(f"{name} {value:.0f}" for name, value in self.memory_mb.items())
        lines.append(f"memory in MB: {memory}")
        course = " ".join(f"{value:.0f}" for value in self.course_mb)
        return "\n".join([*lines, f"mean of each tenth of the time: {course}"])


def figures(record: Record, memory: list[float], seconds: float, tabs: int, left: str) -> Figures:
    """Summarize a record."""
    answers = {}
    for kind, times in sorted(record.seconds.items()):
        near = float(np.quantile(times, 0.99))
        about = {"count": len(times), "median": statistics.median(times), "99 %": near}
        answers[kind] = about | {"worst": max(times)}
    warm = memory[int(WARM * len(memory)) :]
    third = max(1, len(warm) // 3)
    held = {"warm-up": max(memory[: len(memory) - len(warm)], default=0.0)}
    held |= {"first third": statistics.mean(warm[:third])}
    held |= {"last third": statistics.mean(warm[-third:]), "most": max(memory)}
    course = [float(part.mean()) for part in np.array_split(memory, 10) if len(part)]
    did, wrong, load = dict(record.did), dict(record.wrong), os.getloadavg()[1]
    slow = dict(record.slow)
    return Figures(seconds, tabs, load, answers, slow, did, wrong, held, course, left)


def soak(seconds: float, tabs: int, seed: int) -> Figures:
    """Start a studio, use it, and measure it."""
    record = Record()
    with tempfile.TemporaryDirectory(prefix="gswm-soak-") as folder:
        os.environ["TMPDIR"] = folder  # for the server; this process has looked it up already
        studio = Studio()
        pid, ends = studio.process.pid, time.monotonic() + seconds
        try:
            people = [Tab(studio.address, seed + i, record, ends) for i in range(tabs)]
            threads = [threading.Thread(target=each.run, daemon=True) for each in people]
            for thread in threads:
                thread.start()
            memory = watch(pid, ends, record, np.random.default_rng(seed + tabs))
            for thread in threads:
                thread.join(PATIENCE)
            left = settled(pid, Path(folder))
            if studio.process.poll() is not None:
                record.complain("the server has ended")
            return figures(record, memory, seconds, tabs, left)
        finally:
            studio.kill()


def main() -> int:
    """Print the figures; the exit code is 1 if a requirement does not hold."""
    parser = argparse.ArgumentParser(description="Use a studio in several tabs for a while.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--tabs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    args = parser.parse_args()
    found = soak(args.seconds, args.tabs, args.seed)
    print(found.table())
    if args.json:
        args.json.write_text(json.dumps(asdict(found), indent=1) + "\n")
    for line in found.failures():
        print(f"FAILED {line}")
    return 1 if found.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
