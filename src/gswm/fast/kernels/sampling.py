"""Bilinear samples inside a Triton kernel.

Slopes are those autograd gives the weights max(0, 1 - |index - pixel|). These have a kink in the
middle of a pixel. There autograd adds up the slopes of both sides.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def center(pixel, size: tl.constexpr):
    """The middle of one of `size` pixels that fill [-1, 1]."""
    return (pixel + 0.5) * (2 / size) - 1


@triton.jit
@no_type_check
def index(at, size: tl.constexpr):
    """The pixel that lies at `at`, of `size` that fill [-1, 1]; all that is far outside is one."""
    i = (at + 1) * (size / 2) - 0.5
    i = tl.where(i < -1.5, -1.5, i)
    return tl.where(i > size + 0.5, size + 0.5, i)


@triton.jit
@no_type_check
def pair(i, size: tl.constexpr):
    """The pixels before and after an index, whether they exist, and how far it is from the first.

    One that does not exist is another's number, so that it can be read.
    """
    before = tl.floor(i)
    low = before.to(tl.int32)
    high = low + 1
    has_low = tl.where((low >= 0) & (low < size), 1.0, 0.0)
    has_high = tl.where((high >= 0) & (high < size), 1.0, 0.0)
    low = tl.minimum(tl.maximum(low, 0), size - 1)
    high = tl.minimum(tl.maximum(high, 0), size - 1)
    return low, high, has_low, has_high, i - before


@triton.jit
@no_type_check
def sample(image, rows, columns, width: tl.constexpr):
    """Sample `image` between a pair of rows and a pair of columns; 0 beyond its edges."""
    top, bottom, has_top, has_bottom, v = rows
    left, right, has_left, has_right, u = columns
    from_left, from_right = has_left * (1 - u), has_right * u
    upper = from_left * tl.load(image + (top * width + left))
    upper += from_right * tl.load(image + (top * width + right))
    lower = from_left * tl.load(image + (bottom * width + left))
    lower += from_right * tl.load(image + (bottom * width + right))
    return has_top * (1 - v) * upper + has_bottom * v * lower


@triton.jit
@no_type_check
def sample_with_slopes(image, rows, columns, width: tl.constexpr):
    """A sample, and its derivatives by row and by column; on a kink, those of the far side."""
    top, bottom, has_top, has_bottom, v = rows
    left, right, has_left, has_right, u = columns
    top_left = has_left * tl.load(image + (top * width + left))
    top_right = has_right * tl.load(image + (top * width + right))
    bottom_left = has_left * tl.load(image + (bottom * width + left))
    bottom_right = has_right * tl.load(image + (bottom * width + right))

    upper = has_top * ((1 - u) * top_left + u * top_right)
    lower = has_bottom * ((1 - u) * bottom_left + u * bottom_right)
    value = (1 - v) * upper + v * lower
    by_column = has_top * (1 - v) * (top_right - top_left)
    by_column += has_bottom * v * (bottom_right - bottom_left)
    return value, lower - upper, by_column
