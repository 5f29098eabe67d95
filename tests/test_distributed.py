"""Several processes give what one gives: the global batch is stated, and held."""

import json
import os
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
from hypothesis import given
from hypothesis import strategies as st
from training import arguments, end, metrics_of, small, start

import gswm
from gswm.cli import main
from gswm.errors import UserError
from gswm.train.checkpoint import load, numbered
from gswm.train.distributed import Processes


@given(ranks=st.integers(1, 6), share=st.integers(1, 5))
def test_the_rows_of_all_processes_are_the_batch(ranks: int, share: int) -> None:
    batch = list(range(ranks * share))
    parts = [batch[Processes(rank, ranks).rows(len(batch))] for rank in range(ranks)]
    assert [row for part in parts for row in part] == batch
    assert {len(part) for part in parts} == {share}


def test_a_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(UserError, match="a batch of 3 does not divide among 2 processes: set "):
        Processes(0, 2).rows(3)


def test_one_process_waits_for_nobody() -> None:
    alone, value = Processes(), torch.ones(2)
    alone.average([value])
    alone.wait()
    assert torch.equal(value, torch.ones(2))
    assert alone.any(True, torch.device("cpu"))
    assert not alone.any(False, torch.device("cpu"))


def torchrun(ranks: int, args: list[str]) -> subprocess.CompletedProcess[str]:
    """`torchrun --nproc-per-node RANKS -m gswm ARGS`."""
    here = Path(gswm.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(here), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), "-m", "gswm", *args]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=240)


def pair(args: list[str], log: Path) -> list[BaseProcess]:
    """Two processes, started with what torchrun tells them, but sooner and with a small trunk."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    return [start(args, log, env=env) for env in ranks]


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


@pytest.mark.usefixtures("small_trunk")
def test_two_processes_stopped_and_resumed_train_what_one_trains(tmp_path: Path) -> None:
    """They stop between two reports: the means go on too."""
    together, alone, log = tmp_path / "together", tmp_path / "alone", tmp_path / "log"
    for more in (["--max-minutes", "0"], []):
        codes = [end(process) for process in pair([*settings(together), *more], log)]
        assert codes == [0, 0], log.read_text()
    assert log.read_text().count("going on from step 1") == 1
    assert main(settings(alone)) == 0
    assert_close(together, alone)
    assert [line["step"] for line in metrics_of(together)] == [3, 4, 6, 6]


def test_a_signal_to_one_process_stops_all_at_the_same_step(tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    both = pair([*settings(out, 100_000), "--report-every", "1"], log)
    while not (out / "metrics.jsonl").exists():
        assert all(process.is_alive() for process in both), log.read_text()
        time.sleep(0.01)
    assert both[1].pid is not None
    os.kill(both[1].pid, signal.SIGTERM)
    assert [end(process) for process in both] == [0, 0], log.read_text()
    assert load(numbered(out / "checkpoints")[-1]).step >= metrics_of(out)[-1]["step"]
    assert log.read_text().count("stopped at step") == 1


def test_a_loss_that_is_not_finite_ends_all_processes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = pair(settings(tmp_path / "run", 8, lr=1e30), log)
    assert [end(process) for process in both] == [3, 3], log.read_text()


def test_a_batch_that_does_not_divide_ends_all_processes_in_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = pair(settings(tmp_path / "run", batch=3), log)
    assert [end(process) for process in both] == [2, 2]
    line = (
        "gswm: a batch of 3 does not divide among 2 processes: set --train.batch to a multiple of 2"
    )
    assert log.read_text().splitlines() == [line, line]
    assert not (tmp_path / "run").exists()
