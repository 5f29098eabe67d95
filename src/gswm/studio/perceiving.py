"""The given frames of a video, inferred once for all pages that have it open."""

import hashlib
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor

from gswm.models.base import AnyFrame, AnyVideo, Discover, WorldModel
from gswm.studio.branches import Moments, moments_of

CHUNK = 3
"""Number of frames to infer at once.

It bounds how long an edit waits, and how long a page shows a video without objects.
"""

InferredChunks = WeakValueDictionary[tuple[WorldModel[Any], Discover, bytes], Moments]
"""The chunks of all open pages, by everything that they depend on: the model, its discovery mode,
and a digest of the background and of all frames so far.

Only the worker thread uses it. A chunk is inferred in one piece, so pages that open the same video
at the same time share it. It is freed when no page uses it.
"""


def perceived(
    model: WorldModel[Any],
    video: AnyVideo,
    how: Discover,
    behind: AnyFrame | None,
    kept: InferredChunks | None = None,
) -> Iterator[Moments]:
    """Infer a video, in chunks if the model can continue from a state.

    kept: the cache of chunks, for a model whose weights do not change.
    """
    size = CHUNK if model.continues else video.shape[1]
    if behind is None and model.continues:
        behind = model.background_for(video)
    seen = hashlib.blake2b(b"" if behind is None else as_bytes(behind))
    state: Any = None
    for at in range(0, video.shape[1], size):
        frames = video[:, at : at + size]
        seen.update(as_bytes(frames))
        key = (model, how, seen.digest())
        chunk = None if kept is None else kept.get(key)
        if chunk is None:
            if state is None:
                track = model.infer(frames, discover=how, background=behind)
            else:
                track = model.infer_after(state, frames, discover=how)
            chunk = moments_of(model, track, state)
            if kept is not None:
                kept[key] = chunk
        yield chunk
        state = chunk.states[-1]


def as_bytes(x: Tensor) -> bytes:
    """The values of a tensor."""
    return x.cpu().numpy().tobytes()
