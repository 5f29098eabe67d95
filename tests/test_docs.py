"""README and docs: commands parse, links lead to files, and numbers agree with results."""

import ast
import importlib.util
import inspect
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import tiny
import torch

import gswm
from gswm.cli import COMMANDS, find, main, parse
from gswm.data.example import CARS
from gswm.data.storage import hdf5
from gswm.data.worlds import registry as worlds
from gswm.data.worlds.base import Layout, Style
from gswm.data.worlds.registry import WORLDS
from gswm.eval import protocols
from gswm.eval.protocols import Metric
from gswm.models import registry
from gswm.models.contract import Contract
from gswm.models.registry import REGISTRY
from gswm.report.results import FAIL, is_benchmark
from gswm.weights.files import read_header
from gswm.weights.finding import shipped

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import notebooks
import tables

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """All commands to type, without comments."""
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    typed = [shlex.split(line, comments=True) for line in lines if line.startswith("    gswm ")]
    return list(dict.fromkeys(map(shlex.join, typed)))


@pytest.mark.parametrize("command", commands())
def test_a_command_can_be_typed_as_it_is_written(command: str) -> None:
    name, rest = find(shlex.split(command)[1:])
    assert name is not None
    if rest[:1] != ["--resume"]:  # which needs a run
        parse(name, rest)


def test_every_command_is_on_a_page_and_is_run_by_a_test() -> None:
    typed = "\n".join(page.read_text() for page in PAGES)
    tests = "\n".join(file.read_text() for file in (ROOT / "tests").glob("test_*.py"))
    for name in COMMANDS:
        assert f"gswm {name}" in typed, name
        words = ", ".join(f'"{word}"' for word in name.split())
        assert re.search(rf"""[\[(]{words}|[f"']{name} """, tests), name


CHEAP = (
    "gswm data show maze --episode 3 --out maze.gif",
    "gswm weights",
)


@pytest.mark.slow
def test_cheap_commands_of_the_pages_run_as_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(CHEAP) <= set(commands())
    for command in CHEAP:
        assert main(shlex.split(command)[1:]) == 0, command
    assert [file.name for file in tmp_path.iterdir()] == ["maze.gif"]


