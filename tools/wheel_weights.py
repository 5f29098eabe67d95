"""The weights that the wheel contains, and its catalog of all models.

    python tools/wheel_weights.py     # lists the files in the wheel and their sizes

`tool.gswm.wheel-weights` in pyproject.toml names the models in the wheel. A model without a file is
left out. The catalog says of every model in weights/ what `gswm weights` prints: an installed gswm
lists models that it does not contain.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "weights"
FOLDER = "gswm/shipped"
"""In the wheel."""
TOLD = ("step", "minutes", "device", "seed", "commit", "test", "measured")
"""The parts of `about` that the catalog takes."""


def listed() -> list[str]:
    """The models that the wheel is to contain."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["gswm"]["wheel-weights"]


def files() -> list[Path]:
    """The files of weights in the wheel."""
    return [file for name in listed() if (file := WEIGHTS / f"{name}.safetensors").is_file()]


def included() -> dict[Path, str]:
    """All files that the wheel takes from weights/, with their places in the wheel."""
    return {file: f"{FOLDER}/{file.name}" for file in [*files(), WEIGHTS / "checksums.txt"]}


def catalog() -> dict[str, dict[str, Any]]:
    """The size of every model, whether it ships, and what is told of it."""
    return {
        file.stem: {
            "bytes": file.stat().st_size,
            "ships": file.stem in listed(),
            "about": {key: value for key, value in about(file).items() if key in TOLD},
        }
        for file in sorted(WEIGHTS.glob("*.safetensors"))
    }


def about(file: Path) -> dict[str, Any]:
    """Read `about` in the header of a file of weights."""
    with file.open("rb") as data:
        header = json.loads(data.read(int.from_bytes(data.read(8), "little")))
    return json.loads(header["__metadata__"]["about"])


if __name__ == "__main__":
    for each in files():
        print(f"{each.stem:24} {each.stat().st_size / 1e6:5.1f} MB")
    print(f"{'together':24} {sum(each.stat().st_size for each in files()) / 1e6:5.1f} MB")
