"""A command ended by a signal prints one line, and leaves no partial files."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_importing import video
from test_videos import encode
from training import end, processes

from gswm.cli import main
from gswm.core import files
from gswm.core.ending import EndedBySignal, Ending, check_signals
from gswm.core.files import replacing
from gswm.data.storage.writer import Writer


@dataclass(frozen=True)
class Done:
    """The outcome of a command."""

    code: int | None
    said: str


def run_and_press(
    args: list[str], which: signal.Signals, log: Path, *, times: int = 1, lost: bool = False
) -> Done:
    """Run a command that gets a signal when it has written three episodes."""
    process = processes.Process(target=pressed, args=(args, which, log, times, lost))
    process.start()
    return Done(end(process), log.read_text())


def pressed(args: list[str], which: int, log: Path, times: int, lost: bool) -> None:
    """The code of such a process; a signal may be lost where C calls Python."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    append = Writer.append

    def append_and_press(self: Writer, *args: Any, **settings: Any) -> None:
        append(self, *args, **settings)
        if self.episodes == 3:
            try:
                for _ in range(times):
                    os.kill(os.getpid(), which)
            except KeyboardInterrupt:
                if not lost:
                    raise

    Writer.append = append_and_press
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = args
    sys.exit(main())


def importing(folder: Path) -> list[str]:
    """An import that takes a moment."""
    for i in range(4):
        video(folder / "in" / f"{i}.mkv", frames=40)
    (folder / "out").mkdir()
    args = ["data", "import", str(folder / "in"), "--out", str(folder / "out/a.hdf5")]
    return [*args, "--frames", "4", "--size", "8"]


SAID = {
    signal.SIGINT: "gswm: interrupted\n",
    signal.SIGTERM: "gswm: ended by SIGTERM\n",
    signal.SIGHUP: "gswm: ended by SIGHUP\n",
}


@pytest.mark.parametrize(
    ("which", "lost"),
    [
        *((which, False) for which in SAID),
        (signal.SIGTERM, True),
        *(
            pytest.param(which, True, marks=pytest.mark.slow)
            for which in (signal.SIGINT, signal.SIGHUP)
        ),
    ],
)
def test_a_signal_ends_an_import_and_leaves_nothing(
    tmp_path: Path, which: signal.Signals, lost: bool
) -> None:
    done = run_and_press(importing(tmp_path), which, tmp_path / "log", lost=lost)
    assert done == Done(128 + which, SAID[which])
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("which", SAID, ids=lambda which: which.name)
def test_a_signal_ends_the_making_of_data_and_leaves_nothing(
    tmp_path: Path, which: signal.Signals
) -> None:
    args = ["data", "make", "maze", "--episodes", "3", "--out", str(tmp_path / "out/a.hdf5")]
    assert run_and_press(args, which, tmp_path / "log") == Done(128 + which, SAID[which])
    assert os.listdir(tmp_path / "out") == []


def test_thirty_signals_are_one(tmp_path: Path) -> None:
    done = run_and_press(importing(tmp_path), signal.SIGINT, tmp_path / "log", times=30)
    assert done == Done(130, "gswm: interrupted\n")
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.slow
def test_signals_that_keep_coming_until_the_end_print_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    shades = [np.full((24, 32, 3), i % 200, np.uint8) for i in range(4000)]
    for i in range(8):
        encode(tmp_path / "in" / f"{i}.mkv", shades, "ffv1", "gray")
    args = ["data", "import", str(tmp_path / "in"), "--out", str(tmp_path / "out/a.hdf5")]
    for delay in (0.0, 0.15, 0.4):
        command = [sys.executable, "-m", "gswm", *args, "--frames", "4"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while not os.listdir(tmp_path / "out"):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(delay)
        for _ in range(30):
            process.send_signal(signal.SIGINT)
            time.sleep(0.03)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(timeout=60) == 130
        assert said == "gswm: interrupted\n"
        assert os.listdir(tmp_path / "out") == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    args = importing(tmp_path)
    assert run_and_press(args, signal.SIGKILL, tmp_path / "log").code == -signal.SIGKILL
    (left,) = os.listdir(tmp_path / "out")
    assert files.PART.fullmatch(left)
    assert main(args) == 0
    assert os.listdir(tmp_path / "out") == ["a.hdf5"]


def test_a_part_that_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom gswm.core.files import write_whole\n"
        "write_whole(Path(sys.argv[1]), b'other')"
    )
    with replacing(tmp_path / "file") as part:
        part.write_bytes(b"mine")
        other = [sys.executable, "-c", code, str(tmp_path / "other")]
        assert subprocess.run(other).returncode == 0
        assert part.exists()
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_a_part_of_another_machine_is_kept_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    young, old, foreign = (tmp_path / name for name in (".a.%s", ".b.%s", ".c.%s-1.part"))
    young, old = (Path(str(p) % "00000000-00000000.gswm-part") for p in (young, old))
    for path in (young, old, foreign):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    os.utime(foreign, (0, 0))
    files.write_whole(tmp_path / "file", b"")
    assert sorted(os.listdir(tmp_path)) == sorted([young.name, foreign.name, "file"])


def test_handlers_are_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(one) for one in SAID]
    assert main(["--version"]) == 0
    assert [signal.getsignal(one) for one in SAID] == before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending = Ending()
    try:
        ending.begin()
        os.kill(os.getpid(), signal.SIGHUP)
        check_signals()
        ending.finish(process=False)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_lost_signal_is_raised_again_in_the_next_round() -> None:
    ending = Ending()
    ending.begin()
    try:
        with pytest.raises(EndedBySignal):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(EndedBySignal):
            check_signals()
        assert ending.code == 143
    finally:
        ending.finish(process=False)
    check_signals()


def test_a_signal_in_a_finalizer_prints_nothing_and_is_raised_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Hurt:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __del__(self) -> None:
            raise self.error

    before, told = sys.unraisablehook, []
    sys.unraisablehook = lambda lost: told.append(lost.exc_type)
    ending = Ending()
    ending.begin()
    try:
        ending.which = signal.SIGINT
        Hurt(EndedBySignal(signal.SIGINT))
        assert told == []
        Hurt(ValueError())
        assert told == [ValueError]
        with pytest.raises(EndedBySignal):
            check_signals()
    finally:
        ending.finish(process=False)
        sys.unraisablehook = before
    assert capsys.readouterr().err == ""
