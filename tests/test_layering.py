"""The package is read in one order: a module imports only what stands above it."""

import ast
import re
from pathlib import Path

import pytest

import gswm

ORDER = [
    *(
        "errors",
        "files",
        "waiting",
        "devices",
        "parsing",
        "settings",
        "shapes",
        "records",
        "replay",
    ),
    *("data.splits", "data.episode", "data.world", "data.threads", "data.moving", "data.sprites"),
    *("data.obj3d.layout", "data.layouts", "data.hdf5"),
    *("data.sources", "data.videos", "data.importing"),
    *("data.randomstate", "data.physics", "data.balls"),
    *("data.single_ball", "data.maze_drawing", "data.maze"),
    *("data.obj3d.settings", "data.obj3d.simulation", "data.obj3d.scenes"),
    *("data.obj3d.scene_file", "data.obj3d.camera", "data.obj3d.rays", "data.obj3d.shading"),
    *("data.obj3d.culling", "data.obj3d.stage", "data.obj3d.surfaces", "data.obj3d.renderer"),
    *("data.obj3d.blender_program", "data.obj3d.blender", "data.obj3d.world", "data.worlds"),
    *("data.pictures", "data.picture_files"),
    *("data.windows", "data.frames", "data.resident", "data.streaming", "data.loader"),
    *("data.speed",),
    *("schedule", "distributions", "geometry", "networks", "objects", "world_model", "scene"),
    *("imagining", "showing", "throwing", "track_pictures"),
    *("kernels.products", "kernels.tiles", "kernels.mlp"),
    *("kernels.sampling", "kernels.compose_triton", "kernels.compose"),
    *("kernels.crop_triton", "kernels.crop"),
    *("kernels.os_rnn_weights", "kernels.os_rnn_forward"),
    *("kernels.os_rnn_backward", "kernels.os_rnn"),
    *("model.rendering", "model.context", "model.interaction", "model.situation"),
    *("model.propagation", "model.discovery", "model.objective", "model.noise"),
    "model.gswm",
    *("baselines.scalor.networks", "baselines.scalor.objects", "baselines.scalor.rendering"),
    *("baselines.scalor.background", "baselines.scalor.propagation"),
    *("baselines.scalor.discovery", "baselines.scalor.objective", "baselines.scalor.observed"),
    *("baselines.scalor.noise", "baselines.scalor.schedule", "baselines.scalor.scalor"),
    *("baselines.stove.spn", "baselines.stove.supair", "baselines.stove.matching"),
    *("baselines.stove.dynamics", "baselines.stove.scene", "baselines.stove.config"),
    "baselines.stove.stove",
    *("eval.boxes", "eval.matching", "eval.distance", "eval.counts", "eval.tracking"),
    *("eval.corridor", "eval.collisions", "eval.futures", "eval.lpips", "eval.pixels"),
    *("eval.baselines", "eval.examples", "eval.stills", "eval.protocols", "eval.evaluate"),
    *("report.paper", "report.results", "report.cells", "report.drawing", "report.charts"),
    *("report.scenes", "report.frames", "report.figures", "report.others", "report.tables"),
    *("report.page", "report.writing"),
    *("recipes", "weights"),
    *(
        "train.distributed",
        "train.signals",
        "train.checkpoint",
        "train.operations",
        "train.fast",
        "train.step",
        "train.ahead",
    ),
    *("train.folder", "train.diagnostics", "train.display", "train.loop"),
    *("train.trackers", "train.pictures", "train.launch"),
    *("train.sweep", "train.slurm", "selftest", "bench.data", "bench.train", "bench.imagine"),
    *("studio.fields", "studio.protocol", "studio.branches", "studio.exports"),
    *("studio.catalog", "studio.desk"),
    *("studio.session", "studio.worker", "studio.decoding", "studio.uploads", "studio.safety"),
    *("studio.server", "studio.notebook", "bench.studio"),
    *("commands.data", "commands.compare", "commands.importing"),
    *("commands.train", "commands.bench"),
    *("commands.evaluate", "commands.export", "commands.weights"),
    *(
        "commands.imagine",
        "commands.demo",
        "commands.selftest",
        "commands.sweep",
        "commands.report",
        "commands.studio",
    ),
    *("cli", "__main__"),
]
LONGEST = 300
ROOT = Path(gswm.__file__).parent
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts): file
    for file in ROOT.rglob("*.py")
    if file.name != "__init__.py"
}


def imported(file: Path) -> set[str]:
    """The modules of this package that `file` imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gswm"):
            module = (node.module or "").removeprefix("gswm").removeprefix(".")
            inside = [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
            names |= {name if name in FILES else module for name in inside}
        elif isinstance(node, ast.Import):
            names |= {a.name.removeprefix("gswm.") for a in node.names if a.name[:5] == "gswm."}
    return names - {""}


def test_every_module_has_a_place() -> None:
    assert sorted(FILES) == sorted(ORDER)


def test_imports_go_down() -> None:
    rank = {name: i for i, name in enumerate(ORDER)}
    for name, file in FILES.items():
        for other in imported(file):
            assert rank.get(other, -1) < rank[name], f"{name} imports {other}"


def test_evaluation_knows_no_model() -> None:
    known = {"errors", "records", "world_model"}
    for name, file in FILES.items():
        if name.startswith("eval."):
            others = {o for o in imported(file) if not o.startswith(("data.", "eval."))}
            assert others <= known, f"{name} imports {others - known}"


def test_no_file_holds_two_ideas() -> None:
    assert {
        n: k for n, f in FILES.items() if (k := len(f.read_text().splitlines())) > LONGEST
    } == {}


@pytest.mark.parametrize("package", ["model", "baselines/scalor", "baselines/stove"])
def test_a_table_of_contents_has_every_file(package: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    named = re.findall(r"^(\w+)  ", text, re.MULTILINE)
    there = [file.stem for file in (ROOT / package).glob("*.py") if file.stem != "__init__"]
    assert sorted(named) == sorted(there)


def test_the_model_is_read_in_one_sitting() -> None:
    model = (ROOT / "model").glob("*.py")
    assert sum(len(file.read_text().splitlines()) for file in model) < 1200
