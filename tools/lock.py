"""Write constraints.lock: the versions in constraints.txt with the hashes of their files.

    python tools/lock.py              # in the environment that `make setup` has made
    pip install --no-deps --require-hashes -r constraints.lock

torch is left out: its wheels differ by machine and come from an index of their own. A comment after
each package names the packages that need it, according to the installed metadata.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

ROOT = Path(__file__).parents[1]
LEFT_OUT = "torch"
PROJECT = "gswm"
MACHINES = ("x86_64", "aarch64", "arm64", "amd64", "universal2")
SYSTEMS = {"manylinux": "linux", "musllinux": "linux", "macosx": "darwin", "win": "win32"}
OLDEST = 11
"""The minor version of the oldest supported Python 3."""
HEAD = """# The versions in constraints.txt with the hashes of their files, without torch.
# Written by `make lock`.
# pip install --no-deps --require-hashes -r constraints.lock
"""


@dataclass(frozen=True)
class LockedPackage:
    """An entry of the lock file."""

    version: str
    marker: str
    """The systems that the package can be installed on, for pip; empty if on all."""
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]
    """Packages; an extra of gswm is `gswm[extra]`."""

    def entry(self, name: str) -> str:
        """The entry as text."""
        lines = [f"{name}=={self.version}{self.marker}"]
        lines += [f"--hash=sha256:{digest}" for digest in self.hashes]
        return " \\\n    ".join(lines) + f"\n    # needed by {', '.join(self.needed_by)}\n"


def read_lock(text: str) -> dict[str, LockedPackage]:
    """The packages of a lock file, by their canonical names."""
    pattern = r"^([\w.-]+)==(\S+)( ; [^\n]*?)?((?: \\\n    --hash=\S+)+)\n    # needed by (.*)$"
    return {
        canonicalize_name(name): LockedPackage(
            version, marker, tuple(re.findall(r"sha256:(\w+)", hashes)), tuple(by.split(", "))
        )
        for name, version, marker, hashes, by in re.findall(pattern, text, re.M)
    }


def read_constraints(text: str) -> dict[str, str]:
    """The version of each package in constraints.txt, by its name as it is written there."""
    return dict(line.split("==") for line in text.splitlines() if not line.startswith("#"))


@dataclass(frozen=True)
class IndexFile:
    """A file of a version on the index."""

    sha256: str
    systems: frozenset[str]
    """Values of `sys_platform` that it can be installed on; `any` for all."""
    wheel: bool


class Links(HTMLParser):
    """The links on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the target of a link."""
        if tag == "a" and (target := dict(attrs).get("href")):
            self.found.append(target)


def files_of(index: str, name: str, version: str) -> list[IndexFile]:
    """The wheels of a version, or its source where there are none."""
    with urlopen(f"{index}/{canonicalize_name(name)}/", timeout=60) as answer:
        page = Links()
        page.feed(answer.read().decode())
    found = [file for link in page.found if (file := file_of(link, version)) is not None]
    wheels = [file for file in found if file.wheel]
    return wheels or found


def file_of(link: str, version: str) -> IndexFile | None:
    """The file that a link leads to; None if gswm cannot use it, or if it has another version."""
    parts = urlsplit(link)
    name, kind, digest = unquote(parts.path).rpartition("/")[2], *parts.fragment.partition("=")[::2]
    try:
        if name.endswith(".whl"):
            _, of, _, tags = parse_wheel_filename(name)
            systems = frozenset(filter(None, map(system_of, tags)))
        else:
            _, of = parse_sdist_filename(name)
            systems = frozenset(["any"])
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    if str(of) != version or not systems:
        return None
    if kind != "sha256":
        sys.exit(f"{name}: the index gives no sha256")
    return IndexFile(digest, systems, name.endswith(".whl"))


def system_of(tag: Tag) -> str | None:
    """The system that a wheel can be installed on; None for an unsupported Python or machine."""
    python = re.fullmatch(r"(py|cp)3(\d*)", tag.interpreter)
    if python is None or tag.abi.endswith("t"):
        return None
    if tag.abi not in ("none", "abi3") and int(python[2] or 0) < OLDEST:
        return None
    if tag.platform == "any":
        return "any"
    system = re.match("[a-z]*", tag.platform)
    return SYSTEMS.get(system[0]) if system and tag.platform.endswith(MACHINES) else None


def needed_by(names: list[str]) -> dict[str, set[str]]:
    """The installed packages that need each of `names`; an extra of gswm is `gswm[extra]`."""
    by: dict[str, set[str]] = {canonicalize_name(name): set() for name in names}
    extras = metadata(PROJECT).get_all("Provides-Extra") or []
    queue, seen = [(PROJECT, ""), *((PROJECT, extra) for extra in extras)], set()
    while queue:
        name, extra = queue.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for needed in needs(name, extra):
            other = canonicalize_name(needed.name)
            if other in by:
                by[other].add(f"{name}[{extra}]" if extra and name == PROJECT else name)
            queue += [(other, ""), *((other, each) for each in needed.extras)]
    return by


def needs(name: str, extra: str) -> Iterator[Requirement]:
    """The requirements of a package, or those that one of its extras adds."""
    try:
        written = requires(name) or []
    except PackageNotFoundError:
        return
    for line in written:
        needed = Requirement(line)
        alone, with_extra = (
            needed.marker is None or needed.marker.evaluate({"extra": each}) for each in ("", extra)
        )
        if with_extra and not (extra and alone):
            yield needed


def lock(files: list[IndexFile], version: str, by: set[str]) -> LockedPackage:
    """Lock a version to its files."""
    systems = frozenset[str]().union(*(file.systems for file in files))
    alone = len(systems) == 1 and systems != {"any"}
    marker = f' ; sys_platform == "{min(systems)}"' if alone else ""
    hashes = tuple(sorted({file.sha256 for file in files}))
    return LockedPackage(version, marker, hashes, tuple(sorted(by)))


def main() -> None:
    """Ask the index for the hashes, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default="https://pypi.org/simple")
    args = parser.parse_args()
    wanted = read_constraints((ROOT / "constraints.txt").read_text())
    by = needed_by(list(wanted))
    entries = []
    for name, version in wanted.items():
        if name == LEFT_OUT:
            continue
        files, users = files_of(args.index, name, version), by[canonicalize_name(name)]
        if not files:
            sys.exit(f"{name} {version}: the index has no file of it")
        if not users:
            sys.exit(f"{name}: no installed package needs it; run `make setup`, or remove it")
        entries.append(lock(files, version, users).entry(name))
    (ROOT / "constraints.lock").write_text(HEAD + "".join(entries))
    print(f"constraints.lock: {len(entries)} packages")


if __name__ == "__main__":
    main()
