"""Supervision by labels: the boxes of a procedural world, or of moving objects in a video.

In training, the posterior learns labelled boxes and presences in addition to the ELBO.

A slot learns from one object for its whole life: the one in whose box it was discovered. Its target
presence is that of the object. It is 0 for a slot that was discovered outside all boxes, or in the
box of an older slot.

    label_box  = Σ_k huber((o_xy - xy_n) / hw_n) + huber(log o_hw - log hw_n)
    label_pres = -Σ_k log q(z̃_pres_k = is n there) - Σ_ij log q(z̄_pres_ij = is there a new n in ij)

A cell is present only if the center of a new object is in it; such a cell counts `MISSED` times.
All cells near the center of any visible object learn its box, so discovery learns boxes in every
frame, and from several cells.

The model explains only labelled boxes. In the likelihood and the motion loss (see `objective`), all
other pixels are replaced by the background, so that no object pays off there, even if something
flickers or sways. Slots and cells of nearly hidden objects are ignored, and so are those in unclear
boxes, which only the ELBO explains.
"""

import math
from dataclasses import dataclass, replace
from operator import add

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.geometry import cell_centers, cell_of, centers
from gswm.core.records import map_tensors, stack
from gswm.core.shapes import NOBODY, Video
from gswm.data.labels import Labels
from gswm.models.elbo import PerVideo, per_video
from gswm.models.gswm.discovery import DiscoveryEvidence
from gswm.models.gswm.propagation import PropagationEvidence
from gswm.models.objects import Attributes, Latents, Objects

VISIBLE = 0.3
"""Share of an object that must be visible for a cell to find it."""
GLIMPSED = 0.1
"""Share up to which an object counts as hidden."""
MISSED = 2.0
"""Cost of missing an object, relative to finding one where there is none."""
LAST = 10.0
"""Above the square of any distance inside a box, in half sides."""
CENTRAL = 0.5
"""Share of an object's box, around its center, in which cells are near it."""
NEAR = 0.75
"""Largest distance of a near cell from the center of an object, in cells along each axis."""
BETA = 0.03
"""Error at which the Huber loss becomes linear, relative to the size of an object."""


@dataclass(frozen=True)
class Matches:
    """The object from which each slot of each frame learns."""

    which: Int[Tensor, "batch time slot"]
    """Index among the labels; NOBODY for none."""
    first: Bool[Tensor, "batch time slot"]
    """Whether no older slot learns from the same object."""

    def of(self, labels: Tensor) -> Tensor:
        """The labels of each slot; arbitrary values for slots without one."""
        at = self.which.clamp_min(0)
        if labels.dim() == 3:
            return labels.gather(2, at)
        return labels.gather(2, at[..., None].expand(-1, -1, -1, labels.shape[-1]))


def match(objects: list[Objects], labels: Labels) -> Matches:
    """Follow every slot of a video from the box in which it was discovered."""
    which, first = [], []
    for t, now in enumerate(objects):
        found = found_in(now, labels, t)
        if t:
            same = (now.id == objects[t - 1].id) & (now.id != NOBODY)
            found = torch.where(same, which[-1], found)
        found = torch.where(now.id == NOBODY, NOBODY, found)
        older = now.id[:, None] < now.id[..., None]
        taken = ((found[:, None] == found[..., None]) & older).any(dim=-1)
        which.append(found)
        first.append(~taken)
    return Matches(torch.stack(which, dim=1), torch.stack(first, dim=1))


@torch.no_grad()
def found_in(objects: Objects, labels: Labels, t: int) -> Int[Tensor, "batch slot"]:
    """The object whose box contains the center of each slot, the closest one if there are several.

    A slot outside all objects' boxes may be in an unclear one.
    """
    half = labels.hw[:, t].flip(-1).clamp_min(1e-3)
    offset = (objects.o.xy[:, :, None] - labels.xy[:, t, None]) / half[:, None]
    inside = (offset.abs() < 1).all(dim=-1) & (labels.visibility[:, t] > GLIMPSED)[:, None]
    later = LAST * ~labels.present[:, t, None]
    away = torch.where(inside, offset.square().sum(dim=-1) + later, torch.inf)
    least, which = away.min(dim=-1)
    return torch.where(least.isfinite(), which, NOBODY)


