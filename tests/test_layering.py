"""Dependencies point one way: a package imports only itself and those before it."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import gswm

ORDER = [
    "core",
    *("data", "data.worlds", "data.storage", "data.importing", "data.looking", "data.batches"),
    "viz",
    *("models", "models.gswm", "models.op3", "models.scalor", "models.silot", "models.sqair"),
    "models.stove",
    *("weights", "eval.metrics", "eval", "report", "train"),
    *("fast.kernels", "fast", "tracking", "fitting", "studio", "bench", "commands"),
    "",  # the modules beside the packages
]
MODELS = {package for package in ORDER if package.startswith("models.")}
APART = {model: MODELS - {model} for model in MODELS}
"""Packages that do not know each other: models share what is in `models`."""
ROOT = Path(gswm.__file__).parent
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in ROOT.rglob("*.py")
    if file.parent != ROOT or file.name != "__init__.py"  # which names all that is public
}
"""Every module and package but the top, by its name without `gswm.`."""


def package(module: str) -> str:
    """The package of a module: the longest of `ORDER`."""
    return max((p for p in ORDER if f"{module}.".startswith(f"{p}.")), key=len, default="")


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


@cache
def imported(file: Path) -> set[str]:
    """The modules of this package that `file` imports, wherever in it; public names count."""
    names = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom):
            above = file.relative_to(ROOT.parent).parts[: -node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names |= {found(module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {found(alias.name) for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names |= {found("gswm", node.attr)} if node.value.id == "gswm" else set()
    return names - {""}


def found(module: str, name: str = "") -> str:
    """The module that an import brings; "" for other packages, and for `gswm` itself."""
    if module == "gswm" and name in gswm.HOME:
        module, name = gswm.HOME[name], ""
    if module != "gswm" and not module.startswith("gswm."):
        return ""
    inside = f"{module}.{name}".removeprefix("gswm").strip(".")
    return inside if inside in FILES else module.removeprefix("gswm").strip(".")


@pytest.mark.parametrize(
    "line",
    [
        "import gswm.fast.replay",
        "import gswm.fast.replay as fast",
        "from gswm.fast.replay import replay",
        "from gswm.fast import replay",
        "from ...fast import replay",
        "def late():\n    from gswm.fast.replay import replay",
        "if TYPE_CHECKING:\n    from gswm.fast.replay import replay",
    ],
)
def test_every_form_of_an_import_is_seen(line: str, tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "gswm" / "models" / "gswm" / "probe.py"
    file.parent.mkdir(parents=True)
    file.write_text(line)
    monkeypatch.setitem(globals(), "ROOT", tmp_path / "gswm")
    assert imported(file) == {"fast.replay"}


def test_packages_and_public_names_are_seen_too() -> None:
    assert found("gswm", "fast") == "fast"
    assert found("gswm", "load") == "fast.loading"
    assert found("gswm.models", "gswm") == "models.gswm"
    assert found("gswm", "__version__") == found("torch", "nn") == ""


def test_what_is_taken_from_the_top_is_seen(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("import gswm\nmodel = gswm.load('maze')\ngswm.fast.replay")
    assert imported(tmp_path / "probe.py") == {"fast.loading", "fast"}


def test_imports_point_one_way() -> None:
    for name, file in FILES.items():
        ours = package(name)
        for other in imported(file):
            theirs = package(other)
            assert ORDER.index(theirs) <= ORDER.index(ours), f"{name} imports {other}"
            assert theirs not in APART.get(ours, set()), f"{name} imports {other}"


def test_every_package_has_a_place_and_the_top_has_only_entry_points() -> None:
    folders = {".".join(f.parent.relative_to(ROOT).parts) for f in ROOT.rglob("*.py")} - {""}
    assert {folder for folder in folders if package(folder) == ""} == set()
    assert {file.stem for file in ROOT.glob("*.py")} == {"__init__", "__main__", "cli"}


def test_modules_named_in_strings_point_the_same_way() -> None:
    by_name = {"cli", "models.registry"}  # they load commands, and models, that are asked for
    for name, file in FILES.items():
        texts = (n.value for n in ast.walk(parsed(file)) if isinstance(n, ast.Constant))
        named = {found(text) for text in texts if isinstance(text, str)} & FILES.keys()
        for other in named if name not in by_name else ():
            assert ORDER.index(package(other)) <= ORDER.index(package(name)), (
                f"{name} names {other}"
            )


def test_no_module_imports_in_a_circle() -> None:
    graph = {name: imported(file) & FILES.keys() for name, file in FILES.items()}
    lazy = {("models.config", "models.registry"), ("models.contract", "models.recipe")}
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


def test_only_kernels_import_triton() -> None:
    users = {
        name
        for name, file in FILES.items()
        if re.search(r"^ *import triton", file.read_text(), re.M)
    }
    assert {package(name) for name in users} == {"fast.kernels"}


def test_evaluation_knows_the_contract_and_no_model() -> None:
    for name, file in FILES.items():
        if name.startswith("eval."):
            others = {o for o in imported(file) if package(o).startswith("models")}
            assert others <= {"models.base", "models.track"}, name


def test_training_knows_the_contract_and_no_model() -> None:
    for name, file in FILES.items():
        if name.startswith(("train.", "studio.")):
            assert {o for o in imported(file) if package(o).startswith("models.")} == set(), name


TWINS = {"Discovery", "DiscoveryEvidence", "Propagation", "PropagationEvidence"}
"""Parts that G-SWM, SCALOR, SILOT and SQAIR have, each read beside its own paper."""


def test_a_class_name_means_one_thing() -> None:
    trees = [parsed(file) for file in FILES.values()]
    names = [n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    assert {name for name in names if names.count(name) > 1} == TWINS


def test_contributing_lists_the_packages_in_this_order() -> None:
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^\| `(\w+)/`.* \| ", page, re.MULTILINE)
    assert listed == list(dict.fromkeys(name.partition(".")[0] for name in ORDER if name))


LISTED = [
    *("models", "models/gswm", "models/op3", "models/scalor", "models/silot", "models/sqair"),
    "models/stove",
    *("fast", "studio"),
]
"""Packages with a table of their modules, a line each."""
TOLD = [
    *("data", "data/batches", "data/importing", "data/looking", "data/storage", "data/worlds"),
    *("fitting", "tracking"),
]
"""Packages that name their modules in a sentence, in reading order."""


@pytest.mark.parametrize("package", [*LISTED, *TOLD])
def test_a_table_of_contents_has_every_file(package: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    named = re.findall(r"^ *(\w+)  " if package in LISTED else r"`(\w+)`", text, re.MULTILINE)
    there = [file.stem for file in (ROOT / package).glob("*.py") if file.stem != "__init__"]
    folders = [file.parent.name for file in (ROOT / package).glob("*/__init__.py")]
    assert sorted(set(named) - set(folders)) == sorted(there)
    assert len(set(named)) == len(named)
