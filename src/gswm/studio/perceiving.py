"""The given frames of a video, inferred once for all pages that open it."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from gswm.models.base import AnyFrame, AnyVideo, Discover, WorldModel
from gswm.studio.branches import Moments, held, moments_of

CHUNK = 5
"""Frames that are inferred at once: an edit waits no longer than for these."""
MEMORY = 1 << 25
"""Bytes of inferred frames that are kept."""

Key = tuple[WorldModel[Any], Discover, bytes]
"""A model, how it looks for objects, and a digest of all frames and the background it has seen."""


class InferredChunks:
    """Inferred chunks of videos; the least recently used ones are dropped beyond `most` bytes.

    The keys cover everything that a chunk depends on, so no entry becomes outdated as long as the
    weights stay as they are. Only the worker's thread uses it. Since it infers a chunk in one
    piece, pages that open the same video at the same time share each chunk.
    """

    def __init__(self, most: int = MEMORY) -> None:
        self.most, self.bytes = most, 0
        self.chunks: OrderedDict[Key, Moments] = OrderedDict()

    def get(self, key: Key) -> Moments | None:
        """A chunk, if it is still here."""
        if key in self.chunks:
            self.chunks.move_to_end(key)
        return self.chunks.get(key)

    def put(self, key: Key, chunk: Moments) -> None:
        """Keep a chunk, and drop others if there is no room."""
        self.chunks[key] = chunk
        self.bytes += held(chunk)
        while self.bytes > self.most:
            self.bytes -= held(self.chunks.popitem(last=False)[1])


def perceived(
    model: WorldModel[Any],
    video: AnyVideo,
    how: Discover,
    behind: AnyFrame | None,
    kept: InferredChunks | None = None,
) -> Iterator[Moments]:
    """Infer a video, in chunks if the model can continue from a state.

    kept: where to look chunks up first, for a model whose weights do not change.
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
                kept.put(key, chunk)
        yield chunk
        state = chunk.states[-1]


def as_bytes(x: Tensor) -> bytes:
    """The values of a tensor."""
    return x.cpu().numpy().tobytes()
