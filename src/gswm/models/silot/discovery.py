"""Discovery: one new object, if there is one, in each cell of a grid.

A cell sees the frame around it, and gets messages from nearby propagated objects. Its latents are
sampled one after another, each conditioned on the previous ones; n_1 to n_3 are features that one
network passes to the next:

    e = Conv([features, Conditioning(o, h)])
    z_xy, z_hw ~ N, n_1 = MLP_box(e)         s = Encoder(ST(x, box))
    what ~ N, n_2 = MLP_what([e, n_1, s, box])
    depth ~ N, n_3 = MLP_depth([e, n_2, box, what])
    pres ~ Bernoulli(MLP_pres([e, n_3, box, what, depth]))

A cell whose box overlaps that of a propagated object, or of a more present cell, is rejected: its
presence becomes 0. The objective uses its presence before rejection.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian, steered
from gswm.core.networks import MLP
from gswm.core.shapes import NOBODY
from gswm.models.objects import Attributes, GRUObjects, ObjectNoise, accept
from gswm.models.silot.conditioning import CellConditioning
from gswm.models.silot.networks import CELL, CHANNELS, ObjectEncoder, centers_of_cells, grid_of
from gswm.models.silot.objects import (
    LARGEST_LOGIT,
    AnchorConfig,
    Hidden,
    SilotSizes,
    bounded,
)
from gswm.models.silot.propagation import SilotSight


@dataclass(frozen=True)
class SilotDiscovery:
    """Settings of discovery."""

    dropout: float = 0.5
    """Fraction of the frames after the first in which discovery is dropped during training."""
    rejection: float = 0.4
    """IoU with a propagated object above which a cell is rejected; 1 for never."""
    rival_rejection: float = 0.6
    """IoU with a more present cell above which a cell is rejected; 1 for never."""


@dataclass(frozen=True)
class DiscoveryEvidence:
    """Inputs of the objective from discovery."""

    q: Gaussian
    """Distribution of z_xy, z_hw, what and depth, concatenated."""
    pres: Bernoulli
    there: Float[Tensor, "*batch cell 1"]
    """The sampled presence before rejection; 0 in frames without discovery."""
    looked: Float[Tensor, "*batch 1 1"]
    """1 in frames with discovery."""


class Discovery(nn.Module):
    """New objects."""

    def __init__(
        self,
        cfg: SilotDiscovery,
        sizes: SilotSizes,
        anchors: AnchorConfig,
        sigma: float,
        image_size: int,
    ) -> None:
        super().__init__()
        self.cfg, self.anchors, self.image_size = cfg, anchors, image_size
        e, what = sizes.encoding, sizes.what
        self.condition = CellConditioning(sizes, anchors, sigma)
        self.fuse = nn.Sequential(
            *(nn.Conv2d(2 * e, CHANNELS, 3, padding=1), nn.CELU()),
            nn.Conv2d(CHANNELS, e, 3, padding=1),
        )
        self.encode = ObjectEncoder(e)
        self.mlp_box = head(e, 8 + e)
        self.mlp_what = head(3 * e + 4, 2 * what + e)
        self.mlp_depth = head(2 * e + 4 + what, 2 + e)
        self.mlp_pres = head(2 * e + 4 + what + 1, 1)

    def infer(
        self, propagated: GRUObjects, sight: SilotSight, noise: ObjectNoise, h_0: Hidden
    ) -> tuple[GRUObjects, DiscoveryEvidence]:
        """q(z | x, propagated objects), in every cell; all are absent without discovery."""
        anchors, learns = self.anchors, sight.learns
        center = centers_of_cells(self.image_size, propagated.o.xy)
        e = self.fused(sight, self.condition(propagated.o, propagated.h_post, center))

        params, more = self.mlp_box(e).float().tensor_split([8], dim=-1)
        q_box = steered(bounded(params), learns)
        z_xy, z_hw = q_box.draw(noise.where).split(2, dim=-1)
        xy = center + (2 * CELL / self.image_size) * (z_xy / 2).tanh()
        hw = anchors.hw(z_hw)
        box = torch.cat([xy, hw], dim=-1)

        s = self.encode(sight.frame, xy, hw)
        told = self.mlp_what(torch.cat([e, more, s, box], dim=-1)).float()
        params, more = told.tensor_split([2 * noise.what.shape[-1]], dim=-1)
        q_what = bounded(params)
        what = q_what.draw(noise.what)

        told = self.mlp_depth(torch.cat([e, more, box, what], dim=-1)).float()
        params, more = told.tensor_split([2], dim=-1)
        q_depth = steered(bounded(params), learns)
        depth = q_depth.draw(noise.depth)

        logit = self.mlp_pres(torch.cat([e, more, box, what, depth], dim=-1)).float()
        q_pres = steered(Bernoulli(logit.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)), learns)
        there = q_pres.draw(noise.pres) * sight.looks
        rejections = (self.cfg.rejection, self.cfg.rival_rejection)
        new = accept(propagated.o, xy, hw, there, *rejections)
        o = Attributes(there * new, depth, hw, xy, what)
        nobody = torch.full_like(there[..., 0], NOBODY, dtype=torch.long)
        objects = GRUObjects(o, h_0, h_0, nobody, propagated.born)
        q = Gaussian.joined([q_box, q_what, q_depth])
        return objects, DiscoveryEvidence(q, q_pres, there, sight.looks)

    def fused(
        self, sight: SilotSight, heard: Float[Tensor, "batch cell e"]
    ) -> Float[Tensor, "batch cell e"]:
        """The inputs of a cell: features of the frame, and of nearby objects."""
        heard = rearrange(heard, "b (h w) e -> b e h w", h=grid_of(self.image_size))
        x = torch.cat([sight.features, heard.to(sight.features.dtype)], dim=1)
        return rearrange(self.fuse(x), "b e h w -> b (h w) e")


def head(num_in: int, num_out: int) -> MLP:
    """Two layers, the first as wide as the input."""
    return MLP(num_in, [num_in], num_out)
