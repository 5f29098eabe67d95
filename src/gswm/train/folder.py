"""A run's folder: what it is, what it did, and where it can go on.

recipe.json         every setting
environment.json    versions, device and commit, of each start
metrics.jsonl       a line for every report and every validation
checkpoints/        the last two, to go on from
best.safetensors    the weights with the lowest validation error
last.safetensors    the weights at the end
pictures/           what the model sees and imagines, at each validation
events.out...       the metrics again, for TensorBoard
"""

import json
import math
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gswm
from gswm.errors import UserError
from gswm.recipes import Recipe
from gswm.settings import differences, from_dict, to_dict


class RunFolder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"

    @staticmethod
    def open(path: Path, recipe: Recipe) -> "RunFolder":
        """A new folder, or the one in which this recipe was started."""
        folder = RunFolder(path)
        if (path / "recipe.json").exists():
            theirs, version = folder.recipe(), folder.version()
            if version != gswm.__version__:
                raise UserError(
                    f"{path} was started by gswm {version}, and this is {gswm.__version__}: "
                    "choose another --out"
                )
            if lines := differences(to_dict(recipe), to_dict(theirs)):
                raise UserError(
                    f"{path} is a run of another recipe, {lines[0]}: choose another --out, "
                    "or resume it as it is with --resume"
                )
            return folder
        if path.exists() and any(path.iterdir()):
            raise UserError(f"{path} holds other files and no run: choose another --out")
        write_json(path / "recipe.json", to_dict(recipe))
        return folder

    def recipe(self) -> Recipe:
        """The recipe of the run."""
        file = self.path / "recipe.json"
        if not file.is_file():
            raise UserError(f"{self.path} is no run: it has no recipe.json")
        return from_dict(Recipe, read_json(file), where=str(file))

    def version(self) -> str:
        """The version of gswm that started the run."""
        file = self.path / "environment.json"
        return read_json(file)[0]["gswm"] if file.is_file() else gswm.__version__

    def note_start(self, device: torch.device, ranks: int) -> None:
        """Add to what is known of where the run ran."""
        file = self.path / "environment.json"
        starts = read_json(file) if file.is_file() else []
        write_json(file, [*starts, environment(device, ranks)])

    def write_metrics(self, line: dict[str, float]) -> None:
        """Add a line of metrics; what is no number is null."""
        numbers = {k: v if math.isfinite(v) else None for k, v in line.items()}
        with self.metrics.open("a") as file:
            file.write(json.dumps(numbers) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics; one that was cut off is left out."""
        if not self.metrics.is_file():
            return []
        lines = self.metrics.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("}\n")]

    def forget_metrics_after(self, step: int) -> None:
        """Take back what was written after a checkpoint: it will be written again."""
        kept = [json.dumps(m) + "\n" for m in self.read_metrics() if m["step"] <= step]
        if self.metrics.is_file():
            write_text(self.metrics, "".join(kept))


def environment(device: torch.device, ranks: int) -> dict[str, Any]:
    """Versions, device and commit."""
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
    }


def commit() -> str | None:
    """The commit of the source, where it is a git checkout."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def write_json(path: Path, value: Any) -> None:
    """A JSON file, whole or not at all."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """A file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from error
