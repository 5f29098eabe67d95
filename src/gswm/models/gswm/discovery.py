"""Discovery (A.3): one new object, if there is one, in each cell of a grid.

A cell sees the frame around it, and the propagated objects nearby:

    e_img = Conv_disc([x, x - μ_bg])
    e_cond_ij = Σ_k G(õ_xy_k - c_ij, σ_cond) · õ_pres_k · MLP_cond(õ_k, z̃_state_k)
    z̄_state, z̄_pres, z̄_depth, z̄_hw, z̄_xy, z̄_what ~ MLP_disc([e_img, e_cond])
    ō_hw = σ(z̄_hw)    ō_xy = c_ij + 2 tanh(z̄_xy) / grid    the others as they are

A discovered object that overlaps a propagated one is rejected: its presence is set to 0, and its
other attributes stay. A cell is also rejected if it overlaps a more present cell.

Presence is a product over time, so a long track fades although every factor is close to 1. With
`DiscoveryConfig.revival`, a discovered object that overlaps a faded one continues its track: the
slot keeps its id and its history, and takes over the new presence and box.

The box of a track is the sum of all its updates, so small errors add up. A cell sees the object
anew in each frame. With `DiscoveryConfig.correction`, inference moves each track's box towards that
of the cell in which its center is.

The network is unsure of some objects in every frame. With `DiscoveryConfig.doubt`, inference also
follows a cell that it is unsure of, as a doubtful object: discovery does not see it, so that a
later cell can confirm it. `gswm.core.doubt` decides which doubtful objects are reported.

The posterior cannot see an object behind another one. Its track may then follow the object in
front, and the object itself is discovered again when it reappears. With `DiscoveryConfig.hidden`,
it continues the hidden track: the slot keeps its id, and takes over everything else.
"""

import math
from dataclasses import dataclass, replace
from typing import cast

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gswm.core.distributions import SMALLEST_STD, Bernoulli, Gaussian
from gswm.core.doubt import DOUBTFUL, SURE
from gswm.core.geometry import cell_centers, cell_of, gaussian_kernel, overlap
from gswm.core.networks import MLP, Trunk, in_parts
from gswm.core.shapes import NOBODY, Points, Scalars, Video
from gswm.models.objects import Attributes, Latents, LSTMState, Objects, Sizes, accept

Cells = Float[Tensor, "batch cell e"]
Keep = Bool[Tensor, " batch"]
START_WEIGHT = 0.1
"""Factor on the last layer's weights if discovery starts at its prior."""
SAME = 0.3
"""IoU with an object above which the box of its cell is about the same object."""


@dataclass(frozen=True)
class DiscoveryConfig:
    """Settings of discovery, and its priors."""

    grid: int = 4
    """Number of cells along a side: H = W of the paper."""
    width: int = 64
    """Channels of the trunk's first stage; a multiple of 16."""
    cond_sigma: float = 0.1
    """σ_cond."""
    dropout: float = 0.5
    """Fraction of the frames after the first in which discovery is dropped during training."""
    rejection: float = 0.4
    """IoU with a propagated object above which a discovered one is rejected."""
    rivals: bool = True
    """Whether cells reject each other too."""
    rival_rejection: float = 0.6
    """IoU with a more present cell above which a cell is rejected."""
    inside: float | None = None
    """Fraction of a cell's box in that of a propagated object, or of a more present cell, above
    which it is rejected as a part. Default: None (never, as in the paper).
    """
    revival: float | None = None
    """IoU with a faded object above which a discovered one continues its track. Default: None
    (never, as in the paper).
    """
    correction: float | None = None
    """Share of the way that inference moves the box of a known object towards that of its cell.
    Only for models whose cells learn the boxes of known objects too, as they do from labels.
    Default: None (never, as in the paper).
    """
    certainty: float | None = None
    """Probability of presence below which inference rejects a cell. Labels count a missed object
    twice, which shifts probabilities; 2/3 undoes it. Default: None (0.5, as in the paper).
    """
    doubt: float | None = None
    """Probability of presence, below `certainty`, from which inference follows a cell as a doubtful
    object; see `gswm.core.doubt`. Default: None (never, as in the paper).
    """
    hidden: float | None = None
    """IoU with an object in front above which a track counts as hidden, so that a discovered object
    continues it; the nearest one, if there are several. For videos that no new object enters.
    Default: None (never, as in the paper).
    """
    hw_std: float = 0.1
    """Standard deviation of the prior of z̄_hw; its mean is annealed, see the schedule."""
    start_at_prior: bool = False
    """Start training with a posterior close to the prior in every cell. Otherwise small objects
    cost more than they gain before their size is learned, and presence drops to 0.
    """
    tau: float = 1.0
    """Temperature of the relaxed presence."""


