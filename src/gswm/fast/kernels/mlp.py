"""MLPs of two or three layers as one kernel, and the gradient of their inputs as another.

A program takes some rows through all layers: what is between the layers stays where it is. Only
their values before CELU are kept, for the backward pass. Weights are constants here, and get no
gradient.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from gswm.fast.kernels.products import padded, precision
from gswm.fast.kernels.tiles import celu, celu_slope, read, write

ROWS = 16
"""Rows a program takes: the least that a tensor core does."""
BLOCK = 64
"""Size of the blocks in which a wide layer is loaded."""
WARPS, STAGES = 4, 3


def mlp(x: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    """CELU between the layers: the twin of `networks.MLP`, on the last axis of `x`."""
    y, *_ = mlp_forward(x.flatten(0, -2), weights, biases)
    return y.unflatten(0, x.shape[:-1])


@torch.library.custom_op("gswm::mlp", mutates_args=())
def mlp_forward(
    x: Tensor, weights: list[Tensor], biases: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The last layer's values, and those of the others before CELU; none of a second of two."""
    x = x.contiguous()
    y, a_1, a_2 = outputs(x, weights, biases)
    launch: Any = forward_kernel[(triton.cdiv(len(x), ROWS),)]
    shown = (x, weights[0], biases[0], weights[1], biases[1], weights[-1], biases[-1])
    with torch.cuda.device_of(x):
        launch(
            *(*shown, y, a_1, a_2),
            *(len(x), x.shape[1], a_1.shape[1], y.shape[1]),
            **program(a_1.shape[1], len(weights)),
        )
    return y, a_1, a_2


@mlp_forward.register_fake
def outputs(
    x: Tensor, weights: list[Tensor], biases: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Uninitialized outputs of the forward kernel."""
    first, second = biases[0].shape[0], biases[1].shape[0] if len(biases) == 3 else 0
    y, a_1, a_2 = (x.new_empty(x.shape[0], n) for n in (biases[-1].shape[0], first, second))
    return y, a_1, a_2


@torch.library.custom_op("gswm::mlp_backward", mutates_args=())
def mlp_backward(dy: Tensor, a_1: Tensor, a_2: Tensor, weights: list[Tensor]) -> Tensor:
    """The gradient of x."""
    dy = dy.contiguous()
    dx = input_like(dy, a_1, a_2, weights)
    launch: Any = backward_kernel[(triton.cdiv(len(dy), ROWS),)]
    with torch.cuda.device_of(dy):
        launch(
            *(dy, a_1, a_2, weights[0], weights[1], weights[-1], dx),
            *(len(dy), dx.shape[1], a_1.shape[1], dy.shape[1]),
            **program(a_1.shape[1], len(weights)),
        )
    return dx


@mlp_backward.register_fake
def input_like(dy: Tensor, a_1: Tensor, a_2: Tensor, weights: list[Tensor]) -> Tensor:
    """Uninitialized outputs of the backward kernel."""
    return dy.new_empty(dy.shape[0], weights[0].shape[1])


def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Save the inputs of `backward`."""
    _, weights, _ = inputs
    _, a_1, a_2 = output
    ctx.save_for_backward(a_1, a_2, *weights)


def backward(ctx: Any, dy: Tensor, _1: Tensor, _2: Tensor) -> tuple[Tensor, list, list]:
    """The gradient of x, from that of the last layer."""
    a_1, a_2, *weights = ctx.saved_tensors
    none = [None] * len(weights)
    return mlp_backward(dy, a_1, a_2, weights), none, none


mlp_forward.register_autograd(backward, setup_context=save)


def program(hidden: int, layers: int) -> dict[str, Any]:
    """Launch settings of a program."""
    sizes = {"HIDDEN": padded(hidden), "LAYERS": layers, "ROWS": ROWS, "BLOCK": BLOCK}
    return {**sizes, "PRECISION": precision(), "num_warps": WARPS, "num_stages": STAGES}


@triton.jit
@no_type_check
def forward_kernel(
    x,
    w_1,
    b_1,
    w_2,
    b_2,
    w_3,
    b_3,
    y,
    a_1,
    a_2,
    num_rows,
    num_in: tl.constexpr,
    num_hidden: tl.constexpr,
    num_out: tl.constexpr,
    HIDDEN: tl.constexpr,
    LAYERS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """All layers, of some rows; the second is there if there are three."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit, part = tl.arange(0, HIDDEN), tl.arange(0, BLOCK)
    h = tl.zeros((ROWS, HIDDEN), tl.float32)
    for start in range(0, num_in, BLOCK):
        w = read(w_1, num_in, unit, num_hidden, start + part, num_in)
        some = read(x, num_in, row, num_rows, start + part, num_in)
        h = tl.dot(some, tl.trans(w), h, input_precision=PRECISION)
    h += tl.load(b_1 + unit, mask=unit < num_hidden, other=0.0)[None, :]
    write(a_1, num_hidden, row, num_rows, unit, h, num_hidden)

    if LAYERS == 3:
        inner = read(w_2, num_hidden, unit, num_hidden, unit, num_hidden)
        h = tl.dot(celu(h), tl.trans(inner), input_precision=PRECISION)
        h += tl.load(b_2 + unit, mask=unit < num_hidden, other=0.0)[None, :]
        write(a_2, num_hidden, row, num_rows, unit, h, num_hidden)

    h = celu(h)
    for start in range(0, num_out, BLOCK):
        out = start + part
        w_out = read(w_3, num_hidden, out, num_out, unit, num_hidden)
        y_out = tl.dot(h, tl.trans(w_out), input_precision=PRECISION)
        y_out += tl.load(b_3 + out, mask=out < num_out, other=0.0)[None, :]
        write(y, num_out, row, num_rows, out, y_out, num_out)


@triton.jit
@no_type_check
def backward_kernel(
    dy,
    a_1,
    a_2,
    w_1,
    w_2,
    w_3,
    dx,
    num_rows,
    num_in: tl.constexpr,
    num_hidden: tl.constexpr,
    num_out: tl.constexpr,
    HIDDEN: tl.constexpr,
    LAYERS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """From the last layer to the first, of some rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit, part = tl.arange(0, HIDDEN), tl.arange(0, BLOCK)
    g = tl.zeros((ROWS, HIDDEN), tl.float32)
    for start in range(0, num_out, BLOCK):
        w = read(w_3, num_hidden, start + part, num_out, unit, num_hidden)
        some = read(dy, num_out, row, num_rows, start + part, num_out)
        g = tl.dot(some, w, g, input_precision=PRECISION)
    if LAYERS == 3:
        g *= celu_slope(read(a_2, num_hidden, row, num_rows, unit, num_hidden))
        inner = read(w_2, num_hidden, unit, num_hidden, unit, num_hidden)
        g = tl.dot(g, inner, input_precision=PRECISION)
    g *= celu_slope(read(a_1, num_hidden, row, num_rows, unit, num_hidden))

    for start in range(0, num_in, BLOCK):
        w_in = read(w_1, num_in, unit, num_hidden, start + part, num_in)
        dx_in = tl.dot(g, w_in, input_precision=PRECISION)
        write(dx, num_in, row, num_rows, start + part, dx_in, num_in)
