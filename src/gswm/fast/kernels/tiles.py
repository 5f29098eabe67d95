"""Building blocks of the kernels: products of a few rows with many weights.

A program holds some rows, a power of two and at least 16 of them, of which the first `count` exist;
the others read as zeros and are never written. So it is with columns, where `width` of them exist.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def celu(x):
    """CELU, as in F.celu."""
    return tl.where(x > 0, x, celu_slope(x) - 1)


@triton.jit
@no_type_check
def celu_slope(x):
    """The derivative of CELU: e to the power of min(x, 0), by an instruction for powers of 2."""
    return tl.exp2(tl.minimum(x, 0.0) * 1.4426950408889634)


@triton.jit
@no_type_check
def tanh(x):
    """In terms of what Triton has."""
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
@no_type_check
def exist(rows, count, columns, width: tl.constexpr):
    """Which of some rows and columns are there; with no `width`, all columns are."""
    if width is None:
        return (rows < count)[:, None]
    else:
        return (rows < count)[:, None] & (columns < width)[None, :]


@triton.jit
@no_type_check
def read(start, stride, rows, count, columns, width: tl.constexpr = None):
    """Some columns of some rows; zeros where these do not exist."""
    places = start + rows[:, None] * stride + columns[None, :]
    return tl.load(places, mask=exist(rows, count, columns, width), other=0.0)


@triton.jit
@no_type_check
def write(start, stride, rows, count, columns, values, width: tl.constexpr = None):
    """The inverse of `read`."""
    places = start + rows[:, None] * stride + columns[None, :]
    tl.store(places, values, mask=exist(rows, count, columns, width))


@triton.jit
@no_type_check
def gates(start, stride, rows, count, hidden: tl.constexpr):
    """An LSTM's i, f, g and o, of what they are before their activations."""
    columns = tl.arange(0, hidden)
    i = tl.sigmoid(read(start, stride, rows, count, columns))
    f = tl.sigmoid(read(start + hidden, stride, rows, count, columns))
    g = tanh(read(start + 2 * hidden, stride, rows, count, columns))
    o = tl.sigmoid(read(start + 3 * hidden, stride, rows, count, columns))
    return i, f, g, o


@triton.jit
@no_type_check
def matrix(start, stride, height: tl.constexpr, width: tl.constexpr):
    """A matrix of weights, all at once."""
    rows, columns = tl.arange(0, height), tl.arange(0, width)
    return tl.load(start + rows[:, None] * stride + columns[None, :])


@triton.jit
@no_type_check
def product(
    acc,
    x,
    x_stride,
    weights,
    weights_stride,
    count,
    num_in: tl.constexpr,
    width: tl.constexpr,
    slots: tl.constexpr,
    out: tl.constexpr,
    block: tl.constexpr,
    stages: tl.constexpr,
    precision: tl.constexpr,
):
    """The sum acc + x W, of `out` columns, `width` of which W has; W comes in blocks of rows."""
    rows, columns, inside = tl.arange(0, slots), tl.arange(0, out), tl.arange(0, block)
    for start in tl.range(0, num_in, block, num_stages=stages):
        places = start + inside
        a = read(x, x_stride, rows, count, places, num_in)
        b = read(weights, weights_stride, places, num_in, columns, width)
        acc = tl.dot(a, b, acc, input_precision=precision)
    return acc


@triton.jit
@no_type_check
def two_products(
    acc_1,
    acc_2,
    x,
    x_stride,
    weights,
    weights_stride,
    second,
    count,
    num_in: tl.constexpr,
    width: tl.constexpr,
    slots: tl.constexpr,
    out_1: tl.constexpr,
    out_2: tl.constexpr,
    block: tl.constexpr,
    stages: tl.constexpr,
    precision: tl.constexpr,
):
    """Two products with the same x; the second's weights begin at column `second`."""
    rows, inside = tl.arange(0, slots), tl.arange(0, block)
    columns_1, columns_2 = tl.arange(0, out_1), tl.arange(0, out_2)
    for start in tl.range(0, num_in, block, num_stages=stages):
        places = start + inside
        a = read(x, x_stride, rows, count, places, num_in)
        b_1 = read(weights, weights_stride, places, num_in, columns_1, width)
        b_2 = read(weights + second, weights_stride, places, num_in, columns_2)
        acc_1 = tl.dot(a, b_1, acc_1, input_precision=precision)
        acc_2 = tl.dot(a, b_2, acc_2, input_precision=precision)
    return acc_1, acc_2
