"""Objects in SCALOR: their attributes, boxes and slots.

A box is its anchor plus a bounded change. Position is carried to the next frame, size is not:

    s = size + size_range · tanh(w_1)    r = ratio + ratio_range · tanh(w_2)
    h = s √r    w = s / √r
    discovered in cell c    xy = c + 2 tanh(w_3:4) / grid
    propagated              xy ← xy + step · tanh(w_3:4), kept within ±1.05

In propagation these w are called the bias b, and are part of an object's state.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.core.settings import check_sizes
from gswm.core.shapes import NOBODY, Ids, Points, Scalars
from gswm.models.objects import Attributes, LSTMState, outranked

EDGE = 1.05
"""Largest distance of an object's center from the middle of the image."""
CARRIED = 0.7
"""Discovered objects with a higher presence continue in the next frame."""

Where = Float[Tensor, "batch object 4"]


@dataclass(frozen=True)
class ScalorSizes:
    """Sizes of the vectors of an object."""

    what: int = 64
    hidden: int = 128
    """Width of the tracker's GRU."""
    prior: int = 64
    """Width of the prior's LSTM."""
    encoding: int = 128
    """Size of the encoding of an object's surroundings, and of the wider hidden layers."""
    context: int = 10
    """Width of z_bg."""

    def __post_init__(self) -> None:
        check_sizes(self, "--model.sizes")


@dataclass(frozen=True)
class BoxConfig:
    """Anchors, and the ranges by which boxes may differ from them."""

    size: float = 0.25
    """Size of an object, as a fraction of the image."""
    size_range: float = 0.0625
    ratio: float = 1.0
    """Height divided by width."""
    ratio_range: float = 0.2
    step: float = 0.2
    """Scale of an object's motion per frame; the image is 2 units wide."""

    def hw(self, where: Where) -> Points:
        """Height and width."""
        s, r = where[..., :2].tanh().split(1, dim=-1)
        s, r = self.size + self.size_range * s, (self.ratio + self.ratio_range * r).sqrt()
        return torch.cat([s * r, s / r], dim=-1)

    def found(self, where: Where, center: Float[Tensor, "object 2"], grid: int) -> Points:
        """The center of an object that is discovered in a cell."""
        return center + (2 / grid) * where[..., 2:].tanh()

    def moved(self, xy: Points, bias: Where) -> Points:
        """The center, one frame later."""
        return (xy + self.step * bias[..., 2:].tanh()).clamp(-EDGE, EDGE)


@dataclass(frozen=True)
class ScalorObjects:
    """The state of K objects that is carried from frame to frame."""

    o: Attributes
    """The attributes; their depth is nearness, the paper's with its sign flipped."""
    bias: Where
    absence: Scalars
    """Absence of an object, accumulated over its life."""
    h_prior: LSTMState
    h_post: Float[Tensor, "batch object hidden"]
    id: Ids
    """The id of each object, the same in all frames; NOBODY for an empty slot."""
    born: Int[Tensor, " batch"]
    """Number of objects so far: the id of the next one."""

    @staticmethod
    def none(sizes: ScalorSizes, batch: int, slots: int, like: Tensor) -> "ScalorObjects":
        """Empty slots."""
        widths = [6 + sizes.what, 4, 1, sizes.prior, sizes.prior, sizes.hidden]
        flat = like.new_zeros(batch, slots, sum(widths))
        ids = torch.full((batch, slots), NOBODY, device=like.device)
        return ScalorObjects.split(flat, widths, ids, torch.zeros_like(ids[:, 0]))

    @staticmethod
    def split(
        flat: Float[Tensor, "batch object all"],
        widths: list[int],
        ids: Ids,
        born: Int[Tensor, " batch"],
    ) -> "ScalorObjects":
        """The inverse of `flat`; `widths` are those of attributes, bias, absence, h, c, h_post."""
        o, bias, absence, h, c, h_post = flat.split(widths, dim=-1)
        state = LSTMState(h, c)
        return ScalorObjects(Attributes.split(o), bias, absence, state, h_post, ids, born)

    @property
    def alive(self) -> Bool[Tensor, "batch object"]:
        """Mask of the slots that hold an object."""
        return self.id != NOBODY

    @property
    def told(self) -> Float[Tensor, "batch object n"]:
        """Inputs of both RNNs: where, pres, what, bias."""
        o = self.o
        return torch.cat([o.hw, o.xy, o.pres, o.what, self.bias], dim=-1)

    @property
    def told_prior(self) -> Float[Tensor, "batch object n"]:
        """Inputs of the prior's RNN: the same, and depth."""
        return torch.cat([self.told, self.o.depth], dim=-1)

    def flat(self) -> Float[Tensor, "batch object all"]:
        """Everything but the ids, concatenated."""
        h = [self.h_prior.h, self.h_prior.c, self.h_post]
        return torch.cat([self.o.cat(), self.bias, self.absence, *h], dim=-1)

    def with_flat(self, flat: Float[Tensor, "batch object all"], ids: Ids) -> "ScalorObjects":
        """Objects of the same sizes from the output of `flat`."""
        h, c, h_post = self.h_prior.h, self.h_prior.c, self.h_post
        widths = [6 + self.o.what.shape[-1], 4, 1, *(x.shape[-1] for x in (h, c, h_post))]
        return ScalorObjects.split(flat, widths, ids, self.born)


@torch.no_grad()
def admitted(pres: Scalars, free: Int[Tensor, " batch"]) -> Scalars:
    """1 for the most present objects, as many as there are free slots; 0 for the others."""
    return (outranked(pres).sum(dim=-1) < free[:, None]).to(pres.dtype)[..., None]


def joined(propagated: ScalorObjects, found: Attributes, kept: Scalars) -> ScalorObjects:
    """The objects of a frame: known ones keep their slots, and accepted new ones take free slots.

    The state of a new object, apart from its attributes, starts at 0. An object with a low presence
    exists in this frame alone and has no id.
    """
    stays, comes = propagated.alive, kept[..., 0] > 0
    slots = stays.shape[1]
    free, turn = (~stays).cumsum(dim=1), comes.cumsum(dim=1)
    takes = (free[..., None] == turn[:, None]) & comes[:, None] & ~stays[..., None]
    newcomer = slots + takes.to(torch.uint8).argmax(dim=-1)
    source = torch.where(takes.any(dim=-1), newcomer, torch.arange(slots, device=stays.device))

    goes_on = comes & (found.pres[..., 0] > CARRIED)
    new_id = torch.where(goes_on, propagated.born[:, None] + goes_on.cumsum(dim=1) - 1, NOBODY)
    ids = torch.cat([propagated.id, new_id], dim=1).gather(1, source)
    known, new = propagated.flat(), found.cat()
    both = torch.cat([known, F.pad(new, (0, known.shape[-1] - new.shape[-1]))], dim=1)
    flat = both.gather(1, source[..., None].expand(-1, -1, both.shape[-1]))
    return replace(propagated.with_flat(flat, ids), born=propagated.born + goes_on.sum(dim=1))


def carried(objects: ScalorObjects) -> ScalorObjects:
    """The objects that continue in the next frame: those with an id. Other slots become empty.

    Everything but the ids is one tensor, as in empty slots, so that both look alike to a compiler.
    """
    pres, rest = objects.flat().tensor_split([1], dim=-1)
    flat = torch.cat([pres * objects.alive[..., None], rest], dim=-1)
    return objects.with_flat(flat, objects.id)
