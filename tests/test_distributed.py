"""Several processes give the result of one; the batch size is the global one."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from training import arguments, end, metrics_of, small, start

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.models.registry import build
from gswm.train import distributed
from gswm.train.checkpoint import load, numbered
from gswm.train.distributed import LeftError, Processes, others
from gswm.weights import files as weights

LEFT = "gswm: another process of this run has exited: see its output"


@given(ranks=st.integers(1, 6), share=st.integers(1, 5))
def test_the_rows_of_all_processes_are_the_batch(ranks: int, share: int) -> None:
    batch = list(range(ranks * share))
    parts = [batch[Processes(rank, ranks).rows(len(batch))] for rank in range(ranks)]
    assert [row for part in parts for row in part] == batch
    assert {len(part) for part in parts} == {share}


def test_a_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(UserError, match="a batch of 3 does not divide among 2 processes; set "):
        Processes(0, 2).rows(3)


def test_one_process_waits_for_nobody() -> None:
    alone, value = Processes(), torch.ones(2)
    alone.average([value])
    alone.wait()
    assert torch.equal(value, torch.ones(2))
    assert alone.any(True, torch.device("cpu"))
    assert not alone.any(False, torch.device("cpu"))
    assert alone.share("state", {"value": value}, torch.device("cpu")) == (
        "state",
        {"value": value},
    )


def test_a_process_joins_if_torchrun_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[str] = []
    monkeypatch.setattr(dist, "init_process_group", groups.append)
    here = {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "0"}
    for name in here:
        monkeypatch.delenv(name, raising=False)
    assert distributed.start(torch.device("cpu")) == Processes()
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    assert distributed.start(torch.device("cpu")) == Processes(2, 3, 0, joined=True)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert distributed.start(torch.device("cpu")) == Processes(joined=True)
    assert groups == ["gloo", "gloo"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:4319."),
        RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer."),
        dist.DistNetworkError("Failed to recv, got 0 bytes. Connection was likely closed."),
        dist.DistBackendError("NCCL error: remote process exited or there was a network error"),
    ],
)
def test_that_another_process_has_ended_is_said_whoever_finds_out(error: RuntimeError) -> None:
    with pytest.raises(LeftError, match=r"^another process of this run has exited"), others():
        raise error


@pytest.mark.parametrize("kind", [RuntimeError, dist.DistBackendError, torch.OutOfMemoryError])
def test_other_errors_are_not_taken_for_the_end_of_a_process(kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^NCCL error: invalid usage$"), others():
        raise kind("NCCL error: invalid usage")


def torchrun(ranks: int, args: list[str]) -> subprocess.CompletedProcess[str]:
    """`torchrun --nproc-per-node RANKS -m gswm ARGS`."""
    here = Path(gswm.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(here), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), "-m", "gswm", *args]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=240)


def free_port() -> int:
    """A free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def pair(
    args: list[str], log: Path, *, second: list[str] | None = None, file_bytes: int | None = None
) -> list[BaseProcess]:
    """Two processes, started with what torchrun tells them, but sooner and with a small trunk.

    The second may be told something else, and the files of the first may have to stay small.
    """
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    first = start(args, log, file_bytes=file_bytes, env=ranks[0])
    return [first, start(args if second is None else second, log, env=ranks[1])]


def settings(out: Path, steps: int = 6, **changes: Any) -> list[str]:
    one = small(steps, **({"batch": 4, "lr": 1e-5} | changes))
    args = ["train", *arguments(one), "--out", str(out), "--device", "cpu"]
    return [*args, "--report-every", "4", "--save-every", "3"]


def assert_close(ours: Path, theirs: Path) -> None:
    """Losses and weights, to float tolerance."""
    lines = [metrics_of(run) for run in (ours, theirs)]
    assert [line["step"] for line in lines[0]] == [line["step"] for line in lines[1]]
    for a, b in zip(*lines, strict=True):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-3)
    one, other = (load(numbered(run / "checkpoints")[-1]) for run in (ours, theirs))
    assert one.step == other.step
    assert one.state["loader"] == other.state["loader"]
    for name, tensor in other.tensors.items():
        if name.startswith("model."):
            torch.testing.assert_close(one.tensors[name], tensor, rtol=1e-4, atol=2e-6)


