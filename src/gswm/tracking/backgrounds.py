"""The background for tracking, from all frames of the video and from the one stored by a fit.

Neither is better everywhere. A fit stores the background of the part that it was trained on, so an
object that stands until the end of that part is in it. A short video may show an object that never
leaves, which the stored background lacks. So by default, the background is that of the video,
except for regions in which the stored one is clearly emptier (see `standing`).

Tracking is given all frames and predicts none. A rollout must not know its background from frames
that it predicts: use `WorldModel.background_for` with the given frames.
"""

from dataclasses import replace
from typing import Any, Literal, get_args

from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.background import FRAMES, shows
from gswm.data.importing.film import Film
from gswm.data.standing import emptier_of, empty_scene
from gswm.models.base import AnyFrame, Frame, WorldModel, as_float

BackgroundFrom = Literal["auto", "video", "stored"]


def background_in(
    model: WorldModel[Any],
    film: Film,
    source: BackgroundFrom = "auto",
    stored: AnyFrame | None = None,
) -> Frame | None:
    """The background of a film that is tracked; None for a model that needs none.

    Args:
        model: Of any kind.
        film: Placed in frames of the model's size; evenly spaced frames are used.
        source: The film ("video"), the stored background ("stored"), or the emptier of the two in
            each region ("auto"). Where none is clearly emptier, and if the stored background shows
            another scene or there is none, "auto" is "video".
        stored: A background that was computed before. Default: the one stored with the model.
    """
    check_source(source)
    if not model.cfg.takes_background:
        if source != "auto":
            raise UserError("the model does not use a background image: omit --background")
        return None
    stored = model.saved_background if stored is None else stored
    if source == "stored" and stored is None:
        raise UserError(
            "the model has no stored background: use --background video, or a model that "
            "`gswm fit` trained on one video"
        )
    kept = None if stored is None else as_float(stored).to(model.device)
    if source == "stored" and kept is not None:
        return kept[None]
    frames = spread(film)[0].to(model.device)
    found = empty_scene(frames)
    if source == "auto" and kept is not None and shows(kept, frames):
        found = emptier_of(found, kept)
    return found[None]


def spread(film: Film) -> UInt8[Tensor, "1 time 3 size size"]:
    """Frames from all of a film, at its own rate: the background does not depend on the model's."""
    if film.cut.fps is not None and film.frames is None:
        film = Film(film.path, replace(film.cut, fps=None))
    return film.sample(FRAMES)


def check_source(source: object) -> None:
    """Raise a UserError for an unknown source."""
    if source not in get_args(BackgroundFrom):
        raise UserError(f"background must be 'auto', 'video' or 'stored', not {source!r}")
