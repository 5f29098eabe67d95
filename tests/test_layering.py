"""Dependencies point one way: a package imports only itself and those before it."""

import ast
import re
from pathlib import Path

import pytest

import gswm

ORDER = [
    "core",
    *("data", "data.worlds", "data.storage", "data.importing", "data.batches"),
    "viz",
    *("models", "models.gswm", "models.scalor", "models.stove"),
    *("weights", "eval.metrics", "eval", "report", "train"),
    *("fast.kernels", "fast", "studio", "bench", "commands"),
    "",  # the modules beside the packages
]
APART = {"models.scalor": {"models.stove"}, "models.stove": {"models.gswm", "models.scalor"}}
"""Packages that do not know each other, although the order would allow it."""
ROOT = Path(gswm.__file__).parent
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts): file
    for file in ROOT.rglob("*.py")
    if file.parent != ROOT or file.name != "__init__.py"  # which names all that is public
}


def package(module: str) -> str:
    """The package of a module: the longest of `ORDER`."""
    return max((p for p in ORDER if module.startswith(f"{p}.")), key=len, default="")


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


def test_imports_point_one_way() -> None:
    for name, file in FILES.items():
        ours = package(name)
        for other in imported(file):
            theirs = package(other if other in FILES else f"{other}.")
            assert ORDER.index(theirs) <= ORDER.index(ours), f"{name} imports {other}"
            assert theirs not in APART.get(ours, set()), f"{name} imports {other}"


def test_every_package_has_a_place_and_the_top_has_only_entry_points() -> None:
    folders = {".".join(f.parent.relative_to(ROOT).parts) for f in ROOT.rglob("*.py")} - {""}
    assert {folder for folder in folders if package(f"{folder}.") == ""} == set()
    assert {name for name in FILES if "." not in name} == {"__main__", "cli"}


def test_no_module_imports_in_a_circle() -> None:
    graph = {name: imported(file) & FILES.keys() for name, file in FILES.items()}
    lazy = {("models.base", "models.registry"), ("models.base", "models.recipe")}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path, name))
        if name not in done:
            for other in sorted(graph[name]):
                if (name, other) not in lazy:
                    visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_evaluation_knows_the_contract_and_no_model() -> None:
    for name, file in FILES.items():
        if name.startswith("eval."):
            others = {o for o in imported(file) if o.startswith("models.")}
            assert others <= {"models.base", "models.track"}, name


def test_training_knows_the_contract_and_no_model() -> None:
    for name, file in FILES.items():
        if name.startswith(("train.", "studio.")):
            assert {o for o in imported(file) if o.count(".") > 1 and "models" in o} == set(), name


@pytest.mark.parametrize("package", ["models/gswm", "models/scalor", "models/stove", "fast"])
def test_a_table_of_contents_has_every_file(package: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    named = re.findall(r"^(\w+)  ", text, re.MULTILINE)
    there = [file.stem for file in (ROOT / package).glob("*.py") if file.stem != "__init__"]
    assert sorted(named) == sorted(there)
