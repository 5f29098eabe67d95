"""Work with a studio in several tabs for a while, and see what it takes: time and memory.

    python tools/soak.py                   # 10 minutes of 8 tabs
    python tools/soak.py --seconds 120

Each tab opens, edits, drags, shows masks, uploads videos and exports files, with pauses as a person
makes them. Now and then its connection is cut in the middle of something, an upload is broken off,
or a process of the server is killed. It fails (exit code 1) if

- a request other than an export is answered after more than 2 seconds;
- the memory of the server grows after the warm-up: over the last third of the time it is more than
  10 % above what it was over the first;
- the server ends, answers with an error that is not one of a page's own, or leaves a process or a
  file behind when all tabs are closed.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from PIL import Image
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from gswm.studio.protocol import decode

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Studio

SLOW = 2.0
"""Seconds after which an answer comes too late."""
PATIENCE = 120.0
"""Seconds after which no answer comes any more."""
WARM = 0.25
"""Share of the time after which memory must stay as it is."""
GROWTH = 1.1
MODELS = ("two-layer", "interaction", "single-ball")
ANSWERS = {
    "open": "opened", "edit": "branch", "drag": "preview", "show": "futures", "masks": "masks",
    "export": "file",
}  # fmt: skip
WHICH = {"request": ("edit", "drag"), "branch": ("show", "masks")}
"""What tells an answer from that to an earlier question."""
OWN_ERRORS = ("there is no object", "there are 200 edits", "no longer here", "cannot be made")
"""What a page hears that asks for what is not there, or whose process was killed."""


@dataclass
class Record:
    """What all tabs saw."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    did: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, kind: str, seconds: float) -> None:
        """Note how long an answer took."""
        with self.lock:
            self.seconds[kind].append(seconds)

    def note(self, what: str) -> None:
        """Note what was done."""
        with self.lock:
            self.did[what] += 1

    def complain(self, line: str) -> None:
        """Note what went wrong."""
        with self.lock:
            self.wrong[line] += 1


class Tab:
    """A person at a page."""

    def __init__(self, address: str, seed: int, record: Record, ends: float) -> None:
        self.address, self.record, self.ends = address, record, ends
        self.dice = np.random.default_rng(seed)
        self.socket: ClientConnection | None = None
        self.model, self.length, self.branches, self.ids = "", 0, 1, [0]
        self.request = 0

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
            except (ConnectionClosed, OSError, TimeoutError, httpx.HTTPError) as error:
                self.record.complain(f"{type(error).__name__}: {error}"[:100])
                self.socket = None
            time.sleep(float(self.dice.exponential(0.7)))
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
            self.url("/session", "ws"), max_size=None, compression=None, close_timeout=1
        ).__enter__()
        self.hear("hello", begin, "page")

    def say(self, **message: Any) -> None:
        """Send it as the page does."""
        assert self.socket is not None
        self.socket.send(json.dumps(message))

    def ask(self, kind: str, **message: Any) -> dict[str, Any] | None:
        """Send it, and wait for the first answer; None for an error."""
        begin = time.monotonic()
        if message["type"] == "edit":
            self.request += 1
            message["request"] = self.request
        self.say(**message)
        which = {name: message[name] for name in ("request", "branch") if kind in WHICH[name]}
        return self.hear(ANSWERS[kind], begin, kind, which)

    def hear(
        self, wanted: str, begin: float, kind: str, which: dict[str, int] | None = None
    ) -> dict[str, Any] | None:
        """Wait for an answer, and note how long it took; None for an error."""
        assert self.socket is not None
        while True:
            head, arrays = decode(self.socket.recv(timeout=PATIENCE))  # type: ignore[arg-type]
            if head["type"] == "branch":
                self.branches = max(self.branches, head["branch"] + 1)
                there = arrays["objects"][-1]
                self.ids = [int(row[6]) for row in there if row[5] > 0.5] or self.ids
            ours = all(head.get(name) == value for name, value in (which or {}).items())
            if head["type"] == "error":
                if not any(known in head["line"] for known in OWN_ERRORS):
                    self.record.complain(head["line"])
                self.record.answered(kind, time.monotonic() - begin)
                return None
            if head["type"] == wanted and ours:
                self.record.answered(kind, time.monotonic() - begin)
                return head

    def open(self, world: str | None = None) -> None:
        """Open a world, or an upload."""
        self.model = str(self.dice.choice(MODELS)) if world is None else self.model
        settings = {"given": int(self.dice.integers(4, 20)), "seed": int(self.dice.integers(99))}
        settings |= {"steps": int(self.dice.integers(10, 40))}
        settings |= {"futures": int(self.dice.choice([1, 4, 8, 16]))}
        asked = {"model": self.model, "world": world or self.model, "settings": settings}
        head = self.ask("open", type="open", episode=int(self.dice.integers(20)), **asked)
        if head is not None:
            self.length = head["settings"]["given"] + settings["steps"]
            self.branches = 1

    def change(self) -> dict[str, Any]:
        """What is done to an object."""
        kind = str(self.dice.choice(["move", "throw", "resize", "depth", "duplicate"]))
        xy, velocity = self.dice.uniform(-0.8, 0.8, (2, 2))
        change = {"kind": kind, "id": int(self.dice.choice(self.ids)), "xy": xy.tolist()}
        change |= {"velocity": (velocity / 4).tolist(), "hw": [0.2, 0.3], "depth": float(xy[0])}
        return change

    def place(self) -> dict[str, Any]:
        """Where it is done."""
        return {"branch": self.branches - 1, "frame": int(self.dice.integers(1, self.length))}

    def edit(self) -> None:
        """Let go of an object."""
        self.ask("edit", type="edit", **self.place(), change=self.change())

    def drag(self) -> None:
        """Drag an object for a while."""
        place, change = self.place(), self.change() | {"kind": "move"}
        for _ in range(10):
            change["xy"] = [float(x) for x in self.dice.uniform(-0.8, 0.8, 2)]
            self.ask("drag", type="edit", live=True, **place, change=change)
            time.sleep(0.03)

    def show(self) -> None:
        """Go back to another branch."""
        self.ask("show", type="show", branch=int(self.dice.integers(self.branches)))

    def masks(self) -> None:
        """Ask whose each pixel is."""
        self.ask("masks", type="masks", branch=self.branches - 1)

    def export(self) -> None:
        """Take a file away."""
        kind = str(self.dice.choice(["gif", "mp4", "png", "csv"]))
        self.ask("export", type="export", kind=kind, branch=self.branches - 1)

    def film(self) -> bytes:
        """A video of a person's own."""
        colors = [tuple(map(int, self.dice.integers(0, 255, 3))) for _ in range(20)]
        frames = [Image.new("RGB", (96, 64), color) for color in colors]
        file = io.BytesIO()
        frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
        return file.getvalue()

    def upload(self) -> None:
        """Open a video of one's own."""
        begin = time.monotonic()
        with httpx.Client(timeout=PATIENCE) as client:
            query = f"{self.url('/upload')}&model={self.model}"
            answer = client.post(query, content=self.film())
        self.record.answered("upload", time.monotonic() - begin)
        if answer.status_code == 200:
            self.open(answer.json()["name"])
        elif "asks for too much" not in answer.text:  # its process was killed
            self.record.complain(answer.text[:100])

    def break_off(self) -> None:
        """Begin an upload, and go."""
        parts = urlsplit(self.url("/upload"))
        with socket.create_connection((parts.hostname, parts.port)) as raw:
            head = f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            raw.sendall(f"{head}Content-Length: 5000\r\n\r\n".encode() + self.film()[:500])
            time.sleep(float(self.dice.uniform(0, 1)))
            reset(raw)
        self.record.note("uploads broken off")

    def cut(self) -> None:
        """Ask for something long, and lose the connection."""
        assert self.socket is not None
        self.say(type="export", kind="gif", branch=0)
        self.say(type="edit", **self.place(), change=self.change())
        time.sleep(float(self.dice.uniform(0, 2)))
        reset(self.socket.socket)
        self.socket.close()
        self.socket = None
        self.record.note("connections cut")


