"""The bill of materials of the wheel, in CycloneDX 1.6: what it needs, and what it contains.

    python tools/sbom.py > gswm.cdx.json

A build of the wheel puts it into `gswm-VERSION.dist-info/sboms/`, and beside the wheel. It depends
on the sources alone: the same sources give the same file. Versions are those that gswm is tested
with; a package that it is not tested with has none.
"""

import hashlib
import json
import re
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILM = "src/gswm/data/films/cars.mp4"
FILM_LICENSE = "CC-BY-4.0"


def normalized(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def versions() -> dict[str, str]:
    """The version of each package that gswm is tested with."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {normalized(name): version for name, version in pairs}


def needed_by() -> dict[str, set[str]]:
    """Which packages need each; an extra of gswm is `gswm[extra]`."""
    text = (ROOT / "constraints.lock").read_text()
    found = re.findall(r"^(\S+)==.*?# needed by ([^\n]*)$", text, re.M | re.S)
    by = {normalized(name): set(users.split(", ")) for name, users in found}
    return by | {"torch": {"gswm"}}


def reached(by: dict[str, set[str]], start: set[str]) -> set[str]:
    """All packages that some need, directly or not."""
    found: set[str] = set()
    while more := {name for name, users in by.items() if users & (start | found)} - found:
        found |= more
    return found


def purl(name: str, version: str | None) -> str:
    """The address of a package, or of a version of it."""
    return f"pkg:pypi/{name}" + (f"@{version}" if version else "")


def sha256(path: Path) -> list[dict[str, str]]:
    """A file's hash."""
    return [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]


def packages(project: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The packages that gswm needs, or its extras for users need, and who needs which."""
    by, version = needed_by(), versions()
    extras = {f"gswm[{name}]" for name in project["optional-dependencies"] if name != "dev"}
    for extra in extras:
        for line in project["optional-dependencies"][extra[5:-1]]:
            by.setdefault(normalized(re.split(r"[^\w.-]", line)[0]), set()).add(extra)
    required, shown = reached(by, {"gswm"}), sorted(reached(by, {"gswm"} | extras))
    components, refs = [], {"gswm": purl("gswm", project["version"])}
    for name in shown:
        refs[name] = ref = purl(name, version.get(name))
        about = {"type": "library", "bom-ref": ref, "name": name, "purl": ref}
        about |= {"version": version[name]} if name in version else {}
        scope = "required" if name in required else "optional"
        components.append(about | {"scope": scope})
    edges: dict[str, set[str]] = {name: set() for name in refs}
    for name in shown:
        for user in by[name] & ({"gswm"} | extras | set(shown)):
            edges[user.partition("[")[0]].add(refs[name])
    graph = [{"ref": refs[name], "dependsOn": sorted(edges[name])} for name in sorted(refs)]
    return components, graph


def contents() -> list[dict[str, Any]]:
    """Files of the wheel that are not its source code: weights, and a film of somebody else."""
    found = []
    for path in sorted((ROOT / "weights").glob("*.safetensors")):
        name = f"gswm/shipped/{path.name}"
        about = {"type": "machine-learning-model", "bom-ref": name, "name": name}
        found.append(about | {"hashes": sha256(path), "licenses": licensed("Apache-2.0")})
    name = FILM.removeprefix("src/")
    about = {"type": "data", "bom-ref": name, "name": name, "hashes": sha256(ROOT / FILM)}
    return [*found, about | {"licenses": licensed(FILM_LICENSE)}]


def licensed(name: str) -> list[dict[str, Any]]:
    """A license, by its SPDX name."""
    return [{"license": {"id": name}}]


def sbom() -> dict[str, Any]:
    """All of it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    components, graph = packages(project)
    ref = purl("gswm", project["version"])
    gswm = {"type": "library", "bom-ref": ref, "name": "gswm", "version": project["version"]}
    gswm |= {"description": project["description"], "purl": ref}
    gswm |= {"licenses": licensed(project["license"])}
    found = {"metadata": {"component": gswm}, "components": [*components, *contents()]}
    found["dependencies"] = graph
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}"}
    return head | {"version": 1} | found


if __name__ == "__main__":
    print(json.dumps(sbom(), indent=1))
