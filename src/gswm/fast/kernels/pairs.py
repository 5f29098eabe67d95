"""All pairs of objects of an interaction (§3.3.1), of the prior and the posterior at once.

The part of `models.gswm.interaction.Interaction` between its first layers and its last, for both
sides (axis 0: prior, posterior), with gradients of what it reads and none of its weights.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.fast.kernels.products import padded, precision

ROWS = 64
"""Pairs that a program works on at once."""
BLOCK = 32
"""Columns of a layer that are loaded at once."""
WARPS = 8

Encodings = Float[Tensor, "2 batch object e"]


def pairs(
    first: Float[Tensor, "2 batch object five_e"],
    known: Float[Tensor, "batch object"],
    weights: Float[Tensor, "2 3 e e"],
    biases: Float[Tensor, "2 3 e"],
    last: Float[Tensor, "2 e"],
) -> tuple[Encodings, Encodings]:
    """Σ_j p_kj rel_kj of each object k, and the second layer of MLP_self before CELU.

    Args:
        first: the first layers before CELU: of MLP_rel for k and for j, of MLP_weight for k and
            for j, and of MLP_self.
        known: the logarithm of each object's presence, which is added to the logits of j.
        weights: the second layers of MLP_rel, MLP_weight and MLP_self.
        biases: theirs.
        last: the last layer of MLP_weight, without its bias, which no softmax depends on.
    """
    return torch.ops.gswm.pairs(first, known, weights, biases, last)


@torch.library.custom_op("gswm::pairs", mutates_args=())
def forward(
    first: Tensor, known: Tensor, weights: Tensor, biases: Tensor, last: Tensor
) -> tuple[Tensor, Tensor]:
    """See `pairs`."""
    from gswm.fast.kernels.pairs_triton import pairs_forward

    out = empty_encodings(first, known, weights, biases, last)
    _, batch, count, _ = first.shape
    sizes = program(count, last.shape[1])
    launch: Any = pairs_forward[batch, 2, sizes["parts"] + 1]
    inputs = [tensor.contiguous() for tensor in (first, known, weights, biases, last)]
    with torch.cuda.device_of(first):
        launch(*inputs, *out, batch, **sizes)
    return out


@forward.register_fake
def empty_encodings(
    first: Tensor, known: Tensor, weights: Tensor, biases: Tensor, last: Tensor
) -> tuple[Tensor, Tensor]:
    """Uninitialized outputs of `forward`."""
    shape = (*first.shape[:3], last.shape[1])
    return first.new_empty(shape), first.new_empty(shape)


@torch.library.custom_op("gswm::pairs_backward", mutates_args=())
def backward(
    d_heard: Tensor,
    d_own: Tensor,
    first: Tensor,
    known: Tensor,
    weights: Tensor,
    biases: Tensor,
    last: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of `first` for k, for j and of MLP_self, and of `known`; j's in parts."""
    from gswm.fast.kernels.pairs_triton import pairs_backward

    inputs = [
        tensor.contiguous() for tensor in (d_heard, d_own, first, known, weights, biases, last)
    ]
    out = empty_gradients(d_heard, d_own, first, known, weights, biases, last)
    _, batch, count, _ = first.shape
    sizes = program(count, last.shape[1])
    launch: Any = pairs_backward[batch, 2, sizes["parts"] + 1]
    with torch.cuda.device_of(first):
        launch(*inputs, *out, batch, **sizes)
    return out


@backward.register_fake
def empty_gradients(
    d_heard: Tensor,
    d_own: Tensor,
    first: Tensor,
    known: Tensor,
    weights: Tensor,
    biases: Tensor,
    last: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `backward`."""
    sides, batch, count, _ = first.shape
    e, parts = last.shape[1], program(count, last.shape[1])["parts"]
    d_k = first.new_empty(sides, batch, count, 2 * e)
    d_j = first.new_empty(parts, sides, batch, count, 2 * e)
    d_known = first.new_empty(parts, sides, batch, count)
    return d_k, d_j, d_known, first.new_empty(sides, batch, count, e)


def keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save the inputs of `gradients`."""
    ctx.save_for_backward(*inputs)


def gradients(ctx: Any, d_heard: Tensor, d_own: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of the first layers and of the logits."""
    d_k, d_j, d_known, d_self = backward(d_heard, d_own, *ctx.saved_tensors)
    rel_k, weight_k = d_k.chunk(2, dim=-1)
    rel_j, weight_j = d_j.sum(dim=0).chunk(2, dim=-1)
    d_first = torch.cat([rel_k, rel_j, weight_k, weight_j, d_self], dim=-1)
    return d_first, d_known.sum(dim=(0, 1)), None, None, None


forward.register_autograd(gradients, setup_context=keep)


def program(count: int, e: int) -> dict[str, Any]:
    """Launch settings of a program."""
    slots = padded(count)
    receivers = max(1, ROWS // slots)
    sizes = {"count": count, "e": e, "slots": slots, "receivers": receivers}
    sizes |= {"parts": -(-count // receivers), "block": min(BLOCK, e)}
    return {**sizes, "precision": precision(), "num_warps": WARPS}
