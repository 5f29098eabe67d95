"""Objects in SCALOR: their attributes, boxes and slots.

A box is its anchor, changed by a bounded amount; position is carried on, size is not:

    s = size + size_range · tanh(w_1)    r = ratio + ratio_range · tanh(w_2)
    h = s √r    w = s / √r
    discovered in cell c    xy = c + 2 tanh(w_3:4) / grid
    propagated              xy ← xy + step · tanh(w_3:4), kept within ±1.05

In propagation these w are called the bias b, and are part of what an object carries on.
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
"""Objects leave the image so far, and no further."""
CARRIED = 0.7
"""A discovered object goes on to the next frame if its presence is above."""

Where = Float[Tensor, "batch object 4"]


@dataclass(frozen=True)
class ScalorSizes:
    """Sizes of the vectors of an object."""

    what: int = 64
    hidden: int = 128
    """Of the tracker's GRU."""
    prior: int = 64
    """Of the prior's LSTM."""
    encoding: int = 128
    """Size of the encoding of an object's surroundings, and of the wider hidden layers."""
    context: int = 10
    """z_bg."""

    def __post_init__(self) -> None:
        check_sizes(self, "--model.sizes")


@dataclass(frozen=True)
class BoxConfig:
    """Anchors; the ranges are as much as a box may differ from them."""

    size: float = 0.25
    """Of an object, as a fraction of the image."""
    size_range: float = 0.0625
    ratio: float = 1.0
    """Height by width."""
    ratio_range: float = 0.2
    step: float = 0.2
    """Scale of the motion of an object per frame; the image is 2 wide."""

    def hw(self, where: Where) -> Points:
        """Height and width."""
        s, r = where[..., :2].tanh().split(1, dim=-1)
        s, r = self.size + self.size_range * s, (self.ratio + self.ratio_range * r).sqrt()
        return torch.cat([s * r, s / r], dim=-1)

    def found(self, where: Where, center: Float[Tensor, "object 2"], grid: int) -> Points:
        """The center of an object that is found in a cell."""
        return center + (2 / grid) * where[..., 2:].tanh()

    def moved(self, xy: Points, bias: Where) -> Points:
        """The center, one frame later."""
        return (xy + self.step * bias[..., 2:].tanh()).clamp(-EDGE, EDGE)


@dataclass(frozen=True)
class ScalorObjects:
    """All that K objects take from one frame to the next."""

    o: Attributes
    """Its depth is nearness: minus the paper's."""
    bias: Where
    absence: Scalars
    """Accumulated absence of an object, over its whole life."""
    h_prior: LSTMState
    h_post: Float[Tensor, "batch object hidden"]
    id: Ids
    """Which object this is, in all frames; NOBODY where there is none."""
    born: Int[Tensor, " batch"]
    """Number of objects so far: the id of the next one."""

    @staticmethod
    def none(sizes: ScalorSizes, batch: int, slots: int, like: Tensor) -> "ScalorObjects":
        """Slots with nothing in them."""
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
        """From what `flat` gives; `widths` are those of attributes, bias, absence, h, c, h_post."""
        o, bias, absence, h, c, h_post = flat.split(widths, dim=-1)
        state = LSTMState(h, c)
        return ScalorObjects(Attributes.split(o), bias, absence, state, h_post, ids, born)

    @property
    def alive(self) -> Bool[Tensor, "batch object"]:
        """Which slots hold an object."""
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
        """Everything but the ids, side by side."""
        h = [self.h_prior.h, self.h_prior.c, self.h_post]
        return torch.cat([self.o.cat(), self.bias, self.absence, *h], dim=-1)

    def with_flat(self, flat: Float[Tensor, "batch object all"], ids: Ids) -> "ScalorObjects":
        """Objects of the same sizes, from what `flat` gives."""
        h, c, h_post = self.h_prior.h, self.h_prior.c, self.h_post
        widths = [6 + self.o.what.shape[-1], 4, 1, *(x.shape[-1] for x in (h, c, h_post))]
        return ScalorObjects.split(flat, widths, ids, self.born)


@torch.no_grad()
def admitted(pres: Scalars, free: Int[Tensor, " batch"]) -> Scalars:
    """1 for the most present, as many as there are slots free; 0 for the others."""
    return (outranked(pres).sum(dim=-1) < free[:, None]).to(pres.dtype)[..., None]


def joined(propagated: ScalorObjects, found: Attributes, kept: Scalars) -> ScalorObjects:
    """Those of a frame: who is alive keeps the slot, those kept of the new ones take free slots.

    Of a new object all but its attributes begins at 0. One whose presence is low is of this frame
    alone: it has no id.
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
    """Objects that continue in the next frame: those with an id; other slots become empty.

    All but the ids is one tensor, as in slots with nothing in them: to a compiler it looks alike.
    """
    pres, rest = objects.flat().tensor_split([1], dim=-1)
    flat = torch.cat([pres * objects.alive[..., None], rest], dim=-1)
    return objects.with_flat(flat, objects.id)
