"""Follow the objects of a film, some frames at a time: memory does not grow with its length."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gswm.core.errors import UserError
from gswm.core.waiting import progress_bar
from gswm.core.words import printable
from gswm.data.importing.film import CHUNK, Film
from gswm.data.importing.videos import Take
from gswm.models.base import AnyFrame, Discover, WorldModel
from gswm.models.track import Track
from gswm.tracking.backgrounds import background_in
from gswm.viz.located import Located

AT_ONCE = 10_000
"""Largest number of frames for a model that cannot continue from a state."""
PIECE, PIECE_GPU = 8, 32
"""Number of frames that are inferred at once, after which the progress is shown: on a CPU, and on a
GPU.
"""


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
        background: See `WorldModel.infer`. Default: see `background_in`.
        draw_first: Also draw the frames of the first chunk.
    """
    behind = background_in(model, film) if background is None else background
    size = CHUNK if model.continues else AT_ONCE
    draw = draw_first and model.continues
    state: Any = None
    done = 0
    with progress_bar(
        f"tracking {printable(film.path.name)}", "frames", film.expected()
    ) as advance:
        for take in film.chunks(size):
            if done and not model.continues:
                raise UserError(
                    f"{film.path} has more than {AT_ONCE:,} frames, and a {type(model).__name__} "
                    "takes all at once: give --frames, or fewer by --video-fps"
                )
            pieces = (part.to(model.device) for part in take.batch().split(piece_of(model), dim=1))
            how: dict[str, Any] = {"discover": discover, "background": behind, "after": state}
            parts: list[Track] = []
            for part in model.infer_chunks(pieces, render=draw and not done, **how):
                parts.append(replace(part, states=()))
                state = part.state_at(-1)
                done += part.pres.shape[1]
                advance(done)
            yield take, Track.join(parts)


def piece_of(model: WorldModel[Any]) -> int:
    """The number of frames that a model infers at once."""
    if not model.continues:
        return AT_ONCE
    return PIECE if model.device.type == "cpu" else PIECE_GPU


def locate(
    model: WorldModel[Any],
    film: Film,
    discover: Discover = "always",
    background: AnyFrame | None = None,
) -> Located:
    """Track all objects of a film in its own units; the arguments are those of `followed`."""
    found = followed(model, film, discover, background)
    return Located.join([track.located(take.footage) for take, track in found])
