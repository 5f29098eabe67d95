"""Follow the objects of a film, some frames at a time: memory does not grow with its length."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gswm.core.doubt import confirmed
from gswm.core.errors import UserError
from gswm.core.waiting import progress_bar
from gswm.core.words import printable
from gswm.data.importing.film import CHUNK
from gswm.data.importing.videos import Take
from gswm.models.base import AnyFrame, AnyVideo, Discover, WorldModel
from gswm.models.track import Track
from gswm.tracking.doubles import doubled
from gswm.tracking.stitching import Stitcher
from gswm.tracking.visible import Visibility
from gswm.tracking.windows import WindowedFilm
from gswm.viz.located import Located

AT_ONCE = 10_000
"""Largest number of frames for a model that cannot continue from a state."""
PIECE, PIECE_GPU = 8, 32
"""Number of frames that are inferred at once, after which the progress is shown: on a CPU, and on a
GPU.
"""


@dataclass(frozen=True)
class Part:
    """A chunk of a film, and its objects."""

    take: Take
    """The chunk, in the frame that contains all windows."""
    video: AnyVideo
    """The windows of the chunk."""
    track: Track
    """The objects in each window."""
    located: Located
    """The objects of the film, with doubtful ones; see `settled`."""


def followed(
    model: WorldModel[Any],
    windows: WindowedFilm,
    background: AnyFrame | None,
    discover: Discover = "always",
    *,
    draw_first: bool = False,
) -> Iterator[Part]:
    """Infer a film chunk by chunk; ids stay the same from chunk to chunk.

    A model that cannot continue from a state gets all frames at once, and draws none: that could
    take too much memory.

    Args:
        model: Of any kind.
        windows: The film, and the windows in which the model sees it.
        background: That of each window; see `windows_for`.
        discover: See `WorldModel.infer`.
        draw_first: Also draw the frames of the first chunk.
    """
    film, stitcher, visibility = windows.film, Stitcher(windows), Visibility()
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
            video = windows.cut(take.batch())
            pieces = (part.to(model.device) for part in video.split(piece_of(model), dim=1))
            how: dict[str, Any] = {"discover": discover, "background": background, "after": state}
            parts: list[Track] = []
            for part in model.infer_chunks(pieces, render=draw and not done, **how):
                parts.append(replace(part, states=()))
                state = part.state_at(-1)
                done += part.pres.shape[1]
                advance(done)
            track = Track.join(parts)
            seen = track
            if background is not None:
                seen = visibility.only_visible(track, video, background)
            yield Part(take, video, track, stitcher.located(seen, take.footage))


def piece_of(model: WorldModel[Any]) -> int:
    """The number of frames that a model infers at once."""
    if not model.continues:
        return AT_ONCE
    return PIECE if model.device.type == "cpu" else PIECE_GPU


def locate(
    model: WorldModel[Any],
    windows: WindowedFilm,
    background: AnyFrame | None,
    discover: Discover = "always",
) -> Located:
    """Track all objects of a film in its own units; the arguments are those of `followed`."""
    rows = [part.located for part in followed(model, windows, background, discover)]
    return settled(model, Located.join(rows))


def settled(model: WorldModel[Any], rows: Located) -> Located:
    """The objects of a whole film, without second boxes and unconfirmed doubtful objects."""
    if model.doubts:
        rows = rows[confirmed(rows.id, rows.presence, rows.corners())]
    return rows[~doubled(rows)]
