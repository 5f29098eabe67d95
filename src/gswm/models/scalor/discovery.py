"""Discovery: one proposal in each cell of a grid, rejected if its pixels are already explained.

    e_mask = Conv_mask(α of the propagated objects, at most 1)
    where, depth, pres ~ Conv_disc([features, e_mask])    pres: σ(8.8 tanh(.))
    what ~ N(Conv_what(ST(x, xy, hw)))

    M_k = [ST⁻¹(α_k) > 0.3]    M = [α > 0.1]    rejected: |M_k ∧ M| / |M_k| ≥ 0.3

A cell is also rejected if it overlaps a more present one: |M_k ∧ M_j| / |M_k| > 0.8. Rejected
proposals get presence 0. So do the least present ones if there are not enough free slots.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.geometry import cell_centers
from gswm.core.shapes import Mask, Scalars
from gswm.models.objects import Attributes, ObjectNoise, outranked
from gswm.models.scalor.networks import CHANNELS, block, mask_encoder
from gswm.models.scalor.objects import BoxConfig
from gswm.models.scalor.propagation import LARGEST_LOGIT, Sight
from gswm.models.scalor.rendering import Appearance

PROPOSED, EXPLAINED = 0.3, 0.1
"""α above which a pixel is in a proposal's mask, and in that of the propagated objects."""


@dataclass(frozen=True)
class ScalorDiscovery:
    """Settings of discovery."""

    grid: int = 4
    """Number of cells along a side."""
    rejection: float = 0.3
    """Fraction of a proposal's mask that must already be explained for it to be rejected."""
    rivals: float = 0.8
    """Fraction of a proposal's mask inside that of a more present one above which it is rejected; 1
    for never.
    """


@dataclass(frozen=True)
class Proposals:
    """Proposals of the cells."""

    o: Attributes
    q: Gaussian
    """Distribution of where, depth and what, concatenated."""
    pres: Bernoulli


@dataclass(frozen=True)
class DiscoveryEvidence:
    """Inputs of the objective from discovery."""

    q: Gaussian
    """Distribution of where, depth and what, concatenated."""
    pres: Bernoulli
    weight: Float[Tensor, "*batch cell 1"]
    """Weight of a cell: its sampled presence, before rejection."""
    rejected: Bool[Tensor, "*batch cell 1"]
    looked: Float[Tensor, "*batch 1 1"]
    """1 in frames with discovery."""


class Discovery(nn.Module):
    """New objects."""

    def __init__(self, cfg: ScalorDiscovery, boxes: BoxConfig, stride: int) -> None:
        super().__init__()
        self.cfg, self.boxes = cfg, boxes
        self.conv_mask = mask_encoder(stride)
        both = (*block(CHANNELS + 32, 64, 1, groups=16), *block(64, 64, 1, groups=16))
        self.conv_disc = nn.Sequential(*both, nn.Conv2d(64, 1 + 8 + 2, 1))

    def propose(
        self, explained: Mask, sight: Sight, appearance: Appearance, noise: ObjectNoise
    ) -> Proposals:
        """q(z | x, mask of the propagated objects), in every cell."""
        x = torch.cat([sight.features, self.conv_mask(explained)], dim=1)
        params = rearrange(self.conv_disc(x).float(), "b n h w -> b (h w) n")
        logit, where, depth = params.split([1, 8, 2], dim=-1)
        q_pres = Bernoulli(LARGEST_LOGIT * logit.tanh())
        q_where, q_depth = Gaussian.of(where), Gaussian.of(depth)

        z_where, there = q_where.draw(noise.where), q_pres.draw(noise.pres, sight.tau)
        center = cell_centers(self.cfg.grid, params)
        hw, xy = self.boxes.hw(z_where), self.boxes.found(z_where, center, self.cfg.grid)
        q_what = appearance.look(sight.frame, xy, hw)
        there = there * sight.looks
        o = Attributes(there, q_depth.draw(noise.depth), hw, xy, q_what.draw(noise.what))
        return Proposals(o, Gaussian.joined([q_where, q_depth, q_what]), q_pres)

    @torch.no_grad()
    def rejected(
        self, masks: Float[Tensor, "batch cell 1 height width"], explained: Mask, pres: Scalars
    ) -> Bool[Tensor, "batch cell 1"]:
        """Mask of proposals that overlap explained pixels or more present proposals too much."""
        proposed = (masks > PROPOSED).float().flatten(2)
        area = proposed.sum(dim=-1, keepdim=True).clamp_min(1)
        known = proposed @ (explained > EXPLAINED).float().flatten(2).mT / area
        rival = (proposed @ proposed.mT / area > self.cfg.rivals) & outranked(pres)
        rival = (rival & (pres.mT > 0.5)).any(dim=-1, keepdim=True)
        return (known >= self.cfg.rejection) | rival
