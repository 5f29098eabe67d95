"""A step copies nothing to the host: it could not be captured, and a GPU would wait for it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.profiler import profile

from gswm.data.batches.batch import Batch
from gswm.fast.deferred import Deferred
from gswm.fast.selftest import BATCH, LENGTH, plain, small
from gswm.models.registry import build, recipe

WAITS = {"item", "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal"}
"""Operations whose result, or its shape, the host has to know before it can go on."""


def waits(work: Callable[[], Any]) -> set[str]:
    """The operations of `WAITS` that a computation runs, including its backward pass."""
    with profile(use_device=None) as seen:
        work()
    assert seen.kineto_results is not None
    return WAITS & {event.name().removeprefix("aten::") for event in seen.kineto_results.events()}


@pytest.mark.parametrize("way", ["plain", "deferred"])
@pytest.mark.parametrize(
    "name",
    [
        *("two-layer", "maze"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                *("single-ball-d", "maze-no-aoe"),
                *("scalor-two-layer", "silot-two-layer", "sqair-digits", "stove-interaction"),
            )
        ),
    ],
)
def test_a_step_waits_for_nothing(name: str, way: str) -> None:
    chosen = small(recipe(name))
    torch.manual_seed(0)
    model: Any = build(chosen)
    size, stage, clock = chosen.model.image_size, model.stage(0), torch.zeros((), dtype=torch.int64)
    video = torch.rand(BATCH, LENGTH, 3, size, size)
    noise = model.noise(BATCH, stage, torch.Generator().manual_seed(0))
    backward = Deferred(model) if way == "deferred" else plain
    assert not waits(lambda: backward(lambda: model.loss(Batch(video), noise, clock, stage)))


def test_waiting_is_seen() -> None:
    x = torch.tensor([[1.0, 0.0]], requires_grad=True)
    # Its backward pass looks for zeros, so as to divide by none.
    assert "item" in waits(lambda: x.prod(dim=-1).sum().backward())
    assert "nonzero" in waits(lambda: x[x > 0])
    assert not waits(lambda: x.square().sum().backward())
