"""Interaction and occlusion (§3.3.1): what other objects mean to an object.

Object k is described by u_k = [o_k, z_state_k, h_k], and hears from every other object j:

    e_rel_k = e_kk + Σ_{j≠k} w_kj e_kj
    e_kk = MLP_self(u_k)
    e_kj = MLP_rel(u_k, u_j)
    w_kj = softmax over j≠k of MLP_weight(u_k, u_j)

In a pair, u_j has the offset from j to k in place of its own xy.
"""

import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

from gswm.networks import MLP
from gswm.shapes import Points, Scalars

EPS = 1e-30
XY = slice(4, 6)
"""Where xy stands in u, which begins with all attributes."""

Pairs = Float[Tensor, "batch hearer speaker hidden"]


class Interaction(nn.Module):
    """e_rel, of a set of objects in no order."""

    def __init__(self, num_u: int, num_e: int) -> None:
        super().__init__()
        self.mlp_self = MLP(num_u, [num_e, num_e], num_e)
        self.mlp_rel = MLP(2 * num_u, [num_e, num_e], num_e)
        self.mlp_weight = MLP(2 * num_u, [num_e, num_e], 1)

    def forward(
        self, u: Float[Tensor, "batch object u"], xy: Points, pres: Scalars
    ) -> Float[Tensor, "batch object e"]:
        """Objects that are not there (`pres` = 0) are not heard, and nobody hears itself."""
        to_weight, to_rel = linear_layers(self.mlp_weight)[-1], linear_layers(self.mlp_rel)[-1]
        logit = to_weight(hidden(self.mlp_weight, u, xy))[..., 0].float()

        # Paper: a softmax over j≠k. Here j counts by its presence, and who has no company hears
        # nothing, so that an empty slot neither speaks nor keeps a real neighbor from being heard.
        oneself = torch.eye(u.shape[1], dtype=torch.bool, device=u.device)
        logit = (logit + pres.mT.clamp_min(EPS).log()).masked_fill(oneself, -1e9)
        company = (pres.sum(dim=1, keepdim=True) - pres).clamp(0, 1)
        w = logit.softmax(dim=-1) * company

        # The last layer is linear, so it comes after the sum over j: K times and not K².
        said = einsum(w, hidden(self.mlp_rel, u, xy).float(), "b k j, b k j e -> b k e")
        e_rel = F.linear(said, to_rel.weight) + w.sum(dim=-1, keepdim=True) * to_rel.bias
        return self.mlp_self(u) + e_rel


def hidden(mlp: MLP, u: Float[Tensor, "batch object u"], xy: Points) -> Pairs:
    """The last hidden layer of an MLP of (u_k, u_j), for every pair.

    The first layer is linear in the pair, so it is a part of k plus a part of j, K of each.
    """
    first, second, _ = linear_layers(mlp)
    of_k, of_j = first.weight.chunk(2, dim=1)
    offset = F.linear(xy, of_j[:, XY])
    part_k = F.linear(u, of_k, first.bias) + offset
    part_j = F.linear(u, of_j) - 2 * offset
    return F.celu(second(F.celu(part_k[:, :, None] + part_j[:, None])))


def linear_layers(mlp: MLP) -> list[nn.Linear]:
    """An MLP without its activations."""
    return [layer for layer in mlp if isinstance(layer, nn.Linear)]