def reset(raw: socket.socket) -> None:
    """End a connection without a word."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


def resident(pid: int) -> float:
    """Memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def watch(pid: int, ends: float, record: Record, dice: np.random.Generator) -> list[float]:
    """The memory of the server, once a second; now and then one of its processes is killed."""
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
    """What is left behind half a minute after all tabs were closed."""
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
    """What came out of it."""

    seconds: float
    tabs: int
    load: float
    """Of the machine at the end, over five minutes."""
    answers: dict[str, dict[str, float]]
    did: dict[str, int]
    wrong: dict[str, int]
    memory_mb: dict[str, float]
    left: str

    def failures(self) -> list[str]:
        """What does not hold."""
        slow = [
            f"{kind}: {each['over']:.0f} of {each['count']:.0f} answers after more than {SLOW:g} s"
            for kind, each in self.answers.items()
            if kind != "export" and each["over"]
        ]
        first, last = self.memory_mb["first third"], self.memory_mb["last third"]
        grown = [f"memory grew from {first:.0f} to {last:.0f} MB"] if last > GROWTH * first else []
        left = [f"left behind: {self.left}"] if self.left else []
        return [*slow, *grown, *left, *(f"{n} times: {line}" for line, n in self.wrong.items())]

    def table(self) -> str:
        """For people."""
        lines = [f"{self.tabs} tabs for {self.seconds:g} s; load of the machine {self.load:.1f}"]
        lines.append(f"{'answer':<10}{'count':>7}{'median':>9}{'99 %':>9}{'worst':>9}  seconds")
        for kind, each in self.answers.items():
            times = "".join(f"{each[name]:>9.2f}" for name in ("median", "99 %", "worst"))
            lines.append(f"{kind:<10}{each['count']:>7.0f}{times}")
        lines.append(", ".join(f"{n} {what}" for what, n in self.did.items()))
        memory = ", ".join(f"{name} {value:.0f}" for name, value in self.memory_mb.items())
        return "\n".join([*lines, f"memory in MB: {memory}"])


def figures(record: Record, memory: list[float], seconds: float, tabs: int, left: str) -> Figures:
    """Sum up."""
    answers = {}
    for kind, times in sorted(record.seconds.items()):
        near = float(np.quantile(times, 0.99))
        about = {"count": len(times), "median": statistics.median(times), "99 %": near}
        answers[kind] = about | {"worst": max(times), "over": sum(t > SLOW for t in times)}
    warm = memory[int(WARM * len(memory)) :]
    third = max(1, len(warm) // 3)
    held = {"warm-up": max(memory[: len(memory) - len(warm)], default=0.0)}
    held |= {"first third": statistics.mean(warm[:third])}
    held |= {"last third": statistics.mean(warm[-third:]), "most": max(memory)}
    did, wrong, load = dict(record.did), dict(record.wrong), os.getloadavg()[1]
    return Figures(seconds, tabs, load, answers, did, wrong, held, left)


def soak(seconds: float, tabs: int, seed: int) -> Figures:
    """All of it."""
    record = Record()
    with tempfile.TemporaryDirectory(prefix="gswm-soak-") as folder:
        os.environ["TMPDIR"] = folder  # of the server alone: ours is known already
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
    """Print the figures; 1 if something does not hold."""
    parser = argparse.ArgumentParser(description="Work with a studio in several tabs for a while.")
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
