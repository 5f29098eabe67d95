"""Many runs at once, each in its own process; on one GPU they share it by MPS if available.

Another launcher, such as a cluster's queue, can start the runs.

Finished runs are not started again, and others resume from their checkpoints. A failing run does
not stop the others. Ctrl-C, SIGTERM and SIGHUP make every run save and end; a second signal ends
them at once.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, runtime_checkable

import torch

from gswm.core.ending import SIGNALS, heard_signals, leave_hung_up, terminals
from gswm.core.errors import UserError
from gswm.models.recipe import Recipe
from gswm.train.folder import RunFolder
from gswm.weights.files import read_header

RunState = Literal["finished", "stopped", "failed"]
Tell = Callable[[str], None]
POLL = 0.1
"""Seconds between two polls of the processes."""
STOPPED = tuple(128 + which for which in SIGNALS)
"""Exit codes of runs that saved and ended after a signal."""
MPS = "nvidia-cuda-mps-control"
SCORES = ("error", "strict_error", "center_error")


@dataclass(frozen=True)
class Job:
    """One run."""

    recipe: Recipe
    folder: Path
    command: Sequence[str]
    """The command that trains or continues it."""

    @property
    def log(self) -> Path:
        """The log of the process, beside the run's folder."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def is_finished(self) -> bool:
        """Whether the recipe was trained to its last step."""
        try:
            header = read_header(self.folder / "last.safetensors")
        except UserError:
            return False
        about = header["about"]
        taken = about.get("step", 0) - about.get("began", {}).get("step", 0)
        return header["recipe"] == self.recipe and taken >= self.recipe.train.steps


@runtime_checkable
class Process(Protocol):
    """The interface that a sweep needs of a running job."""

    returncode: int | None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        ...

    def terminate(self) -> None:
        """Ask it to save and end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self) -> int | None:
        """Wait until it has ended."""
        ...


@dataclass
class Sweep:
    """The waiting, running and finished runs."""

    jobs: Sequence[Job]
    number: int
    """The number of jobs that run at once."""
    tell: Tell
    launch: Callable[[Job], Process] | None = None
    """Starts a run elsewhere. Default: None (a local process)."""
    running: dict[Process, Job] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """The last line of output of each failed run, by the name of its folder."""
    signals: int = 0
    """The number of stop signals received; `passed_on` of them were forwarded to the runs."""
    passed_on: int = 0
    terminals: list[int] = field(default_factory=terminals)

    def run(self) -> list[dict[str, Any]]:
        """Run all jobs; return a row for each."""
        waiting = [job for job in self.jobs if not job.is_finished()]
        if done := len(self.jobs) - len(waiting):
            self.tell(f"{done} of {len(self.jobs)} runs are already finished")
        here = min(self.number, len(waiting)) if self.launch is None else 0
        with gpu_shared(here, self.tell), self.stoppable():
            while waiting or self.running:
                if self.signals > self.passed_on:
                    waiting = []
                    self.stop()
                while waiting and len(self.running) < self.number:
                    self.start(waiting.pop(0))
                self.look()
                time.sleep(POLL if self.launch is None else 10 * POLL)
        return [self.row(job) for job in self.jobs]

    def start(self, job: Job) -> None:
        """Start or resume a run; signals from the terminal do not reach it."""
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        self.running[(self.launch or self.launch_here)(job)] = job
        self.tell(f"{job.folder.name} started, logging to {job.log}")

    def launch_here(self, job: Job) -> Process:
        """Start a local process with its share of the cores."""
        threads = max(1, (os.cpu_count() or 1) // self.number)
        env = {"OMP_NUM_THREADS": str(threads), **os.environ}
        with log_of(job) as log:
            return subprocess.Popen(
                job.command, stdout=log, stderr=log, env=env, start_new_session=True
            )

    def look(self) -> None:
        """Check which runs have ended."""
        for process in [each for each in self.running if each.poll() is not None]:
            job = self.running.pop(process)
            code = process.returncode or 0
            if code and code not in STOPPED and not (self.signals and code < 0):
                said = last_line(job.log) or f"exit code {code}"
                self.failed[job.folder.name] = said
                self.tell(f"{job.folder.name} failed: {said}")
            else:
                self.tell(f"{job.folder.name} {self.state(job)}")

    def state(self, job: Job) -> RunState:
        """The progress of a run."""
        if job.folder.name in self.failed:
            return "failed"
        return "finished" if job.is_finished() else "stopped"

    def row(self, job: Job) -> dict[str, Any]:
        """The result of a run."""
        lines = RunFolder(job.folder).read_metrics()
        key = f"validation_{SCORES[0]}"
        scored = [line for line in lines if line.get(key) is not None]
        best = min(scored, key=lambda line: line[key]) if scored else {}
        saved = [int(path.name) for path in job.folder.glob("checkpoints/[0-9]*")]
        return {
            "recipe": job.recipe.name,
            "seed": job.recipe.seed,
            "state": self.state(job),
            "steps": max([0, *saved, *(line["step"] for line in lines)]),
            "minutes": max((line.get("minutes") or 0.0 for line in lines), default=0.0),
            "best_step": best.get("step"),
            **{name: best.get(f"validation_{name}") for name in SCORES},
            "folder": str(job.folder),
            "said": self.failed.get(job.folder.name),
        }

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Forward Ctrl-C, SIGTERM and SIGHUP to the runs."""
        which = heard_signals()
        before = [signal.signal(each, self.hear) for each in which]
        try:
            yield
        finally:
            for process in self.running:  # after an error in this process
                process.terminate()
                process.wait()
            for each, old in zip(which, before, strict=True):
                signal.signal(each, old)

    def hear(self, *_: Any) -> None:
        """Record a signal."""
        leave_hung_up(self.terminals)
        self.signals += 1

    def stop(self) -> None:
        """Make all runs save and end, or end them at once the second time."""
        at_once, self.passed_on = self.signals > 1, self.signals
        if not at_once:
            self.tell("stopping: each run saves a checkpoint; the same command resumes them")
        for process in self.running:
            process.kill() if at_once else process.terminate()


def log_of(job: Job) -> TextIO:
    """Open the log of a run for appending."""
    try:
        return job.log.open("a")
    except OSError as error:
        raise UserError(f"cannot write {job.log}: {error.strerror}") from error


def last_line(log: Path) -> str:
    """The last line that a run printed."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1].removeprefix("gswm: ") if lines else ""


@contextmanager
def gpu_shared(number: int, tell: Tell) -> Iterator[None]:
    """Share a GPU between processes by MPS, if it is installed and not running yet."""
    control = shutil.which(MPS)
    if number < 2 or control is None or not torch.cuda.is_available():
        yield
        return
    if ask_mps(control, "get_server_list"):
        tell("MPS is already running")
        yield
        return
    if subprocess.run([control, "-d"], capture_output=True).returncode:
        tell("MPS could not be started: the runs take turns on the GPU")
        yield
        return
    tell("MPS started: the runs share the GPU")
    try:
        yield
    finally:
        ask_mps(control, "quit")


def ask_mps(control: str, command: str) -> bool:
    """Whether an MPS daemon accepts the command."""
    try:
        asked = subprocess.run(
            [control], input=f"{command}\n".encode(), capture_output=True, timeout=20
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0
