"""Finds trained models by name or path."""

import shlex
from pathlib import Path
from typing import Any

import torch

from gswm.core.errors import UserError
from gswm.core.waiting import tell
from gswm.core.words import printable
from gswm.data.importing.sources import is_name_of_video
from gswm.fast.loading import load
from gswm.models.base import WorldModel
from gswm.tracking import misfit
from gswm.weights.encoding import halved
from gswm.weights.files import read_header, trained_by
from gswm.weights.finding import find


def resolve(
    name: str, device: torch.device, half: bool = False
) -> tuple[WorldModel[Any], dict[str, Any]]:
    """A trained model by name or path, on `device`, and the facts in its header."""
    path = find(name)
    header = read_header(path)
    recipe = header["recipe"]
    model = load(path, device)
    if half:
        model.load_state_dict(halved(model.state_dict()))
    about = {"file": path.name, "kind": type(model).__name__, "recipe": recipe.name}
    about |= {"world": recipe.data.world, "given": recipe.data.given, "seed": recipe.seed}
    about |= {"train": trained_by(header)}
    return model, {**about, "about": header["about"]}


def check_no_video(name: str, *instead: str) -> None:
    """Raise a UserError for a video in the place of a model; `instead` is the right command."""
    if is_name_of_video(name) and Path(name).is_file():
        raise UserError(f"{printable(name)} is a video: `{shlex.join([*instead, name])}`")


def warn_of_misfit(share: float | None, model: str, video: str, *, own: bool) -> bool:
    """Warn in one line if a model does not fit a video, and say whether; see `misfit.warning`."""
    if share is None:
        return False
    header = read_header(find(model))
    if line := misfit.warning(share, header, video=printable(video), own=own):
        tell(f"warning: {line}")
    return line is not None
