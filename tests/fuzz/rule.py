"""The rule that every command obeys for any input.

Its exit code is of a known set. An error is one line on stderr, without a traceback. A file that it
leaves is whole. It ends, and takes bounded processor time and memory.
"""

import contextlib
import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import gswm
from gswm.cli import main
from gswm.core.files import PART
from gswm.data.storage import hdf5
from gswm.weights.files import check_file

CODES = frozenset(range(6))
"""Exit codes of commands that no signal ends; docs/reliability.md says what they mean."""
SECONDS = 60
"""Limit of processor time for a case."""
WAITING = 600
"""Seconds that may pass until it ends: a case that waits for ever takes no processor time."""
MEMORY = 4 << 30
"""Bytes by which a case may raise the largest memory of its process."""
ADDRESSES = 24 << 30
"""Bytes of addresses that a process may have; libraries reserve far more than they use."""


class TooLongError(BaseException):
    """A case takes too long; no `except Exception` catches this."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    words: tuple[str, ...]
    code: object
    out: str
    err: str
    grown: int = 0
    """Bytes by which the largest memory grew."""


def run_here(words: list[str]) -> Outcome:
    """Run a command in this process, in the working directory."""
    out, err, before = io.StringIO(), io.StringIO(), largest_memory()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), in_time(words):
        try:
            code: object = main(words)
        except SystemExit as stop:  # of --help
            code = stop.code or 0
    grown = largest_memory() - before
    return Outcome(tuple(words), code, out.getvalue(), err.getvalue(), grown)


def run_process(words: list[str]) -> Outcome:
    """Run a command of this copy of gswm in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gswm", *words],
        env=os.environ | {"PYTHONPATH": str(Path(gswm.__file__).parents[1])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAITING,
        preexec_fn=limit_addresses,
    )
    out, err = (text.decode(errors="backslashreplace") for text in (done.stdout, done.stderr))
    return Outcome(tuple(words), done.returncode, out, err)


def check(outcome: Outcome, folder: Path) -> None:
    """Assert that a command has kept the rule; `folder` is all that it could write into."""
    assert outcome.code in CODES, outcome
    assert "Traceback" not in outcome.err, outcome
    errors = [line for line in outcome.err.splitlines() if line.startswith("gswm: ")]
    errors = [line for line in errors if not line.startswith("gswm: skipped ")]
    assert len(errors) <= 1, outcome
    assert not outcome.code or outcome.err or outcome.out, outcome
    assert all(line.isprintable() for line in errors), outcome
    assert outcome.grown < MEMORY, outcome
    for path in folder.rglob("*"):
        assert not PART.fullmatch(path.name), (outcome, path)
    for path in folder.glob("new*"):
        check_whole(path)


def check_whole(path: Path) -> None:
    """Assert that a file can be read."""
    if path.suffix == ".hdf5":
        hdf5.open_file(path).close()
    elif path.suffix == ".safetensors":
        check_file(path)
    elif path.is_file():
        assert path.stat().st_size, path


@contextlib.contextmanager
def in_time(words: list[str]) -> Iterator[None]:
    """Raise if the block takes too long; on a machine with much to do, that is no fault."""

    def ring(number: int, frame: FrameType | None) -> None:
        limit = f"{SECONDS} s of a processor" if number == signal.SIGPROF else f"{WAITING} s"
        raise TooLongError(f"{words} took more than {limit}")

    limits = {signal.SIGPROF: (signal.ITIMER_PROF, SECONDS)}
    limits[signal.SIGALRM] = (signal.ITIMER_REAL, WAITING)
    before = {number: signal.signal(number, ring) for number in limits}
    for timer, seconds in limits.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer, _ in limits.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def largest_memory() -> int:
    """Bytes of memory that this process had at the most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_addresses() -> None:
    """Let a new process fail, rather than take the memory or the time of all others."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
    os.setsid()
