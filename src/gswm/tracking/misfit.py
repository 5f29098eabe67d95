"""Warn of a model that does not fit a video."""

from typing import Any

from gswm.eval import explained
from gswm.models.base import AnyFrame, AnyVideo, WorldModel
from gswm.models.registry import RECIPES
from gswm.models.track import Track

MOST = 0.9
"""Share that a model may leave unexplained."""
LEAST, FACTOR = 0.3, 4.0
"""The same, where the share on the model's own validation videos is known: so many times that,
and never less than the first."""
FEW = 0.1
"""Share of the recipe's steps below which a training has hardly begun; its model may leave no more
than the least."""


class MisfitWarning(UserWarning):
    """A model does not fit the video that it tracked."""


def share_of(
    model: WorldModel[Any], video: AnyVideo, track: Track, background: AnyFrame | None
) -> float | None:
    """Measure what a model leaves unexplained of the first chunk of `followed`, drawn or not."""
    if model.continues:
        return explained.measure_track(model, video, track)
    return explained.measure(model, video, background=background)


def warning(share: float | None, header: dict[str, Any], *, video: str, own: bool) -> str | None:
    """One line about a model that does not fit a video; None if it does.

    Args:
        share: What `share_of` or `explained.measure` returned.
        header: The recipe and what else is known of the weights, as `weights.files` reads them.
        video: The name of the video, or of the world.
        own: Whether it is a video of the user's, and not a world.
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
    size = f"{share:.0%}" if share < 2 else f"{share:,.1f} times as much as all"
    own_share = "" if known is None else f" ({known:.0%} on its own validation videos)"
    said = f"the model does not fit {video}: it leaves {size} of what moves unexplained{own_share}"
    if hardly_began:
        return f"{said}; it was trained for {step:,} of {usual:,} steps: train it to the end"
    if own:
        return f"{said}; it was trained on {recipe.data.world}: fit one by `gswm fit VIDEO`"
    return f"{said}; it was trained on {recipe.data.world}: use a model of {video}, or train one"
