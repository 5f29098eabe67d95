"""`kernels.select` compared with plain torch: `objects.select`."""

from dataclasses import replace

import pytest
import torch
from tiny import generator
from torch import Tensor

from gswm.core.records import tensors
from gswm.fast.kernels.select import select
from gswm.models import objects
from gswm.models.objects import Attributes, LSTMState, Objects

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WHAT, STATE, HIDDEN = 40, 8, 24


def some(number: int, seed: int, batch: int = 3) -> tuple[Objects, Tensor]:
    """Objects of which some are equally present, and all of them as one leaf."""
    g = generator(seed)
    flat = torch.randn(batch, number, 6 + WHAT + STATE + 4 * HIDDEN, generator=g)
    flat[..., 0] = torch.randint(4, (batch, number), generator=g) / 3
    flat[0, :, 0] = torch.rand(number, generator=g)
    flat = flat.to(DEVICE).requires_grad_()
    o, z_state, *h = flat.split([6 + WHAT, STATE, *4 * [HIDDEN]], dim=-1)
    ids = torch.randint(9, (batch, number), generator=g).to(DEVICE)
    born = torch.randint(9, (batch,), generator=g).to(DEVICE)
    states = LSTMState(*h[:2]), LSTMState(*h[2:])
    return Objects(Attributes.split(o), z_state, *states, ids, born), flat


@pytest.mark.parametrize(("slots", "cells"), [(1, 1), (4, 9), (10, 16), (5, 30), (9, 4)])
def test_it_chooses_the_same_objects_with_the_same_gradients(slots: int, cells: int) -> None:
    (propagated, flat_1), (discovered, flat_2) = some(slots, 0), some(cells, 1)
    want, got = objects.select(propagated, discovered), select(propagated, discovered)
    for a, b in zip(tensors(got), tensors(want), strict=True):
        assert a.dtype == b.dtype
        assert a.equal(b)
    direction = torch.randn(want.flat().shape, generator=generator(2)).to(DEVICE)
    d_want = torch.autograd.grad(want.flat(), [flat_1, flat_2], direction)
    d_got = torch.autograd.grad(got.flat(), [flat_1, flat_2], direction)
    assert d_got[0].equal(d_want[0])
    assert d_got[1].equal(d_want[1])


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_any_presence_is_taken(value: float) -> None:
    (propagated, _), (discovered, _) = some(4, 0), some(9, 1)
    pres = torch.full_like(discovered.o.pres, value)
    discovered = replace(discovered, o=replace(discovered.o, pres=pres))
    want, got = objects.select(propagated, discovered), select(propagated, discovered)
    assert got.flat().shape == want.flat().shape
    if value == value:
        assert got.flat().equal(want.flat())
        assert got.id.equal(want.id)


def test_the_operator_is_what_it_says() -> None:
    (propagated, flat_1), (_, flat_2) = some(2, 0), some(4, 1)
    torch.library.opcheck(
        torch.ops.gswm.select,
        (flat_1, flat_2, propagated.id, propagated.born),
        test_utils=["test_schema", "test_autograd_registration", "test_faketensor"],
    )
