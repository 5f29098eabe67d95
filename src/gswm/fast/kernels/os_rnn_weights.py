"""The weights of two object-state RNNs (axis 0: prior, posterior), as `os_rnn` reads them.

MLP_os is one linear layer, and so are the last layers of MLP_self and MLP_rel. Together with the
LSTM's they are one product: the gates are linear in what enters these layers.

    x = W_os [own, e_ctx, e_rel] + b_os
    e_rel = W_self a_self + b_self + company (W_rel heard + b_rel)
    gates = W_ih x + W_hh h + b = W [own, company, e_ctx, a_self, company heard, h] + b'
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gswm.core.devices import tf32
from gswm.models.objects import XY

ALIGNMENT = 8
"""Rows of a matrix are a multiple of this, which tensor cores want."""
SECOND = ("mlp_rel", "mlp_weight", "mlp_self")
"""The networks whose second layer is computed for pairs of objects, or for one of them."""


class OSRNNWeights:
    """The weights of the prior's and the posterior's object-state RNN."""

    first: Tensor
    """The first layers of the interaction, for [own, h], as one matrix [in, out]."""
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    last: Tensor
    """The last layer of MLP_weight."""
    gates: Tensor
    """W, as [in, out]."""
    gates_bias: Tensor

    def __init__(self, prior: nn.Module, post: nn.Module) -> None:
        self.sides = [dict(rnn.named_parameters()) for rnn in (prior, post)]
        self.made = self.derive()
        vars(self).update(self.made)

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the current parameters, in place."""
        for name, value in self.derive().items():
            self.made[name].copy_(value)

    @torch.no_grad()
    def derive(self) -> dict[str, Tensor]:
        """All tensors, from the parameters."""
        w = {name: torch.stack([side[name] for side in self.sides]) for name in self.sides[0]}
        w = {name.removeprefix("interaction."): value for name, value in w.items()}
        first, first_bias = first_layers(w)
        with tf32(False):
            gates, gates_bias = all_gates(w)
        return {
            "first": aligned(first).mT.contiguous(),
            "first_bias": first_bias[:, None],
            "second": torch.stack([w[f"{name}.2.weight"] for name in SECOND], dim=1),
            "second_bias": torch.stack([w[f"{name}.2.bias"] for name in SECOND], dim=1),
            "last": w["mlp_weight.4.weight"][:, 0].contiguous(),
            "gates": aligned(gates).mT.contiguous(),
            "gates_bias": gates_bias[:, None],
        }


def first_layers(w: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """First layers of MLP_rel and MLP_weight, for k and for j, and of MLP_self (`Interaction`)."""
    weights, biases = [], []
    for name in ("mlp_rel", "mlp_weight"):
        of_k, of_j = (part.clone() for part in w[f"{name}.0.weight"].chunk(2, dim=2))
        of_k[..., XY] += of_j[..., XY]
        of_j[..., XY] *= -1
        bias = w[f"{name}.0.bias"]
        weights += [of_k, of_j]
        biases += [bias, torch.zeros_like(bias)]
    weights.append(w["mlp_self.0.weight"])
    biases.append(w["mlp_self.0.bias"])
    return torch.cat(weights, dim=1), torch.cat(biases, dim=1)


def all_gates(w: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """W and b'."""
    num_e, num_u = w["mlp_self.0.weight"].shape[1:]
    num_own = num_u - w["rnn_os.weight_hh"].shape[2]
    all_of_os = w["rnn_os.weight_ih"] @ w["mlp_os.0.weight"]
    of_own, of_ctx, of_rel = all_of_os.tensor_split([num_own, all_of_os.shape[2] - num_e], dim=2)
    of_company = of_rel @ w["mlp_rel.4.bias"][..., None]
    of_self, of_heard = (of_rel @ w[f"{name}.4.weight"] for name in ("mlp_self", "mlp_rel"))
    bias = w["rnn_os.weight_ih"] @ w["mlp_os.0.bias"][..., None]
    bias = (bias + of_rel @ w["mlp_self.4.bias"][..., None])[..., 0]
    parts = [of_own, of_company, of_ctx, of_self, of_heard, w["rnn_os.weight_hh"]]
    return torch.cat(parts, dim=2), bias + w["rnn_os.bias_ih"] + w["rnn_os.bias_hh"]


def aligned(x: Tensor) -> Tensor:
    """With zeros after the last column, so that rows are aligned."""
    return F.pad(x, (0, -x.shape[-1] % ALIGNMENT))