TRAINS = ("train", "fit", "sweep", "bench train", "bench imagine")
ON_A_CPU = ("--resume", "-cpu", "--device cpu", "--print", "--prepare", "--learn motion")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_that_needs_a_gpu_says_so(page: Path) -> None:
    """On its line, or in the paragraph before the block that it is in."""
    paragraph = ""
    for block in re.split(r"\n{2,}", page.read_text()):
        if not block.startswith("    "):
            paragraph = block
            continue
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] != ["gswm"] or any(word in line for word in ON_A_CPU):
                continue
            name, _ = find(words[1:])
            if name in TRAINS or "--device cuda" in line:
                assert re.search(r"\bGPU\b|H200", f"{line}\n{paragraph}"), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def snippets() -> list[tuple[str, str]]:
    """Every block of Python on a page, and all code of a notebook."""
    found = [(p.name, blocks(p, "python")) for p in PAGES]
    found += [(book.name, ["\n".join(cells(book))]) for book in NOTEBOOKS]
    return [(page, block) for page, several in found for block in several]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def cells(notebook: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    held = notebooks.code_cells(json.loads(notebook.read_text()))
    return ["".join(cell["source"]) for cell in held]


def kinds(outputs: list[notebooks.Output]) -> list[list[str]]:
    """The kind of each output: text that was printed, or the MIME types of a value."""
    return [sorted(output.get("data", ["printed"])) for output in outputs]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_has_the_outputs_of_its_code(notebook: Path) -> None:
    held = json.loads(notebook.read_text())
    assert held["nbformat"] == 4
    assert len({cell["id"] for cell in held["cells"]}) == len(held["cells"])
    assert held["metadata"]["code_sha256"] == notebooks.checksum(held), "run tools/notebooks.py"
    code = notebooks.code_cells(held)
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    found = [kind for cell in code for kind in kinds(cell["outputs"])]
    assert ["printed"] in found
    assert ["image/png", "text/plain"] in found


def test_notebooks_are_small() -> None:
    assert sum(notebook.stat().st_size for notebook in NOTEBOOKS) < 1e6


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    held = json.loads(notebook.read_text())
    made = notebooks.run(held, notebook.name)
    stored = [cell["outputs"] for cell in notebooks.code_cells(held)]
    assert list(map(kinds, made)) == list(map(kinds, stored))


@pytest.mark.parametrize(("page", "snippet"), snippets())
def test_python_on_a_page_imports_and_names_what_there_is(page: str, snippet: str) -> None:
    for node in ast.walk(ast.parse(snippet)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names if node.module not in ("my_world", "blob_model") else ():
                resolve(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "gswm":
            resolve(f"gswm.{node.attr}")


README = ROOT / "README.md"


@pytest.mark.slow
def test_the_python_of_the_readme_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(blocks(README, "python")[0], "README.md", "exec"), names)
    assert names["future"].futures == 4
    assert (tmp_path / "futures.gif").is_file()
    assert capsys.readouterr().out in blocks(README, "text")


@pytest.mark.slow
def test_the_first_python_of_the_page_on_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    page = ROOT / "docs" / "python.md"
    exec(compile(blocks(page, "python")[0], page.name, "exec"), names)
    assert names["branch"].futures == 4
    written = sorted(file.name for file in tmp_path.iterdir())
    assert written == ["futures.mp4", "mine.safetensors", "objects.gif"]


@pytest.mark.slow
def test_the_python_about_videos_runs(
    small_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gswm.track(CARS, frames=12).save("film.mp4")
    names: dict[str, Any] = {"gswm": gswm}
    for block in blocks(ROOT / "docs" / "python.md", "python")[1:3]:
        exec(compile(block, "python.md", "exec"), names)
    assert names["center"].shape == names["track"].xy[0].shape
    assert names["future"].past.pres.shape[1] == 10


def test_the_example_of_a_world_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code of the page runs as it is, and the file of its episodes is lossless."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(WORLDS, "_found", dict(WORLDS))
    monkeypatch.setattr(protocols, "PROTOCOLS", dict(protocols.PROTOCOLS))
    _, example, commands = blocks(ROOT / "docs" / "adding-a-dataset.md", "python")
    names: dict[str, Any] = {"__name__": "my_world"}
    exec(compile(example, "adding-a-dataset.md", "exec"), names)
    monkeypatch.setitem(sys.modules, "my_world", SimpleNamespace(**names))
    exec(compile(commands, "adding-a-dataset.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "mine.gif" in printed
    assert "mine, test: 20 episodes, mine-5-25" in printed
    assert main(["data", "make", "mine", "--split", "test"]) == 0
    later = next(names["MyWorld"]().episodes(2, 1, first=3))
    assert torch.equal(later.video[0], hdf5.read(Path("data/mine/test.hdf5")).video[3])


def test_the_example_of_a_file_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = blocks(ROOT / "docs" / "adding-a-dataset.md", "python")[0]
    exec(compile(example, "adding-a-dataset.md", "exec"), {})
    assert main(["data", "info", "mine.hdf5"]) == 0
    said = capsys.readouterr().out
    assert "layout: balls" in said
    assert "ignored" not in said
    assert main(["eval", "--baseline", "straight", "--world", "mine.hdf5"]) == 0
    found = re.search(r"center_error +([\d.]+)", capsys.readouterr().out)
    assert found is not None
    assert float(found[1]) < 1e-3  # the positions and velocities agree


def test_the_example_of_a_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page has the whole file that the tests of the registry use."""
    monkeypatch.chdir(tmp_path)
    REGISTRY.load()
    monkeypatch.setattr(REGISTRY, "entries", dict(REGISTRY.entries))
    monkeypatch.setattr(REGISTRY, "recipes", dict(REGISTRY.recipes))
    example, commands = blocks(ROOT / "docs" / "adding-a-model.md", "python")
    assert example == (ROOT / "tests" / "third_party" / "blob_model.py").read_text()
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "third_party"))
    module = importlib.import_module("blob_model")
    exec(compile(commands, "adding-a-model.md", "exec"), {"gswm": gswm, "MODEL": module.MODEL})
    assert "single-ball, test: 100 episodes" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["adding-a-dataset.md", "adding-a-model.md"])
def test_an_entry_point_on_a_page_is_that_of_its_example(page: str) -> None:
    (text,) = blocks(ROOT / "docs" / page, "toml")
    read = tomllib.loads(text)
    ((group, points),) = read["project"]["entry-points"].items()
    assert group in (registry.GROUP, worlds.GROUP)
    ((_, value),) = points.items()
    module, _, name = value.partition(":")
    assert read["tool"]["setuptools"]["py-modules"] == [module]
    example = "\n".join(blocks(ROOT / "docs" / page, "python"))
    assert re.search(rf"^(class )?{name}\b", example, re.M)


@pytest.mark.parametrize("values", [Layout, Style, Metric])
def test_the_page_on_datasets_has_all_values(values: Any) -> None:
    page = (ROOT / "docs" / "adding-a-dataset.md").read_text()
    assert not [value for value in get_args(values) if f"`{value}`" not in page]


@pytest.mark.usefixtures("small_trunk")
def test_the_first_commands_of_the_readme_print_what_it_says(
    small_clips: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The numbers differ, because weights are small and frames few."""
    tiny.ship(small_clips.parent, "two-layer")
    monkeypatch.chdir(tmp_path)
    start = README.read_text().partition("## Five-minute start")[2]
    typed = re.findall(r"^    gswm (.*)$", start, re.M)[:2]
    for line, said, less in zip(
        typed, blocks(README, "text"), ("--frames 2", "--given 1 --steps 1 --trail 0"), strict=False
    ):
        line = line.replace(str(CARS.relative_to(ROOT)), str(CARS))
        assert main([*line.split(), *less.split()]) == 0
        assert without_numbers(capsys.readouterr().out) == without_numbers(said)


def without_numbers(text: str) -> str:
    return re.sub(r"[\d.]+", "N", text)


def test_the_version_is_the_latest_of_the_changelog_and_that_to_cite() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    cited = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.M))
    assert headings[0] == "Unreleased]"
    assert headings[1] == f"{version}] - {cited['date-released']}"
    assert cited["version"] == version


def test_the_readme_is_short_and_begins_in_order() -> None:
    text = README.read_text()
    assert len(text.splitlines()) < 150
    assert "`make test`" in text
    assert re.findall("^## (.*)$", text, re.M) == [
        *("Install", "Five-minute start", "Model zoo", "Your own video", "Results"),
        *("Links", "Cite"),
    ]


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_tables_are_what_was_measured(page: Path) -> None:
    """`make results` writes them."""
    text = page.read_text()
    assert tables.filled(text) == text
    assert "<!-- end -->" in text


def test_the_reference_has_every_public_name() -> None:
    shown = set(re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.M))
    public = {f"{home}.{name}" for name, home in gswm.HOME.items()}
    assert shown == public | {"gswm.studio.notebook.studio", "gswm.models.contract.Contract"}


def test_the_methods_on_the_page_on_models_have_these_arguments() -> None:
    text = (ROOT / "docs" / "adding-a-model.md").read_text()
    rows = "\n".join(re.findall(r"^\| (`.*?) \|", text, re.M))
    found = re.findall(r"`(\w+)\(([^)]*)\)`", rows)
    assert {"loss", "perceive", "rollout", "infer_after"} <= dict(found).keys()
    for name, arguments in found:
        _, *takes = inspect.signature(getattr(Contract, name)).parameters
        assert [each for each in arguments.split(", ") if each not in ("", "*")] == takes, name


def test_messages_on_the_page_of_troubles_are_in_the_code() -> None:
    code = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    headings = re.findall("^### (.*)$", page, re.M)
    fragments = [each for heading in headings for each in re.findall("`([^`]+)`", heading)]
    assert len(fragments) > 15
    for fragment in fragments:
        assert fragment in code, fragment


def resolve(name: str) -> object:
    """Import the module or attribute with a dotted name."""
    module, _, last = name.rpartition(".")
    if not module or importlib.util.find_spec(module) is None:
        return importlib.import_module(name)
    held = importlib.import_module(module)
    return getattr(held, last) if hasattr(held, last) else importlib.import_module(name)


def test_no_docstring_begins_with_a_question_word() -> None:
    """Docstrings name their subject: "Unreadable files", and not "What cannot be read"."""
    files = (file for folder in ("src", "tests", "tools") for file in (ROOT / folder).rglob("*.py"))
    for file in files:
        found = re.findall(r'"""(?:What|Whom?|Where|How)\b.*', file.read_text())
        assert not found, f"{file}: {found}"


GROUPS = {"gswm.worlds"}
"""Entry-point groups, which look like modules."""
SOURCES = [*PAGES, *sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "tools").glob("*.py"))]


