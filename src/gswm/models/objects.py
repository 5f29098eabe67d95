"""Object representation (§2).

Like the paper, the code distinguishes two forms of an object:

    z   latents      sampled deviations, without units
    o   attributes   values to draw, in units of the image

A frame always has K slots. Absent objects have pres = 0, and all uses of a slot are weighted by its
pres. An object keeps its slot for its whole life.
"""

from dataclasses import Field, dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.core.distributions import logistic_noise, normal_noise
from gswm.core.geometry import SMALLEST, coverage, overlap
from gswm.core.settings import check_sizes
from gswm.core.shapes import NOBODY, Ids, Points, Scalars

XY = slice(4, 6)
"""Position of xy among the concatenated attributes."""
Boxed = Float[Tensor, "*batch object 2"]


@dataclass(frozen=True)
class Sizes:
    """Sizes of an object's vectors (Table 9)."""

    what: int = 64
    state: int = 128
    hidden: int = 128
    encoding: int = 128
    """Width of every e of the paper, and of every hidden layer."""
    context: int = 128
    glimpse: int = 16
    """Height and width of a glimpse in pixels."""

    def __post_init__(self) -> None:
        check_sizes(self, "--model.sizes", optional=("state",))

    @property
    def z_att(self) -> int:
        """depth, hw, xy and what."""
        return 1 + 2 + 2 + self.what

    @property
    def o(self) -> int:
        """All attributes."""
        return 1 + self.z_att


@dataclass(frozen=True)
class Attributes:
    """o_t: the attributes of K objects."""

    pres: Float[Tensor, "*batch object 1"]
    """Presence, from 0 (not there) to 1."""
    depth: Float[Tensor, "*batch object 1"]
    """Nearness to the viewer: the larger covers the smaller."""
    hw: Float[Tensor, "*batch object 2"]
    """Height and width, as fractions of the image."""
    xy: Float[Tensor, "*batch object 2"]
    """Center; (-1, -1) is the top left corner of the image, (1, 1) its bottom right."""
    what: Float[Tensor, "*batch object what"]
    """Appearance."""

    def cat(self) -> Float[Tensor, "*batch object o"]:
        """All attributes of an object, side by side."""
        return torch.cat([self.pres, self.depth, self.hw, self.xy, self.what], dim=-1)

    @staticmethod
    def split(o: Float[Tensor, "batch object o"]) -> "Attributes":
        """The inverse of `cat`."""
        return Attributes(*o.split([1, 1, 2, 2, o.shape[-1] - 6], dim=-1))


@dataclass(frozen=True)
class Extents:
    """The drawn part of each object's box."""

    middle: Boxed
    """Its middle along the height and the width of the box, from -1 to 1."""
    share: Boxed
    """Its height and width, as shares of those of the box."""

    def of(self, xy: Boxed, hw: Boxed) -> tuple[Boxed, Boxed]:
        """The drawn parts of some boxes, as xy and hw."""
        hw = hw.clamp_min(SMALLEST)
        return xy + (self.middle * hw).flip(-1), hw * self.share

    def around(self, xy: Boxed, hw: Boxed) -> tuple[Boxed, Boxed]:
        """The boxes of which these are the drawn parts: the inverse of `of`."""
        hw = hw / self.share
        return xy - (self.middle * hw).flip(-1), hw


@dataclass(frozen=True)
class Latents:
    """z_att without z_pres, or any other record with one value for each of its elements."""

    depth: Scalars
    hw: Points
    xy: Points
    what: Float[Tensor, "batch object what"]

    @staticmethod
    def split(z_att: Float[Tensor, "batch object z_att"]) -> "Latents":
        """Split one vector per object."""
        return Latents(*z_att.split([1, 2, 2, z_att.shape[-1] - 5], dim=-1))


@dataclass(frozen=True)
class LSTMState:
    """An LSTM's state, which the paper writes as h (B.2); only `h` is ever read."""

    h: Float[Tensor, "*batch hidden"]
    c: Float[Tensor, "*batch hidden"]


