"""The kernels of `draw`.

Forward, a program has a tile of an image and goes through the objects. Channels 0 to 2 of a
layer are y_k and channel 3 is α_k, so that one sum Σ_k w_k layer_k is both μ_fg and α.

Backward, a program has an object and goes through the tiles its box touches. With D the sum of
all α_j σ_j at a pixel, g the gradient of the image and w_k = α_k σ_k / D,

    e = Σ_c g_c (layer_c - image_c) / D    d layer_c = w_k g_c, and σ_k e more where c is α
    dσ_k = Σ_pixels α_k e                  d glimpse_c = Yᵀ (d layer_c) X

with Y and X the bilinear weights of rows and columns. Nothing is added by two programs.

Where α is `summed`, it is Σ_k α_k: e is of the colors alone, and g_α is all of α's own gradient.
"""

from typing import no_type_check

import triton
import triton.language as tl

from gswm.fast.kernels.sampling import center, index, pair, sample, sample_with_slopes


@triton.jit
@no_type_check
def box(xy, hw, smallest: tl.constexpr):
    """A box x, y, h, w as it is drawn."""
    h, w = tl.load(hw), tl.load(hw + 1)
    h, w = tl.where(h < smallest, smallest, h), tl.where(w < smallest, smallest, w)
    return tl.load(xy), tl.load(xy + 1), h, w


@triton.jit
@no_type_check
def misses(first, last, middle, half, size: tl.constexpr, glimpse: tl.constexpr):
    """Whether a box covers none of the pixels from `first` to `last` of an image's side."""
    low = index((center(first, size) - middle) / half, glimpse)
    high = index((center(last, size) - middle) / half, glimpse)
    return (low >= glimpse) | (high <= -1)


@triton.jit
@no_type_check
def reach(middle, half, size: tl.constexpr, glimpse: tl.constexpr):
    """The first and last pixel of an image's side at which a box has a gradient."""
    rim = half * (1 + 1 / glimpse)
    low = tl.floor((middle - rim + 1) * (size / 2) - 0.5)
    high = tl.ceil((middle + rim + 1) * (size / 2) - 0.5) + 1
    low = tl.minimum(tl.maximum(low, 0.0), size)
    high = tl.minimum(tl.maximum(high, 0.0), size)
    return low.to(tl.int32), high.to(tl.int32)


@triton.jit
@no_type_check
def weights(at, pixel):
    """max(0, 1 - |at - pixel|)."""
    return tl.maximum(1 - tl.abs(at - pixel), 0.0)


@triton.jit
@no_type_check
def layers(own, i, j, glimpse: tl.constexpr):
    """Values of an object's glimpse at rows i and columns j: y, and α."""
    rows, columns = pair(i[:, None], glimpse), pair(j[None, :], glimpse)
    red = sample(own, rows, columns, glimpse)
    green = sample(own + glimpse * glimpse, rows, columns, glimpse)
    blue = sample(own + 2 * glimpse * glimpse, rows, columns, glimpse)
    alpha = sample(own + 3 * glimpse * glimpse, rows, columns, glimpse)
    return red, green, blue, alpha


