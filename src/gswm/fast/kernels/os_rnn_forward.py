"""The forward kernel of the object-state RNNs: one program for a batch element and a side.

What it leaves in `saved`, a row for each object, is what the backward kernel needs:

    0      the first layers: MLP_rel of k and of j, MLP_weight of k and of j, MLP_self   5 e
    5 e    the second layer of MLP_self                                                    e
    6 e    Σ_j p_kj rel_kj, p the softmax                                                  e
    7 e    x, what the LSTM reads                                                          hidden
    ...    the LSTM's gates: i, f, g, o                                                    4 hidden
    ...    p_kj                                                                            slots

All of these are before their activations. A pair of objects is a row of a product, some j at a
time and all k: row r is k = r mod slots and j = first + r div slots.
"""

from typing import no_type_check

import triton
import triton.language as tl

from gswm.fast.kernels.tiles import celu, gates, matrix, product, read, tanh, two_products, write


@triton.jit
@no_type_check
def os_rnn_forward(
    own,
    e_ctx,
    pres,
    h,
    c,
    weights,
    h_new,
    c_new,
    saved,
    batch,
    count: tl.constexpr,
    num_own: tl.constexpr,
    num_ctx: tl.constexpr,
    hidden: tl.constexpr,
    e: tl.constexpr,
    slots: tl.constexpr,
    together: tl.constexpr,
    block: tl.constexpr,
    stages: tl.constexpr,
    precision: tl.constexpr,
    first_in: tl.constexpr,
    first_bias: tl.constexpr,
    square_in: tl.constexpr,
    square_out: tl.constexpr,
    square_bias: tl.constexpr,
    logit: tl.constexpr,
    os_in: tl.constexpr,
    os_bias: tl.constexpr,
    lstm_in: tl.constexpr,
    lstm_bias: tl.constexpr,
    total: tl.constexpr,
):
    """States h and c, and what the backward kernel needs."""
    element, side = tl.program_id(0), tl.program_id(1)
    objects = (side * batch + element) * count
    stride: tl.constexpr = 7 * e + 5 * hidden + slots
    at_x: tl.constexpr = 7 * e
    at_gates: tl.constexpr = at_x + hidden
    at_p: tl.constexpr = at_gates + 4 * hidden
    own += element * count * num_own
    e_ctx += element * count * num_ctx
    pres += element * count
    h += objects * hidden
    c += objects * hidden
    weights += side * total
    saved += objects * stride
    k, in_e, in_hidden = tl.arange(0, slots), tl.arange(0, e), tl.arange(0, hidden)
    in_4e, in_gates = tl.arange(0, 4 * e), tl.arange(0, 4 * hidden)
    bias = weights + square_bias + in_e

    # The first layers, of u = [own, h].
    first = tl.zeros([slots, 4 * e], tl.float32) + tl.load(weights + first_bias + in_4e)[None, :]
    own_1 = tl.zeros([slots, e], tl.float32) + tl.load(weights + first_bias + 4 * e + in_e)[None, :]
    first, own_1 = two_products(
        *(first, own_1, own, num_own, weights + first_in, 5 * e, 4 * e, count),
        *(num_own, 4 * e, slots, 4 * e, e, block, stages, precision),
    )
    first, own_1 = two_products(
        *(first, own_1, h, hidden, weights + first_in + num_own * 5 * e, 5 * e, 4 * e, count),
        *(hidden, 4 * e, slots, 4 * e, e, block, stages, precision),
    )
    write(saved, stride, k, count, in_4e, first)
    write(saved + 4 * e, stride, k, count, in_e, own_1)

    # MLP_self.
    square = weights + square_in
    own_2 = tl.dot(celu(own_1), matrix(square, e, e, e), input_precision=precision)
    own_2 += tl.load(bias)[None, :]
    write(saved + 5 * e, stride, k, count, in_e, own_2)
    e_rel = tl.dot(celu(own_2), matrix(square + e * e, e, e, e), input_precision=precision)
    e_rel += tl.load(bias + e)[None, :]
    tl.debug_barrier()  # what was written is read again, by other threads

    # MLP_weight of all pairs.
    pair = tl.arange(0, together * slots)
    pair_k, pair_j = pair % slots, pair // slots
    last = tl.load(weights + logit + in_e)
    weight_2 = tl.trans(matrix(weights + square_out + 4 * e * e, e, e, e))
    bias_2 = tl.load(bias + 4 * e)
    for start in tl.range(0, count, together, num_stages=1):
        j = start + pair_j
        one = read(saved + 2 * e, stride, pair_k, count, in_e)
        one += read(saved + 3 * e, stride, j, count, in_e)
        two = tl.dot(celu(one), weight_2, input_precision=precision) + bias_2[None, :]
        value = tl.sum(celu(two) * last[None, :], axis=1)
        tl.store(saved + pair_k * stride + at_p + j, value, mask=(pair_k < count) & (j < count))
    tl.debug_barrier()

    # The softmax over j.
    here = tl.load(pres + k, mask=k < count, other=0.0)
    company = tl.minimum(tl.maximum(tl.sum(here, axis=0) - here, 0.0), 1.0)
    exists = (k < count)[:, None] & (k < count)[None, :]
    places = saved + k[:, None] * stride + at_p + k[None, :]
    value = tl.load(places, mask=exists, other=0.0) + tl.log(tl.maximum(here, 1e-30))[None, :]
    value = tl.where(k[:, None] == k[None, :], -1e9, value)
    value = tl.where((k < count)[None, :], value, float("-inf"))
    p = tl.exp(value - tl.max(value, axis=1)[:, None])
    p = p / tl.sum(p, axis=1)[:, None]
    tl.debug_barrier()
    tl.store(places, p, mask=(k < count)[:, None])
    tl.debug_barrier()

    # MLP_rel of all pairs; its last layer after the sum over j.
    heard = tl.zeros([slots, e], tl.float32)
    rel_2 = tl.trans(matrix(weights + square_out + 2 * e * e, e, e, e))
    bias_2 = tl.load(bias + 2 * e)
    for start in tl.range(0, count, together, num_stages=1):
        j = start + pair_j
        one = read(saved, stride, pair_k, count, in_e)
        one += read(saved + e, stride, j, count, in_e)
        two = tl.dot(celu(one), rel_2, input_precision=precision) + bias_2[None, :]
        both = (pair_k < count) & (j < count)
        share = tl.load(saved + pair_k * stride + at_p + j, mask=both, other=0.0)
        said = tl.reshape(celu(two) * share[:, None], [together, slots, e])
        heard += tl.sum(said, axis=0)
    write(saved + 6 * e, stride, k, count, in_e, heard)
    heard = heard * company[:, None]
    e_rel = tl.dot(heard, matrix(square + 3 * e * e, e, e, e), e_rel, input_precision=precision)
    e_rel += company[:, None] * tl.load(bias + 3 * e)[None, :]

    # MLP_os.
    os = weights + os_in
    x = tl.zeros([slots, hidden], tl.float32) + tl.load(weights + os_bias + in_hidden)[None, :]
    x = product(
        *(x, own, num_own, os, hidden, count),
        *(num_own, hidden, slots, hidden, 4 * block, stages, precision),
    )
    if num_ctx > 0:
        x = product(
            *(x, e_ctx, num_ctx, os + num_own * hidden, hidden, count),
            *(num_ctx, hidden, slots, hidden, 4 * block, stages, precision),
        )
    of_rel = matrix(os + (num_own + num_ctx) * hidden, hidden, e, hidden)
    x = tl.dot(e_rel, of_rel, x, input_precision=precision)
    write(saved + at_x, stride, k, count, in_hidden, x)
    tl.debug_barrier()

    # The LSTM.
    lstm = weights + lstm_in
    before = tl.zeros([slots, 4 * hidden], tl.float32)
    before += tl.load(weights + lstm_bias + in_gates)[None, :]
    before = product(
        *(before, saved + at_x, stride, lstm, 4 * hidden, count),
        *(hidden, 4 * hidden, slots, 4 * hidden, block, stages, precision),
    )
    before = product(
        *(before, h, hidden, lstm + hidden * 4 * hidden, 4 * hidden, count),
        *(hidden, 4 * hidden, slots, 4 * hidden, block, stages, precision),
    )
    write(saved + at_gates, stride, k, count, in_gates, before)
    tl.debug_barrier()
    i, f, g, o = gates(saved + at_gates, stride, k, count, hidden)
    new = f * read(c, hidden, k, count, in_hidden) + i * g
    write(c_new + objects * hidden, hidden, k, count, in_hidden, new)
    write(h_new + objects * hidden, hidden, k, count, in_hidden, o * tanh(new))
