"""Interaction and occlusion (§3.3.1): the effect of other objects on an object.

Object k is described by u_k = [o_k, z_state_k, h_k], and receives a message from each other object:

    e_rel_k = e_kk + Σ_{j≠k} w_kj e_kj
    e_kk = MLP_self(u_k)
    e_kj = MLP_rel(u_k, u_j)
    w_kj = c_k · softmax over j≠k of [MLP_weight(u_k, u_j) + log pres_j]
    c_k = min(1, Σ_{j≠k} pres_j)

Absent objects therefore send no message, and an object that is alone receives none. In a pair, u_j
has the offset from j to k in place of its own xy.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.networks import MLP
from gswm.core.shapes import Scalars
from gswm.models.objects import XY

EPS = 1e-30


@dataclass(frozen=True)
class FirstLayers:
    """First layers of MLP_self, and of MLP_rel and MLP_weight for k and for j."""

    weight: Float[Tensor, "five_e u"]
    bias: Float[Tensor, " five_e"]


class Interaction(nn.Module):
    """e_rel, of a set of objects in no order."""

    def __init__(self, num_u: int, num_e: int) -> None:
        super().__init__()
        self.mlp_self = MLP(num_u, [num_e, num_e], num_e)
        self.mlp_rel = MLP(2 * num_u, [num_e, num_e], num_e)
        self.mlp_weight = MLP(2 * num_u, [num_e, num_e], 1)
        self.is_xy: Tensor
        is_xy = torch.zeros(num_u)
        is_xy[XY] = 1
        self.register_buffer("is_xy", is_xy, persistent=False)

    def forward(
        self,
        u: Float[Tensor, "batch object u"],
        pres: Scalars,
        first: FirstLayers | None = None,
    ) -> Float[Tensor, "batch object e"]:
        """e_rel of each object.

        `first` is `first_layers()`, if it is known from another frame.
        """
        _, self_2, self_3 = linear_layers(self.mlp_self)
        _, rel_2, rel_3 = linear_layers(self.mlp_rel)
        _, weight_2, weight_3 = linear_layers(self.mlp_weight)
        first = self.first_layers() if first is None else first
        of_u = F.linear(u, first.weight, first.bias)
        of_self, rel_k, rel_j, weight_k, weight_j = of_u.chunk(5, dim=-1)
        e_self = self_3(F.celu(self_2(F.celu(of_self))))
        weight = F.celu(weight_2(F.celu(weight_k[:, :, None] + weight_j[:, None])))
        rel = F.celu(rel_2(F.celu(rel_k[:, :, None] + rel_j[:, None])))

        # Paper: a softmax over j≠k, without presence. Here an empty slot neither sends a message
        # nor weakens those of others.
        logit = weight_3(weight)[..., 0].float() + pres.mT.clamp_min(EPS).log()
        oneself = torch.eye(u.shape[1], dtype=torch.bool, device=u.device)
        company = (pres.sum(dim=1, keepdim=True) - pres).clamp(0, 1)
        w = logit.masked_fill(oneself, -1e9).softmax(dim=-1) * company

        # The last layer is linear, so it comes after the sum over j: K times and not K².
        said = einsum(w, rel.float(), "b k j, b k j e -> b k e")
        return e_self + F.linear(said, rel_3.weight) + w.sum(dim=-1, keepdim=True) * rel_3.bias

    def first_layers(self) -> FirstLayers:
        """The first layers of MLP_self, MLP_rel and MLP_weight, as one.

        They are linear, so for a pair they are a part of k plus a part of j: K of each and not
        K², and all in one product. The offset xy_k - xy_j in place of xy_j changes the weights:
        those of xy_j go to xy_k as well, and change their sign for j.
        """
        of_self, *pairs = (
            linear_layers(m)[0] for m in (self.mlp_self, self.mlp_rel, self.mlp_weight)
        )
        weights: list[Tensor] = [of_self.weight]
        biases: list[Tensor] = [of_self.bias]
        for layer in pairs:
            of_k, of_j = layer.weight.chunk(2, dim=1)
            weights += [of_k + of_j * self.is_xy, of_j * (1 - 2 * self.is_xy)]
            biases += [layer.bias, torch.zeros_like(layer.bias)]
        return FirstLayers(torch.cat(weights), torch.cat(biases))


def linear_layers(mlp: MLP) -> list[nn.Linear]:
    """The linear layers of an MLP."""
    return [layer for layer in mlp if isinstance(layer, nn.Linear)]