@pytest.mark.slow
def test_torchrun_with_two_processes_trains_what_one_trains(tmp_path: Path) -> None:
    """Five steps of two stages, with a report, validations and checkpoints at different steps."""
    together, alone = tmp_path / "together", tmp_path / "alone"
    done = torchrun(2, settings(together, 5))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("trained at step 5") == 1
    assert main(settings(alone, 5)) == 0
    assert_close(together, alone)
    (start,) = json.loads((together / "environment.json").read_text())
    assert start["processes"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("small_trunk")
def test_one_process_that_torchrun_started_trains_what_one_trains(tmp_path: Path) -> None:
    """It communicates with itself, which is how NCCL can be tested on one GPU."""
    joined, alone, log = tmp_path / "joined", tmp_path / "alone", tmp_path / "log"
    common = {"WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    process = start(settings(joined), log, env={**common, "RANK": "0", "LOCAL_RANK": "0"})
    assert end(process) == 0, log.read_text()
    assert main(settings(alone)) == 0
    assert_close(joined, alone)


@pytest.mark.slow
@pytest.mark.usefixtures("small_trunk")
def test_two_processes_stopped_and_resumed_train_what_one_trains(tmp_path: Path) -> None:
    """They stop between two reports, whose means continue too."""
    together, alone, log = tmp_path / "together", tmp_path / "alone", tmp_path / "log"
    for more in (["--max-minutes", "0"], []):
        codes = [end(process) for process in pair([*settings(together), *more], log)]
        assert codes == [0, 0], log.read_text()
    assert log.read_text().count("resuming from step 1") == 1
    assert main(settings(alone)) == 0
    assert_close(together, alone)
    assert [line["step"] for line in metrics_of(together)] == [3, 4, 6, 6]


@pytest.mark.slow
@pytest.mark.usefixtures("small_trunk")
def test_the_second_process_needs_no_file_of_the_first(tmp_path: Path) -> None:
    """Neither the weights to begin with nor the run; what another left there does not matter."""
    here, there, alone = tmp_path / "here", tmp_path / "there", tmp_path / "alone"
    begin, log = tmp_path / "begin.safetensors", tmp_path / "log"
    torch.manual_seed(7)
    weights.save(begin, build(small()), small(), about={"step": 10, "minutes": 1.0})
    ours, theirs = settings(here, start=str(begin)), settings(there, start="nowhere.safetensors")
    (left := there / "checkpoints/00000009").mkdir(parents=True)
    for more in (["--max-minutes", "0"], []):
        both = pair([*ours, *more], log, second=[*theirs, *more])
        assert [end(process) for process in both] == [0, 0], log.read_text()
        if left.exists():
            shutil.rmtree(there)
    assert not there.exists()
    assert log.read_text().count("resuming from step 1") == 1
    assert main(settings(alone, start=str(begin))) == 0
    assert_close(here, alone)
    assert weights.read_header(here / "last.safetensors")["about"]["step"] == 16


@pytest.mark.slow
def test_a_full_disk_of_the_first_process_ends_the_second_in_one_line(tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    both = pair([*settings(out), "--max-minutes", "0"], log)
    assert [end(process) for process in both] == [0, 0], log.read_text()
    size = (out / "checkpoints/00000001/tensors-01.safetensors").stat().st_size
    log.unlink()
    both = pair(settings(out), log, file_bytes=size - 1)
    assert [end(process) for process in both] == [4, 1], log.read_text()
    said = [line for line in log.read_text().splitlines() if line.startswith("gswm: ")]
    assert len(said) == 2
    assert LEFT in said
    assert "Traceback" not in log.read_text()


def test_a_folder_that_is_refused_ends_both_processes_in_one_line_each(tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = pair(settings(tmp_path), log)  # which holds the log
    assert [end(process) for process in both] == [2, 1], log.read_text()
    refused = f"gswm: {tmp_path} contains other files and no run: choose another --out"
    assert sorted(log.read_text().splitlines()) == sorted([refused, LEFT])


def under_way(out: Path, log: Path) -> list[BaseProcess]:
    """Two processes that have taken a step together."""
    both = pair([*settings(out, 100_000), "--report-every", "1"], log)
    while not (out / "metrics.jsonl").exists():
        assert all(process.is_alive() for process in both), log.read_text()
        time.sleep(0.01)
    return both


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_other_in_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = under_way(tmp_path / "run", log)
    both[1].kill()
    assert [end(process) for process in both] == [1, -signal.SIGKILL], log.read_text()
    assert log.read_text().splitlines()[-1] == LEFT


def test_a_signal_to_one_process_stops_all_at_the_same_step(tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    both = under_way(out, log)
    assert both[1].pid is not None
    os.kill(both[1].pid, signal.SIGTERM)
    assert [end(process) for process in both] == [0, 143], log.read_text()
    assert load(numbered(out / "checkpoints")[-1]).step >= metrics_of(out)[-1]["step"]
    assert log.read_text().count("stopped at step") == 1


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_all_processes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = pair(settings(tmp_path / "run", 8, lr=1e30), log)
    assert [end(process) for process in both] == [3, 3], log.read_text()


def test_a_batch_that_does_not_divide_ends_all_processes_in_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = pair(settings(tmp_path / "run", batch=3), log)
    assert [end(process) for process in both] == [2, 2]
    line = (
        "gswm: a batch of 3 does not divide among 2 processes; set --train.batch to a multiple of 2"
    )
    assert log.read_text().splitlines() == [line, line]
    assert not (tmp_path / "run").exists()
