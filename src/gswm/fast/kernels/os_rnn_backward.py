"""The backward kernel of the object-state RNNs: the gradients of what they read.

With d the gradient of a thing, w_kj = p_kj company_k and heard_k = Σ_j p_kj rel_kj:

    d heard_k = company_k W_3ᵀ d e_rel_k         d rel_kj = p_kj d heard_k
    d company_k = (W_3ᵀ d e_rel_k) · heard_k + d e_rel_k · b_3
    d logit_kj = p_kj d heard_k · (rel_kj - heard_k)
    d pres_j = Σ_k d logit_kj / pres_j + Σ_{k≠j} d company_k

A program goes through the pairs for MLP_rel and then for MLP_weight, and computes their layers
once more. Between its steps it leaves in `work`, a row for each object:

    0      d of the gates         4 hidden
    ...    d x                    hidden
    ...    d of the first layers  5 e
    ...    d heard_k              e
    ...    d logit_kj             slots
    ...    d heard_k · heard_k    1, at the place of 16

and in `pairs` the gradient of the second layer, of one of the two networks at a time.
"""

from typing import no_type_check

import triton
import triton.language as tl

from gswm.fast.kernels.tiles import (
    celu,
    celu_slope,
    gates,
    matrix,
    product,
    read,
    tanh,
    two_products,
    write,
)


@triton.jit
@no_type_check
def first_layer(
    saved,
    stride,
    pairs,
    weights,
    work,
    pitch,
    count: tl.constexpr,
    e: tl.constexpr,
    slots: tl.constexpr,
    together: tl.constexpr,
    precision: tl.constexpr,
):
    """From the second layer of all pairs to the first, of k (column 0) and of j (column e)."""
    pair, some, in_e = tl.arange(0, together * slots), tl.arange(0, together), tl.arange(0, e)
    pair_k, pair_j = pair % slots, pair // slots
    second = tl.trans(matrix(weights, e, e, e))
    of_k = tl.zeros([slots, e], tl.float32)
    for start in tl.range(0, count, together, num_stages=1):
        j = start + pair_j
        both = (pair_k < count) & (j < count)
        places = pairs + (j * count + pair_k)[:, None] * e + in_e[None, :]
        d_two = tl.load(places, mask=both[:, None], other=0.0)
        one = read(saved, stride, pair_k, count, in_e) + read(saved + e, stride, j, count, in_e)
        d_one = tl.dot(d_two, second, input_precision=precision) * celu_slope(one)
        d_pairs = tl.reshape(d_one, [together, slots, e])
        of_k += tl.sum(d_pairs, axis=0)
        write(work + e, pitch, start + some, count, in_e, tl.sum(d_pairs, axis=1))
    write(work, pitch, tl.arange(0, slots), count, in_e, of_k)