@dataclass(frozen=True)
class DiscoveryNoise:
    """Random numbers of one frame."""

    state: Float[Tensor, "*batch cell state"]
    att: Float[Tensor, "*batch cell z_att"]
    pres: Float[Tensor, "*batch cell 1"]


@dataclass(frozen=True)
class DiscoveryEvidence:
    """Inputs of the objective from discovery."""

    pres: Bernoulli
    q_att: Gaussian
    q_state: Gaussian
    weight: Float[Tensor, "*batch cell 1"]
    """Weight of the attributes of a cell: its sampled presence, before rejection."""


class Discovery(nn.Module):
    """New objects."""

    def __init__(
        self, cfg: DiscoveryConfig, sizes: Sizes, image_size: int, *, background: bool
    ) -> None:
        super().__init__()
        self.cfg, self.sizes = cfg, sizes
        self.background = background
        e = sizes.encoding
        stride = image_size // (Trunk.STRIDE * cfg.grid)
        self.conv_disc = Trunk(6 if background else 3, e, stride, cfg.width)
        self.mlp_cond = MLP(sizes.o + sizes.state, [e, e], e)
        self.splits = [1, 2 * sizes.z_att, 2 * sizes.state]
        self.mlp_disc = MLP(2 * e, [e, e], sum(self.splits))
        self.is_hw: Tensor
        is_hw = torch.zeros(sizes.z_att)
        is_hw[1:3] = 1
        self.register_buffer("is_hw", is_hw, persistent=False)

    @torch.no_grad()
    def start_at(self, hw_mean: float, pres: float) -> None:
        """Initialize MLP_disc to output the prior, with small differences between cells."""
        last, att = cast(nn.Linear, self.mlp_disc[-1]), self.sizes.z_att
        last.weight.mul_(START_WEIGHT)
        last.bias.zero_()
        last.bias[0] = math.log(pres / (1 - pres))
        stds = 1 - self.is_hw * (1 - self.cfg.hw_std)
        last.bias[1 : 1 + att] = self.is_hw * hw_mean
        last.bias[1 + att : 1 + 2 * att] = (stds - SMALLEST_STD).expm1().log()
        last.bias[1 + 2 * att + self.sizes.state :] = math.log(math.expm1(1 - SMALLEST_STD))

    def look(
        self, video: Video, mu_bg: Video, keep: Bool[Tensor, "batch time"], num_kept: int
    ) -> Float[Tensor, "batch time cell e"]:
        """e_img of every frame; 0 in frames without discovery."""
        x = torch.cat([video, video - mu_bg], dim=2) if self.background else video
        frames = x.flatten(0, 1)
        first = keep.flatten().to(torch.uint8).argsort(descending=True, stable=True)[:num_kept]
        frames = frames[first].contiguous(memory_format=torch.channels_last)
        e_img = rearrange(in_parts(self.conv_disc, frames), "frame e h w -> frame (h w) e")
        everywhere = e_img.new_zeros(keep.numel(), *e_img.shape[1:])
        return everywhere.index_copy(0, first, e_img).unflatten(0, keep.shape)

    def infer(
        self,
        propagated: Objects,
        e_img: Cells,
        keep: Keep,
        noise: DiscoveryNoise,
        h_0: tuple[LSTMState, LSTMState],
    ) -> tuple[Objects, DiscoveryEvidence]:
        """q(z̄ | x, z̃); objects are absent in the batch elements that `keep` excludes."""
        center = cell_centers(self.cfg.grid, e_img.float())
        e = torch.cat([e_img, self.condition(propagated, center)], dim=-1)
        logit, att, state = self.mlp_disc(e).float().split(self.splits, dim=-1)
        pres, q_att, q_state = Bernoulli(logit), Gaussian.of(att), Gaussian.of(state)

        there = pres.draw(noise.pres, self.cfg.tau)
        if not torch.is_grad_enabled():
            there = self.judged(logit.sigmoid(), there)
        there = there * keep[:, None, None]
        z = Latents.split(q_att.draw(noise.att))
        hw = z.hw.sigmoid()
        xy = center + (2 / self.cfg.grid) * z.xy.tanh()
        accepted = self.accept(propagated.o, xy, hw, there)
        o = Attributes(there * accepted, z.depth, hw, xy, z.what)
        nobody = torch.full_like(there[..., 0], NOBODY, dtype=torch.long)
        objects = Objects(o, q_state.draw(noise.state), *h_0, nobody, propagated.born)
        return objects, DiscoveryEvidence(pres, q_att, q_state, weight=there)

    def judged(self, probability: Scalars, there: Scalars) -> Scalars:
        """The presence of each cell in inference, by `certainty` and `doubt`."""
        if (certainty := self.cfg.certainty) is None:
            return there
        sure = probability >= certainty
        if (doubt := self.cfg.doubt) is None:
            return there * sure
        surely = torch.where(sure & (there > 0.5), there.clamp_min(SURE), 0.0)
        return torch.where(~sure & (probability >= doubt), DOUBTFUL, surely)

    def condition(self, propagated: Objects, center: Float[Tensor, "cell 2"]) -> Cells:
        """e_cond: the encoding of the propagated objects near each cell."""
        o = propagated.o
        pres = o.pres
        if self.cfg.doubt is not None and not torch.is_grad_enabled():
            pres = pres * (pres > DOUBTFUL)
        near = gaussian_kernel(o.xy[:, None] - center[:, None], self.cfg.cond_sigma)
        said = pres * self.mlp_cond(torch.cat([o.cat(), propagated.z_state], dim=-1))
        return einsum(near, said.float(), "b cell k, b k e -> b cell e")

    def accept(
        self, o: Attributes, xy: Points, hw: Points, pres: Scalars
    ) -> Float[Tensor, "batch object 1"]:
        """1 where a discovered box is new, 0 where it is rejected."""
        rivals = self.cfg.rival_rejection if self.cfg.rivals else None
        return accept(o, xy, hw, pres, self.cfg.rejection, rivals, self.cfg.inside)

    def prior_att(self, hw_mean: Float[Tensor, ""]) -> Gaussian:
        """p(z̄_att) of every cell, except presence."""
        return Gaussian(self.is_hw * hw_mean, 1 - self.is_hw * (1 - self.cfg.hw_std))


