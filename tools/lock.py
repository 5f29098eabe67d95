"""Write constraints.lock: the versions of constraints.txt with the hashes of their files.

    python tools/lock.py              # in the environment that `make setup` has made
    pip install --no-deps --require-hashes -r constraints.lock

torch is left out: its wheels differ by machine, and come from an index of its own. A comment behind
each package names the packages that need it, as they are installed here.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError, requires
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
LEFT_OUT = ("torch",)
PROJECT = "gswm"
EXTRAS = ("tensorboard", "sim", "slurm", "studio", "dev")
MACHINES = ("x86_64", "aarch64", "arm64", "amd64", "universal2")
SYSTEMS = {"manylinux": "linux", "musllinux": "linux", "linux": "linux", "macosx": "darwin"}
OLDEST = 11
"""The minor version of the oldest Python 3."""
HEAD = """# The versions of constraints.txt with the hashes of their files, without torch.
# `make lock` writes it.
# pip install --no-deps --require-hashes -r constraints.lock
"""


@dataclass(frozen=True)
class File:
    """A file of a version, on the index."""

    sha256: str
    systems: frozenset[str]
    """Where it can be installed; `any` for anywhere."""
    wheel: bool


class Links(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a link leads."""
        if tag == "a" and (target := dict(attrs).get("href")):
            self.found.append(target)


def pinned(text: str) -> dict[str, str]:
    """Names and versions."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return dict(line.split("==") for line in lines if line)


def files_of(index: str, name: str, version: str) -> list[File]:
    """What can be installed of a version: wheels, or the source where there are none."""
    with urlopen(f"{index}/{canonicalize_name(name)}/", timeout=60) as answer:
        page = Links()
        page.feed(answer.read().decode())
    found = [file for link in page.found if (file := file_of(link, version)) is not None]
    wheels = [file for file in found if file.wheel]
    return wheels or found


def file_of(link: str, version: str) -> File | None:
    """The file of a link, if it is of this version, and of use."""
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
    return File(digest, systems, name.endswith(".whl"))


def system_of(tag: Tag) -> str | None:
    """Where a wheel can be installed; None if that is not a Python or a machine for gswm."""
    python = re.fullmatch(r"(py|cp)3(\d*)", tag.interpreter)
    if python is None or tag.abi.endswith("t"):
        return None
    minor = int(python[2] or 0)
    if tag.abi not in ("none", "abi3") and minor < OLDEST:
        return None
    if tag.platform == "any":
        return "any"
    if tag.platform.startswith("win"):
        return "win32" if tag.platform.endswith(MACHINES) else None
    system = SYSTEMS.get(re.match("[a-z]*", tag.platform)[0])  # type: ignore[index]
    return system if tag.platform.endswith(MACHINES) else None


def needed_by(names: list[str]) -> dict[str, set[str]]:
    """Which packages need each, as they are installed; an extra of gswm is `gswm[extra]`."""
    by: dict[str, set[str]] = {canonicalize_name(name): set() for name in names}
    queue, seen = [(PROJECT, ""), *((PROJECT, extra) for extra in EXTRAS)], set()
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
    """What a package needs, or one of its extras needs more."""
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


def entry(name: str, version: str, files: list[File], by: set[str]) -> str:
    """A package, for pip."""
    systems = frozenset[str]().union(*(file.systems for file in files))
    marker = f' ; sys_platform == "{min(systems)}"' if len(systems) == 1 else ""
    marker = "" if systems == {"any"} else marker
    lines = [f"{name}=={version}{marker}"]
    lines += [f"--hash=sha256:{digest}" for digest in sorted({file.sha256 for file in files})]
    return " \\\n    ".join(lines) + f"\n    # needed by {', '.join(sorted(by)) or 'nothing'}\n"


def main() -> None:
    """Ask the index, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default="https://pypi.org/simple")
    args = parser.parse_args()
    wanted = pinned((ROOT / "constraints.txt").read_text())
    by = needed_by(list(wanted))
    text = HEAD
    for name, version in wanted.items():
        if name in LEFT_OUT:
            continue
        files = files_of(args.index, name, version)
        if not files:
            sys.exit(f"{name} {version}: the index has no file of it")
        text += entry(name, version, files, by[canonicalize_name(name)])
    (ROOT / "constraints.lock").write_text(text)
    print(f"constraints.lock: {len(wanted) - len(LEFT_OUT)} packages, {len(text) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