def test_names_and_paths_in_backquotes_are_there() -> None:
    for file in SOURCES:
        text = file.read_text()
        for name in set(re.findall(r"`(gswm(?:\.\w+)+)", text)) - GROUPS:
            resolve(name)
        for path in re.findall(r"`([\w/]+/\w+\.py)`", text):
            assert any((at / path).is_file() for at in (ROOT, ROOT / "src" / "gswm")), (file, path)


def test_the_table_of_results_is_the_mean_of_all_seeds() -> None:
    lines = re.findall(r"^\| ([a-z-]+) \| ([\d.]+ ± .*) \|$", README.read_text(), re.M)
    assert len(lines) == 4
    for world, line in lines:
        _, here, _, scalor, _, stove, objects = line.split(" | ")
        first, *_ = found = scores_of(world)
        assert here == in_short(found)
        assert objects.split(" of ")[0] == f"{first['objects']:.2f}"
        assert scalor == in_short(scores_of(f"scalor-{world}"))
        assert stove == in_short(scores_of(f"stove-{world}"))


def test_the_zoo_has_the_sizes_and_minutes_of_the_weights() -> None:
    rows = re.findall(r"^\| G-SWM \| .* \| `gswm eval (.*)` \|$", README.read_text(), re.M)
    assert {"clips", "two-layer", "maze"} <= set(rows)
    for name in rows:
        row = next(line for line in README.read_text().splitlines() if f"eval {name}`" in line)
        size, minutes = row.split(" | ")[5:7]
        assert size == f"{shipped()[name].stat().st_size / 1e6:.1f}"
        assert minutes == f"{read_header(shipped()[name])['about']['minutes']:.0f}"


