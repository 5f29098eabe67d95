"""Warn about a camera that moves: a model of a fixed camera is given one background."""

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from gswm.data.looking.footage import STRETCH, Stretch
from gswm.data.looking.steadiness import LEAST, shifts
from gswm.data.looking.verdicts import MOVES
from gswm.models.base import AnyFrame
from gswm.tracking.windows import WindowedFilm


def camera_moves(
    windows: WindowedFilm, video: UInt8[Tensor, "window time 3 size size"], behind: AnyFrame | None
) -> bool:
    """Whether the whole picture shifts, as `gswm data look` measures it, in the first window.

    Args:
        windows: Of a film.
        video: The first frames of the windows.
        behind: The backgrounds of the windows; None for a model that needs none.
    """
    if behind is None:
        return False
    pixels = shown(windows, video[0].permute(0, 2, 3, 1).cpu().numpy())
    parts = np.array_split(pixels, max(1, len(pixels) // STRETCH))
    moves = shifts([Stretch(part, first=0, reel=0) for part in parts], stride=1)[:, 0]
    return len(moves) > 0 and bool((moves >= LEAST).mean() >= MOVES)


def shown(
    windows: WindowedFilm, frames: UInt8[np.ndarray, "time size size 3"]
) -> UInt8[np.ndarray, "time height width 3"]:
    """The part of the first window's frames that shows the picture, without black bars."""
    left, top, width, height = windows.placements()[0].inside
    return frames[:, max(0, top) : top + height, max(0, left) : left + width]


def camera_warning(video: str) -> str:
    """One line about a video whose camera moves."""
    return (
        f"the camera moves in {video}, so boxes are unreliable: stabilize it, or use a video "
        "from a fixed camera"
    )
