"""An interrupted and resumed run equals an uninterrupted one."""

import json
import os
import pty
import select
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training import (
    SIZES,
    SmallTrunk,
    arguments,
    end,
    metrics_of,
    processes,
    shrink,
    small,
    start,
    state_of,
    stop_after,
    train_here,
    trained_once,
)

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.files import DiskFullError
from gswm.core.settings import to_dict
from gswm.train import checkpoint as checkpoints
from gswm.train import launch, snapshots
from gswm.train.folder import RunFolder, write_json
from gswm.train.step import Trainee
from gswm.weights import files as weights

pytestmark = pytest.mark.usefixtures("small_trunk")


def assert_same_run(a: Path, b: Path) -> None:
    """Weights, Adam, what is saved beside them, and metrics, bit for bit."""
    assert state_of(a) == state_of(b)
    assert metrics_of(a) == metrics_of(b)
    for name in ("best", "last"):
        weights = [(run / f"{name}.safetensors").read_bytes() for run in (a, b)]
        # What is after the header: the header has the minutes.
        bodies = [data[8 + int.from_bytes(data[:8], "little") :] for data in weights]
        assert bodies[0] == bodies[1], name


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gswm.models.gswm.discovery.Trunk", SmallTrunk)
        patch.setattr(snapshots, "EPISODES", 1)
        patch.setattr(snapshots, "COLUMNS", 2)
        out = tmp_path_factory.mktemp("undisturbed") / "run"
        run = train_here(small(8), out, pictures=True)
    assert run.trainee.step == 8
    return out


@pytest.mark.parametrize("at", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 7))])
def test_a_run_stopped_and_resumed_is_the_run_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path, at: int
) -> None:
    """Stopped at, before and after checkpoints, reports, validations and changes of stage."""
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_after(patch, at)
        assert train_here(small(8), out).trainee.step == at
    assert state_of(out)["step"] == at
    assert train_here(small(8), out).trainee.step == 8
    assert_same_run(out, undisturbed)


def test_other_times_of_saving_change_nothing(tmp_path: Path, undisturbed: Path) -> None:
    train_here(small(8), tmp_path / "run", save_every=1)
    assert_same_run(tmp_path / "run", undisturbed)


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    trained_once(small(3), tmp_path)
    before, metrics = state_of(tmp_path), (tmp_path / "metrics.jsonl").read_bytes()
    train_here(small(3), tmp_path)
    assert state_of(tmp_path) == before
    assert (tmp_path / "metrics.jsonl").read_bytes() == metrics
    assert len(json.loads((tmp_path / "environment.json").read_text())) == 2


def test_a_process_killed_again_and_again_ends_with_the_same_weights(
    tmp_path: Path, undisturbed: Path
) -> None:
    """SIGKILL at moments that a seeded generator chooses, until the run has come to its end."""
    out, log = tmp_path / "run", tmp_path / "log"
    steps = 8
    args = ["train", *arguments(small(steps)), "--out", str(out), "--device", "cpu"]
    args += ["--report-every", "2", "--save-every", "1"]
    rng, kills = np.random.default_rng(0), 0
    process = start(args, log)
    for target in (0, 2, 5):
        deadline = time.monotonic() + 60
        while newest(out) < target or not (out / "recipe.json").exists():
            assert process.is_alive(), log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        kills += end(process) == -signal.SIGKILL
        process = start(args, log)
    assert end(process) == 0, log.read_text()
    assert kills >= 2
    assert_same_run(out, undisturbed)


def newest(run: Path) -> int:
    """The step of the newest checkpoint."""
    return max((int(p.name) for p in checkpoints.numbered(run / "checkpoints")), default=0)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_and_the_exit_code_says_so(tmp_path: Path, which: signal.Signals) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    args = ["train", *arguments(small(100_000)), "--out", str(out), "--device", "cpu"]
    process = start([*args, "--report-every", "1"], log)
    while not (out / "metrics.jsonl").exists():
        assert process.is_alive(), log.read_text()
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, which)
    assert end(process, timeout=20) == 128 + which, log.read_text()
    last = metrics_of(out)[-1]["step"]
    assert state_of(out)["step"] >= last > 0
    assert (out / "last.safetensors").exists()
    stopped = f"stopped at step {newest(out)}; the run is in {out}"
    assert f"{stopped}; `gswm train --resume {out}` resumes it" in log.read_text()


