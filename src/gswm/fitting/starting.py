"""Initial weights for a fit."""

from collections.abc import Mapping
from typing import Any

from gswm.core.errors import UserError
from gswm.fitting.decisions import NEW, OWN, Decision, TrainedStart
from gswm.models.gswm.gswm import GSWMConfig
from gswm.weights.files import read_header
from gswm.weights.finding import ANY_VIDEO, find, is_available

ALIKE = (
    *("image_size", "background", "sizes", "discovery.grid"),
    *("propagation.multimodal", "propagation.situation"),
)
"""Settings that must match between weights and a model. The number of slots need not: slots share
their weights.
"""


def find_start(asked: str | None, decided: Mapping[str, Any]) -> Decision[TrainedStart | None]:
    """Choose the initial weights, and give the reason.

    Args:
        asked: A file, a run folder, the name of a shipped model, or "none" for new weights.
            Default: the shipped weights for any video, if they fit `decided`.
        decided: Settings that the user chose; see `FitConfig`.
    """
    if asked == NEW:
        return Decision(None, OWN)
    if asked is None and not is_available(ANY_VIDEO):
        return Decision(None, f"'{ANY_VIDEO}', the weights for any video, does not ship")
    start = read_start(asked or ANY_VIDEO)
    theirs = {"image_size": start.model.image_size, "grid": start.model.discovery.grid}
    for name, value in theirs.items():
        if (own := decided.get(name)) not in (None, value):
            clash = f"{start.name} has {name} {value}, and {own} is asked for"
            if asked is None:
                return Decision(None, clash)
            raise UserError(f"{clash}: leave one of the two out, or give --start {NEW}")
    return Decision(start, OWN if asked else "trained on many kinds of synthetic scenes")


def read_start(name: str) -> TrainedStart:
    """Read the settings of trained weights from which a fit can start."""
    try:
        model = read_header(find(name))["recipe"].model
    except UserError as error:
        line = f"cannot start from '{name}': {error}; --start {NEW} trains new weights"
        raise UserError(line) from error
    if not isinstance(model, GSWMConfig) or not model.takes_background:
        raise UserError(
            f"cannot start from '{name}': it is no G-SWM with a static background, as `gswm fit` "
            f"makes them; --start {NEW} trains new weights"
        )
    return TrainedStart(name, model)


def check_start(name: str, settings: GSWMConfig) -> None:
    """Raise a UserError for weights that do not fit the settings of a model."""
    theirs = read_start(name).model
    for setting in ALIKE:
        there, here = value_of(theirs, setting), value_of(settings, setting)
        if there != here:
            raise UserError(
                f"cannot start from '{name}': its {setting} is {there}, and {here} is prepared; "
                f"--start {NEW} trains new weights"
            )


def value_of(settings: Any, name: str) -> Any:
    """The value of a dotted setting name."""
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings
