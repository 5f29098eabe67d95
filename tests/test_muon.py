"""Muon compared with a singular value decomposition, and with a reference in float64."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter
from training import small, train_here

from gswm.core.errors import UserError
from gswm.train import checkpoint as checkpoints
from gswm.train.muon import COEFFICIENTS, ITERATIONS, Muon, is_matrix, orthogonalized

PARTS = ("posterior", "drawing")
sides = st.integers(1, 70)


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(rows=sides, columns=sides, seed=st.integers(0, 99))
def test_singular_vectors_stay_and_values_approach_1(rows: int, columns: int, seed: int) -> None:
    matrix = some(rows, columns, seed=seed).double()
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    (found,) = orthogonalized([matrix])
    inner = u.mT @ found @ v.mT
    values = inner.diagonal()
    large = s > 0.05 * s.max()
    assert ((values[large] > 0.5) & (values[large] < 1.3)).all()
    assert (inner - values.diag()).abs().max() < 1e-6


@given(shapes=st.lists(st.tuples(sides, sides), min_size=1, max_size=6))
def test_a_matrix_does_not_depend_on_its_company_or_its_side(shapes: list[tuple[int, int]]) -> None:
    matrices = [some(*shape, seed=i).double() for i, shape in enumerate(shapes)]
    together = orthogonalized(matrices)
    for matrix, found in zip(matrices, together, strict=True):
        assert found.shape == matrix.shape
        torch.testing.assert_close(orthogonalized([matrix])[0], found)
        torch.testing.assert_close(orthogonalized([matrix.mT])[0], found.mT)


def naive(grads: list[Tensor], lr: float, decay: float) -> Tensor:
    """The sum of all steps, for a matrix of any shape."""
    a, b, c = COEFFICIENTS
    total, momentum = torch.zeros_like(grads[0]).double(), torch.zeros_like(grads[0]).double()
    for grad in grads:
        momentum = decay * momentum + (1 - decay) * grad
        x = (1 - decay) * grad + decay * momentum
        x = x / x.norm()
        for _ in range(ITERATIONS):
            x = a * x + b * x @ x.mT @ x + c * x @ x.mT @ x @ x.mT @ x
        total -= lr * max(1, x.shape[0] / x.shape[1]) ** 0.5 * x
    return total


@pytest.mark.parametrize("shape", [(16, 16), (40, 20), (20, 33), (17, 2, 3, 3)])
def test_steps_are_those_of_the_definition(shape: tuple[int, ...]) -> None:
    param, lr = Parameter(torch.zeros(shape)), torch.tensor(0.1)
    muon = Muon([param], lr, momentum=0.9)
    grads = [some(*shape, seed=seed) for seed in range(3)]
    for grad in grads:
        param.grad = grad.clone()
        muon.step()
    want = naive([grad.flatten(1).double() for grad in grads], 0.1, 0.9)
    torch.testing.assert_close(param.detach().flatten(1), want.float(), rtol=1e-3, atol=1e-4)


def test_a_matrix_without_a_gradient_stays() -> None:
    still, moves = Parameter(torch.ones(16, 16)), Parameter(torch.ones(16, 16))
    muon = Muon([still, moves], torch.tensor(0.1))
    moves.grad = some(16, 16)
    muon.step()
    assert torch.equal(still, torch.ones(16, 16))
    assert not torch.equal(moves, torch.ones(16, 16))
    assert still not in muon.state


@pytest.mark.usefixtures("small_trunk")
def test_matrices_of_the_named_parts_are_muons_and_all_other_weights_adams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gswm.train.muon.SMALLEST_SIDE", 4)
    run = train_here(small(3, muon=PARTS), tmp_path)
    named = set(checkpoints.load(tmp_path / "checkpoints" / "00000003").tensors)
    model = run.trainee.model
    ours = {p for part in PARTS for m in model.parts()[part] for p in m.parameters()}
    trained = {n: p for n, p in model.named_parameters() if p.grad is not None}
    assert any(param in ours and is_matrix(param) for param in trained.values())
    assert any(param not in ours and is_matrix(param) for param in trained.values())
    for name, param in trained.items():
        by_muon = f"muon.momentum.{name}" in named
        assert by_muon == (param in ours and is_matrix(param))
        assert by_muon != (f"adam.exp_avg.{name}" in named)


def test_a_part_that_the_model_does_not_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--train.muon names no part 'eyes'; there are: discovery"):
        train_here(small(3, muon=("eyes",)), tmp_path)


@pytest.mark.usefixtures("small_trunk")
def test_a_resumed_run_ends_at_the_same_weights(tmp_path: Path) -> None:
    whole = train_here(small(6, muon=PARTS), tmp_path / "whole")
    train_here(small(6, muon=PARTS), tmp_path / "parts", max_minutes=0.0)
    parts = train_here(small(6, muon=PARTS), tmp_path / "parts")
    pairs = zip(whole.trainee.params, parts.trainee.params, strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