def test_a_lost_terminal_saves_the_run(tmp_path: Path) -> None:
    """The process leads a session of its own, whose terminal is then closed."""
    out = tmp_path / "run"
    args = ["train", *arguments(small(100_000)), "--out", str(out), "--device", "cpu"]
    master, slave = pty.openpty()
    process = processes.Process(
        target=in_session, args=(os.ttyname(slave), [*args, "--report-every", "1"])
    )
    process.start()
    deadline = time.monotonic() + 60
    while not (out / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        if select.select([master], [], [], 0.05)[0]:
            os.read(master, 65536)  # nobody can write to a terminal that is full
    os.close(slave)
    os.close(master)
    assert end(process, timeout=30) == 129
    assert newest(out) >= metrics_of(out)[-1]["step"] > 0
    assert (out / "last.safetensors").exists()


def in_session(terminal: str, args: list[str]) -> None:
    """`gswm ARGS` with a terminal of its own."""
    os.setsid()
    handle = os.open(terminal, os.O_RDWR)  # becomes the controlling terminal
    for stream in (0, 1, 2):
        os.dup2(handle, stream)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "r" if n == 0 else "w") for n in (0, 1, 2))
    for which in (signal.SIGINT, signal.SIGHUP):
        signal.signal(which, signal.SIG_DFL)
    torch.set_num_threads(1)
    shrink()
    sys.exit(main(args))


