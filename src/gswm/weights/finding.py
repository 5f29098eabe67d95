"""Find weights by name, and verify them.

Named models are looked up in the installation (in the wheel, or beside the source), then in the
user's cache, and then at the address in `GSWM_WEIGHTS_URL`. `checksums.txt` in the installation
lists all names; files with another SHA-256 are not used.
"""

import json
import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from gswm.core.errors import UserError
from gswm.core.files import cache_folder
from gswm.core.words import closest
from gswm.weights.download import checksum, download
from gswm.weights.hub import SCHEME, fetch_from_hub

HERE = Path(__file__).parents[1]
INSTALLED = HERE / "shipped"
SHIPPED = next((p for p in (INSTALLED, HERE.parents[1] / "weights") if p.is_dir()), None)
"""Weights that come with the package: inside it, or beside its source."""
MEND = "reinstall gswm, or run `git checkout weights` in a clone"
ANY_VIDEO = "clips"
"""Default weights for videos of any scene."""
ADDRESS = "GSWM_WEIGHTS_URL"
"""Environment variable with the URL of a folder of weights."""
KEPT = ("best", "last", "weights", "model")
"""Names of weights in the folder of a run, a fit or `gswm export --hub`, in order of preference."""
OF_RUNS = ("recipe.json", "fit.json")
"""Files of which each run or fit has one from its start."""
CATALOG = "catalog.json"
"""File in a wheel that lists all named models, including those that the wheel lacks."""
Place = Literal["shipped", "cache", "downloadable", "not available"]


def find(name: str | Path) -> Path:
    """Find the weights file of a path, a run or fit folder, a name, or hf://owner/name."""
    if not isinstance(name, str | Path):
        raise UserError(f"expected the name or path of weights, not {type(name).__name__}")
    if str(name).startswith(SCHEME):
        return fetch_from_hub(str(name))
    path, ours = Path(name), shipped()
    if path.is_dir():
        if (found := in_folder(path)) is not None:
            return found
        if any((path / file).is_file() for file in OF_RUNS):
            raise UserError(f"{name} has no weights yet: its first validation writes them")
        if str(name) not in names():
            raise UserError(
                f"{name} is not a run folder: it has neither {OF_RUNS[0]} nor weights; give the "
                "folder of a run or a fit, or a .safetensors file"
            )
    elif path.suffix == ".safetensors" or path.is_file():
        return path
    if str(name) in ours:
        return ours[str(name)]
    if str(name) in names():
        return fetch(str(name))
    raise UserError(
        f"'{name}' is not a run folder, a .safetensors file or a shipped model{hint(str(name))}"
    )


def in_folder(path: Path) -> Path | None:
    """The weights of a run, a fit or an export; those of its latest run if a fit is unfinished."""
    folders = [path, *sorted(path.glob("run-[0-9]*"), reverse=True)]
    files = (folder / f"{which}.safetensors" for folder in folders for which in KEPT)
    return next((file for file in files if file.is_file()), None)


def hint(name: str) -> str:
    """The end of a message about an unknown model: a similar name, or all installed ones."""
    if (path := Path(name)).parent != Path():
        beside = [each.name for each in path.parent.glob("*") if each.is_dir() and in_folder(each)]
        close = closest(path.name, beside)
        return ": check the path" if close is None else f": did you mean {path.with_name(close)}?"
    if close := closest(name, names()):
        away = "" if is_available(close) else " It is not installed."
        return f": did you mean {close}?{away}"
    here = [known for known in names() if is_available(known)]
    rest = len(names()) - len(here)
    more = f"; `gswm weights` lists {rest} more" if rest else ""
    return f"; this installation has {', '.join(here) or 'none'}{more}"


def for_any_video() -> str:
    """Return the name of the default weights for videos, if there are any."""
    if not is_available(ANY_VIDEO):
        raise UserError(
            f"the default weights for videos ('{ANY_VIDEO}') are not installed: choose a "
            "trained model, or fit one with `gswm fit VIDEO`"
        )
    return ANY_VIDEO