def correct(propagated: Objects, found: Objects, keep: Keep, weight: float) -> Objects:
    """Move the boxes of known objects towards those of the cells in which their centers are.

    Nothing changes where a cell's box is about another object: if it overlaps this one by less than
    `SAME`, or another one by more.

    Args:
        propagated: The known objects.
        found: One object per cell.
        keep: The batch elements with discovery.
        weight: See `DiscoveryConfig.correction`.
    """
    ours, theirs = propagated.o, found.o
    known = keep[:, None] & (propagated.id != NOBODY) & (ours.pres[..., 0] > 0.5)
    iou = overlap(ours.xy, ours.hw, theirs.xy, theirs.hw) * known[..., None]
    cell = cell_of(ours.xy, math.isqrt(theirs.xy.shape[1]))
    own = iou.gather(2, cell[..., None])[..., 0]
    most = iou.amax(dim=1).gather(1, cell)
    same = ((own > SAME) & (own >= most))[..., None]
    at = cell[..., None].expand_as(ours.xy)
    xy, hw = theirs.xy.gather(1, at), theirs.hw.gather(1, at)
    moved = replace(
        ours,
        xy=torch.where(same, ours.xy.lerp(xy, weight), ours.xy),
        hw=torch.where(same, ours.hw.lerp(hw, weight), ours.hw),
    )
    return replace(propagated, o=moved)


