"""The wheel's bill of materials in CycloneDX 1.6: what gswm needs, and what the wheel contains.

    python tools/sbom.py > gswm.cdx.json

A build of the wheel puts it into `gswm-VERSION.dist-info/sboms/` and beside the wheel. Its content
follows from the sources alone. Versions are those that gswm is tested with; a package that it is
not tested with has none.
"""

import hashlib
import json
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).parent))
import wheel_weights
from lock import LEFT_OUT, PROJECT, ROOT, read_constraints, read_lock

FILM = "src/gswm/data/films/cars.mp4"
FILM_LICENSE = "CC-BY-4.0"
DEVELOPERS = ("dev", "docs")
"""Extras for those who work on gswm itself."""


def users_of_packages(extras: dict[str, list[str]]) -> dict[str, set[str]]:
    """The packages, or extras of gswm, that need each package."""
    locked = read_lock((ROOT / "constraints.lock").read_text())
    users = {name: set(package.needed_by) for name, package in locked.items()}
    users[LEFT_OUT] = {PROJECT}
    for extra, lines in extras.items():
        for line in lines:  # some extras are in no lock file, as they are not tested
            users.setdefault(canonicalize_name(Requirement(line).name), set()).add(extra)
    return users


def reached(users: dict[str, set[str]], start: set[str]) -> set[str]:
    """All packages that those in `start` need, directly or not."""
    found: set[str] = set()
    while more := {name for name, by in users.items() if by & (start | found)} - found:
        found |= more
    return found


def purl(name: str, version: str | None) -> str:
    """The package URL."""
    return f"pkg:pypi/{name}" + (f"@{version}" if version else "")


def packages(project: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The packages that gswm and the extras for users need, and their dependencies."""
    optional = project["optional-dependencies"]
    extras = {f"{PROJECT}[{name}]": optional[name] for name in optional if name not in DEVELOPERS}
    pinned = read_constraints((ROOT / "constraints.txt").read_text())
    version = {canonicalize_name(name): pin for name, pin in pinned.items()}
    users = users_of_packages(extras)
    required, shown = reached(users, {PROJECT}), sorted(reached(users, {PROJECT, *extras}))
    refs = {name: purl(name, version.get(name)) for name in shown}
    refs[PROJECT] = purl(PROJECT, project["version"])
    components = []
    for name in shown:
        about = {"type": "library", "bom-ref": refs[name], "name": name, "purl": refs[name]}
        about |= {"version": version[name]} if name in version else {}
        components.append(about | {"scope": "required" if name in required else "optional"})
    needs: dict[str, set[str]] = {name: set() for name in refs}
    for name in shown:
        for user in users[name] & {PROJECT, *extras, *shown}:
            needs[user.partition("[")[0]].add(refs[name])
    graph = [{"ref": refs[name], "dependsOn": sorted(needs[name])} for name in sorted(refs)]
    return components, graph


def contents() -> list[dict[str, Any]]:
    """The files in the wheel that are not source code: weights, and a third party's film."""
    weights = ((path, f"{wheel_weights.FOLDER}/{path.name}") for path in wheel_weights.files())
    return [
        *(part(path, name, "machine-learning-model") for path, name in weights),
        part(ROOT / FILM, FILM.removeprefix("src/"), "data", FILM_LICENSE),
    ]


def part(path: Path, name: str, kind: str, license_id: str = "Apache-2.0") -> dict[str, Any]:
    """A file in the wheel."""
    digest = {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
    about = {"type": kind, "bom-ref": name, "name": name, "hashes": [digest]}
    return about | {"licenses": licensed(license_id)}


def licensed(license_id: str) -> list[dict[str, Any]]:
    """A license by its SPDX identifier."""
    return [{"license": {"id": license_id}}]


def sbom() -> dict[str, Any]:
    """The whole document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    components, graph = packages(project)
    ref = purl(PROJECT, project["version"])
    about = {"type": "library", "bom-ref": ref, "name": PROJECT, "version": project["version"]}
    about |= {"description": project["description"], "purl": ref}
    about |= {"licenses": licensed(project["license"])}
    found = {"metadata": {"component": about}, "components": [*components, *contents()]}
    found["dependencies"] = graph
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}"}
    return head | {"version": 1} | found


if __name__ == "__main__":
    print(json.dumps(sbom(), indent=1))
