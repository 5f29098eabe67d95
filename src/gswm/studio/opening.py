"""Chooses the first frame to show of a video, so that the given frames contain an object."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from gswm.data.placement import Footage
from gswm.models.base import WorldModel
from gswm.studio.perceiving import CHUNK

SEARCHED = 160
"""Maximum number of frames to search for an object."""
MARGIN = 0.01
"""Minimum distance of a box from the border, as a fraction of the sides of the frame or region.
"""


def first_in_view(
    model: WorldModel[Any],
    video: UInt8[Tensor, "1 time 3 size size"],
    footage: Footage,
    given: int,
    steps: int,
) -> int:
    """The first frame from which some object stays inside the frame for `given` frames.

    At least `steps` frames remain after these. Without such an object, it is the frame from which
    one stays inside for longest, or 0 if the model finds none.
    """
    most = min(SEARCHED, video.shape[1] - steps)
    if not model.continues or most < given:
        return 0
    return first_window(islice(ids_inside(model, video, footage), most), given)


def first_window(views: Iterable[set[int]], length: int) -> int:
    """The first of `length` consecutive frames that have an object in common.

    If there are none, it is the window that ends with the longest presence of an object.
    """
    since: dict[int, int] = {}
    best, longest = 0, 0
    for frame, ids in enumerate(views):
        since = {id: since.get(id, frame) for id in ids}
        if ids and (lasts := frame + 1 - min(since.values())) > longest:
            best, longest = max(0, frame + 1 - length), lasts
        if longest >= length:
            break
    return best


def ids_inside(
    model: WorldModel[Any], video: UInt8[Tensor, "1 time 3 size size"], footage: Footage
) -> Iterator[set[int]]:
    """The objects of each frame whose boxes are inside the frame; infers lazily."""
    place = footage.placement
    left, top, *sides = place.shown
    chunks = (part.to(model.device) for part in video.split(CHUNK, dim=1))
    at = 0
    for track in model.infer_chunks(chunks, background=model.background_for(video)):
        part = slice(at, at := at + track.pres.shape[1])
        found = model.settled(track).located(
            Footage(place, footage.frames[part], footage.times[part])
        )
        corners = (found.corners() - [left, top] * 2) / (sides * 2)
        inside = found[np.all((corners >= MARGIN) & (corners <= 1 - MARGIN), axis=1)]
        for number in footage.frames[part]:
            yield set(inside.id[inside.frame == number].tolist())
