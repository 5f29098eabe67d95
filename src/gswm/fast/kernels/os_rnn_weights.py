"""The weights of two object-state RNNs, as the kernels read them: one row for each of the two.

A row has every matrix twice, as [in, out] for the forward and as [out, in] for the backward pass,
because a program reads them in blocks of whole rows. It is a sum of at most two parameters,
± parameters[i] + parameters[j], and so made anew by two look-ups.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gswm.models.objects import XY

ALIGNMENT = 16
SQUARE = ("mlp_self.2", "mlp_self.4", "mlp_rel.2", "mlp_rel.4", "mlp_weight.2")
"""The layers of the interaction that are e × e."""


def aligned(size: int) -> int:
    """The next size that keeps what follows aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@cache
def offsets(num_own: int, num_ctx: int, hidden: int, e: int) -> dict[str, int]:
    """Offsets of the parts of a row, and its length (`total`)."""
    wide = aligned(num_own)
    sizes = {
        "first_in": (num_own + hidden) * 5 * e,
        "first_out": 5 * e * (wide + hidden),
        "first_bias": 5 * e,
        "square_in": 5 * e * e,
        "square_out": 5 * e * e,
        "square_bias": 5 * e,
        "logit": e,
        "os_in": (num_own + num_ctx + e) * hidden,
        "os_out": hidden * (wide + num_ctx + e),
        "os_bias": hidden,
        "lstm_in": 2 * hidden * 4 * hidden,
        "lstm_out": 4 * hidden * 2 * hidden,
        "lstm_bias": 4 * hidden,
    }
    starts, total = {}, 0
    for name, size in sizes.items():
        starts[name] = total
        total += aligned(size)
    return {**starts, "total": total}


class OSRNNWeights:
    """The weights of the prior's and the posterior's object-state RNN."""

    def __init__(self, prior: nn.Module, post: nn.Module) -> None:
        self.sides = [dict(rnn.named_parameters()) for rnn in (prior, post)]
        self.parameters = [p for side in self.sides for p in side.values()]
        hidden = self.sides[0]["rnn_os.weight_hh"].shape[1]
        self.e, num_u = self.sides[0]["interaction.mlp_self.0.weight"].shape
        num_own = num_u - hidden
        num_ctx = self.sides[0]["mlp_os.0.weight"].shape[1] - num_own - self.e

        where, seen = [], 1
        for side in self.sides:
            places = {}
            for name, p in side.items():
                places[name] = torch.arange(seen, seen + p.numel()).view(p.shape)
                seen += p.numel()
            where.append(row(places, offsets(num_own, num_ctx, hidden, self.e), num_own))
        device = self.parameters[0].device
        terms = torch.stack(where, dim=1).flatten(1).to(device)
        self.sign, (self.term, self.other) = terms[0].sign().float(), terms.abs()
        self.zero = torch.zeros(1, device=device)
        self.values = torch.empty(2, terms.shape[1] // 2, device=device)
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Take the parameters as they are now, in place."""
        flat = torch.cat([self.zero, *(p.flatten() for p in self.parameters)])
        torch.addcmul(flat[self.other], flat[self.term], self.sign, out=self.values.view(-1))


def row(places: dict[str, Tensor], starts: dict[str, int], num_own: int) -> Tensor:
    """Of each number of a row, where its two terms are: 0 for none, negative for less."""
    first, first_bias = first_layers(places)
    square = torch.stack([places[f"interaction.{name}.weight"] for name in SQUARE])
    os = places["mlp_os.0.weight"]
    lstm = torch.cat([places["rnn_os.weight_ih"], places["rnn_os.weight_hh"]], dim=1)
    parts = {
        "first_in": first.mT,
        "first_out": spread(first, num_own),
        "first_bias": alone(first_bias),
        "square_in": alone(square.mT),
        "square_out": alone(square),
        "square_bias": alone(torch.cat([places[f"interaction.{n}.bias"] for n in SQUARE])),
        "logit": alone(places["interaction.mlp_weight.4.weight"]),
        "os_in": alone(os.mT),
        "os_out": alone(spread(os, num_own)),
        "os_bias": alone(places["mlp_os.0.bias"]),
        "lstm_in": alone(lstm.mT),
        "lstm_out": alone(lstm),
        "lstm_bias": torch.stack([places["rnn_os.bias_ih"], places["rnn_os.bias_hh"]]),
    }
    whole = torch.zeros(2, starts["total"], dtype=torch.int64)
    for name, part in parts.items():
        flat = part.flatten(1)
        whole[:, starts[name] : starts[name] + flat.shape[1]] = flat
    return whole


def first_layers(places: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Those of MLP_rel and MLP_weight, of k and of j, and of MLP_self (`Interaction`)."""
    weights, biases = [], []
    for name in ("mlp_rel", "mlp_weight"):
        of_k, of_j = places[f"interaction.{name}.0.weight"].chunk(2, dim=1)
        is_xy = torch.zeros(of_k.shape[1], dtype=torch.int64)
        is_xy[XY] = 1
        weights += [torch.stack([of_k, of_j * is_xy]), alone(of_j * (1 - 2 * is_xy))]
        bias = places[f"interaction.{name}.0.bias"]
        biases += [bias, torch.zeros_like(bias)]
    weights.append(alone(places["interaction.mlp_self.0.weight"]))
    biases.append(places["interaction.mlp_self.0.bias"])
    return torch.cat(weights, dim=1), torch.cat(biases)


def alone(places: Tensor) -> Tensor:
    """With no second term."""
    return torch.stack([places, torch.zeros_like(places)])


def spread(places: Tensor, num_own: int) -> Tensor:
    """With empty columns after the first `num_own`, so that the others begin aligned."""
    own, others = places.tensor_split([num_own], dim=-1)
    return torch.cat([F.pad(own, (0, aligned(num_own) - num_own)), others], dim=-1)