def test_nohup_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop_after(monkeypatch, 1, lambda: os.kill(os.getpid(), signal.SIGHUP))
        assert train_here(small(2), tmp_path).trainee.step == 2
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_does_not_disturb_the_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = checkpoints.write

    def interrupted(*args: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        write(*args)

    stop_after(monkeypatch, 1)
    monkeypatch.setattr(checkpoints, "write", interrupted)
    train_here(small(), tmp_path)
    assert state_of(tmp_path)["step"] == 1


def test_a_signal_while_data_are_made_ends_the_process_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(launch, "training_loader", interrupted)
    out = tmp_path / "run"
    args = ["train", *arguments(small()), "--out", str(out), "--device", "cpu"]
    assert main(args) == 143
    assert "no run to resume: run the same command again" in capsys.readouterr().err
    assert not out.exists()
    out.mkdir()
    write_json(out / "recipe.json", to_dict(small()))
    assert main(args) == 143
    said = f"stopped; nothing is lost: `gswm train --resume {out}` resumes it\n"
    assert capsys.readouterr().err == said


@pytest.mark.slow
def test_a_validation_that_a_signal_broke_off_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    validate = launch.validate

    def interrupted(*args: object) -> dict[str, float]:
        os.kill(os.getpid(), signal.SIGTERM)
        return validate(*args)

    with monkeypatch.context() as patch:
        patch.setattr(launch, "validate", interrupted)
        assert train_here(small(8), tmp_path).trainee.step == 3
    assert not any("validation_objects" in line for line in metrics_of(tmp_path))
    train_here(small(8), tmp_path)
    assert_same_run(tmp_path, undisturbed)


def test_the_last_validation_broken_off_is_made_up_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(launch, "validate", interrupted)
        assert train_here(small(2), tmp_path).trainee.step == 2
    for _ in range(2):
        train_here(small(2), tmp_path)
        scored = [line for line in metrics_of(tmp_path) if "validation_objects" in line]
        assert [line["step"] for line in scored] == [2]
        assert (tmp_path / "best.safetensors").exists()


def test_handlers_of_signals_are_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    train_here(small(1), tmp_path)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.slow
def test_after_max_minutes_it_saves_and_ends_and_the_next_start_has_as_many(
    tmp_path: Path, undisturbed: Path
) -> None:
    """With a limit of 0 minutes, each start takes the one step that it has begun."""
    for step in (1, 2, 3):
        assert train_here(small(8), tmp_path, max_minutes=0.0).trainee.step == step
        assert state_of(tmp_path)["step"] == step
    train_here(small(8), tmp_path, max_minutes=60.0)
    assert_same_run(tmp_path, undisturbed)


def test_the_time_is_up_also_while_data_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slowly(*_: object) -> None:
        time.sleep(30)

    monkeypatch.setattr(launch, "training_loader", slowly)
    began, out = time.perf_counter(), tmp_path / "run"
    args = ["train", *arguments(small(2)), "--out", str(out), "--max-minutes", "0.005"]
    assert main([*args, "--device", "cpu"]) == 0
    assert time.perf_counter() - began < 15
    assert "no run to resume" in capsys.readouterr().err
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_damaged_checkpoint_is_named_and_the_run_goes_on_from_the_one_before(
    tmp_path: Path,
    undisturbed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    with monkeypatch.context() as patch:
        stop_after(patch, 7)
        train_here(small(8), tmp_path)
    newest = tmp_path / "checkpoints" / "00000007" / "tensors-01.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    capsys.readouterr()
    train_here(small(8), tmp_path)
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        f"the checkpoint {newest.parent} is damaged: {newest.name} has changed; "
        "using the previous one",
        "resuming from step 6",
    ]
    assert_same_run(tmp_path, undisturbed)


def test_metrics_after_the_checkpoint_are_taken_back(tmp_path: Path) -> None:
    trained_once(small(3), tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    before = metrics.read_bytes()
    with metrics.open("a") as file:
        file.write('{"step": 4, "loss": 1.0}\n{"step": 5, "lo')
    train_here(small(3), tmp_path)
    assert metrics.read_bytes() == before


@pytest.mark.slow
def test_metrics_of_a_run_killed_before_its_first_checkpoint_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    def die() -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        stop_after(patch, 4, die)
        with pytest.raises(ZeroDivisionError):
            train_here(small(8), tmp_path, save_every=100)
    assert metrics_of(tmp_path)
    assert newest(tmp_path) == 0
    train_here(small(8), tmp_path)
    assert_same_run(tmp_path, undisturbed)


@pytest.mark.parametrize("ended", [True, False])
def test_a_run_whose_checkpoints_are_gone_is_refused_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, ended: bool
) -> None:
    def die() -> None:
        raise ZeroDivisionError

    if ended:
        train_here(small(4), tmp_path, save_every=100)
    else:  # killed: the metrics are all that tells of the checkpoint of step 3
        with monkeypatch.context() as patch:
            stop_after(patch, 5, die)
            with pytest.raises(ZeroDivisionError):
                train_here(small(8), tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path), "--device", "cpu", "--any-code"]) == 2
    assert capsys.readouterr().err == (
        f"gswm: {tmp_path} was trained to step 4, but its checkpoints are gone: "
        "start a new run with another --out\n"
    )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_on_a_full_disk_the_last_checkpoint_survives_and_the_run_can_go_on(
    tmp_path: Path, undisturbed: Path
) -> None:
    """A real process whose files may not grow beyond what the weights alone take."""
    out, log = tmp_path / "run", tmp_path / "log"
    args = ["train", *arguments(small(8)), "--out", str(out), "--device", "cpu"]
    args += ["--report-every", "2", "--save-every", "3"]
    process = start([*args, "--max-minutes", "0"], log)
    assert end(process) == 0, log.read_text()
    whole = state_of(out)
    size = (out / "checkpoints/00000001/tensors-01.safetensors").stat().st_size
    log.unlink()
    process = start(args, log, file_bytes=size - 1)
    assert end(process) == 4, log.read_text()
    said = log.read_text().splitlines()[-1]
    assert said == (
        f"gswm: not enough space to write {out / 'checkpoints/00000003'} (file too large): "
        "free some space and start again; existing files are intact"
    )
    assert state_of(out) == whole
    assert [p.name for p in (out / "checkpoints").iterdir()] == ["00000001"]
    assert end(start(args, log)) == 0, log.read_text()
    assert_same_run(out, undisturbed)


