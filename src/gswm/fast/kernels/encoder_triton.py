"""The kernels of `encoder`: a program has one image, and takes it through all layers.

An image of 16 × 16 pixels becomes 8 × 8, 4 × 4 and 2 × 2 by convolutions, then one pixel and the
output by linear layers. A row of `saved` has each layer's values before CELU, pixel by pixel; group
norm is applied to them where they are read. A row of `work` has their gradients, likewise.

`weights` has the parameters of the layers in turn: weight, bias, and scale and shift of the group
norm. The weight of a convolution is [tap, in, out], that of a linear layer [out, in].
"""

from typing import no_type_check

import triton
import triton.language as tl

from gswm.fast.kernels.tiles import celu, celu_slope


@triton.jit
@no_type_check
def over_groups(x, channels: tl.constexpr):
    """The mean of each group of 16 channels, for each of its channels."""
    groups = tl.reshape(x, [channels // 16, 16])
    mean = tl.sum(groups, axis=1)[:, None] / 16
    return tl.reshape(tl.broadcast_to(mean, [channels // 16, 16]), [channels])


@triton.jit
@no_type_check
def normalized(a, exists, pixels: tl.constexpr, channels: tl.constexpr):
    """CELU(a), its mean of each channel's group, and the inverse of its deviation."""
    x = celu(a)
    mean = over_groups(tl.sum(tl.where(exists, x, 0.0), axis=0) / pixels, channels)
    off = tl.where(exists, x - mean[None, :], 0.0)
    variance = over_groups(tl.sum(off * off, axis=0) / pixels, channels)
    return x, mean, 1 / tl.sqrt(variance + 1e-5)


@triton.jit
@no_type_check
def norm(a, exists, params, pixels: tl.constexpr, channels: tl.constexpr):
    """Group norm of CELU(a) as a factor and a term for each channel; `params` are its own."""
    c = tl.arange(0, channels)
    _, mean, inverse = normalized(a, exists, pixels, channels)
    scale = inverse * tl.load(params + c)
    return scale, tl.load(params + channels + c) - mean * scale


@triton.jit
@no_type_check
def norm_backward(d_out, a, exists, params, pixels: tl.constexpr, channels: tl.constexpr):
    """The gradient of a, from that of its group norm."""
    x, mean, inverse = normalized(a, exists, pixels, channels)
    hat = (x - mean[None, :]) * inverse[None, :]
    d_hat = tl.where(exists, d_out * tl.load(params + tl.arange(0, channels))[None, :], 0.0)
    along = over_groups(tl.sum(d_hat, axis=0) / pixels, channels)
    across = over_groups(tl.sum(d_hat * hat, axis=0) / pixels, channels)
    return inverse[None, :] * (d_hat - along[None, :] - hat * across[None, :]) * celu_slope(a)


@triton.jit
@no_type_check
def pixels_of(start, rows: tl.constexpr, pixels: tl.constexpr, channels: tl.constexpr):
    """All pixels of a map, and which of the rows exist."""
    row, c = tl.arange(0, rows), tl.arange(0, channels)
    exists = (row < pixels)[:, None]
    return tl.load(start + row[:, None] * channels + c[None, :], mask=exists, other=0.0), exists


@triton.jit
@no_type_check
def write_pixels(start, values, rows: tl.constexpr, pixels: tl.constexpr, channels: tl.constexpr):
    """The inverse of `pixels_of`."""
    row, c = tl.arange(0, rows), tl.arange(0, channels)
    tl.store(start + row[:, None] * channels + c[None, :], values, mask=(row < pixels)[:, None])


@triton.jit
@no_type_check
def convolution(
    x,
    of_pixel: tl.constexpr,
    of_channel: tl.constexpr,
    scale,
    shift,
    weights,
    num_in: tl.constexpr,
    wide: tl.constexpr,
    out: tl.constexpr,
    size: tl.constexpr,
    rows: tl.constexpr,
    image: tl.constexpr,
    precision: tl.constexpr,
):
    """A 3 × 3 convolution with stride 2, of an `image` or of CELU(x) scale + shift."""
    row, c, o = tl.arange(0, rows), tl.arange(0, wide), tl.arange(0, out)
    top, left = 2 * (row // (size // 2)) - 1, 2 * (row % (size // 2)) - 1
    acc = tl.zeros([rows, out], tl.float32) + tl.load(weights + 9 * num_in * out + o)[None, :]
    for tap in range(9):
        i, j = top + tap // 3, left + tap % 3
        inside = (i >= 0) & (i < size) & (j >= 0) & (j < size)
        there = inside[:, None] & (c < num_in)[None, :]
        places = x + (i * size + j)[:, None] * of_pixel + c[None, :] * of_channel
        a = tl.load(places, mask=there, other=0.0)
        if not image:
            a = tl.where(there, celu(a) * scale[None, :] + shift[None, :], 0.0)
        at = weights + (tap * num_in + c)[:, None] * out + o[None, :]
        w = tl.load(at, mask=(c < num_in)[:, None], other=0.0)
        acc = tl.dot(a, w, acc, input_precision=precision)
    return acc


@triton.jit
@no_type_check
def convolution_backward(
    d_out,
    weights,
    num_in: tl.constexpr,
    wide: tl.constexpr,
    out: tl.constexpr,
    size: tl.constexpr,
    rows: tl.constexpr,
    precision: tl.constexpr,
):
    """The gradient of the input of a convolution."""
    row, c, o = tl.arange(0, rows), tl.arange(0, wide), tl.arange(0, out)
    half: tl.constexpr = size // 2
    acc = tl.zeros([rows, wide], tl.float32)
    for tap in range(9):
        i, j = row // size + 1 - tap // 3, row % size + 1 - tap % 3
        even = (i % 2 == 0) & (j % 2 == 0)
        inside = even & (i >= 0) & (i < 2 * half) & (j >= 0) & (j < 2 * half)
        places = d_out + ((i // 2) * half + j // 2)[:, None] * out + o[None, :]
        g = tl.load(places, mask=inside[:, None], other=0.0)
        at = weights + (tap * num_in + c)[:, None] * out + o[None, :]
        w = tl.load(at, mask=(c < num_in)[:, None], other=0.0)
        acc = tl.dot(g, tl.trans(w), acc, input_precision=precision)
    return acc


@triton.jit
@no_type_check
def encoder_forward(
    images,
    weights,
    y,
    saved,
    num_in: tl.constexpr,
    c_1: tl.constexpr,
    c_2: tl.constexpr,
    c_3: tl.constexpr,
    c_4: tl.constexpr,
    e: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """All layers, of one image."""
    element = tl.program_id(0).to(tl.int64)
    a_1 = saved + element * (64 * c_1 + 16 * c_2 + 4 * c_3 + c_4)
    a_2, a_3 = a_1 + 64 * c_1, a_1 + 64 * c_1 + 16 * c_2
    a_4 = a_3 + 4 * c_3
    w_1 = weights
    w_2 = w_1 + (9 * num_in + 3) * c_1
    w_3 = w_2 + (9 * c_1 + 3) * c_2
    w_4 = w_3 + (9 * c_2 + 3) * c_3
    w_5 = w_4 + (4 * c_3 + 3) * c_4

    # The convolutions.
    image = images + element * (num_in * 256)
    nothing = tl.zeros([16], tl.float32)
    one = convolution(
        *(image, 1, 256, nothing, nothing, w_1), *(num_in, 16, c_1, 16, 64, True, precision)
    )
    write_pixels(a_1, one, 64, 64, c_1)
    exists = (tl.arange(0, 64) < 64)[:, None]
    scale_1, shift_1 = norm(one, exists, w_1 + (9 * num_in + 1) * c_1, 64, c_1)
    tl.debug_barrier()  # what was written is read again, by other threads
    two = convolution(
        *(a_1, c_1, 1, scale_1, shift_1, w_2), *(c_1, c_1, c_2, 8, 16, False, precision)
    )
    write_pixels(a_2, two, 16, 16, c_2)
    exists_2 = (tl.arange(0, 16) < 16)[:, None]
    scale_2, shift_2 = norm(two, exists_2, w_2 + (9 * c_1 + 1) * c_2, 16, c_2)
    tl.debug_barrier()
    three = convolution(
        *(a_2, c_2, 1, scale_2, shift_2, w_3), *(c_2, c_2, c_3, 4, 16, False, precision)
    )
    write_pixels(a_3, three, 16, 4, c_3)
    exists_3 = (tl.arange(0, 16) < 4)[:, None]
    scale_3, shift_3 = norm(three, exists_3, w_3 + (9 * c_2 + 1) * c_3, 4, c_3)
    tl.debug_barrier()

    # The linear layers: of four pixels, channel by channel, and of one.
    part, four = tl.arange(0, block), tl.arange(0, 4 * c_3)
    of_four = tl.load(a_3 + (four % 4) * c_3 + four // 4)
    spread = tl.broadcast_to(scale_3[:, None], [c_3, 4])
    of_four = celu(of_four) * tl.reshape(spread, [4 * c_3])
    of_four += tl.reshape(tl.broadcast_to(shift_3[:, None], [c_3, 4]), [4 * c_3])
    for start in range(0, c_4, block):
        o = start + part
        w = tl.load(w_4 + o[:, None] * (4 * c_3) + four[None, :])
        value = tl.sum(w * of_four[None, :], axis=1) + tl.load(w_4 + 4 * c_3 * c_4 + o)
        tl.store(a_4 + o, value)
    tl.debug_barrier()
    a, exists_4 = pixels_of(a_4, 1, 1, c_4)
    scale_4, shift_4 = norm(a, exists_4, w_4 + (4 * c_3 + 1) * c_4, 1, c_4)
    c = tl.arange(0, c_4)
    of_one = celu(tl.load(a_4 + c)) * scale_4 + shift_4
    for start in range(0, e, block):
        o = start + part
        w = tl.load(w_5 + o[:, None] * c_4 + c[None, :], mask=(o < e)[:, None], other=0.0)
        value = tl.sum(w * of_one[None, :], axis=1)
        value += tl.load(w_5 + c_4 * e + o, mask=o < e, other=0.0)
        tl.store(y + element * e + o, value, mask=o < e)


@triton.jit
@no_type_check
def encoder_backward(
    d_y,
    weights,
    saved,
    work,
    d_images,
    num_in: tl.constexpr,
    c_1: tl.constexpr,
    c_2: tl.constexpr,
    c_3: tl.constexpr,
    c_4: tl.constexpr,
    e: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """From the last layer to the image."""
    element = tl.program_id(0).to(tl.int64)
    length: tl.constexpr = 64 * c_1 + 16 * c_2 + 4 * c_3 + c_4
    at_2: tl.constexpr = 64 * c_1
    at_3: tl.constexpr = at_2 + 16 * c_2
    at_4: tl.constexpr = at_3 + 4 * c_3
    saved += element * length
    work += element * length
    w_1 = weights
    w_2 = w_1 + (9 * num_in + 3) * c_1
    w_3 = w_2 + (9 * c_1 + 3) * c_2
    w_4 = w_3 + (9 * c_2 + 3) * c_3
    w_5 = w_4 + (4 * c_3 + 3) * c_4

    # The linear layers.
    part, c, four = tl.arange(0, block), tl.arange(0, c_4), tl.arange(0, 4 * c_3)
    d_one = tl.zeros([c_4], tl.float32)
    for start in range(0, e, block):
        o = start + part
        g = tl.load(d_y + element * e + o, mask=o < e, other=0.0)
        w = tl.load(w_5 + o[:, None] * c_4 + c[None, :], mask=(o < e)[:, None], other=0.0)
        d_one += tl.sum(w * g[:, None], axis=0)
    a_4, exists_4 = pixels_of(saved + at_4, 1, 1, c_4)
    d_4 = norm_backward(d_one[None, :], a_4, exists_4, w_4 + (4 * c_3 + 1) * c_4, 1, c_4)
    write_pixels(work + at_4, d_4, 1, 1, c_4)
    tl.debug_barrier()  # what was written is read again, by other threads
    d_four = tl.zeros([4 * c_3], tl.float32)
    for start in range(0, c_4, block):
        o = start + part
        g = tl.load(work + at_4 + o)
        w = tl.load(w_4 + o[:, None] * (4 * c_3) + four[None, :])
        d_four += tl.sum(w * g[:, None], axis=0)
    tl.store(work + at_3 + (four % 4) * c_3 + four // 4, d_four)
    tl.debug_barrier()

    # The convolutions.
    d_out, exists_3 = pixels_of(work + at_3, 16, 4, c_3)
    a_3, _ = pixels_of(saved + at_3, 16, 4, c_3)
    d_3 = norm_backward(d_out, a_3, exists_3, w_3 + (9 * c_2 + 1) * c_3, 4, c_3)
    tl.debug_barrier()
    write_pixels(work + at_3, d_3, 16, 4, c_3)
    tl.debug_barrier()
    d_out_2 = convolution_backward(work + at_3, w_3, c_2, c_2, c_3, 4, 16, precision)
    a_2, exists_2 = pixels_of(saved + at_2, 16, 16, c_2)
    d_2 = norm_backward(d_out_2, a_2, exists_2, w_2 + (9 * c_1 + 1) * c_2, 16, c_2)
    write_pixels(work + at_2, d_2, 16, 16, c_2)
    tl.debug_barrier()
    d_out_1 = convolution_backward(work + at_2, w_2, c_1, c_1, c_2, 8, 64, precision)
    a_1, exists_1 = pixels_of(saved, 64, 64, c_1)
    d_1 = norm_backward(d_out_1, a_1, exists_1, w_1 + (9 * num_in + 1) * c_1, 64, c_1)
    write_pixels(work, d_1, 64, 64, c_1)
    tl.debug_barrier()
    d_image = convolution_backward(work, w_1, num_in, 16, c_1, 16, 256, precision)
    pixel, channel = tl.arange(0, 256), tl.arange(0, 16)
    places = d_images + element * (num_in * 256) + channel[None, :] * 256 + pixel[:, None]
    tl.store(places, d_image, mask=(channel < num_in)[None, :])
