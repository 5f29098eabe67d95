"""The kernel of `select`: a program has some columns of the objects of one video."""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def select_forward(
    propagated,
    discovered,
    ids,
    born,
    flat_out,
    ids_out,
    born_out,
    slot_out,
    slots: tl.constexpr,
    cells: tl.constexpr,
    width: tl.constexpr,
    candidates: tl.constexpr,
    columns: tl.constexpr,
    nobody: tl.constexpr,
):
    """Every program finds out which objects stay and come; the first also writes their ids."""
    element, n = tl.program_id(0), tl.arange(0, candidates)
    propagated += element * slots * width
    discovered += element * cells * width
    old, new = n < slots, (n >= slots) & (n < slots + cells)
    p = tl.load(propagated + n * width, mask=old, other=0.0)
    p += tl.load(discovered + (n - slots) * width, mask=new, other=0.0)
    p = tl.where(old | new, p, -1.0)

    # The most present; of equals the first. Sums over rows count those ahead of each column.
    before, up_to = n[:, None] < n[None, :], n[:, None] <= n[None, :]
    ahead = (p[:, None] > p[None, :]) | ((p[:, None] == p[None, :]) & before)
    chosen = tl.sum(ahead.to(tl.int32), axis=0) < slots
    stays, comes = chosen & old, chosen & new

    # The n-th new object takes the n-th free slot. Rows are slots, and columns candidates.
    free = old & (stays == 0)
    of_free = tl.sum((up_to & free[:, None]).to(tl.int32), axis=0)
    of_new = tl.sum((up_to & comes[:, None]).to(tl.int32), axis=0)
    moves = free[:, None] & comes[None, :] & (of_free[:, None] == of_new[None, :])
    moves = moves | (stays[:, None] & (n[:, None] == n[None, :]))
    source = tl.sum(tl.where(moves, n[None, :], 0), axis=1)
    source = tl.minimum(source, slots + cells - 1)  # also if presence is no number

    if tl.program_id(1) == 0:
        # Presence only falls, so a new object below 0.5 will never count as one.
        real = comes & (p > 0.5)
        number = tl.sum((up_to & real[:, None]).to(tl.int64), axis=0)
        first = tl.load(born + element)
        of_old = tl.load(ids + element * slots + n, mask=old, other=0)
        id_n = tl.where(old, of_old, tl.where(real, first + number - 1, nobody))
        chosen_id = tl.sum(tl.where(moves, id_n[None, :], 0), axis=1)
        tl.store(ids_out + element * slots + n, chosen_id, mask=old)
        tl.store(born_out + element, first + tl.sum(real.to(tl.int64), axis=0))
        slot = tl.sum(tl.where(moves, n[:, None] + 1, 0), axis=0) - 1
        slot = tl.minimum(slot, slots - 1)
        tl.store(slot_out + element * (slots + cells) + n, slot.to(tl.int64), mask=old | new)

    column = tl.program_id(1) * columns + tl.arange(0, columns)
    there = old[:, None] & (column < width)[None, :]
    from_old = propagated + source[:, None] * width + column[None, :]
    from_new = discovered + (source - slots)[:, None] * width + column[None, :]
    values = tl.load(from_old, mask=there & (source < slots)[:, None], other=0.0)
    values += tl.load(from_new, mask=there & (source >= slots)[:, None], other=0.0)
    tl.store(
        flat_out + (element * slots + n)[:, None] * width + column[None, :], values, mask=there
    )
