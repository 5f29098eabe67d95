"""Weights files: a model's tensors as safetensors, with the complete recipe in the header."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.files import check_regular, write_whole
from gswm.core.limits import is_number
from gswm.core.records import apart
from gswm.core.settings import differing, flat, from_dict, to_dict
from gswm.data.importing.videos import known_cut
from gswm.models.base import ModelConfig, WorldModel
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES, build
from gswm.weights.encoding import Encoding, compacted, decode, encode
from gswm.weights.finding import check_shipped, find

FORMAT = "gswm-weights-1"
CODED = "gswm-weights-2"
"""Format of files with integer tensors, which the first versions of gswm cannot read."""
MOST_NAMED = 3
"""Maximum number of differing settings to list if weights do not fit a model."""
SHOWN = 40
"""Maximum number of characters of a wrong value to show in a message."""


def save(
    path: str | Path,
    model: WorldModel[Any],
    recipe: Recipe | None = None,
    *,
    half: bool = False,
    compact: bool = False,
    about: dict[str, Any] | None = None,
) -> None:
    """Save a model with its recipe, for `load`.

    `recipe` defaults to the one that the model was built or loaded with. `model.videos` is added to
    `about` unless `about` has it. Tensors are stored in 32 bits; with `half`, in 16 bits; with
    `compact`, in 8 bits for the networks in `model.coarse` and in 16 bits elsewhere. If that has
    more than 10 MB, the networks in `model.coarsest` are stored in 3 bits.
    """
    if not isinstance(model, WorldModel):
        raise UserError(f"gswm.save(path, model) expects a model, not {type(model).__name__}")
    recipe = recipe or model.recipe
    if recipe is None:
        raise UserError("this model has no recipe: pass one, as in gswm.save(path, model, recipe)")
    tensors = {k: v.detach().cpu() for k, v in model.state_dict().items()}
    check_finite(model, tensors, "these weights cannot be saved")
    how: Encoding = "float16" if half else "float32"
    if compact:
        tensors, how = compacted(model, tensors)
    else:
        tensors = encode(tensors, how)
    tensors = apart(tensors)
    header = {"format": CODED if compact else FORMAT, "encoding": how}
    header["recipe"] = json.dumps(to_dict(recipe))
    about = ({"videos": dict(model.videos)} if model.videos else {}) | (about or {})
    header |= {"about": json.dumps(about), "sha256": digest(tensors)}
    write_whole(Path(path), safetensors.torch.save(tensors, header))


def check_finite(model: WorldModel[Any], tensors: dict[str, torch.Tensor], what: str) -> None:
    """Raise a UserError if a parameter has NaN or infinite values, which make a model useless.

    Buffers may be infinite, such as a mask of minus infinity.
    """
    for name in (name for name, _ in model.named_parameters() if name in tensors):
        if not tensors[name].isfinite().all():
            raise UserError(
                f"{what}: {name} has non-finite values; use weights of an earlier step, "
                "or train again with a lower --train.lr"
            )


def read_header(path: str | Path) -> dict[str, Any]:
    """Read the recipe and other facts from the header of a weights file."""
    header = read_metadata(path := Path(path))
    try:
        recipe, about = json.loads(header["recipe"]), json.loads(header["about"])
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged: its header cannot be read") from error
    check_about(about, path)
    return {"recipe": from_dict(Recipe, recipe, where=f"{path}: recipe"), "about": about}


def read_encoding(path: str | Path) -> str | None:
    """Read the encoding of a weights file; None for files older than encodings."""
    return read_metadata(Path(path)).get("encoding")


def encoding_in(path: str | Path) -> Encoding:
    """The encoding of a weights file; in older files, that of its tensors."""
    if (said := read_encoding(path)) is not None:
        return cast(Encoding, said)  # loading refuses unknown ones
    with safe_open(path, framework="pt") as file:
        kinds = {file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118
    return "float16" if "F16" in kinds else "float32"


def read_metadata(path: Path) -> dict[str, str]:
    """Read the header of a weights file."""
    check_regular(path)
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is not a safetensors file, or is damaged: {error}") from error
    if header.get("format") not in (FORMAT, CODED):
        raise UserError(
            f"{path} does not contain gswm weights: its format is {header.get('format')}"
        )
    return header


def check_about(about: Any, path: Path) -> None:
    """Check the parts of a header other than the recipe."""
    if not isinstance(about, dict):
        raise UserError(f"{path} is damaged: `about` in its header is not an object")
    for name, is_right in ABOUT.items():
        if name in about and not is_right(about[name]):
            said = shortened(about[name])
            raise UserError(f"{path} is damaged: `{name}` in its header is {said}")
    known_cut(about.get("videos", {}), path)


def is_count(value: Any) -> bool:
    """Whether this is a non-negative number."""
    return is_number(value) and 0 <= value < math.inf


def is_curve(value: Any) -> bool:
    """Whether these are triples of a step, minutes and an error; the error may be None."""
    return isinstance(value, list) and all(
        isinstance(point, list)
        and len(point) == 3
        and all(is_count(x) for x in point[:2])
        and (point[2] is None or is_number(point[2]))
        for point in value
    )


def is_start(value: Any) -> bool:
    """Whether this describes the origin of initial weights."""
    return (
        isinstance(value, dict)
        and all(is_count(value.get(name, 0)) for name in ("step", "minutes"))
        and isinstance(value.get("runs", []), list)
    )


def are_scores(value: Any) -> bool:
    """Whether these are numbers by name; some may be None."""
    return isinstance(value, dict) and all(x is None or is_number(x) for x in value.values())


ABOUT: dict[str, Callable[[Any], bool]] = {
    "step": is_count,
    "minutes": is_count,
    "seed": is_count,
    "began": is_start,
    "curve": is_curve,
    "validation": are_scores,
    "test": are_scores,
    "measured": lambda value: isinstance(value, dict),
    "trained_with": lambda value: isinstance(value, dict),
    "videos": lambda value: isinstance(value, dict),
}
"""Checks of the parts of a header."""


def shortened(value: Any) -> str:
    """The representation of a value, truncated."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def trained_by(header: dict[str, Any]) -> str:
    """The command that trained these weights, with all non-default settings.

    `trained_with` are the settings that differed during their training.
    """
    recipe: Recipe = header["recipe"]
    plain = RECIPES[recipe.name]() if recipe.name in RECIPES else recipe
    changed = {
        name: " ".join(str(x) for x in flat(ours) if x not in ("[", "]"))
        for name, (ours, _) in differing(to_dict(recipe), to_dict(plain)).items()
    } | header["about"].get("trained_with", {})
    if changed.get("train.start") == recipe.name:  # the weights before these
        changed["train.start"] = "RUN"
    return " ".join(["gswm train", recipe.name, *(f"--{k} {v}" for k, v in changed.items())])


