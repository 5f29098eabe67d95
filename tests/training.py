"""Short trainings: one recipe at small sizes, in this process or in another."""

import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import get_num_threads, nn

from gswm.cli import main
from gswm.core.settings import to_dict
from gswm.models.gswm import discovery
from gswm.models.objects import Sizes
from gswm.models.recipe import Recipe
from gswm.models.registry import recipe
from gswm.train import launch, snapshots
from gswm.train.checkpoint import load_newest
from gswm.train.launch import train
from gswm.train.loop import LoopConfig, Run
from gswm.train.step import MakeTrainee, Trainee

SIZES = Sizes(what=4, state=4, hidden=8, encoding=8, context=4)
TIMING = ("minutes", "frames_per_second")

# A process starts in a moment: it is a copy of one that has already imported what is slow.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["gswm.commands.train", "torch._dynamo", "training"])


class SmallTrunk(nn.Sequential):
    """Two convolutions in place of a ResNet."""

    STRIDE = 8

    def __init__(self, num_in: int, num_out: int, stride: int, width: int = 64) -> None:
        super().__init__(
            nn.Conv2d(num_in, 8, 8, stride=8),
            nn.CELU(),
            nn.Conv2d(8, num_out, 3, stride=stride, padding=1),
        )


def shrink() -> None:
    """Give all models that are built from now on a small trunk, and draw small pictures."""
    discovery.Trunk = SmallTrunk  # type: ignore[misc]
    snapshots.EPISODES, snapshots.COLUMNS = 1, 2


def small(steps: int = 6, **changes: Any) -> Recipe:
    """ "single-ball" at small sizes, in two stages, with Adam."""
    base = recipe("single-ball")
    schedule = replace(base.model.schedule, lengths=((0, 2), (4, 3)))
    settings: dict[str, Any] = {"steps": steps, "batch": 2, "warmup": 2, "validate_every": 3}
    settings |= {"lr": 3e-4, "muon": ()}
    settings |= {"validation_episodes": 2} | changes
    return replace(
        base,
        data=replace(base.data, episodes=4),
        model=replace(base.model, sizes=SIZES, schedule=schedule),
        train=replace(base.train, **settings),
    )


def arguments(one: Recipe) -> list[str]:
    """The arguments of `gswm train` for this recipe."""
    found = [one.name]

    def add(name: str, value: Any, usual: Any) -> None:
        if isinstance(value, dict):
            for key in value:
                add(f"{name}.{key}" if name else key, value[key], usual[key])
        elif value != usual:
            words = np.ravel(value).tolist() if isinstance(value, list | tuple) else [value]
            found.extend(["--" + name.replace("_", "-"), *map(str, words)])

    add("", to_dict(one), to_dict(recipe(one.name)))
    return found


def train_here(
    one: Recipe,
    out: Path,
    trainee: MakeTrainee = Trainee,
    *,
    pictures: bool = False,
    **loop: Any,
) -> Run:
    """Train in this process, with one thread, as the others do: sums depend on their number.

    Pictures of validations take longer than all the rest, and are left out.
    """
    cfg, before = LoopConfig(**({"report_every": 2, "save_every": 3} | loop)), get_num_threads()
    torch.set_num_threads(1)
    try:
        with nullcontext() if pictures else patch.object(launch, "draw"):
            return train(one, out, "cpu", cfg, trainee=trainee)
    finally:
        torch.set_num_threads(before)


def trained_once(one: Recipe, out: Path) -> None:
    """Copy a run of this recipe to `out`; it is trained for the first test that asks for it."""
    shutil.copytree(Path(finished_run(one).name) / "run", out, dirs_exist_ok=True)


@cache
def finished_run(one: Recipe) -> tempfile.TemporaryDirectory[str]:
    held = tempfile.TemporaryDirectory(prefix="gswm-tests-")
    with patch.object(discovery, "Trunk", SmallTrunk):
        train_here(one, Path(held.name) / "run")
    return held


def stop_after(monkeypatch: Any, step: int, act: Callable[[], None] | None = None) -> None:
    """Do something at the end of a step: by default, send this process a SIGTERM."""
    advance = Trainee.advance

    def and_then(self: Trainee) -> None:
        advance(self)
        if self.step == step:
            (act or (lambda: os.kill(os.getpid(), signal.SIGTERM)))()

    monkeypatch.setattr(Trainee, "advance", and_then)


def start(
    args: list[str],
    log: Path,
    *,
    file_bytes: int | None = None,
    env: dict[str, str] | None = None,
) -> BaseProcess:
    """`gswm ARGS` in a process of its own, whose words go to `log`."""
    process = processes.Process(target=in_process, args=(args, log, file_bytes, env or {}))
    process.start()
    return process


def in_process(args: list[str], log: Path, file_bytes: int | None, env: dict[str, str]) -> None:
    """The exit code of such a process."""
    os.environ.update(env)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    shrink()
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    sys.exit(main(args))


def end(process: BaseProcess, timeout: float = 60) -> int | None:
    """Its exit code, once it has ended."""
    process.join(timeout)
    if process.is_alive():
        process.kill()
        raise AssertionError("the process did not end")
    return process.exitcode


def state_of(run: Path) -> dict[str, Any]:
    """All that determines how a run continues, as comparable values."""
    found = load_newest(run / "checkpoints", print)
    assert found is not None
    timeless = {k: v for k, v in found.state.items() if k not in TIMING}
    tensors = {k: (v.dtype, tuple(v.shape), v.numpy().tobytes()) for k, v in found.tensors.items()}
    return {"step": found.step, "state": timeless, "tensors": tensors}


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics, without times."""
    lines = []
    with suppress(FileNotFoundError):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMING} for line in lines]
