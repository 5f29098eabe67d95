"""The kernels of `crop`: a program has one box, and goes through its samples in tiles."""

from typing import no_type_check

import triton
import triton.language as tl

from gswm.fast.kernels.sampling import center, index, pair, sample, sample_with_slopes


@triton.jit
@no_type_check
def crop_forward(
    image,
    xy,
    hw,
    glimpses,
    num_objects: tl.constexpr,
    channels: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
    tile: tl.constexpr,
):
    """One channel of one box."""
    o, channel = tl.program_id(0).to(tl.int64), tl.program_id(1)
    image += (o // num_objects * channels + channel) * (height * width)
    glimpses += (o * channels + channel) * (size * size)
    x, y = tl.load(xy + 2 * o), tl.load(xy + 2 * o + 1)
    h, w = tl.load(hw + 2 * o), tl.load(hw + 2 * o + 1)
    for top in range(0, size, tile):
        row = top + tl.arange(0, tile)
        i = index(y + h * center(row, size), height)
        for left in range(0, size, tile):
            column = left + tl.arange(0, tile)
            j = index(x + w * center(column, size), width)
            value = sample(image, pair(i[:, None], height), pair(j[None, :], width), width)
            inside = (row < size)[:, None] & (column < size)[None, :]
            tl.store(glimpses + (row[:, None] * size + column[None, :]), value, mask=inside)


@triton.jit
@no_type_check
def crop_backward(
    image,
    xy,
    hw,
    d_glimpses,
    d_xy,
    d_hw,
    num_objects: tl.constexpr,
    channels: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
    tile: tl.constexpr,
):
    """The gradients of one box."""
    o = tl.program_id(0).to(tl.int64)
    image += o // num_objects * (channels * height * width)
    d_glimpses += o * (channels * size * size)
    x, y = tl.load(xy + 2 * o), tl.load(xy + 2 * o + 1)
    h, w = tl.load(hw + 2 * o), tl.load(hw + 2 * o + 1)
    d_y = tl.zeros([tile, tile], tl.float32)
    d_x, d_h, d_w = d_y, d_y, d_y
    for top in range(0, size, tile):
        row = top + tl.arange(0, tile)
        v = center(row, size)
        i = index(y + h * v, height)
        for left in range(0, size, tile):
            column = left + tl.arange(0, tile)
            u = center(column, size)
            j = index(x + w * u, width)
            inside = (row < size)[:, None] & (column < size)[None, :]
            at = row[:, None] * size + column[None, :]
            kink_i, kink_j = i == tl.floor(i), j == tl.floor(j)
            kinks = tl.max(kink_i.to(tl.int32)) + tl.max(kink_j.to(tl.int32))
            d_i = tl.zeros([tile, tile], tl.float32)
            d_j = d_i
            i_pair, j_pair = pair(i[:, None], height), pair(j[None, :], width)
            for channel in range(channels):
                of = image + channel * (height * width)
                g = tl.load(d_glimpses + (channel * (size * size) + at), mask=inside, other=0.0)
                here, by_i, by_j = sample_with_slopes(of, i_pair, j_pair, width)
                d_i += g * by_i
                d_j += g * by_j
                if kinks > 0:
                    above = sample(of, pair(i[:, None] - 1, height), j_pair, width)
                    beside = sample(of, i_pair, pair(j[None, :] - 1, width), width)
                    d_i += tl.where(kink_i[:, None], g * (here - above), 0.0)
                    d_j += tl.where(kink_j[None, :], g * (here - beside), 0.0)
            d_y += d_i
            d_h += d_i * v[:, None]
            d_x += d_j
            d_w += d_j * u[None, :]
    tl.store(d_xy + 2 * o, tl.sum(d_x) * (width / 2))
    tl.store(d_xy + 2 * o + 1, tl.sum(d_y) * (height / 2))
    tl.store(d_hw + 2 * o, tl.sum(d_h) * (height / 2))
    tl.store(d_hw + 2 * o + 1, tl.sum(d_w) * (width / 2))
