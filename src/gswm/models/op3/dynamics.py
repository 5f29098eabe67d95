"""Dynamics: the entities of the next frame, by gated pairwise interaction.

    e_i = F(z_i)    w_ij = P([e_i, e_j])    E_i = Σ_{j≠i} σ(gate(w_ij)) effect(w_ij)
    d, λ_1, λ_2 ← three networks of G([e_i, E_i])

All are MLPs with one hidden layer, and ELU at the end of all but the gate and the last three. There
is no skip connection from z to the next one. The dynamics see only the current slots: they know a
velocity only as far as refinement has encoded it in s.
"""

import torch
import torch.nn.functional as F
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.networks import MLP
from gswm.models.op3.slots import Latents, Params

START = 0.003
"""Bound of the initial weights of a last layer."""


class PairDynamics(nn.Module):
    """The prior of the next frame's slots."""

    def __init__(self, state: int, hidden: int, effect: int) -> None:
        super().__init__()
        self.encode = MLP(2 * state, [hidden], hidden)
        self.pair = MLP(2 * hidden, [2 * hidden], hidden)
        self.effect = MLP(hidden, [hidden], effect)
        self.gate = MLP(hidden, [hidden], 1)
        self.gather = MLP(hidden + effect, [hidden], hidden)
        self.next_d, self.next_mean, self.next_variance = (
            MLP(hidden, [hidden], state) for _ in range(3)
        )
        for net in (self.next_d, self.next_mean, self.next_variance):
            for values in net[-1].parameters():
                nn.init.uniform_(values, -START, START)

    def forward(self, z: Float[Tensor, "batch object z"]) -> tuple[Latents, Params]:
        """The d and the λ of the next frame."""
        e = F.celu(self.encode(z))
        g = F.celu(self.gather(torch.cat([e, self.interact(e)], dim=-1)))
        return self.next_d(g), torch.cat([self.next_mean(g), self.next_variance(g)], dim=-1)

    def interact(self, e: Float[Tensor, "batch object e"]) -> Float[Tensor, "batch object effect"]:
        """E: the effect of all other entities on each one."""
        num = e.shape[1]
        e_i, e_j = repeat(e, "b i e -> b i j e", j=num), repeat(e, "b j e -> b i j e", i=num)
        w = F.celu(self.pair(torch.cat([e_i, e_j], dim=-1)))
        felt = self.gate(w).sigmoid() * F.celu(self.effect(w))
        others = 1 - torch.eye(num, device=e.device, dtype=e.dtype)
        return (felt * others[..., None]).sum(dim=2)