def scores_of(name: str) -> list[dict[str, float]]:
    """The scores of the weights that ship, and of other seeds."""
    folder = ROOT / "docs" / "results"
    files = [folder / f"{name}.json", *sorted(folder.glob(f"{name}-seed-*.json"))]
    return [json.loads(file.read_text())["scores"] for file in files]


def in_short(seeds: list[dict[str, float]]) -> str:
    """The cell of a table for these scores."""
    if fmean(each["mota"] for each in seeds) < FAIL:
        return "fails"
    errors = [each["center_error"] for each in seeds]
    if len(errors) == 1:
        return f"{errors[0]:.3f}"
    return f"{fmean(errors):.3f} ± {stdev(errors):.3f} ({len(errors)} seeds)"


MEASURED_IN_PART = {"op3-obj3d": 60, "op3-obj3d-two": 60}
"""Test episodes of models that infer a frame in many steps; tables mark such scores."""


REDEFINED = {"op3-obj3d-two": "collision_"}
"""Weights whose headers have scores by an earlier definition, and how these scores begin."""


@pytest.mark.parametrize("name", sorted(shipped()))
def test_weights_say_of_themselves_what_was_measured_with_them(name: str) -> None:
    """Up to rounding; later measurements may have additional scores."""
    part = f"-{MEASURED_IN_PART[name]}" if name in MEASURED_IN_PART else ""
    measured = json.loads((ROOT / "docs" / "results" / f"{name}{part}.json").read_text())
    for score, value in read_header(shipped()[name])["about"]["test"].items():
        if name not in REDEFINED or not score.startswith(REDEFINED[name]):
            assert measured["scores"][score] == pytest.approx(value, rel=2e-3)
    episodes = f" --episodes {part[1:]}" if part else ""
    assert measured["command"] == f"gswm eval {name}{episodes}"
    assert not measured["commit"].endswith("+changes")


def name_of(command: str) -> str:
    """The name of a result file: that of its weights or run and, unless it is the usual one, the
    first word of its protocol; or those of its baseline and world."""
    words = command.removeprefix("gswm eval ").split()
    if words[0].startswith("--"):
        given = dict(zip(words[::2], words[1::2], strict=True))
        return f"{given['--baseline']}-{given['--world']}"
    name, rest = Path(words[0]).name, dict(zip(words[1::2], words[2::2], strict=True))
    return "-".join([name, *(value.split("-")[0] for value in rest.values())])


def test_a_result_is_named_after_its_command() -> None:
    assert name_of("gswm eval obj3d") == "obj3d"
    assert name_of("gswm eval obj3d --protocol slotformer-6-44") == "obj3d-slotformer"
    assert name_of("gswm eval runs/two-layer-seed-1") == "two-layer-seed-1"
    for file in (ROOT / "docs" / "results").glob("*.json"):
        held = json.loads(file.read_text())
        if is_benchmark(held):
            assert file.stem.startswith("bench-")
        else:
            assert name_of(held["command"]) == file.stem


def test_every_test_that_the_page_on_reliability_names_is_in_the_file_named_before_it() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    file, found = "", 0
    for link, name in re.findall(r"\(\.\./(tests/[\w/]+\.py)\)|`(test_\w+)`", page):
        file = link or file
        if name:
            assert f"\ndef {name}(" in (ROOT / file).read_text(), f"{name} is not in {file}"
            found += 1
    assert found