def trained_before(header: dict[str, Any]) -> list[dict[str, Any]]:
    """The earlier runs that these weights continue: the command and last step of each.

    Steps count from the first run on.
    """
    about: dict[str, Any] = header["about"]
    earlier = about.get("began", {}).get("runs", [])
    return [*earlier, {"command": trained_by(header), "step": about.get("step", 0)}]


def load(name: str | Path, device: str | torch.device = "cpu") -> WorldModel[ModelConfig]:
    """Load a trained model from a file, or by name."""
    there = find_device(device)
    path = find(name)
    header = read_header(path)
    try:
        model = build(header["recipe"])
    except UserError as error:
        raise UserError(f"{path}: cannot build the model of its recipe: {error}") from error
    fill(model, path)
    model.videos = header["about"].get("videos", {})
    return model.to(there).eval()


def check_file(path: Path) -> None:
    """Raise a UserError for a weights file that is missing or damaged."""
    read_header(path)
    whole_tensors(path)


def whole_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The decoded tensors of a file, if their checksum matches."""
    ships = check_shipped(path)
    with safe_open(path, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        header = file.metadata() or {}
    wanted = header.get("sha256")  # older files have none
    if not ships and wanted is not None and digest(tensors) != wanted:
        raise UserError(f"{path} is damaged: its checksum does not match")
    try:
        return decode(tensors, header.get("encoding"))
    except UserError as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def fill(model: WorldModel[Any], path: Path) -> None:
    """Load the weights of a file into a model."""
    tensors = whole_tensors(path)
    check_finite(model, tensors, f"{path} cannot be used")
    try:
        model.load_state_dict(model.adapted(tensors, read_header(path)["recipe"].model))
    except RuntimeError as error:
        why = misfit(model, tensors, read_header(path)["recipe"])
        raise UserError(f"{path} does not fit this model: {why}") from error


def misfit(model: WorldModel[Any], tensors: dict[str, torch.Tensor], theirs: Recipe) -> str:
    """Explain by differing settings why weights do not fit a model."""
    ours = model.recipe
    if ours is not None and type(ours.model) is not type(theirs.model):
        return f"the weights are for {type(build(theirs)).__name__}, not {type(model).__name__}"
    here = shapes(model.state_dict())
    found = []
    if ours is not None:
        for name, (mine, other) in differing(to_dict(ours.model), to_dict(theirs.model)).items():
            changed = replace(ours, model=with_value(ours.model, name, other))
            if not name.startswith("schedule.") and shapes_of(changed) != here:
                found.append(f"model.{name} is {other} in the file and {mine} in the model")
    if found:
        return ", ".join(found[:MOST_NAMED])
    names = here.items() ^ shapes(tensors).items()
    differ = sorted({name for name, _ in names})
    more = f", and so do {len(differ) - 1} other tensors" if len(differ) > 1 else ""
    return f"{differ[0]} differs{more}"


def with_value(settings: Any, name: str, value: Any) -> Any:
    """Replace the value of a nested setting."""
    first, _, rest = name.partition(".")
    inner = with_value(getattr(settings, first), rest, value) if rest else value
    return replace(settings, **{first: inner})


def shapes_of(recipe: Recipe) -> dict[str, tuple[int, ...]] | None:
    """The shapes of a recipe's weights; None if the model cannot be built on the meta device."""
    try:
        with torch.device("meta"):
            return shapes(build(recipe).state_dict())
    except Exception:  # a constructor may fail; this only improves an error message
        return None


def shapes(tensors: dict[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def digest(tensors: dict[str, torch.Tensor]) -> str:
    """A checksum of tensors and their names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode())
        found.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
