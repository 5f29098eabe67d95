"""The folder of a run: its settings, its metrics and its checkpoints.

recipe.json         every setting of the recipe
environment.json    versions, commit, device and the other settings, of each start
metrics.jsonl       a line for every report and every validation
checkpoints/        the last two, to resume from
best.safetensors    the weights with the lowest validation error
last.safetensors    the weights at the end
pictures/           tracking and imagination, at each validation
events.out...       the metrics again, for TensorBoard
wandb_id.txt        the id of its run at Weights & Biases
.lock               held while a process trains here
"""

import fcntl
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

import gswm
from gswm.core.errors import UserError
from gswm.core.files import PART, check_regular, flush, room, write_whole
from gswm.core.settings import differing, from_dict, to_dict
from gswm.models.recipe import Recipe

Listener = Callable[[Mapping[str, int | float]], None]
"""Receives each line of metrics."""
BUSY = "{} is being trained by another process"


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.known = path
        """The last known path of the folder."""
        self.listeners: list[Listener] = []
        """Other receivers of each line of metrics."""
        self.held: TextIO | None = None
        self.handle: int | None = None
        """File descriptor of the folder, while a process trains in it."""

    @property
    def path(self) -> Path:
        """The path of the folder, even if it was moved since the training began."""
        if self.handle is not None:
            self.known = place_of(self.handle, self.known)
        return self.known

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """The file of metrics."""
        return self.path / "metrics.jsonl"

    def check(self, recipe: Recipe, *, any_code: bool = False) -> None:
        """Raise unless this is a new folder, or the one in which this recipe was started."""
        if (self.path / "recipe.json").exists():
            self.check_version(any_code=any_code)
            if found := differing(to_dict(recipe), to_dict(self.recipe())):
                name, (given, theirs) = next(iter(found.items()))
                raise UserError(
                    f"{self.path} is a run of another recipe: its {name} is {theirs!r}, not "
                    f"{given!r}. `gswm train --resume {self.path}` resumes it as it is; to change "
                    "settings, start a new run with another --out, and with --train.start "
                    f"{self.path} to begin from its weights"
                )
        elif self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose another --out")
        elif self.path.exists() and any(not ours(each) for each in self.path.iterdir()):
            raise UserError(f"{self.path} contains other files and no run: choose another --out")

    def check_version(self, *, any_code: bool = False) -> None:
        """Raise unless this version of gswm started the run, and this commit if both are known.

        With `any_code` the commit may differ.
        """
        starts = self.starts()
        theirs = starts[0]["gswm"] if starts else gswm.__version__
        if theirs != gswm.__version__:
            raise UserError(
                f"{self.path} was started by gswm {theirs}, but this is {gswm.__version__}: "
                f"resume with that version, or choose another --out"
            )
        if any_code or not starts:
            return
        last, here = starts[-1].get("commit"), commit()
        if last and here and last != here:
            raise UserError(
                f"{self.path} was trained by commit {last} of gswm, but this is {here}: resume "
                f"with that commit, or use --any-code if no relevant code has changed since"
            )

    def check_none_lost(self) -> None:
        """Raise if this run has lost its checkpoints, since its work would be lost."""
        last = max((int(line["step"]) for line in self.read_metrics()), default=0)
        every = [start.get("settings", {}).get("save_every", last) for start in self.starts()]
        every = [number for number in every if isinstance(number, int)]
        had_one = (self.path / "last.safetensors").exists() or last > max(every, default=last)
        if last and had_one:
            raise UserError(
                f"{self.path} was trained to step {last}, but its checkpoints are gone: start "
                "a new run with another --out"
            )

    def begin(self, recipe: Recipe, environment: dict[str, Any]) -> None:
        """Lock the folder, and write the recipe if it is new, and the environment."""
        with room(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self.handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        if not (self.path / "recipe.json").exists():
            write_json(self.path / "recipe.json", to_dict(recipe))
        write_json(self.path / "environment.json", [*self.starts(), environment])

    def lock(self) -> None:
        """Raise if another process trains in this folder; a dead process's lock is released."""
        self.held = (self.path / ".lock").open("w")
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(BUSY.format(self.path)) from error
        except OSError:  # a file system without locks
            pass

    def check_free(self) -> None:
        """Raise if another process trains in this folder; it keeps no lock, and writes nothing."""
        try:
            held = (self.path / ".lock").open()
        except OSError:  # there is none; other problems are reported by `lock`
            return
        with held:
            try:
                fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(BUSY.format(self.path)) from error
            except OSError:  # a file system without locks
                pass

    def close(self) -> None:
        """Release the folder."""
        with suppress(UserError):
            _ = self.path  # the current path will not be known later
        if self.held is not None:
            self.held.close()
        if self.handle is not None:
            os.close(self.handle)
        self.held = self.handle = None

    def recipe(self) -> Recipe:
        """The recipe of the run."""
        file = self.path / "recipe.json"
        if not file.is_file():
            raise UserError(f"{self.path} is not a run: it has no recipe.json")
        return from_dict(Recipe, read_json(file), where=str(file))

    def starts(self) -> list[dict[str, Any]]:
        """The environment of each start of the run."""
        file = self.path / "environment.json"
        if not file.is_file():
            return []
        found = read_json(file)
        if not (isinstance(found, list) and all(map(is_start, found))):
            raise UserError(f"{file} is damaged: it does not state its version")
        return found

    def write_metrics(self, line: Mapping[str, int | float]) -> None:
        """Append a line of metrics, with null for NaN and infinity."""
        numbers = {k: v if math.isfinite(v) else None for k, v in line.items()}
        with room(self.metrics), self.metrics.open("a") as file:
            file.write(json.dumps(numbers) + "\n")
        for listener in self.listeners:
            listener(line)

    def flush_metrics(self) -> None:
        """Flush the metrics to disk, before the checkpoint that follows them."""
        if self.metrics.is_file():
            with room(self.metrics):
                flush(self.metrics)

    def read_metrics(self) -> list[dict[str, Any]]:
        """All intact lines of metrics."""
        if not self.metrics.is_file():
            return []
        found = []
        for line in self.metrics.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return list(filter(is_metrics, found))

    def curve(self, score: str) -> list[tuple[int, float, float]]:
        """A score at each validation: the step, the minutes of training, and the value.

        Validations by pixels are left out, since their errors are not errors of positions.
        """
        name, strict = f"validation_{score}", "validation_strict_error"
        lines = [m for m in self.read_metrics() if name in m and strict in m]
        return [(m["step"], m.get("minutes", 0.0), m[name]) for m in lines]

    def forget_metrics_after(self, step: int, scored: int) -> None:
        """Remove metrics that were written after a checkpoint; they will be written again.

        Reports are kept up to `step`, validations up to `scored`.
        """
        if not self.metrics.is_file():
            return
        lines = self.read_metrics()
        last = [scored if any(k.startswith("validation_") for k in m) else step for m in lines]
        kept = [m for m, end in zip(lines, last, strict=True) if m["step"] <= end]
        write_whole(self.metrics, "".join(json.dumps(m) + "\n" for m in kept).encode())


def ours(path: Path) -> bool:
    """Whether these files are the remains of a run that was killed before it started."""
    return path.name == ".lock" or PART.fullmatch(path.name) is not None


def is_start(found: Any) -> bool:
    """Whether this describes one start of a run."""
    sound = isinstance(found, dict) and isinstance(found.get("gswm"), str)
    return sound and isinstance(found.get("settings", {}), dict)


def is_metrics(line: Any) -> bool:
    """Whether this is a line of metrics: the step, and numbers or nulls by name."""
    sound = isinstance(line, dict) and type(line.get("step")) is int and line["step"] >= 0
    return sound and all(value is None or type(value) in (int, float) for value in line.values())


def place_of(handle: int, known: Path) -> Path:
    """The current path of an open folder, which may have been moved from `known`."""
    ours = os.fstat(handle)
    with suppress(OSError):
        if os.path.samestat(ours, os.stat(known)):
            return known
    with suppress(OSError):  # works only on Linux
        moved = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if os.path.samestat(ours, os.stat(moved)):
            return moved
    raise UserError(
        f"{known} was deleted or moved during training, so nothing can be saved there; `gswm "
        "train --resume` resumes from the last checkpoint if the folder still exists"
    )


def environment(device: torch.device, ranks: int, settings: Any) -> dict[str, Any]:
    """Versions, commit, device, and settings that are not part of the recipe."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor()
    return {
        "gswm": gswm.__version__,
        "commit": commit(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": platform.platform(),
        "device": name or device.type,
        "processes": ranks,
        "threads": torch.get_num_threads(),
        "settings": to_dict(settings),
    }


def commit() -> str | None:
    """The commit of the source in a git checkout, with "+changes" if it was modified."""
    here = Path(__file__)

    def git(*words: str) -> str:
        run = ["git", "-C", str(here.parent), *words]
        return subprocess.run(run, capture_output=True, text=True, timeout=5).stdout.strip()

    try:
        if not git("ls-files", here.name):  # this package is inside a checkout of another project
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", ":/src", ":/weights")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.TimeoutExpired):
        return None


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    check_regular(path)
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
