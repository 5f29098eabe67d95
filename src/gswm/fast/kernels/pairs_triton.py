"""The kernels of `pairs`: a program has a few receivers k, and all senders j.

A pair of objects is a row of a product: row r is k = first + r div slots and j = r mod slots. One
more program has MLP_self of all objects. With d the gradient of a thing:

    d rel_kj = p_kj d heard_k
    d logit_kj = p_kj (d heard_k · rel_kj - Σ_i p_ki d heard_k · rel_ki)

In `first`, a row has the first layers before CELU: MLP_rel of k and of j, MLP_weight of k and of j,
MLP_self. Of the gradients of j, a program knows those of its own receivers only.
"""

from typing import no_type_check

import triton
import triton.language as tl

from gswm.fast.kernels.tiles import celu, celu_slope, matrix, read, write


@triton.jit
@no_type_check
def second_layer(
    first,
    k,
    j,
    count,
    weights,
    bias,
    e: tl.constexpr,
    rows: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """The second layer of some pairs before CELU."""
    in_e = tl.arange(0, e)
    two = tl.zeros([rows, e], tl.float32) + tl.load(bias + in_e)[None, :]
    for start in range(0, e, block):
        part = start + tl.arange(0, block)
        one = read(first, 5 * e, k, count, part) + read(first + e, 5 * e, j, count, part)
        some = tl.load(weights + in_e[:, None] * e + part[None, :])
        two = tl.dot(celu(one), tl.trans(some), two, input_precision=precision)
    return two


@triton.jit
@no_type_check
def first_layer(
    d_two,
    first,
    k,
    j,
    count,
    weights,
    start_k,
    d_k,
    d_j,
    e: tl.constexpr,
    slots: tl.constexpr,
    receivers: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """From the gradient of the second layer of some pairs to that of the first, of k and of j."""
    in_e = tl.arange(0, e)
    for start in range(0, e, block):
        part = start + tl.arange(0, block)
        one = read(first, 5 * e, k, count, part) + read(first + e, 5 * e, j, count, part)
        some = tl.load(weights + in_e[:, None] * e + part[None, :])
        d_one = tl.dot(d_two, some, input_precision=precision) * celu_slope(one)
        d_pairs = tl.reshape(d_one, [receivers, slots, block])
        few, all_j = start_k + tl.arange(0, receivers), tl.arange(0, slots)
        write(d_k, 2 * e, few, count, part, tl.sum(d_pairs, axis=1))
        write(d_j, 2 * e, all_j, count, part, tl.sum(d_pairs, axis=0))


@triton.jit
@no_type_check
def attention(
    two,
    last,
    known,
    start,
    count: tl.constexpr,
    slots: tl.constexpr,
    receivers: tl.constexpr,
):
    """The softmax p over j, of receivers from `start` on."""
    k, j = start + tl.arange(0, receivers), tl.arange(0, slots)
    logit = tl.reshape(tl.sum(celu(two) * last[None, :], axis=1), [receivers, slots])
    logit += tl.load(known + j, mask=j < count, other=0.0)[None, :]
    logit = tl.where(k[:, None] == j[None, :], -1e9, logit)
    logit = tl.where((j < count)[None, :], logit, float("-inf"))
    p = tl.exp(logit - tl.max(logit, axis=1)[:, None])
    return p / tl.sum(p, axis=1)[:, None]


@triton.jit
@no_type_check
def pairs_forward(
    first,
    known,
    weights,
    biases,
    last,
    heard,
    own,
    batch,
    count: tl.constexpr,
    e: tl.constexpr,
    slots: tl.constexpr,
    receivers: tl.constexpr,
    parts: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """heard_k = Σ_j p_kj rel_kj, and the second layer of MLP_self before CELU."""
    element, side, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    objects = (side * batch + element) * count
    first += objects * 5 * e
    known += element * count
    weights += side * 3 * e * e
    biases += side * 3 * e
    in_e = tl.arange(0, e)
    all_j = tl.arange(0, slots)
    if part == parts:
        own_one = read(first + 4 * e, 5 * e, all_j, count, in_e)
        own_inner = tl.trans(matrix(weights + 2 * e * e, e, e, e))
        own_two = tl.dot(celu(own_one), own_inner, input_precision=precision)
        own_two += tl.load(biases + 2 * e + in_e)[None, :]
        write(own + objects * e, e, all_j, count, in_e, own_two)
    else:
        row, start = tl.arange(0, receivers * slots), part * receivers
        k, j = start + row // slots, row % slots
        few = start + tl.arange(0, receivers)
        rows: tl.constexpr = receivers * slots
        two = second_layer(
            *(first + 2 * e, k, j, count, weights + e * e, biases + e),
            *(e, rows, block, precision),
        )
        last_layer = tl.load(last + side * e + in_e)
        p = attention(two, last_layer, known, start, count, slots, receivers)
        two = second_layer(first, k, j, count, weights, biases, e, rows, block, precision)
        said = tl.reshape(celu(two), [receivers, slots, e]) * p[:, :, None]
        write(heard + objects * e, e, few, count, in_e, tl.sum(said, axis=1))


@triton.jit
@no_type_check
def pairs_backward(
    d_heard,
    d_own,
    first,
    known,
    weights,
    biases,
    last,
    d_k,
    d_j,
    d_known,
    d_self,
    batch,
    count: tl.constexpr,
    e: tl.constexpr,
    slots: tl.constexpr,
    receivers: tl.constexpr,
    parts: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """The gradients of `first`, of k and j apart, and of `known`."""
    element, side, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    objects = (side * batch + element) * count
    partial = part * 2 * batch * count + objects
    first += objects * 5 * e
    known += element * count
    weights += side * 3 * e * e
    biases += side * 3 * e
    in_e = tl.arange(0, e)
    all_j = tl.arange(0, slots)
    if part == parts:
        d_own_two = read(d_own + objects * e, e, all_j, count, in_e)
        own_inner = matrix(weights + 2 * e * e, e, e, e)
        own_one = read(first + 4 * e, 5 * e, all_j, count, in_e)
        d_own_one = tl.dot(d_own_two, own_inner, input_precision=precision) * celu_slope(own_one)
        write(d_self + objects * e, e, all_j, count, in_e, d_own_one)
    else:
        row, start = tl.arange(0, receivers * slots), part * receivers
        k, j = start + row // slots, row % slots
        rows: tl.constexpr = receivers * slots
        d_k += objects * 2 * e
        d_j += partial * 2 * e
        weight_first, weight_2 = first + 2 * e, weights + e * e
        two = second_layer(
            weight_first, k, j, count, weight_2, biases + e, e, rows, block, precision
        )
        last_layer = tl.load(last + side * e + in_e)
        p = attention(two, last_layer, known, start, count, slots, receivers)

        # MLP_rel.
        two_rel = second_layer(first, k, j, count, weights, biases, e, rows, block, precision)
        d_rel = read(d_heard + objects * e, e, k, count, in_e)
        d_p = tl.reshape(tl.sum(d_rel * celu(two_rel), axis=1), [receivers, slots])
        d_two = d_rel * tl.reshape(p, [rows])[:, None] * celu_slope(two_rel)
        first_layer(
            *(d_two, first, k, j, count, weights, start, d_k, d_j),
            *(e, slots, receivers, block, precision),
        )

        # MLP_weight.
        d_logit = p * (d_p - tl.sum(p * d_p, axis=1)[:, None])
        tl.store(d_known + partial + all_j, tl.sum(d_logit, axis=0), mask=all_j < count)
        d_two = tl.reshape(d_logit, [rows])[:, None] * last_layer[None, :] * celu_slope(two)
        first_layer(
            *(d_two, weight_first, k, j, count, weight_2, start, d_k + e, d_j + e),
            *(e, slots, receivers, block, precision),
        )
