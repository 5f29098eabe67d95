"""Observed and imagined frames, with every edit as a branch.

A branch has moments, one for each frame up to its edit, and futures from there on. It shares
moments with its parent. Futures are a function of the last moment and the seed, so they can be
dropped and imagined again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.models.base import WorldModel
from gswm.models.state import NOT_EDITABLE, State
from gswm.models.track import Track, to_pixels
from gswm.studio.protocol import Change, Edit, ViewSettings
from gswm.studio.throwing import throw

COLUMNS = ("x", "y", "h", "w", "depth", "presence", "id", "px", "py", "ph", "pw")
"""Columns of an object: its attributes, and the region in which the model looked for it."""
PIECES = (1, 2, 4)
"""Lengths in frames of the first imagined pieces; later ones are longer."""
PIECE = 8
ROWS = 32
"""Maximum number of frames in a piece, over all futures."""

Objects = Float[np.ndarray, "*futures time object 11"]
Pixels = UInt8[np.ndarray, "*futures time height width 3"]


@dataclass(frozen=True)
class Moments:
    """Consecutive frames of one video, or of several futures."""

    objects: Objects
    pixels: Pixels
    background: UInt8[np.ndarray, "time height width 3"]
    """The background of the first future."""
    states: tuple[Any, ...] = field(repr=False)
    """The state after each frame, batched over futures."""

    def __len__(self) -> int:
        return len(self.states)

    def one(self, future: int, frame: int) -> "Moments":
        """Copy a single frame of one future."""
        at = slice(frame, frame + 1)
        own = map_tensors(lambda x: x[future : future + 1].clone(), self.states[frame])
        rows = self.objects[future, at].copy(), self.pixels[future, at].copy()
        return Moments(*rows, self.background[at].copy(), (own,))

    def __getitem__(self, at: slice) -> "Moments":
        arrays = (self.objects[at], self.pixels[at], self.background[at])
        return Moments(*arrays, self.states[at])


def join(moments: Sequence[Moments]) -> Moments:
    """Concatenate consecutive moments of one video."""
    return Moments(
        np.concatenate([each.objects for each in moments]),
        np.concatenate([each.pixels for each in moments]),
        np.concatenate([each.background for each in moments]),
        tuple(state for each in moments for state in each.states),
    )


@dataclass
class Branch:
    """An edit, the frames up to it, and its futures."""

    number: int
    edit: Edit | None
    """None for the unedited video."""
    moments: tuple[Moments, ...]
    """One per frame."""
    first: int
    """The first frame changed by the edit."""
    futures: list[Moments] = field(default_factory=list)
    """In pieces; incomplete while they are being imagined, or after they were dropped."""

    @property
    def frame(self) -> int:
        """The last frame before the imagined ones."""
        return len(self.moments) - 1

    @property
    def imagined(self) -> int:
        """The number of imagined frames."""
        return sum(len(piece) for piece in self.futures)

    def bytes(self) -> int:
        """Memory of its futures in bytes."""
        return sum(held(piece) for piece in self.futures)


def held(piece: Moments) -> int:
    """Memory of a piece in bytes."""
    total = piece.objects.nbytes + piece.pixels.nbytes + piece.background.nbytes

    def count(x: Tensor) -> Tensor:
        nonlocal total
        total += x.nbytes
        return x

    map_tensors(count, piece.states)
    return total


def moments_of(model: WorldModel[Any], track: Track, before: Any | None = None) -> Moments:
    """The visible content of one video's track, or of the futures of one state.

    before: the state before its first frame, for the regions that the model searched.
    """
    if track.reconstruction is None:
        raise UserError("this model does not render frames: `reconstruction` is None")
    videos = track.pres.dim() == 3 and len(track.pres) == 1
    flat = 0 if videos else track.pres.dim() - 3

    def rows(x: Tensor) -> Tensor:
        return x[0] if videos else x.flatten(0, flat)

    parts = [rows(track.xy), rows(track.hw)]
    parts += [rows(x)[..., None].float() for x in (track.depth, track.pres, track.id)]
    parts.append(rows(regions(model, track, before)))
    background = track.background if track.background is not None else track.reconstruction * 0
    while background.dim() > 4:
        background = background[0]
    return Moments(
        torch.cat([part.cpu() for part in parts], dim=-1).numpy(),
        to_pixels(rows(track.reconstruction)),
        to_pixels(background),
        track.states,
    )


def regions(
    model: WorldModel[Any], track: Track, before: Any | None
) -> Float[Tensor, "*batch object 4"]:
    """The region that the model searched for each object; empty if it has none."""
    where = track.xy.new_zeros(*track.pres.shape, 4)
    if model.editable:
        for frame, (then, now) in enumerate(pairwise((before, *track.states))):
            if then is not None:
                found = model.proposals(then, now)
                both = torch.cat([found.xy, found.hw], dim=-1)
                where[..., frame, :, :] = both.view_as(where[..., frame, :, :])
    return where


def track_of(moments: Sequence[Moments], device: torch.device) -> Track:
    """Convert moments of one video to a track, for editing."""
    whole = join(moments)
    objects = torch.from_numpy(whole.objects).to(device)[None]
    xy, hw, depth, pres, id, _ = objects.split([2, 2, 1, 1, 1, 4], dim=-1)
    background = torch.from_numpy(whole.background).to(device).movedim(-1, 1)[None] / 255
    single = (depth[..., 0], pres[..., 0], id[..., 0].round().long())
    return Track(xy, hw, *single, None, background, states=whole.states)


def imagine(
    model: WorldModel[Any], branch: Branch, settings: ViewSettings, steps: int
) -> Iterator[Moments]:
    """Imagine the futures of a branch from the start, in pieces; deterministic."""
    state = branch.moments[-1].states[0]
    device = model.device
    generator = torch.Generator(device).manual_seed(settings.seed)
    futures = settings.futures if settings.sample else 1
    done = 0
    for size in pieces(steps, futures):
        how = {"futures": 1 if done else futures, "sample": settings.sample}
        track = model.imagine_from(state, size, **how, generator=generator)
        last = state if done else map_tensors(lambda x: x.expand(futures, *x.shape[1:]), state)
        yield moments_of(model, track, last)
        state, done = track.state_at(-1), done + size


def futures_of(
    model: WorldModel[Any],
    branch: Branch,
    settings: ViewSettings,
    steps: int,
    needed: int | None = None,
) -> Iterator[Moments]:
    """The futures of a branch in pieces: the stored ones, or the same ones imagined again.

    Stored futures are used if they have at least `needed` frames.
    """
    if branch.imagined >= (steps if needed is None else needed):
        yield from tuple(branch.futures)
    else:
        yield from imagine(model, branch, settings, steps)


def moments_along(branch: Branch, future: int, futures: Iterator[Moments]) -> Iterator[Moments]:
    """The frames of a branch one by one, along one of its futures."""
    yield from branch.moments
    for piece in futures:
        if future >= len(piece.objects):
            raise UserError(f"there is no future {future}; there are {len(piece.objects)}")
        for frame in range(len(piece)):
            yield piece.one(future, frame)


def pieces(steps: int, futures: int) -> Iterator[int]:
    """Sizes of pieces in frames: small at first, so that the first frames appear quickly."""
    count = 0
    while steps > 0:
        size = PIECES[count] if count < len(PIECES) else PIECE
        size = min(size, steps, max(1, ROWS // futures))
        yield size
        steps, count = steps - size, count + 1


def changed(model: WorldModel[Any], moments: Sequence[Moments], change: Change) -> Moments:
    """Apply a change to the last moment; a throw also changes those before it."""
    device = model.device
    now = track_of(moments[-6:], device)
    scene = now.state_at(-1)
    if change.kind == "throw":
        flown = throw(model, now, change.id, change.xy, change.velocity)
        return moments_of(model, flown, now.states[-1 - flown.pres.shape[1]])
    if not isinstance(scene, State):
        raise UserError(NOT_EDITABLE)
    match change.kind:
        case "move":
            scene = scene.move(change.id, change.xy)
        case "resize":
            scene = scene.change(change.id, hw=change.hw)
        case "depth":
            scene = scene.change(change.id, depth=change.depth)
        case "look":
            scene = scene.change(change.id, look_of=change.other)
        case "remove":
            scene = scene.remove(change.id)
        case "duplicate":
            scene = scene.add(change.id, change.xy)
    return redrawn(model, moments[-1], scene)


def redrawn(model: WorldModel[Any], moment: Moments, scene: Any) -> Moments:
    """A moment with another scene; its pixels stay the same if the model cannot render it."""
    if not model.editable:
        return replace(moment, states=(scene,))
    background = torch.from_numpy(moment.background).movedim(-1, 1) / 255
    return moments_of(model, model.view(scene, background))