def confirm(propagated: Objects, found: Objects, pres: Scalars) -> Objects:
    """Make doubtful objects certain if a cell that is certain finds the same object.

    Args:
        propagated: The known objects.
        found: One object per cell.
        pres: The presence of each cell, also of rejected ones.
    """
    ours, theirs = propagated.o, found.o
    doubtful = (ours.pres > 0.5) & (ours.pres <= DOUBTFUL)
    same = overlap(ours.xy, ours.hw, theirs.xy, theirs.hw) > SAME
    certain = (same & (pres.mT > DOUBTFUL)).any(dim=-1, keepdim=True)
    return replace(
        propagated, o=replace(ours, pres=torch.where(doubtful & certain, 1.0, ours.pres))
    )


def revive(propagated: Objects, found: Objects, least: float) -> tuple[Objects, Objects]:
    """Let discovered objects continue tracks that have faded.

    A cell and a slot belong together if their boxes overlap by more than `least`, and each overlaps
    no other by more. The slot takes over the cell's presence and box; the cell is then absent.

    Args:
        propagated: The known objects; those with an id and a presence of at most 0.5 have faded.
        found: One object per cell.
        least: IoU.
    """
    ours, theirs = propagated.o, found.o
    faded = (propagated.id != NOBODY) & (ours.pres[..., 0] <= 0.5)
    iou = overlap(theirs.xy, theirs.hw, ours.xy, ours.hw)
    pairs = mutual(iou, (theirs.pres > 0.5) & faded[:, None] & (iou > least))
    o = replace(
        ours,
        pres=handed_over(pairs, theirs.pres, ours.pres),
        hw=handed_over(pairs, theirs.hw, ours.hw),
        xy=handed_over(pairs, theirs.xy, ours.xy),
    )
    return replace(propagated, o=o), left_over(pairs, found)


def reappear(propagated: Objects, found: Objects, least: float) -> tuple[Objects, Objects]:
    """Let discovered objects continue tracks that are hidden behind others.

    A cell and a slot belong together if each is the other's nearest. The slot takes over all but
    the id of the cell; the cell is then absent.

    Args:
        propagated: The known objects.
        found: One object per cell.
        least: IoU with an object in front above which a known object is hidden.
    """
    ours, theirs = propagated.o, found.o
    known = (propagated.id != NOBODY) & (ours.pres[..., 0] > 0.5)
    in_front = known[:, None] & (ours.depth < ours.depth.mT)
    covered = (overlap(ours.xy, ours.hw, ours.xy, ours.hw) * in_front).amax(dim=-1)
    possible = (theirs.pres > 0.5) & (known & (covered > least))[:, None]
    away = (theirs.xy[:, :, None] - ours.xy[:, None]).norm(dim=-1)
    pairs = mutual(-away, possible)
    flat = handed_over(pairs, found.flat(), propagated.flat())
    return propagated.with_flat(flat, propagated.id), left_over(pairs, found)


def mutual(
    closeness: Float[Tensor, "batch cell slot"], possible: Bool[Tensor, "batch cell slot"]
) -> Bool[Tensor, "batch cell slot"]:
    """The possible pairs in which each is the closest to the other."""
    best = closeness.where(possible, -torch.inf)
    ours, theirs = best.amax(dim=1, keepdim=True), best.amax(dim=2, keepdim=True)
    return possible & (best == ours) & (best == theirs)


def handed_over(
    pairs: Bool[Tensor, "batch cell slot"],
    found: Float[Tensor, "batch cell values"],
    propagated: Float[Tensor, "batch slot values"],
) -> Float[Tensor, "batch slot values"]:
    """Values of the slots, replaced by those of their cells where they have one."""
    cell = pairs.to(torch.uint8).argmax(dim=1)[..., None].expand_as(propagated)
    return torch.where(pairs.any(dim=1)[..., None], found.gather(1, cell), propagated)


def left_over(pairs: Bool[Tensor, "batch cell slot"], found: Objects) -> Objects:
    """The discovered objects, without those that continue a track."""
    pres = found.o.pres * ~pairs.any(dim=2)[..., None]
    return replace(found, o=replace(found.o, pres=pres))
