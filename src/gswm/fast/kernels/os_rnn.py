"""The object-state RNNs of the prior and of the posterior, side by side.

The twin of `models.gswm.propagation.ObjectStateRNN`, for both sides at once (axis 0: prior,
posterior), with gradients of what it reads and none of its weights. A step is three launches that
wait for each other, each of which fills a GPU: a product, the kernel of all pairs, and a product.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gswm.core.shapes import Scalars
from gswm.fast.kernels.os_rnn_weights import OSRNNWeights, aligned
from gswm.fast.kernels.pairs import pairs
from gswm.models.gswm.interaction import EPS

States = Float[Tensor, "2 batch object hidden"]


def os_rnn(
    own: Float[Tensor, "batch object own"],
    e_ctx: Float[Tensor, "batch object ctx"],
    pres: Scalars,
    h: States,
    c: States,
    weights: OSRNNWeights,
) -> tuple[States, States]:
    """The next h and c; `own` is [o, z_state], and `e_ctx` may have no columns."""
    own, e_ctx = own.expand(2, *own.shape), e_ctx.expand(2, *e_ctx.shape)
    first = layer(torch.cat([own, h], dim=-1), weights.first, weights.first_bias)
    known = pres[..., 0].clamp_min(EPS).log()
    heard, self_2 = pairs(first, known, weights.second, weights.second_bias, weights.last)
    company = (pres.sum(dim=1, keepdim=True) - pres).clamp(0, 1).expand(2, *pres.shape)
    inputs = [own, company, e_ctx, F.celu(self_2), company * heard, h]
    gates = layer(torch.cat(inputs, dim=-1), weights.gates, weights.gates_bias)
    i, f, new, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * new.tanh()
    return o.sigmoid() * c.tanh(), c


def layer(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """A linear layer for each side."""
    return torch.baddbmm(bias, aligned(x).flatten(1, 2), matrix).unflatten(1, x.shape[1:3])