def anchored(o: Attributes, matches: Matches, labels: Labels) -> Attributes:
    """The objects for the likelihood, whose gradient does not reach boxes that learn from labels.

    That gradient would outweigh the one of `label_box`, and favor the part of an object that is
    easy to draw over the whole object.
    """
    fixed = teaching(o.pres, matches, labels)[..., None]
    xy, hw = (torch.where(fixed, each.detach(), each) for each in (o.xy, o.hw))
    return replace(o, xy=xy, hw=hw)


def label_terms(
    objects: list[Objects],
    matches: Matches,
    found: DiscoveryEvidence,
    known: list[PropagationEvidence],
    keep: Bool[Tensor, "batch time"],
    labels: Labels,
) -> dict[str, PerVideo]:
    """label_box and label_pres.

    Args:
        objects: of each frame.
        matches: which of the labels each of them learns from.
        found: by discovery, in each frame.
        known: of the objects that propagate, in each frame but the first.
        keep: the frames in which there is discovery.
        labels: the true boxes of each frame.
    """
    pres = stack([each.pres for each in known], dim=1) if known else None
    slots = slot_terms(objects, pres, matches, labels)
    cells = cell_terms(found.pres, found.q_att, keep, held(objects, matches, labels), labels)
    return dict(zip(("label_box", "label_pres"), map(add, slots, cells), strict=True))


def slot_terms(
    objects: list[Objects], pres: Bernoulli | None, matches: Matches, labels: Labels
) -> tuple[PerVideo, PerVideo]:
    """label_box and label_pres of propagated objects; `pres` covers all frames but the first."""
    o = stack([each.o for each in objects], dim=1)
    away = apart(o.xy, o.hw, matches.of(labels.xy), matches.of(labels.hw))
    box = per_video(teaching(o.pres, matches, labels) * away)
    if pres is None:
        return box, torch.zeros_like(box)

    # The evidence of frame t is about the slots of t - 1.
    before = Matches(matches.which[:, :-1], matches.first[:, :-1])
    later = map_tensors(lambda tensor: tensor[:, 1:], labels)
    known, present = before.which != NOBODY, before.of(later.present)
    stays = known & before.first & present
    unclear = known & ~present & (before.of(later.visibility) > GLIMPSED)
    counts = is_there(o.pres)[:, :-1] & ~unclear
    return box, per_video(counts * cross_entropy(pres.logit[..., 0], stays.float()))


def teaching(
    pres: Float[Tensor, "batch time slot 1"], matches: Matches, labels: Labels
) -> Bool[Tensor, "batch time slot"]:
    """Whether a slot learns its box from a label."""
    known = (matches.which != NOBODY) & matches.of(labels.present)
    return known & matches.first & is_there(pres)


def is_there(pres: Float[Tensor, "*batch slot 1"]) -> Bool[Tensor, "*batch slot"]:
    """Whether a slot holds an object."""
    return pres[..., 0] > 0.5