@dataclass(frozen=True)
class Objects:
    """The state of K objects that is carried from frame to frame."""

    o: Attributes
    z_state: Float[Tensor, "batch object state"]
    h_prior: LSTMState
    h_post: LSTMState
    id: Ids
    """The id of each object, the same in all frames; NOBODY in slots that never held one."""
    born: Int[Tensor, " batch"]
    """Number of objects so far: the id of the next one."""

    def flat(self) -> Float[Tensor, "batch object all"]:
        """Everything but the ids, concatenated."""
        states = [self.h_prior.h, self.h_prior.c, self.h_post.h, self.h_post.c]
        return torch.cat([self.o.cat(), self.z_state, *states], dim=-1)

    def with_flat(self, flat: Float[Tensor, "batch object all"], ids: Ids) -> "Objects":
        """Objects of the same sizes from the output of `flat`."""
        parts = [self.o.what.shape[-1] + 6, self.z_state.shape[-1]]
        parts += [
            s.shape[-1] for s in (self.h_prior.h, self.h_prior.c, self.h_post.h, self.h_post.c)
        ]
        o, z_state, *h = flat.split(parts, dim=-1)
        prior, post = LSTMState(*h[:2]), LSTMState(*h[2:])
        return Objects(Attributes.split(o), z_state, prior, post, ids, self.born)


@dataclass(frozen=True)
class GRUObjects:
    """The state of K objects of a model that has two GRUs per object."""

    o: Attributes
    h_prior: Float[Tensor, "batch object hidden"]
    h_post: Float[Tensor, "batch object hidden"]
    id: Ids
    """The id of each object, the same in all frames; NOBODY in slots that never held one."""
    born: Int[Tensor, " batch"]
    """Number of objects so far: the id of the next one."""

    @staticmethod
    def none(
        num_what: int, num_hidden: int, slots: int, like: Float[Tensor, " batch *rest"]
    ) -> "GRUObjects":
        """K empty slots."""
        flat = torch.zeros(len(like), slots, 6 + num_what + 2 * num_hidden, device=like.device)
        ids = torch.full(flat.shape[:2], NOBODY, device=like.device)
        return GRUObjects.split(flat, num_hidden, ids, torch.zeros_like(ids[:, 0]))

    @staticmethod
    def split(
        flat: Float[Tensor, "batch object all"], hidden: int, ids: Ids, born: Int[Tensor, " batch"]
    ) -> "GRUObjects":
        """The inverse of `flat`, for GRUs of width `hidden`."""
        o, h_prior, h_post = flat.split([flat.shape[-1] - 2 * hidden, hidden, hidden], dim=-1)
        return GRUObjects(Attributes.split(o), h_prior, h_post, ids, born)

    def flat(self) -> Float[Tensor, "batch object all"]:
        """Everything but the ids, concatenated."""
        return torch.cat([self.o.cat(), self.h_prior, self.h_post], dim=-1)

    def with_flat(self, flat: Float[Tensor, "batch object all"], ids: Ids) -> "GRUObjects":
        """Objects of the same sizes from the output of `flat`."""
        return GRUObjects.split(flat, self.h_prior.shape[-1], ids, self.born)


@dataclass(frozen=True)
class ObjectNoise:
    """The random numbers of the objects, or cells, of several frames."""

    where: Float[Tensor, "*batch object 4"]
    depth: Float[Tensor, "*batch object 1"]
    what: Float[Tensor, "*batch object what"]
    pres: Float[Tensor, "*batch object 1"]

    @staticmethod
    def draw(
        shape: tuple[int, ...], num_what: int, source: torch.Generator | torch.device
    ) -> "ObjectNoise":
        """Draw noise for objects of any shape; with a device in place of a generator, zeros."""
        if isinstance(source, torch.Generator):
            where, depth, what = (normal_noise((*shape, n), source) for n in (4, 1, num_what))
            return ObjectNoise(where, depth, what, logistic_noise((*shape, 1), source))
        zero = torch.zeros((), device=source)
        return ObjectNoise(*(zero.expand(*shape, n) for n in (4, 1, num_what, 1)))