@pytest.mark.parametrize("name", ["metrics.jsonl", "best.safetensors", "last.safetensors"])
def test_a_full_disk_is_said_in_one_line_whatever_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = Path.open

    def full(self: Path, mode: str = "r", **settings: Any) -> Any:
        if name in self.name and mode != "r":
            raise OSError(28, "No space left on device")
        return real(self, mode, **settings)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(
        DiskFullError, match=rf"^not enough space to write .*{name} \(no space left"
    ):
        train_here(small(3), tmp_path)


# -- which folders are taken


def test_a_folder_of_another_recipe_is_refused_with_the_difference(tmp_path: Path) -> None:
    trained_once(small(1), tmp_path)
    before = sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.iterdir())
    with pytest.raises(UserError, match=r"another recipe: its train\.lr is 0\.0003, not 0\.5"):
        train_here(small(1, lr=0.5), tmp_path)
    assert sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.iterdir()) == before


def test_a_folder_of_another_version_is_refused_with_both_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_once(small(1), tmp_path)
    file = tmp_path / "environment.json"
    file.write_text(file.read_text().replace(f'"{gswm.__version__}"', '"0.0.7"', 1))
    with pytest.raises(
        UserError, match=f"was started by gswm 0.0.7, but this is {gswm.__version__}"
    ):
        train_here(small(1), tmp_path)
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path)]) == 2
    assert "was started by gswm 0.0.7" in capsys.readouterr().err


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="contains other files and no run: choose another --out"):
        train_here(small(1), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="is a file: choose another --out"):
        train_here(small(1), tmp_path / "run")


def test_a_folder_of_a_run_killed_before_it_began_is_taken(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".recipe.json.01234567-89abcdef.gswm-part").write_text("{")
    assert train_here(small(1), tmp_path).trainee.step == 1


def test_a_folder_in_which_another_process_trains_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def another() -> None:
        with pytest.raises(UserError) as error:
            RunFolder(tmp_path).lock()
        refused.append(str(error.value))

    stop_after(monkeypatch, 2, another)
    train_here(small(3), tmp_path)
    assert refused == [f"{tmp_path} is being trained by another process"]
    RunFolder(tmp_path).lock()


def test_a_folder_in_use_is_refused_before_videos_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    RunFolder(tmp_path).check_free()
    assert not list(tmp_path.iterdir())
    train_here(small(1), tmp_path)
    monkeypatch.setattr(launch, "training_loader", lambda *args: made.append(args))
    (other := RunFolder(tmp_path)).lock()
    with pytest.raises(UserError, match="being trained by another process"):
        train_here(small(1), tmp_path)
    other.close()
    assert not made
    RunFolder(tmp_path).check_free()


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    trained_once(small(3), tmp_path)
    found = checkpoints.load(tmp_path / "checkpoints" / "00000003")
    found.state["loader"]["world"] = "maze"
    checkpoints.save(tmp_path / "checkpoints", found)
    with pytest.raises(UserError, match="to other data: its world is maze, not single-ball"):
        train_here(small(3), tmp_path)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"lr": 0.5}, r"another recipe: its train\.lr is 0\.5, but that of the run is 0\.0003"),
        ({"clip": 3.0}, r"another recipe: its train\.clip is 3\.0, but that of the run is 1\.0"),
    ],
)
def test_a_checkpoint_of_another_recipe_is_refused(
    tmp_path: Path, others: dict[str, Any], said: str
) -> None:
    for name, settings in (("mine", {}), ("other", others)):
        trained_once(small(3, **settings), tmp_path / name)
    shutil.rmtree(tmp_path / "mine" / "checkpoints")
    shutil.copytree(tmp_path / "other" / "checkpoints", tmp_path / "mine" / "checkpoints")
    with pytest.raises(UserError, match=said):
        train_here(small(3), tmp_path / "mine")


