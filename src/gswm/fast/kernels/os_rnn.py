"""The object-state RNNs of the prior and of the posterior, each step of both in one kernel.

The twin of `models.gswm.propagation.ObjectStateRNN`, for both sides at once (axis 0: prior,
posterior), with gradients of what it reads and none of its weights.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.shapes import Scalars
from gswm.fast.kernels.os_rnn_weights import OSRNNWeights, aligned, offsets
from gswm.fast.kernels.products import padded, precision

BLOCK, STAGES, WARPS = 16, 4, 8
PAIRS = 64
"""Rows of a product of pairs."""

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
    out = forward(own, e_ctx, pres, h, c, weights.values, weights.e)
    return out[0], out[1]


@torch.library.custom_op("gswm::os_rnn", mutates_args=())
def forward(
    own: Tensor,
    e_ctx: Tensor,
    pres: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Tensor,
    e: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """New h and c, and what the backward pass needs."""
    from gswm.fast.kernels.os_rnn_forward import os_rnn_forward

    h_new, c_new, saved = empty_states(own, e_ctx, pres, h, c, weights, e)
    _, batch, count, hidden = h.shape
    num_own, num_ctx = own.shape[-1], e_ctx.shape[-1]
    with torch.cuda.device_of(own):
        launch: Any = os_rnn_forward[batch, 2]
        launch(
            *(tensor.contiguous() for tensor in (own, e_ctx, pres, h, c)),
            *(weights, h_new, c_new, saved, batch),
            **constants(os_rnn_forward, count, num_own, num_ctx, hidden, e),
        )
    return h_new, c_new, saved


@forward.register_fake
def empty_states(
    own: Tensor,
    e_ctx: Tensor,
    pres: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Tensor,
    e: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Room for what `forward` gives."""
    _, batch, count, hidden = h.shape
    saved = 7 * e + 5 * hidden + padded(count)
    return h.new_empty(h.shape), h.new_empty(h.shape), h.new_empty(2, batch, count, saved)


@torch.library.custom_op("gswm::os_rnn_backward", mutates_args=())
def backward(
    d_h_new: Tensor,
    d_c_new: Tensor,
    pres: Tensor,
    c: Tensor,
    c_new: Tensor,
    weights: Tensor,
    saved: Tensor,
    num_own: int,
    num_ctx: int,
    e: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of [pres, own, e_ctx] of both sides, of h and of c."""
    from gswm.fast.kernels.os_rnn_backward import os_rnn_backward

    d_in, d_h, d_c = empty_gradients(
        d_h_new, d_c_new, pres, c, c_new, weights, saved, num_own, num_ctx, e
    )
    _, batch, count, hidden = c.shape
    work = c.new_empty(2, batch, count, 5 * hidden + 6 * e + padded(count) + 16)
    pairs = c.new_empty(2, batch, count, count, e)
    with torch.cuda.device_of(c):
        launch: Any = os_rnn_backward[batch, 2]
        launch(
            *(tensor.contiguous() for tensor in (d_h_new, d_c_new, pres, c)),
            *(c_new, weights, saved, work, pairs, d_in, d_h, d_c, batch),
            **constants(os_rnn_backward, count, num_own, num_ctx, hidden, e),
        )
    return d_in, d_h, d_c


@backward.register_fake
def empty_gradients(
    d_h_new: Tensor,
    d_c_new: Tensor,
    pres: Tensor,
    c: Tensor,
    c_new: Tensor,
    weights: Tensor,
    saved: Tensor,
    num_own: int,
    num_ctx: int,
    e: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Room for what `backward` gives."""
    d_in = c.new_empty(*c.shape[:3], 1 + num_own + num_ctx)
    return d_in, c.new_empty(c.shape), c.new_empty(c.shape)


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    """Save the inputs of `gradients`."""
    own, e_ctx, pres, _, c, weights, e = inputs
    _, c_new, saved = output
    ctx.save_for_backward(pres, c, c_new, weights, saved)
    ctx.sizes = (own.shape[-1], e_ctx.shape[-1], e)
    ctx.set_materialize_grads(False)


def gradients(
    ctx: Any, d_h_new: Tensor | None, d_c_new: Tensor | None, _: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Of all that `forward` reads but the weights."""
    pres, c, c_new, weights, saved = ctx.saved_tensors
    d_h_new, d_c_new = (torch.zeros_like(c) if d is None else d for d in (d_h_new, d_c_new))
    d_in, d_h, d_c = backward(d_h_new, d_c_new, pres, c, c_new, weights, saved, *ctx.sizes)
    num_own, num_ctx, _ = ctx.sizes
    d_pres, d_own, d_ctx = d_in.sum(dim=0).split([1, num_own, num_ctx], dim=-1)
    return d_own, d_ctx, d_pres, d_h, d_c, None, None


forward.register_autograd(gradients, setup_context=keep)


def constants(
    kernel: Any, count: int, num_own: int, num_ctx: int, hidden: int, e: int
) -> dict[str, Any]:
    """Of all that is known before a kernel runs, what this one wants to know."""
    slots = padded(count)
    known: dict[str, Any] = {
        **{"count": count, "num_own": num_own, "num_ctx": num_ctx, "hidden": hidden, "e": e},
        **{"wide": aligned(num_own), "own_columns": padded(num_own)},
        **{"slots": slots, "together": max(1, PAIRS // slots)},
        **{"block": BLOCK, "stages": STAGES, "precision": precision()},
        **offsets(num_own, num_ctx, hidden, e),
    }
    wanted = {name: value for name, value in known.items() if name in kernel.arg_names}
    return {**wanted, "num_warps": WARPS if slots < 64 else 2 * WARPS}
