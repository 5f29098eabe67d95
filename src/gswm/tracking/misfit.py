"""Warn about a model that does not fit a video."""

from typing import Any

from gswm.eval import explained
from gswm.models.base import AnyFrame, AnyVideo, WorldModel
from gswm.models.registry import RECIPES
from gswm.models.track import Track
from gswm.weights.finding import ANY_VIDEO

MOST = 0.9
"""Largest share that a model may leave unexplained."""
LEAST, FACTOR = 0.3, 4.0
"""The limit if the share on the model's own validation videos is known: this factor times that
share, but at least the first number.
"""
FEW = 0.1
"""Fraction of the recipe's steps below which a training has hardly begun; the limit is then the
lowest one.
"""


class MisfitWarning(UserWarning):
    """Issued if a model does not fit the video that it tracked."""


def share_of(
    model: WorldModel[Any], video: AnyVideo, track: Track, background: AnyFrame | None
) -> float | None:
    """The share that a model leaves unexplained in the first chunk of `followed`."""
    if model.continues:
        return explained.measure_track(model, video, track)
    return explained.measure(model, video, background=background)


def warning(share: float | None, header: dict[str, Any], *, video: str, own: bool) -> str | None:
    """One line about a model that does not fit a video; None if it does.

    Args:
        share: The result of `share_of` or `explained.measure`.
        header: The recipe and other facts about the weights, as `weights.files` reads them.
        video: The name of the video, or of the world.
        own: Whether it is a user's video, and not a world.
    """
    recipe, about = header["recipe"], header["about"]
    known = about.get("validation", {}).get("unexplained")
    usual = RECIPES[recipe.name]().train.steps if recipe.name in RECIPES else recipe.train.steps
    step = about.get("step", usual)
    hardly_began = step < FEW * usual
    limit = MOST if known is None else min(MOST, max(LEAST, FACTOR * known))
    limit = LEAST if hardly_began else limit
    if share is None or share <= limit:
        return None
    own_share = ""
    if known is not None:
        usual_share = "under 1%" if known < 0.01 else f"{known:.0%}"
        own_share = f" ({usual_share} on its own validation videos)"
    error = f"it leaves {share:.0%} of what changes unexplained"
    if share > 1:
        error = f"its error is {share:,.1f} times that of a still picture"
    said = f"the model does not fit {video}: {error}{own_share}"
    if hardly_began:
        return f"{said}; it was trained for {step:,} of {usual:,} steps: train it to the end"
    said = f"{said}; it was trained on {recipe.data.world}"
    if not own:
        return f"{said}: use a model of {video}, or train one"
    if recipe.data.world == ANY_VIDEO:
        return f"{said}: see `gswm data look VIDEO`, or fit a model with `gswm fit VIDEO`"
    return f"{said}: use the default model, `{ANY_VIDEO}`, or fit one with `gswm fit VIDEO`"
