"""Weights in a file: a model's tensors as safetensors, and its whole recipe in the header."""

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from gswm.errors import UserError
from gswm.files import write_whole
from gswm.recipes import Model, Recipe, build
from gswm.settings import from_dict, to_dict

FORMAT = "gswm-weights-1"
HERE = Path(__file__).parent
SHIPPED = next((p for p in (HERE / "shipped", HERE.parents[1] / "weights") if p.is_dir()), None)
"""Weights that come with the package: inside it, or beside its source."""


def save(
    path: str | Path,
    model: Model,
    recipe: Recipe,
    *,
    half: bool = False,
    about: dict[str, Any] | None = None,
) -> None:
    """Write `model` so that `load` gives it back; `about` is what else is worth knowing of it."""
    tensors = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    if half:
        tensors = {k: v.half() for k, v in tensors.items()}
    header = {"format": FORMAT, "recipe": json.dumps(to_dict(recipe))}
    header |= {"about": json.dumps(about or {}), "sha256": digest(tensors)}
    write_whole(Path(path), safetensors.torch.save(tensors, header))


def read_header(path: str | Path) -> dict[str, Any]:
    """The recipe of a file of weights, and what is said about it."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is no safetensors file, or is damaged: {error}") from error
    if header.get("format") != FORMAT:
        raise UserError(f"{path} holds no weights of gswm: its format is {header.get('format')}")
    recipe = from_dict(Recipe, json.loads(header["recipe"]), where=f"{path}: recipe")
    return {"recipe": recipe, "about": json.loads(header["about"])}


def load(name: str | Path, device: str | torch.device = "cpu") -> Model:
    """A trained model, ready to infer and imagine: by its file, or by its name if it ships."""
    path = find(name)
    model = build(read_header(path)["recipe"])
    fill(model, path)
    return model.to(device).eval()


def fill(model: Model, path: Path) -> None:
    """Give a model the weights of a file."""
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        wanted = (file.metadata() or {}).get("sha256")  # files of before have none
    if wanted is not None and digest(tensors) != wanted:
        raise UserError(f"{path} is damaged: its weights are not what its checksum says")
    try:
        model.load_state_dict({key: tensor.float() for key, tensor in tensors.items()})
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} does not fit this model: {reason}") from error


def digest(tensors: dict[str, torch.Tensor]) -> str:
    """A checksum of tensors and their names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def find(name: str | Path) -> Path:
    """The file of weights that a user means: a file, a run's folder, or a name that ships."""
    path = Path(name)
    if path.is_dir():
        kept = [path / f"{which}.safetensors" for which in ("best", "last")]
        if found := [file for file in kept if file.is_file()]:
            return found[0]
        raise UserError(f"{name} has no weights yet: neither {kept[0].name} nor {kept[1].name}")
    if path.suffix == ".safetensors" or path.is_file():
        return path
    if str(name) in (ours := shipped()):
        return ours[str(name)]
    names = ", ".join(ours) or "none"
    raise UserError(f"'{name}' is no run, no *.safetensors, and none that ships ({names})")


def shipped() -> dict[str, Path]:
    """The weights that come with the package, by name."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.safetensors"))} if SHIPPED else {}


def is_intact(path: Path) -> bool:
    """Whether a file that ships is what `checksums.txt` beside it says."""
    lines = (path.parent / "checksums.txt").read_text().splitlines()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{digest}  {path.name}" in lines
