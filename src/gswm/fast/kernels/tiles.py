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
def exist(rows, count, columns, width: tl.constexpr):
    """A mask of the rows and columns that exist; without a `width`, all columns do."""
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
def matrix(start, stride, height: tl.constexpr, width: tl.constexpr):
    """A matrix of weights, all at once."""
    rows, columns = tl.arange(0, height), tl.arange(0, width)
    return tl.load(start + rows[:, None] * stride + columns[None, :])