def cell_terms(
    pres: Bernoulli,
    q_att: Gaussian,
    keep: Bool[Tensor, "batch time"],
    held: Bool[Tensor, "batch time object"],
    labels: Labels,
) -> tuple[PerVideo, PerVideo]:
    """label_box of discovery for all objects, and label_pres for those without a slot before."""
    grid = math.isqrt(pres.logit.shape[2])
    clear = (labels.present & (labels.visibility > VISIBLE))[:, :, None]
    new = clear & ~held[:, :, None]
    cell = cell_of(labels.xy, grid)
    here = cell[:, :, None] == torch.arange(grid * grid, device=cell.device)[:, None]
    near = close_by(labels, grid)
    faint = (labels.visibility > 0) & (labels.visibility <= VISIBLE)
    unclear = (here & faint[:, :, None]).any(dim=-1) | in_unclear(labels, grid)
    unclear = unclear | (near & new).any(dim=-1)
    target = (here & new).any(dim=-1)
    looked = keep[..., None]
    weight = looked * torch.where(target, MISSED, 1.0) * (target | ~unclear)
    found = per_video(weight * cross_entropy(pres.logit[..., 0], target.float()))

    # Of several objects, a new one in the cell, any one in it, the most visible.
    rank = 1 + labels.visibility[:, :, None] + 4 * (here & new) + 2 * here
    rank = rank * ((here | near) & clear)
    which = rank.argmax(dim=-1)
    z = Latents.split(q_att.mean.flatten(0, 1))
    hw = z.hw.sigmoid().unflatten(0, keep.shape)
    xy = cell_centers(grid, hw) + (2 / grid) * z.xy.tanh().unflatten(0, keep.shape)
    theirs = Matches(which, target)
    box = apart(xy, hw, theirs.of(labels.xy), theirs.of(labels.hw))
    return per_video(looked * (rank > 0).any(dim=-1) * box), found


def close_by(labels: Labels, grid: int) -> Bool[Tensor, "batch time cell object"]:
    """Whether the center of a cell is close to that of an object."""
    away = (labels.xy[:, :, None] - cell_centers(grid, labels.xy)[:, None]).abs()
    most = (CENTRAL * labels.hw.flip(-1)).clamp_max(2 * NEAR / grid)
    return (away < most[:, :, None]).all(dim=-1)


def in_unclear(labels: Labels, grid: int) -> Bool[Tensor, "batch time cell"]:
    """Whether the center of a cell is in an unclear box."""
    open_ones = ~labels.present & (labels.visibility > 0)
    return inside(labels, grid, open_ones).flatten(2)


def held(
    objects: list[Objects], matches: Matches, labels: Labels
) -> Bool[Tensor, "batch time object"]:
    """Objects that had a slot one frame before."""
    there = is_there(torch.stack([each.o.pres for each in objects], dim=1))
    number = torch.arange(labels.present.shape[2], device=there.device)
    has = ((matches.which[..., None] == number) & there[..., None]).any(dim=2)
    return torch.cat([torch.zeros_like(has[:, :1]), has[:, :-1]], dim=1)


def apart(
    xy: Float[Tensor, "*batch 2"],
    hw: Float[Tensor, "*batch 2"],
    true_xy: Float[Tensor, "*batch 2"],
    true_hw: Float[Tensor, "*batch 2"],
) -> Float[Tensor, "*batch"]:
    """Distance of boxes from the true ones, relative to their size."""
    true_hw = true_hw.clamp_min(1e-3)
    offset = huber((xy - true_xy) / true_hw.flip(-1))
    ratio = huber(hw.clamp_min(1e-4).log() - true_hw.log())
    return (offset + ratio).sum(dim=-1)


def huber(x: Tensor) -> Tensor:
    """The Huber loss: quadratic near 0, else linear."""
    return F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none", beta=BETA)


def cross_entropy(logit: Tensor, target: Tensor) -> Tensor:
    """-log q(target)."""
    return F.binary_cross_entropy_with_logits(logit, target, reduction="none")


def explicable(video: Video, mu_bg: Video, labels: Labels) -> Video:
    """The video inside labelled boxes, and its background elsewhere."""
    return torch.where(inside(labels, video.shape[-1], labels.visibility > 0), video, mu_bg)


def inside(
    labels: Labels, size: int, which: Bool[Tensor, "batch time object"]
) -> Bool[Tensor, "batch time 1 {size} {size}"]:
    """Whether the center of each pixel, of `size` by `size`, is inside any of the boxes."""
    at = centers(size, labels.xy)

    def covered(axis: int) -> Float[Tensor, "batch time object pixel"]:
        middle, half = labels.xy[..., axis, None], labels.hw[..., 1 - axis, None]
        return (((at - middle).abs() < half) & which[..., None]).float()

    return (covered(1).mT @ covered(0) > 0)[:, :, None]