@triton.jit
@no_type_check
def os_rnn_backward(
    d_h_new,
    d_c_new,
    pres,
    c,
    c_new,
    weights,
    saved,
    work,
    pairs,
    d_in,
    d_h,
    d_c,
    batch,
    count: tl.constexpr,
    num_own: tl.constexpr,
    num_ctx: tl.constexpr,
    hidden: tl.constexpr,
    e: tl.constexpr,
    wide: tl.constexpr,
    own_columns: tl.constexpr,
    slots: tl.constexpr,
    together: tl.constexpr,
    block: tl.constexpr,
    stages: tl.constexpr,
    precision: tl.constexpr,
    first_out: tl.constexpr,
    square_in: tl.constexpr,
    square_out: tl.constexpr,
    square_bias: tl.constexpr,
    logit: tl.constexpr,
    os_out: tl.constexpr,
    lstm_out: tl.constexpr,
    total: tl.constexpr,
):
    """Gradients of [pres, own, e_ctx] of this side, of h and of c."""
    element, side = tl.program_id(0), tl.program_id(1)
    objects = (side * batch + element) * count
    stride: tl.constexpr = 7 * e + 5 * hidden + slots
    at_gates: tl.constexpr = 7 * e + hidden
    at_p: tl.constexpr = at_gates + 4 * hidden
    pitch: tl.constexpr = 5 * hidden + 6 * e + slots + 16
    at_x: tl.constexpr = 4 * hidden
    at_first: tl.constexpr = at_x + hidden
    at_heard: tl.constexpr = at_first + 5 * e
    at_logit: tl.constexpr = at_heard + e
    at_mean: tl.constexpr = at_logit + slots
    num_in: tl.constexpr = 1 + num_own + num_ctx
    pres += element * count
    c += objects * hidden
    c_new += objects * hidden
    weights += side * total
    saved += objects * stride
    work += objects * pitch
    pairs += objects * count * e
    d_in += objects * num_in
    d_h += objects * hidden
    k, in_e, in_hidden = tl.arange(0, slots), tl.arange(0, e), tl.arange(0, hidden)
    exists = k < count

    # The LSTM.
    i, f, g, o = gates(saved + at_gates, stride, k, count, hidden)
    d_out = read(d_h_new + objects * hidden, hidden, k, count, in_hidden)
    shown = tanh(read(c_new, hidden, k, count, in_hidden))
    d_cell = read(d_c_new + objects * hidden, hidden, k, count, in_hidden)
    d_cell += d_out * o * (1 - shown * shown)
    old = read(c, hidden, k, count, in_hidden)
    write(work, pitch, k, count, in_hidden, d_cell * g * i * (1 - i))
    write(work + hidden, pitch, k, count, in_hidden, d_cell * old * f * (1 - f))
    write(work + 2 * hidden, pitch, k, count, in_hidden, d_cell * i * (1 - g * g))
    write(work + 3 * hidden, pitch, k, count, in_hidden, d_out * shown * o * (1 - o))
    write(d_c + objects * hidden, hidden, k, count, in_hidden, d_cell * f)
    tl.debug_barrier()  # what was written is read again, by other threads
    nothing = tl.zeros([slots, hidden], tl.float32)
    d_x, of_h = two_products(
        *(nothing, nothing, work, pitch, weights + lstm_out, 2 * hidden, hidden, count),
        *(4 * hidden, hidden, slots, hidden, hidden, 2 * block, stages, precision),
    )
    write(work + at_x, pitch, k, count, in_hidden, d_x)

    # MLP_os.
    os_width: tl.constexpr = wide + num_ctx + e
    os = weights + os_out
    d_rel = tl.dot(d_x, matrix(os + wide + num_ctx, os_width, hidden, e), input_precision=precision)
    if num_ctx > 0:
        in_ctx = tl.arange(0, num_ctx)
        of_ctx = matrix(os + wide, os_width, hidden, num_ctx)
        d_ctx = tl.dot(d_x, of_ctx, input_precision=precision)
        write(d_in + 1 + num_own, num_in, k, count, in_ctx, d_ctx)

    # MLP_self.
    square, square_t, bias = weights + square_out, weights + square_in, weights + square_bias + in_e
    d_own = tl.dot(d_rel, matrix(square + e * e, e, e, e), input_precision=precision)
    d_own *= celu_slope(read(saved + 5 * e, stride, k, count, in_e))
    d_own = tl.dot(d_own, matrix(square, e, e, e), input_precision=precision)
    d_own *= celu_slope(read(saved + 4 * e, stride, k, count, in_e))
    write(work + at_first + 4 * e, pitch, k, count, in_e, d_own)

    # The sum over j.
    here = tl.load(pres + k, mask=exists, other=0.0)
    others = tl.sum(here, axis=0) - here
    d_said = tl.dot(d_rel, matrix(square + 3 * e * e, e, e, e), input_precision=precision)
    heard = read(saved + 6 * e, stride, k, count, in_e)
    d_company = tl.sum(d_said * heard + d_rel * tl.load(bias + 3 * e)[None, :], axis=1)
    d_company = tl.where((others >= 0) & (others <= 1), d_company, 0.0)
    d_heard = d_said * tl.minimum(tl.maximum(others, 0.0), 1.0)[:, None]
    write(work + at_heard, pitch, k, count, in_e, d_heard)
    tl.store(work + k * pitch + at_mean, tl.sum(d_heard * heard, axis=1), mask=exists)
    tl.debug_barrier()

    # MLP_rel of all pairs.
    pair = tl.arange(0, together * slots)
    pair_k, pair_j = pair % slots, pair // slots
    second, bias_2 = tl.trans(matrix(square + 2 * e * e, e, e, e)), tl.load(bias + 2 * e)
    for start in tl.range(0, count, together, num_stages=1):
        j = start + pair_j
        both = (pair_k < count) & (j < count)
        one = read(saved, stride, pair_k, count, in_e) + read(saved + e, stride, j, count, in_e)
        two = tl.dot(celu(one), second, input_precision=precision) + bias_2[None, :]
        p = tl.load(saved + pair_k * stride + at_p + j, mask=both, other=0.0)
        mean = tl.load(work + pair_k * pitch + at_mean, mask=pair_k < count, other=0.0)
        d_two = read(work + at_heard, pitch, pair_k, count, in_e)
        d_logit = p * (tl.sum(d_two * celu(two), axis=1) - mean)
        tl.store(work + pair_k * pitch + at_logit + j, d_logit, mask=both)
        places = pairs + (j * count + pair_k)[:, None] * e + in_e[None, :]
        tl.store(places, d_two * p[:, None] * celu_slope(two), mask=both[:, None])
    tl.debug_barrier()
    first_layer(
        *(saved, stride, pairs, square_t + 2 * e * e, work + at_first, pitch),
        *(count, e, slots, together, precision),
    )
    tl.debug_barrier()

    # MLP_weight of all pairs.
    second, bias_2 = tl.trans(matrix(square + 4 * e * e, e, e, e)), tl.load(bias + 4 * e)
    last = tl.load(weights + logit + in_e)
    weight_1 = saved + 2 * e
    for start in tl.range(0, count, together, num_stages=1):
        j = start + pair_j
        both = (pair_k < count) & (j < count)
        one = read(weight_1, stride, pair_k, count, in_e)
        one += read(weight_1 + e, stride, j, count, in_e)
        two = tl.dot(celu(one), second, input_precision=precision) + bias_2[None, :]
        d_logit = tl.load(work + pair_k * pitch + at_logit + j, mask=both, other=0.0)
        places = pairs + (j * count + pair_k)[:, None] * e + in_e[None, :]
        d_two = d_logit[:, None] * last[None, :] * celu_slope(two)
        tl.store(places, d_two, mask=both[:, None])
    tl.debug_barrier()
    first_layer(
        *(weight_1, stride, pairs, square_t + 4 * e * e, work + at_first + 2 * e, pitch),
        *(count, e, slots, together, precision),
    )

    # Presence, as a weight of the softmax and as company.
    at = work + k[:, None] * pitch + at_logit + k[None, :]
    d_logits = tl.load(at, mask=exists[:, None] & exists[None, :], other=0.0)
    d_pres = tl.where(here >= 1e-30, tl.sum(d_logits, axis=0) / tl.maximum(here, 1e-30), 0.0)
    d_pres += tl.sum(tl.where(exists, d_company, 0.0), axis=0) - d_company
    tl.store(d_in + k * num_in, d_pres, mask=exists)
    tl.debug_barrier()

    # [own, h]: of MLP_os, and of the first layers.
    d_u = tl.zeros([slots, own_columns], tl.float32)
    d_u = product(
        *(d_u, work + at_x, pitch, os, os_width, count),
        *(hidden, wide, slots, own_columns, 2 * block, stages, precision),
    )
    d_u, of_h = two_products(
        *(d_u, of_h, work + at_first, pitch, weights + first_out, wide + hidden, wide, count),
        *(5 * e, wide, slots, own_columns, hidden, 2 * block, stages, precision),
    )
    write(d_h, hidden, k, count, in_hidden, of_h)
    columns = tl.arange(0, own_columns)
    at = d_in + 1 + k[:, None] * num_in + columns[None, :]
    tl.store(at, d_u, mask=exists[:, None] & (columns < num_own)[None, :])
