"""Where weights are, and whether those that ship are intact."""

import hashlib
from pathlib import Path

from gswm.core.errors import UserError

HERE = Path(__file__).parents[1]
INSTALLED = HERE / "shipped"
SHIPPED = next((p for p in (INSTALLED, HERE.parents[1] / "weights") if p.is_dir()), None)
"""Weights that come with the package: inside it, or beside its source."""
MEND = "install gswm again, or `git checkout weights` where it is a clone"
ANY_VIDEO = "clips"
"""The shipped weights for videos of any scene: the default where no model is named."""


def find(name: str | Path) -> Path:
    """The file of weights that a user means: a file, a run's folder, or a name that ships."""
    path, ours = Path(name), shipped()
    if path.is_dir():
        kept = [path / f"{which}.safetensors" for which in ("best", "last")]
        if found := [file for file in kept if file.is_file()]:
            return found[0]
        if str(name) not in ours or (path / "recipe.json").is_file():
            raise UserError(f"{name} has no weights yet: neither {kept[0].name} nor {kept[1].name}")
    elif path.suffix == ".safetensors" or path.is_file():
        return path
    if str(name) in ours:
        return ours[str(name)]
    names = ", ".join(ours) or "none"
    raise UserError(f"'{name}' is no run, no *.safetensors, and none that ships ({names})")


def for_any_video() -> str:
    """Return the name of the default weights for videos, if they ship."""
    if ANY_VIDEO not in shipped():
        raise UserError(
            f"this copy of gswm has no weights for videos of any scene ('{ANY_VIDEO}'): name a "
            "trained model, or fit one with `gswm fit VIDEO`"
        )
    return ANY_VIDEO


def shipped() -> dict[str, Path]:
    """The weights that come with the package, by name."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.safetensors"))} if SHIPPED else {}


def checksums() -> dict[str, str]:
    """What `checksums.txt` says of the files that ship, by their names."""
    if SHIPPED is None:
        return {}
    file = SHIPPED / "checksums.txt"
    try:
        lines = file.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{file} cannot be read, and without it no weights can be checked: {MEND}"
        ) from error
    return {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines) if name}


def fault(path: Path, wanted: dict[str, str]) -> str | None:
    """What is wrong with a file that ships, in a word or two; `wanted` are the checksums."""
    if path.name not in wanted:
        return "unlisted"
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "unreadable"
    return None if found == wanted[path.name] else "damaged"


def check_shipped(path: Path) -> bool:
    """Whether a file is among those that ship; if so, it must be what `checksums.txt` says."""
    if SHIPPED is None or path.parent.resolve() != SHIPPED.resolve():
        return False
    if (wrong := fault(path, checksums())) == "unlisted":
        raise UserError(f"{path} is not in the checksums.txt beside it: add its line of sha256sum")
    if wrong is not None:
        raise UserError(f"{path} is {wrong}: it is not what shipped; {MEND}")
    return True