@pytest.mark.parametrize("stated", [True, False])
def test_a_checkpoint_of_another_width_is_refused(tmp_path: Path, stated: bool) -> None:
    """Also a checkpoint that does not state its recipe, as in version 0.1.0."""
    wide = replace(one := small(3), model=replace(one.model, sizes=replace(SIZES, what=6)))
    trained_once(one, tmp_path / "mine")
    trained_once(wide, tmp_path / "other")
    found = checkpoints.load(tmp_path / "other" / "checkpoints" / "00000003")
    if not stated:
        del found.state["recipe"]
    checkpoints.save(tmp_path / "mine" / "checkpoints", found)
    said = (
        r"another recipe: its model\.sizes\.what is 6, but"
        if stated
        else "does not fit the run's model"
    )
    with pytest.raises(UserError, match=said):
        train_here(one, tmp_path / "mine")


def test_a_checkpoint_that_states_no_recipe_is_gone_on_from(
    tmp_path: Path, stopped: Path, undisturbed: Path
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    found = checkpoints.load(tmp_path / "checkpoints" / "00000004")
    del found.state["recipe"]
    checkpoints.save(tmp_path / "checkpoints", found)
    train_here(small(8), tmp_path)
    assert_same_run(tmp_path, undisturbed)


@pytest.mark.slow
def test_a_run_that_is_moved_goes_on_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    before, after = tmp_path / "a" / "run", tmp_path / "b" / "moved"
    after.parent.mkdir()
    stop_after(monkeypatch, 4, lambda: before.rename(after))
    run = train_here(small(8), before)
    assert run.folder.path == after
    assert not before.exists()
    assert_same_run(after, undisturbed)
    assert train_here(small(8), after).trainee.step == 8


def test_a_run_whose_folder_is_removed_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 4, lambda: shutil.rmtree(tmp_path / "run"))
    with pytest.raises(UserError, match=r"run was deleted or moved during training"):
        train_here(small(8), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_number_of_threads_is_recorded_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        train_here(small(4), tmp_path)
    assert RunFolder(tmp_path).starts()[-1]["threads"] == 1
    for threads, warned in ((1, ""), (3, "3 threads instead of 1"), (1, "1 thread instead of 3")):
        monkeypatch.setattr(torch, "get_num_threads", lambda number=threads: number)
        capsys.readouterr()
        train_here(small(4), tmp_path)
        said = capsys.readouterr().err
        assert f"torch uses {warned}" in said if warned else "torch uses" not in said
    assert [start["threads"] for start in RunFolder(tmp_path).starts()] == [1, 1, 3, 1]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 8 steps that was stopped after 4."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gswm.models.gswm.discovery.Trunk", SmallTrunk)
        stop_after(patch, 4)
        train_here(small(8), out)
    return out


@pytest.mark.parametrize("how", ["missing", "damaged", "whole"])
def test_lost_best_weights_are_told_of_and_replaced_by_the_next_best(
    tmp_path: Path,
    how: str,
    stopped: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    best = tmp_path / "best.safetensors"
    if how == "missing":
        best.unlink()
    elif how == "damaged":
        best.write_bytes(best.read_bytes()[:-3])
    capsys.readouterr()
    monkeypatch.setattr(launch, "validate", lambda *_: {"error": 1e9})
    train_here(small(8), tmp_path)
    lost = "warning: the best weights so far, from step 3, are lost" in capsys.readouterr().err
    assert lost == (how != "whole")
    step = weights.read_header(best)["about"]["step"]
    assert step == (3 if how == "whole" else 6)


def test_what_is_no_run_cannot_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--resume", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"gswm: {tmp_path} is not a run: it has no recipe.json\n"


def test_every_tensor_that_a_step_changes_is_saved(tmp_path: Path) -> None:
    run = train_here(small(3), tmp_path)
    named = set(checkpoints.load(tmp_path / "checkpoints" / "00000003").tensors)
    for name, param in run.trainee.model.named_parameters():
        assert f"model.{name}" in named
        kept = {f"adam.{key}.{name}" for key in run.trainee.adam.state[param]}
        assert kept <= named
    assert isinstance(run.trainee, Trainee)