@runtime_checkable
class SlotRecord(Protocol):
    """A record of K objects, such as `Objects`: a scene edits it, and `select` fills its slots."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def o(self) -> Attributes:
        """The attributes of each object."""
        ...

    @property
    def id(self) -> Ids:
        """The id of the object in each slot."""
        ...

    @property
    def born(self) -> Int[Tensor, " batch"]:
        """The id of the next new object."""
        ...

    def flat(self) -> Float[Tensor, "batch object all"]:
        """Everything but the ids, concatenated."""
        ...

    def with_flat(self: "Slotted", flat: Float[Tensor, "batch object all"], ids: Ids) -> "Slotted":
        """The inverse of `flat`."""
        ...


Slotted = TypeVar("Slotted", bound=SlotRecord)


def outranked(pres: Scalars) -> Bool[Tensor, "batch object object"]:
    """Whether each object is less present than each other one; ties go to the first."""
    p, index = pres[..., 0], torch.arange(pres.shape[1], device=pres.device)
    before = (p[:, None] == p[..., None]) & (index < index[:, None])
    return (p[:, None] > p[..., None]) | before


def number(pres: Float[Tensor, "batch time object 1"]) -> Float[Tensor, ""]:
    """Mean number of objects per frame."""
    return (pres > 0.5).float().sum(dim=(2, 3)).mean()


def select(propagated: Slotted, discovered: Slotted) -> Slotted:
    """The K most present objects of both sets (§2), at most K of which are new.

    A propagated object that stays keeps its slot; new objects take the slots of those that leave.
    """
    num_slots = propagated.id.shape[1]
    pres = torch.cat([propagated.o.pres, discovered.o.pres], dim=1)
    candidate = torch.arange(pres.shape[1], device=pres.device)
    rank = outranked(pres).sum(dim=-1)
    stays, comes = (rank < num_slots).tensor_split([num_slots], dim=1)

    # The n-th new object takes the n-th free slot.
    free, turn = (~stays).cumsum(dim=1), comes.cumsum(dim=1)
    takes = (free[..., None] == turn[:, None]) & comes[:, None]
    newcomer = num_slots + (takes * candidate[: takes.shape[-1]]).sum(dim=-1)
    source = torch.where(stays, candidate[:num_slots], newcomer)

    # Presence only falls, so a new object below 0.5 will never count as one.
    real = comes & (discovered.o.pres[..., 0] > 0.5)
    new_id = propagated.born[:, None] + real.cumsum(dim=1) - 1
    ids = torch.cat([propagated.id, torch.where(real, new_id, NOBODY)], dim=1).gather(1, source)
    both = torch.cat([propagated.flat(), discovered.flat()], dim=1)
    flat = both.gather(1, source[..., None].expand(-1, -1, both.shape[-1]))
    return replace(propagated.with_flat(flat, ids), born=propagated.born + real.sum(dim=1))


@torch.no_grad()
def accept(
    known: Attributes,
    xy: Points,
    hw: Points,
    pres: Scalars,
    rejection: float,
    rivals: float | None,
    inside: float | None = None,
) -> Float[Tensor, "batch object 1"]:
    """1 where a discovered box is new, 0 where it is rejected.

    Args:
        known: the propagated objects.
        xy: the centers of the discovered boxes.
        hw: their sizes.
        pres: their presence.
        rejection: IoU with a propagated object above which a discovered one is rejected.
        rivals: IoU with a discovered box that is more present above which it is rejected too;
            None for never.
        inside: fraction of a discovered box in one of either kind above which it is rejected as a
            part of that object; None for never.
    """
    same = overlap(xy, hw, known.xy, known.hw) > rejection
    if inside is not None:
        same = same | (coverage(xy, hw, known.xy, known.hw) > inside)
    rejected = (same & (known.pres.mT > 0.5)).any(dim=-1)
    if rivals is not None:
        same = overlap(xy, hw, xy, hw) > rivals
        if inside is not None:
            same = same | (coverage(xy, hw, xy, hw) > inside)
        rejected = rejected | (same & outranked(pres) & (pres.mT > 0.5)).any(dim=-1)
    return (~rejected).to(pres.dtype)[..., None]
