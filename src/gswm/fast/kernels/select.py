"""The K objects of a frame (§2), of those propagated and those discovered, in one kernel.

The twin of `models.objects.select`.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gswm.core.shapes import NOBODY
from gswm.fast.kernels.products import padded
from gswm.models.objects import Slotted

COLUMNS = 128
"""Columns of an object that a program copies."""
WARPS = 8


def select(propagated: Slotted, discovered: Slotted) -> Slotted:
    """The K most present objects of both sets, at most K of which are new."""
    flat, ids, born, _ = torch.ops.gswm.select(
        propagated.flat(), discovered.flat(), propagated.id, propagated.born
    )
    return replace(propagated.with_flat(flat, ids), born=born)


@torch.library.custom_op("gswm::select", mutates_args=())
def forward(
    propagated: Tensor, discovered: Tensor, ids: Tensor, born: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The chosen objects, their ids, the next id, and the slot of each candidate or -1.

    Objects are as `flat` gives them: their first column is presence.
    """
    from gswm.fast.kernels.select_triton import select_forward

    inputs = [tensor.contiguous() for tensor in (propagated, discovered, ids, born)]
    out = empty_slots(*inputs)
    batch, slots, width = propagated.shape
    launch: Any = select_forward[batch, -(-width // COLUMNS)]
    with torch.cuda.device_of(propagated):
        launch(*inputs, *out, **program(slots, discovered.shape[1], width))
    return out


@forward.register_fake
def empty_slots(
    propagated: Tensor, discovered: Tensor, ids: Tensor, born: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `forward`."""
    batch, slots, _ = propagated.shape
    slot = ids.new_empty(batch, slots + discovered.shape[1])
    flat = propagated.new_empty(propagated.shape)
    return flat, ids.new_empty(ids.shape), born.new_empty(born.shape), slot


def keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    """Save the inputs of `gradients`."""
    ctx.num_slots = inputs[0].shape[1]
    ctx.save_for_backward(output[3])
    ctx.mark_non_differentiable(*output[1:])


def gradients(ctx: Any, d_flat: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of both sets: each object gets that of its slot, if it has one."""
    (slot,) = ctx.saved_tensors
    index = slot.clamp_min(0)[..., None].expand(-1, -1, d_flat.shape[-1])
    d_both = torch.where(slot[..., None] >= 0, d_flat.gather(1, index), 0)
    d_propagated, d_discovered = d_both.tensor_split([ctx.num_slots], dim=1)
    return d_propagated, d_discovered, None, None


forward.register_autograd(gradients, setup_context=keep)


def program(slots: int, cells: int, width: int) -> dict[str, Any]:
    """Launch settings of a program."""
    sizes = {"slots": slots, "cells": cells, "width": width, "candidates": padded(slots + cells)}
    return {**sizes, "columns": COLUMNS, "nobody": NOBODY, "num_warps": WARPS}