# -- in the installation


def shipped() -> dict[str, Path]:
    """The shipped weights by name."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.safetensors"))} if SHIPPED else {}


def checksums() -> dict[str, str]:
    """The SHA-256 of all named models, from `checksums.txt`."""
    if SHIPPED is None:
        return {}
    file = SHIPPED / "checksums.txt"
    try:
        lines = file.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {file}, which is needed to verify weights: {MEND}") from error
    return {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines) if name}


def names() -> list[str]:
    """The names of all models, shipped or not."""
    listed = checksums() if SHIPPED and (SHIPPED / "checksums.txt").exists() else {}
    return sorted({*shipped(), *(Path(file).stem for file in listed)})


def catalog() -> dict[str, dict[str, Any]]:
    """The catalog of a wheel by name; empty if all weights are beside the source.

    `bytes` is the size of a file, `ships` whether the wheel contains it, and `about` is in its
    header.
    """
    file = SHIPPED / CATALOG if SHIPPED else None
    if file is None or not file.is_file():
        return {}
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {file}: {MEND}") from error


def fault(path: Path, wanted: dict[str, str]) -> str | None:
    """Compare a file with the checksums in `wanted`; return the fault in one word, or None."""
    if path.name not in wanted:
        return "unlisted"
    try:
        found = checksum(path)
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "unreadable"
    return None if found == wanted[path.name] else "damaged"


def check_shipped(path: Path) -> bool:
    """Whether a file ships; if so, verify its checksum."""
    if SHIPPED is None or path.parent.resolve() != SHIPPED.resolve():
        return False
    if (wrong := fault(path, checksums())) == "unlisted":
        raise UserError(f"{path} is not listed in checksums.txt: add the output of sha256sum")
    if wrong is not None:
        raise UserError(f"{path} is {wrong}: it differs from the shipped file; {MEND}")
    return True


# -- elsewhere


def cached(name: str) -> Path:
    """The path of a model in the cache."""
    return cache_folder() / f"{name}.safetensors"


def base_address() -> str | None:
    """The URL of a folder of weights, or None if not configured."""
    said = os.environ.get(ADDRESS, "").strip()
    if not said:
        return None
    try:
        parts = urlsplit(said)
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        fits = False
    else:
        fits = fits and not (parts.username or parts.password or parts.query or parts.fragment)
    if not fits:
        raise UserError(
            f"{ADDRESS} must be the URL of a folder, such as https://host/folder, without a user "
            "name, a query or a fragment"
        )
    return said.rstrip("/")


def place(name: str) -> Place:
    """The location of the weights of this name."""
    if name in shipped():
        return "shipped"
    if name in names():
        if cached(name).is_file():
            return "cache"
        if base_address() is not None:
            return "downloadable"
    return "not available"


def installed() -> dict[str, Path]:
    """The intact weights that can be used without a download, by name: shipped or in the cache."""
    ours = shipped()
    found = {name: cached(name) for name in names() if name not in ours}
    wanted = checksums() if found else {}
    kept = {name: file for name, file in found.items() if fault(file, wanted) is None}
    return dict(sorted((kept | ours).items()))


def is_available(name: str) -> bool:
    """Whether `find` can get the weights of this name."""
    return place(name) != "not available"


def fetch(name: str) -> Path:
    """Return the cached file of a model; download it if it is missing or damaged."""
    file, wanted = cached(name), checksums()
    if (wrong := fault(file, wanted)) is None:
        return file
    if (base := base_address()) is None:
        if wrong == "missing":
            raise UserError(
                f"'{name}' is not installed: in a clone of gswm, run `pip install -e .` or use "
                f"weights/{file.name}; elsewhere, copy that file to {file.parent}, or set "
                f"{ADDRESS} to the URL of a folder that has it (none is public yet)"
            )
        raise UserError(
            f"{file} is not the '{name}' of this version of gswm: delete it, or set {ADDRESS} to "
            "download it again"
        )
    download(f"{base}/{file.name}", file, wanted[file.name])
    return file
