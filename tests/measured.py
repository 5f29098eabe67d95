"""Example results in the format of `gswm eval --json`."""

import json
from pathlib import Path
from typing import Any

import torch

from gswm.eval.stills import as_text
from gswm.report.charts import Charts
from gswm.report.drawing import Drawing, Label


def ball_example(number: int = 0) -> dict[str, Any]:
    """Two balls on straight ways, one of which was not found."""
    true = [[[0.2 + 0.02 * t, 0.3], [0.7, 0.2 + 0.02 * t]] for t in range(30)]
    found = [[[x, y], [None, None]] for (x, y), _ in true[10:]]
    tracked = [{"frame": t, "boxes": [[3, 0.3, 0.3, 0.25, 0.25]]} for t in (0, 50, 99)]
    example = {"episode": number, "given": 10, "sizes": [0.25, 0.25], "corridor": []}
    colors = {"colors": ["#ff0000", "#ff0000"]}
    return example | colors | {"true": true, "futures": [found], "tracked": tracked}


def result(recipe: str = "two-layer", kind: str = "GSWM", **changes: Any) -> dict[str, Any]:
    """A possible output of `gswm eval --json`."""
    world = changes.pop("world", recipe)
    about = {"seed": changes.pop("seed", 0), "step": 9_000, "minutes": 4.25, "commit": "abcdef012"}
    made = {
        "command": f"gswm eval {recipe}",
        "model": {"kind": kind, "recipe": recipe, "world": world, "train": f"gswm train {recipe}"},
        "data": {"world": world, "split": "test"},
        "gswm": "0",
        "commit": "0123456789",
        "device": "cpu",
        "protocol": {"name": "gswm-10-90", "given": 10},
        "episodes": 200,
        "seed": 0,
        "scores": {"center_error": 0.25, "strict_error": 0.5, "mota": 0.99},
        "curves": {"center_error": [0.01, 0.02], "strict_error": [0.02, 0.04]},
        "examples": [ball_example()],
    }
    made["model"]["about"] = about | {"device": "NVIDIA H200"}
    return made | changes


def of(model: str, world: str, **changes: Any) -> dict[str, Any]:
    """A result of a model in a world."""
    if model == "G-SWM":
        return result(world, "GSWM", **changes)
    return result(f"{model.lower()}-{world}", model.capitalize(), world=world, **changes)


def rule_of(rule: str, world: str, error: float) -> dict[str, Any]:
    """A result of a rule in a world."""
    made = result(world, scores={"center_error": error})
    return made | {"model": {"baseline": rule}, "examples": []}


def maze_result(recipe: str) -> dict[str, Any]:
    true = [[[0.1 + 0.05 * t, 0.07]] for t in range(12)]
    example = {"episode": 0, "given": 5, "sizes": [0.14], "colors": ["#00ff00"], "true": true}
    example |= {"futures": [true[5:]] * 6, "tracked": [], "corridor": [[1, 1], [0, 1]]}
    curves = {"in_corridor": [1.0, 0.5], "release_count": [3.0] * 7}
    made = {"examples": [example], "curves": curves, "scores": {"pace": 0.9}}
    return result(recipe, world="maze", protocol={"name": "gswm-maze-5", "given": 5}, **made)


def saved(folder: Path, *results: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for i, each in enumerate(results):
        (folder / f"{i}.json").write_text(json.dumps(each))
    return folder


def row(table: Any, name: str) -> dict[str, str]:
    return next(dict(zip(table.head, r, strict=True)) for r in table.rows if r[0] == name)


def still(level: int, steps: int = 3) -> str:
    """Frames of one gray."""
    return as_text(torch.full((steps, 3, 64, 64), level, dtype=torch.uint8))


def solid_result(**changes: Any) -> dict[str, Any]:
    """A result in the 3D world, with the paper's protocol."""
    box = [1, 0.5, 0.5, 0.25, 0.5]
    stills = {"steps": [1, 5, 10], "true": still(200), "true_boxes": [[box], [box], [box]]}
    stills |= {"imagined": still(100), "boxes": [[box], [], []]}
    scores = {"center_error": 0.125, "strict_error": 0.25, "mota": 0.75, "psnr": 31.5, "ssim": 0.9}
    scores |= {"collision_precision": 0.5, "collision_recall": 0.25, "collision_f1": 1 / 3}
    made = {
        "protocol": {"name": "gswm-3d-10-90", "given": 10},
        "scores": scores,
        "curves": {"center_error": [0.1, 0.2], "strict_error": [0.2, 0.3], "psnr": [33.0, 30.0]},
        "examples": [ball_example() | {"stills": stills}],
    }
    return result("obj3d", **(made | changes))


def by_slotformer() -> dict[str, Any]:
    """A result of the same weights, with SlotFormer's protocol."""
    other = {"command": "gswm eval obj3d --protocol slotformer-6-44"}
    other |= {"data": {"world": "obj3d", "split": "val"}, "scores": {"psnr": 28.25, "ssim": 0.8}}
    return solid_result(protocol={"name": "slotformer-6-44", "given": 6}, **other)


def labels(drawn: Drawing | Charts | None) -> list[str]:
    """The names in a figure."""
    assert drawn is not None
    if isinstance(drawn, Charts):
        return [series.name for chart in drawn.panels for series in chart.series if series.values]
    return [part.text for part in drawn.parts if isinstance(part, Label)]
