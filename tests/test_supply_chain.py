"""The lock file and the bill of materials agree with the requirements and the wheel."""

import hashlib
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import lock
import sbom
import wheel_weights

ROOT = lock.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINNED = {
    canonicalize_name(name): version
    for name, version in lock.read_constraints((ROOT / "constraints.txt").read_text()).items()
}
LOCKED = lock.read_lock((ROOT / "constraints.lock").read_text())
UNTESTED = {"hub", "wandb"}
"""Extras that `make setup` does not install."""


def requirements() -> list[tuple[str, Requirement]]:
    """The requirements in pyproject.toml, with the extra that each belongs to."""
    groups = {"gswm": PROJECT["dependencies"]}
    groups |= {f"gswm[{name}]": EXTRAS[name] for name in EXTRAS if name not in UNTESTED}
    return [(user, Requirement(line)) for user, lines in groups.items() for line in lines]


def test_the_lock_file_has_the_versions_of_the_constraints_without_torch() -> None:
    assert {name: package.version for name, package in LOCKED.items()} | {
        "torch": PINNED["torch"]
    } == PINNED
    assert "torch" not in LOCKED


@pytest.mark.parametrize("name", PINNED)
def test_each_pinned_version_installs_on_the_oldest_python(name: str) -> None:
    """Checked by the installed metadata, if that version is installed."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        pytest.skip("it is not installed")
    if Version(about["Version"]).public != PINNED[name]:
        pytest.skip("another version is installed")
    assert SpecifierSet(about.get("Requires-Python") or "").contains(f"3.{lock.OLDEST}.0")


def test_pre_commit_runs_the_ruff_of_the_constraints() -> None:
    assert f"rev: v{PINNED['ruff']}\n" in (ROOT / ".pre-commit-config.yaml").read_text()


def test_each_package_has_hashes_and_is_needed_by_another() -> None:
    known = {"torch", "gswm", *(f"gswm[{extra}]" for extra in EXTRAS), *LOCKED}
    for name, package in LOCKED.items():
        assert package.hashes, name
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in package.hashes), name
        assert set(package.needed_by) <= known, name


@pytest.mark.parametrize(("user", "needed"), requirements(), ids=str)
def test_each_requirement_is_met_by_what_is_locked(user: str, needed: Requirement) -> None:
    name = canonicalize_name(needed.name)
    if name == "gswm":
        assert needed.extras <= set(EXTRAS)
        return
    assert needed.specifier.contains(PINNED[name])
    assert name == "torch" or user in LOCKED[name].needed_by


def test_an_entry_is_read_as_it_was_written() -> None:
    for marker in ("", ' ; sys_platform == "linux"'):
        package = lock.LockedPackage("1.2", marker, ("ab" * 32, "cd" * 32), ("gswm[dev]", "x"))
        other = lock.LockedPackage("3", "", ("ef" * 32,), ("gswm",))
        text = lock.HEAD + package.entry("Some_Name") + other.entry("x")
        assert lock.read_lock(text) == {"some-name": package, "x": other}


@pytest.mark.parametrize(
    ("file", "systems"),
    [
        ("x-1.0-py3-none-any.whl", {"any"}),
        ("x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", {"linux"}),
        ("x-1.0-cp39-abi3-win_amd64.whl", {"win32"}),
        ("x-1.0-cp313-cp313-macosx_11_0_arm64.whl", {"darwin"}),
        ("x-1.0.tar.gz", {"any"}),
        ("x-1.0-cp310-cp310-manylinux_2_28_x86_64.whl", None),
        ("x-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl", None),
        ("x-1.0-cp311-cp311-manylinux_2_28_s390x.whl", None),
        ("x-1.0-cp311-cp311-win32.whl", None),
        ("x-1.1-py3-none-any.whl", None),
        ("x-1.0.exe", None),
    ],
)
def test_files_of_other_versions_and_machines_are_left_out(
    file: str, systems: set[str] | None
) -> None:
    found = lock.file_of(f"https://index/{file}#sha256=ab", "1.0")
    assert (None if found is None else set(found.systems)) == systems


def test_a_wheel_of_several_machines_is_for_all_of_them() -> None:
    tags = parse_tag("cp311-cp311-macosx_11_0_arm64.manylinux_2_28_x86_64")
    assert {lock.system_of(tag) for tag in tags} == {"linux", "darwin"}


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return sbom.sbom()


def test_the_bill_lists_the_packages_that_users_install(bill: dict[str, Any]) -> None:
    libraries = {each["name"]: each for each in bill["components"] if each["type"] == "library"}
    for user, needed in requirements():
        name = canonicalize_name(needed.name)
        if user not in [f"gswm[{extra}]" for extra in sbom.DEVELOPERS]:
            scope = "required" if user == "gswm" else "optional"
            assert libraries[name]["version"] == PINNED[name]
            assert scope == "optional" or libraries[name]["scope"] == scope
    assert {"ruff", "pytest", "mkdocs"}.isdisjoint(libraries)
    assert "version" not in libraries["wandb"]


def test_the_bill_has_the_hashes_of_the_files_in_the_wheel(bill: dict[str, Any]) -> None:
    hashes = {
        each["name"]: each["hashes"][0]["content"]
        for each in bill["components"]
        if "hashes" in each
    }
    files = {f"gswm/shipped/{path.name}": path for path in wheel_weights.files()}
    films = (ROOT / "src" / "gswm").rglob("*.mp4")
    files |= {path.relative_to(ROOT / "src").as_posix(): path for path in films}
    assert hashes == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()
    }


def test_the_dependencies_of_the_bill_lead_from_gswm_to_every_package(
    bill: dict[str, Any],
) -> None:
    graph = {each["ref"]: set(each["dependsOn"]) for each in bill["dependencies"]}
    start = bill["metadata"]["component"]["bom-ref"]
    reached, front = {start}, {start}
    while front:
        front = set().union(*(graph[ref] for ref in front)) - reached
        reached |= front
    libraries = {each["bom-ref"] for each in bill["components"] if each["type"] == "library"}
    assert reached == {start, *libraries} == set(graph)


def test_the_same_sources_give_the_same_bill(bill: dict[str, Any]) -> None:
    assert sbom.sbom() == bill
    assert bill["bomFormat"] == "CycloneDX"
