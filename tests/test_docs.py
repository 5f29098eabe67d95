"""README and docs: their commands parse, their links lead somewhere, their numbers hold."""

import ast
import importlib.util
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from gswm.cli import find, parse
from gswm.report.results import FAIL
from gswm.weights.files import read_header
from gswm.weights.finding import shipped

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """All that is written as a line to type, remarks behind # and all."""
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    return list(dict.fromkeys(line.strip() for line in lines if line.startswith("    gswm ")))


@pytest.mark.parametrize("command", commands())
def test_a_command_can_be_typed_as_it_is_written(command: str) -> None:
    name, rest = find(shlex.split(command, comments=True)[1:])
    assert name is not None
    if rest[:1] != ["--resume"]:  # which needs a run
        parse(name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def snippets() -> list[tuple[str, str]]:
    """Every block of Python on a page."""
    found = [
        (p.name, re.findall(r"^```python\n(.*?)^```", p.read_text(), re.M | re.S)) for p in PAGES
    ]
    return [(page, block) for page, blocks in found for block in blocks]


@pytest.mark.parametrize(("page", "snippet"), snippets())
def test_python_on_a_page_imports_and_names_what_there_is(page: str, snippet: str) -> None:
    for node in ast.walk(ast.parse(snippet)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                resolve(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "gswm":
            resolve(f"gswm.{node.attr}")


@pytest.mark.slow
def test_the_first_python_of_the_readme_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, snippet = next(each for each in snippets() if each[0] == "README.md")
    names: dict[str, Any] = {}
    exec(compile(snippet, "README.md", "exec"), names)
    assert names["branch"].futures == 4
    written = sorted(file.name for file in tmp_path.iterdir())
    assert written == ["futures.mp4", "mine.safetensors", "objects.gif"]


def resolve(name: str) -> object:
    """What a dotted name stands for: a module, or something in one."""
    module, _, last = name.rpartition(".")
    if not module or importlib.util.find_spec(module) is None:
        return importlib.import_module(name)
    held = importlib.import_module(module)
    return getattr(held, last) if hasattr(held, last) else importlib.import_module(name)


GROUPS = {"gswm.worlds"}
"""Of entry points: they look like modules, and are none."""
SOURCES = [*PAGES, *sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "tools").glob("*.py"))]


def test_names_and_paths_in_backquotes_are_there() -> None:
    for file in SOURCES:
        text = file.read_text()
        for name in set(re.findall(r"`(gswm(?:\.\w+)+)", text)) - GROUPS:
            resolve(name)
        for path in re.findall(r"`([\w/]+/\w+\.py)`", text):
            assert any((at / path).is_file() for at in (ROOT, ROOT / "src" / "gswm")), (file, path)


def test_the_table_of_results_is_what_was_measured_with_the_weights_that_ship() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \| [\d.]+ ± .*$", (ROOT / "README.md").read_text(), re.M)
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(rows) == 4
    for world in rows:
        line = next(line for line in lines if line.startswith(f"| {world} | "))
        _, _, here, objects, minutes, _, scalor, _, stove = [
            cell.strip() for cell in line.strip("|").split("|")
        ]
        scores = scores_of(world)
        assert scores is not None
        assert here == f"{scores['center_error']:.3f}"
        assert objects.split(" / ")[0] == f"{scores['objects']:.2f}"
        about = read_header(shipped()[world])["about"]
        assert minutes == f"{about['minutes']:.0f}"
        assert scalor == in_short(scores_of(f"scalor-{world}"))
        assert stove == in_short(scores_of(f"stove-{world}"))


def scores_of(name: str) -> dict[str, float] | None:
    """The scores of weights, if they have any."""
    path = ROOT / "docs" / "results" / f"{name}.json"
    return json.loads(path.read_text())["scores"] if path.exists() else None


def in_short(scores: dict[str, float] | None) -> str:
    """What a table says of them."""
    if scores is None:
        return ""
    return "fails" if scores["mota"] < FAIL else f"{scores['center_error']:.3f}"


MEASURED_OTHERWISE = {"obj3d": {"collision_recall", "collision_f1", "collision_delay"}}
"""Since the weights were written, contacts are in the frames that show them."""


@pytest.mark.parametrize("name", sorted(shipped()))
def test_weights_say_of_themselves_what_was_measured_with_them(name: str) -> None:
    """Once: what is measured again may round otherwise, and have scores that are newer."""
    measured = json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())
    for score, value in read_header(shipped()[name])["about"]["test"].items():
        if score not in MEASURED_OTHERWISE.get(name, ()):
            assert measured["scores"][score] == pytest.approx(value, rel=2e-3)
    assert measured["command"] == f"gswm eval {name}"
    assert not measured["commit"].endswith("+changes")


def name_of(command: str) -> str:
    """What the file of a result is called: by its weights and, if it is not the usual one, the
    first word of its protocol; or by its rule and world."""
    words = command.removeprefix("gswm eval ").split()
    if words[0].startswith("--"):
        given = dict(zip(words[::2], words[1::2], strict=True))
        return f"{given['--baseline']}-{given['--world']}"
    name, rest = words[0], dict(zip(words[1::2], words[2::2], strict=True))
    return "-".join([name, *(value.split("-")[0] for value in rest.values())])


def test_a_result_is_named_after_its_command() -> None:
    assert name_of("gswm eval obj3d") == "obj3d"
    assert name_of("gswm eval obj3d --protocol slotformer-6-44") == "obj3d-slotformer"
    for file in (ROOT / "docs" / "results").glob("*.json"):
        assert name_of(json.loads(file.read_text())["command"]) == file.stem


def test_every_test_that_the_page_on_reliability_names_is_there() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    there = {
        name
        for file in (ROOT / "tests").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", file.read_text(), re.M)
    }
    assert named
    assert named <= there, named - there
