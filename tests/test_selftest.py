"""`gswm selftest`: it passes if the paths agree, and reports where they differ."""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from gswm.cli import main
from gswm.data.batches.batch import Batch
from gswm.fast.deferred import DeferredMethod
from gswm.fast.selftest import (
    BATCH,
    GRADIENT_TOLERANCE,
    Comparison,
    compare,
    difference,
    example,
    plain,
    result,
    selftest,
    small,
    smooth,
)
from gswm.models.registry import recipe

ONE = ["selftest", "--device", "cpu", "--recipes", "single-ball"]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("two-layer", "clips")]


@pytest.mark.parametrize("name", ["maze", *SLOW])
def test_the_fast_path_gives_the_gradients_of_the_plain_one(name: str) -> None:
    found = list(selftest("cpu", [name]))
    assert [each.recipe for each in found] == [name, f"{name}, prior"]
    for each in found:
        assert each.agrees
        assert each.path == "deferred"
        assert each.loss < 1e-6
        assert each.gradient < 1e-4


def test_a_model_that_takes_actions_gets_some() -> None:
    chosen = recipe("stove-interaction")
    dynamics = replace(chosen.model.dynamics, actions=2)
    chosen = replace(chosen, model=replace(chosen.model, dynamics=dynamics))
    assert compare(small(chosen), "deferred", torch.device("cpu")).agrees


@pytest.mark.parametrize(
    "name",
    [
        "two-layer",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("maze-no-mu", "scalor-interaction", "silot-interaction", "sqair-digits")
        ),
    ],
)
def test_what_is_compared_does_not_jump_where_a_last_digit_differs(name: str) -> None:
    """Otherwise, paths that differ only by rounding would be reported as different."""
    chosen = small(recipe(name))
    model: Any = example(chosen)
    video, stage = smooth(chosen.model.image_size), model.stage(0)
    noise = model.noise(BATCH, stage, torch.Generator().manual_seed(0))
    clock = torch.zeros((), dtype=torch.int64)
    want = result(model, plain(lambda: model.loss(Batch(video), noise, clock, stage)))
    for seed in range(2):
        other, generator = deepcopy(model), torch.Generator().manual_seed(seed)
        other.zero_grad(set_to_none=True)
        for param in other.parameters():
            param.data *= 1 + 1e-7 * torch.randn(param.shape, generator=generator)
        got = result(other, plain(partial(other.loss, Batch(video), noise, clock, stage)))
        assert difference(name, "deferred", want, got).gradient < GRADIENT_TOLERANCE


def test_agreement_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ONE) == 0
    assert "all 2 agree" in capsys.readouterr().out


def test_a_wrong_gradient_is_one_line_and_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = DeferredMethod.finish

    def wrong(method: DeferredMethod) -> None:
        right(method)
        for param in method.whole.__self__.parameters():
            if param.grad is not None:
                param.grad *= 1.01

    monkeypatch.setattr(DeferredMethod, "finish", wrong)
    assert main(ONE) == 1
    said = capsys.readouterr()
    assert "DIFFERS" in said.out
    assert said.err.startswith("gswm: 2 of 2 disagree: single-ball, deferred: loss by")
    assert len(said.err.splitlines()) == 1


def test_a_gradient_that_is_forgotten_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(DeferredMethod, "finish", lambda method: method.calls.clear())
    assert main(ONE) == 1
    assert "has a gradient on only one of the two paths" in capsys.readouterr().err


def compared(got: Tensor, loss: float = 2.0) -> Comparison:
    want = {"": torch.tensor(2.0), "small": torch.full((2,), 1e-9), "large": torch.ones(3)}
    values = {"": torch.tensor(loss), "small": want["small"], "large": got}
    return difference("x", "deferred", want, values)


def test_rounding_agrees_and_more_does_not() -> None:
    assert compared(torch.ones(3)).agrees
    assert compared(torch.ones(3) + 1e-5).agrees
    assert not compared(torch.ones(3) + 1e-2).agrees
    assert compared(torch.ones(3) + 1e-2).parameter == "large"
    assert not compared(torch.ones(3), loss=2.001).agrees


def test_what_is_no_number_does_not_agree() -> None:
    nan = compared(torch.tensor([1.0, float("nan"), 1.0]))
    assert not nan.agrees
    assert nan.parameter == "large"
    assert not compared(torch.ones(3), loss=float("nan")).agrees


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["--recipes", "nothing"], "there is no recipe 'nothing'"),
        (["--paths", "captured"], "'captured' needs a GPU"),
        (["--paths", "deferred", "compiled"], "'compiled' needs a GPU"),
    ],
)
def test_a_mistake_is_one_line(
    settings: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ONE[:3], *settings]) == 2
    assert said in capsys.readouterr().err