@triton.jit
@no_type_check
def draw_forward(
    glimpses,
    xy,
    hw,
    depth,
    image,
    total,
    num_objects: tl.constexpr,
    size: tl.constexpr,
    glimpse: tl.constexpr,
    smallest: tl.constexpr,
    summed: tl.constexpr,
    eps: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    """One tile of one image: Σ_k w_k layer_k, and D."""
    n = tl.program_id(0).to(tl.int64)
    top, left = tl.program_id(1) * rows, tl.program_id(2) * columns
    row, column = top + tl.arange(0, rows), left + tl.arange(0, columns)
    red = tl.zeros([rows, columns], tl.float32)
    green, blue, alpha, d = red, red, red, red
    for k in range(num_objects):
        o = n * num_objects + k
        x, y, h, w = box(xy + 2 * o, hw + 2 * o, smallest)
        above = misses(top, top + rows - 1, y, h, size, glimpse)
        beside = misses(left, left + columns - 1, x, w, size, glimpse)
        if not (above | beside):
            i = index((center(row, size) - y) / h, glimpse)
            j = index((center(column, size) - x) / w, glimpse)
            own = glimpses + o * (4 * glimpse * glimpse)
            red_k, green_k, blue_k, alpha_k = layers(own, i, j, glimpse)
            share = alpha_k * tl.sigmoid(tl.load(depth + o))
            red += share * red_k
            green += share * green_k
            blue += share * blue_k
            alpha += alpha_k if summed else share * alpha_k
            d += share
    d += eps
    inside = (row < size)[:, None] & (column < size)[None, :]
    pixel = row[:, None] * size + column[None, :]
    tl.store(total + n * (size * size) + pixel, d, mask=inside)
    image += n * (4 * size * size)
    tl.store(image + pixel, red / d, mask=inside)
    tl.store(image + (size * size + pixel), green / d, mask=inside)
    tl.store(image + (2 * size * size + pixel), blue / d, mask=inside)
    alpha = alpha if summed else alpha / d
    tl.store(image + (3 * size * size + pixel), alpha, mask=inside)


@triton.jit
@no_type_check
def pull(image, d_image, at, inside, layer, d):
    """For one channel: the image's gradient over D, and its product with the layer's excess."""
    g = tl.load(d_image + at, mask=inside, other=0.0) / d
    return g, g * (layer - tl.load(image + at, mask=inside, other=0.0))


@triton.jit
@no_type_check
def along(own, i, j, d_red, d_green, d_blue, d_alpha, glimpse: tl.constexpr):
    """The product of a layer with its gradient, summed over channels."""
    red, green, blue, alpha = layers(own, i, j, glimpse)
    return d_red * red + d_green * green + d_blue * blue + d_alpha * alpha


@triton.jit
@no_type_check
def draw_backward(
    glimpses,
    xy,
    hw,
    depth,
    image,
    total,
    d_image,
    d_glimpses,
    d_xy,
    d_hw,
    d_depth,
    num_objects: tl.constexpr,
    size: tl.constexpr,
    glimpse: tl.constexpr,
    smallest: tl.constexpr,
    summed: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    padded: tl.constexpr,
    precision: tl.constexpr,
):
    """One object: all its gradients. `padded` is a power of 2 no smaller than `glimpse`."""
    o = tl.program_id(0).to(tl.int64)
    n = o // num_objects
    x, y, h, w = box(xy + 2 * o, hw + 2 * o, smallest)
    sigma = tl.sigmoid(tl.load(depth + o))
    own = glimpses + o * (4 * glimpse * glimpse)
    image += n * (4 * size * size)
    d_image += n * (4 * size * size)
    total += n * (size * size)
    p = tl.arange(0, padded)

    d_own = tl.zeros([padded, 4 * padded], tl.float32)
    d_sigma = tl.zeros([rows], tl.float32)
    d_y, d_h = tl.zeros([rows], tl.float32), tl.zeros([rows], tl.float32)
    d_x, d_w = tl.zeros([columns], tl.float32), tl.zeros([columns], tl.float32)
    top, bottom = reach(y, h, size, glimpse)
    left, right = reach(x, w, size, glimpse)
    while top < bottom:
        row = top + tl.arange(0, rows)
        v = (center(row, size) - y) / h
        i = index(v, glimpse)
        strips = tl.zeros([4 * rows, padded], tl.float32)
        first = left
        while first < right:
            column = first + tl.arange(0, columns)
            u = (center(column, size) - x) / w
            j = index(u, glimpse)
            i_pair, j_pair = pair(i[:, None], glimpse), pair(j[None, :], glimpse)
            red, red_i, red_j = sample_with_slopes(own, i_pair, j_pair, glimpse)
            channel = own + glimpse * glimpse
            green, green_i, green_j = sample_with_slopes(channel, i_pair, j_pair, glimpse)
            channel += glimpse * glimpse
            blue, blue_i, blue_j = sample_with_slopes(channel, i_pair, j_pair, glimpse)
            channel += glimpse * glimpse
            alpha, alpha_i, alpha_j = sample_with_slopes(channel, i_pair, j_pair, glimpse)

            inside = (row < size)[:, None] & (column < size)[None, :]
            at = row[:, None] * size + column[None, :]
            d = tl.load(total + at, mask=inside, other=1.0)
            g_red, e_red = pull(image, d_image, at, inside, red, d)
            at += size * size
            g_green, e_green = pull(image, d_image, at, inside, green, d)
            at += size * size
            g_blue, e_blue = pull(image, d_image, at, inside, blue, d)
            at += size * size
            e = e_red + e_green + e_blue
            share = alpha * sigma
            d_red, d_green, d_blue = share * g_red, share * g_green, share * g_blue
            if summed:
                d_alpha = tl.load(d_image + at, mask=inside, other=0.0)
            else:
                g_alpha, e_alpha = pull(image, d_image, at, inside, alpha, d)
                d_alpha = share * g_alpha
                e += e_alpha
            d_alpha += sigma * e
            d_sigma += tl.sum(alpha * e, axis=1)

            by_i = d_red * red_i + d_green * green_i + d_blue * blue_i + d_alpha * alpha_i
            by_j = d_red * red_j + d_green * green_j + d_blue * blue_j + d_alpha * alpha_j
            d_i, d_j = tl.sum(by_i, axis=1), tl.sum(by_j, axis=0)
            kink_i, kink_j = i == tl.floor(i), j == tl.floor(j)
            if tl.max(kink_i.to(tl.int32)) + tl.max(kink_j.to(tl.int32)) > 0:
                here = along(own, i, j, d_red, d_green, d_blue, d_alpha, glimpse)
                above = along(own, i - 1, j, d_red, d_green, d_blue, d_alpha, glimpse)
                beside = along(own, i, j - 1, d_red, d_green, d_blue, d_alpha, glimpse)
                d_i += tl.where(kink_i, tl.sum(here - above, axis=1), 0.0)
                d_j += tl.where(kink_j, tl.sum(here - beside, axis=0), 0.0)
            d_y += d_i
            d_h += d_i * v
            d_x += d_j
            d_w += d_j * u
            d_layers = tl.join(tl.join(d_red, d_blue), tl.join(d_green, d_alpha))
            d_layers = tl.permute(d_layers, [2, 3, 0, 1])
            strips = tl.dot(
                tl.reshape(d_layers, [4 * rows, columns]),
                weights(j[:, None], p[None, :]),
                strips,
                input_precision=precision,
            )
            first += columns
        side_by_side = tl.permute(tl.reshape(strips, [4, rows, padded]), [1, 0, 2])
        d_own = tl.dot(
            weights(i[None, :], p[:, None]),
            tl.reshape(side_by_side, [rows, 4 * padded]),
            d_own,
            input_precision=precision,
        )
        top += rows

    c, q = tl.arange(0, 4 * padded) // padded, tl.arange(0, 4 * padded) % padded
    at = (4 * o + c[None, :]) * (glimpse * glimpse) + p[:, None] * glimpse + q[None, :]
    tl.store(d_glimpses + at, d_own, mask=(p[:, None] < glimpse) & (q[None, :] < glimpse))

    per_h, per_w = -(glimpse / 2) / h, -(glimpse / 2) / w  # of an index, by y and by x
    tl.store(d_xy + 2 * o, tl.sum(d_x) * per_w)
    tl.store(d_xy + 2 * o + 1, tl.sum(d_y) * per_h)
    free_h, free_w = tl.load(hw + 2 * o) >= smallest, tl.load(hw + 2 * o + 1) >= smallest
    tl.store(d_hw + 2 * o, tl.where(free_h, tl.sum(d_h) * per_h, 0.0))
    tl.store(d_hw + 2 * o + 1, tl.where(free_w, tl.sum(d_w) * per_w, 0.0))
    tl.store(d_depth + o, tl.sum(d_sigma) * sigma * (1 - sigma))
