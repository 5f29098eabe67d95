"""Follow the objects of a film, some frames at a time: memory does not grow with its length."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.waiting import progress_bar
from gswm.core.words import printable
from gswm.data.importing.film import CHUNK, Film
from gswm.data.importing.videos import Take
from gswm.models.base import AnyFrame, Discover, WorldModel
from gswm.models.track import Track
from gswm.viz.located import Located

AT_ONCE = 10_000
"""Largest number of frames for a model that cannot continue from a state."""


def followed(
    model: WorldModel[Any],
    film: Film,
    discover: Discover = "always",
    background: AnyFrame | None = None,
    *,
    draw_first: bool = False,
) -> Iterator[tuple[Take, Track]]:
    """Infer a film chunk by chunk; ids stay the same from chunk to chunk.

    A model that cannot continue from a state gets all frames at once, and draws none: that could
    take too much memory.

    Args:
        model: Of any kind.
        film: Placed in frames of the model's size.
        discover: See `WorldModel.infer`.
        background: See `WorldModel.infer`. Default: from frames of the whole film.
        draw_first: Also draw the frames of the first chunk.
    """
    behind = model.background_for(film) if background is None else background
    how: dict[str, Any] = {"discover": discover, "background": behind}
    how["render"] = "first" if draw_first and model.continues else False
    taken: list[Take] = []

    def videos() -> Iterator[Tensor]:
        for take in film.chunks(CHUNK if model.continues else AT_ONCE):
            if taken and not model.continues:
                raise UserError(
                    f"{film.path} has more than {AT_ONCE:,} frames, and a {type(model).__name__} "
                    "takes all at once: give --frames, or fewer by --video-fps"
                )
            taken[:] = [take]
            yield take.batch().to(model.device)

    with progress_bar(
        f"tracking {printable(film.path.name)}", "frames", film.expected()
    ) as advance:
        done = 0
        for track in model.infer_chunks(videos(), **how):
            done += len(taken[0])
            advance(done)
            yield taken[0], track


def locate(
    model: WorldModel[Any],
    film: Film,
    discover: Discover = "always",
    background: AnyFrame | None = None,
) -> Located:
    """Track all objects of a film in its own units; the arguments are those of `followed`."""
    found = followed(model, film, discover, background)
    return Located.join([track.located(take.footage) for take, track in found])
