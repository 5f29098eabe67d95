"""The public API: every name exists, is typed and documented; importing it is fast."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gswm

NAMES = sorted(set(gswm.__all__) - {"RECIPES", "studio"})


@pytest.mark.parametrize("name", gswm.__all__)
def test_every_public_name_is_found_and_listed(name: str) -> None:
    assert getattr(gswm, name) is not None
    assert name in dir(gswm)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_documented_and_says_its_types(name: str) -> None:
    value = getattr(gswm, name)
    assert inspect.getdoc(value)
    if inspect.isfunction(value):
        hints = inspect.signature(value)
        assert hints.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not p.empty for p in hints.parameters.values())


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_importing_limits_how_long_threads_spin_unless_told(
    given: dict[str, str], spins: str
) -> None:
    names = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
    env = {name: value for name, value in os.environ.items() if name not in names} | given
    code = "import os, gswm; print(os.environ.get('GOMP_SPINCOUNT'))"
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.stdout.strip() == spins, run.stderr


def test_type_checkers_see_the_same_names_as_python() -> None:
    source = ast.parse(Path(gswm.__file__).read_text())
    typed = next(n for n in source.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    found = {alias.name: node.module for node in imports for alias in node.names}
    assert found.pop("studio") == "gswm.studio.notebook"
    assert found == gswm.HOME
    assert sorted([*found, "studio"]) == sorted(gswm.__all__)
    assert (Path(gswm.__file__).parent / "py.typed").is_file()


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gswm.nothing


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, gswm; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
