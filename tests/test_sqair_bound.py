"""The importance-weighted bound and VIMCO, compared with sums over all outcomes."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator
from torch import Tensor

from gswm.models.sqair.bound import bound, controls, score, shares
from gswm.models.sqair.objective import terms_of

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(2, 6)


def weights(seed: int, samples: int, batch: int = 2, spread: float = 4.0) -> Tensor:
    return spread * torch.randn(batch, samples, generator=generator(seed), dtype=torch.float64)


@given(seeds, sizes)
def test_the_bound_and_its_controls_are_those_of_the_equations(seed: int, samples: int) -> None:
    log_w = weights(seed, samples, 1)
    w = [math.exp(x) for x in log_w[0].tolist()]
    assert float(bound(log_w)[0]) == pytest.approx(math.log(sum(w) / samples))
    for j in range(samples):
        others = [x for i, x in enumerate(w) if i != j]
        mean = math.prod(others) ** (1 / (samples - 1))
        want = math.log((sum(others) + mean) / samples)
        assert float(controls(log_w)[0, j]) == pytest.approx(want)


@given(seeds, sizes)
def test_a_control_does_not_depend_on_its_own_sample(seed: int, samples: int) -> None:
    log_w = weights(seed, samples)
    other = log_w.clone()
    other[:, 0] += 3
    changed = (controls(log_w) - controls(other)).abs()
    assert (changed[:, 0] < 1e-12).all()
    assert (changed[:, 1:] > 1e-6).all()


def test_weights_far_apart_neither_overflow_nor_vanish() -> None:
    log_w = torch.tensor([[-9e4, -8e4, 1e4]])
    assert bound(log_w).tolist() == pytest.approx([1e4 - math.log(3)])
    assert torch.isfinite(controls(log_w)).all()
    share, samples = shares(log_w)
    assert share.tolist() == [[0, 0, 1]]
    assert samples.tolist() == pytest.approx([math.log(3)])


@given(seeds, sizes)
def test_terms_add_up_to_the_bound_and_their_gradients_to_its_gradient(
    seed: int, samples: int
) -> None:
    spent = {name: weights(seed + i, samples).requires_grad_() for i, name in enumerate("ab")}
    log_q = weights(seed + 2, samples).requires_grad_()
    log_w = -(spent["a"] + spent["b"])
    terms = terms_of(spent, log_q, frames=4)
    got = torch.stack(list(terms.values())).sum(dim=0)
    signal = (bound(log_w)[:, None] - controls(log_w)).detach()
    want = -(bound(log_w) + (signal * log_q).sum(dim=1)) / 4
    torch.testing.assert_close(got, -bound(log_w) / 4)
    inputs = [*spent.values(), log_q]
    for ours, theirs in zip(
        torch.autograd.grad(got.sum(), inputs), torch.autograd.grad(want.sum(), inputs), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    assert terms["vimco"].tolist() == [0, 0]


# -- a small model: for a fixed noise ε, a number c = μ + ε and a choice d that depends on c


def drawn(params: Tensor, noise: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
    """Weights log w and log q of the choices, of samples that are given."""
    mean, a, b, prior = params
    c = mean + noise
    logit = a + b * c
    log_q = choice * logit - torch.nn.functional.softplus(logit)
    log_p = choice * prior - torch.nn.functional.softplus(prior)
    log_p = log_p - 0.5 * c**2 - 0.5 * (1.3 - choice * c - 0.4 * c) ** 2
    return log_p - log_q + 0.5 * noise**2, log_q


PARAMS = torch.tensor([0.3, -0.4, 0.8, 0.2], dtype=torch.float64)


@pytest.mark.parametrize("samples", [2, 3])
def test_vimco_has_the_gradient_of_the_expected_bound(samples: int) -> None:
    """Exactly: all choices are enumerated, for noises of every sample on a small grid."""
    params = PARAMS.clone().requires_grad_()
    choices = torch.tensor(list(product([0.0, 1.0], repeat=samples)), dtype=torch.float64)
    noises = torch.tensor(list(product([-0.9, 0.5], repeat=samples)), dtype=torch.float64)
    expected, estimated = torch.zeros(()), torch.zeros(4, dtype=torch.float64)
    for noise in noises:
        log_w, log_q = drawn(params, noise.expand_as(choices), choices)
        chance = log_q.sum(dim=1).exp()
        expected = expected + (chance * bound(log_w)).sum() / len(noises)
        for row, weight in zip(range(len(choices)), chance.tolist(), strict=True):
            one = slice(row, row + 1)
            surrogate = bound(log_w[one]) + score(log_w[one], log_q[one])
            (gradient,) = torch.autograd.grad(surrogate.sum(), params, retain_graph=True)
            estimated += weight * gradient / len(noises)
    (exact,) = torch.autograd.grad(expected, params)
    torch.testing.assert_close(estimated, exact, rtol=1e-10, atol=1e-12)
    assert exact.abs().min() > 1e-3


def test_controls_lower_the_variance() -> None:
    """The variance of the gradient of one choice, compared with that of L alone."""
    n, samples = 4_000, 5
    g = generator(1)
    noise = torch.randn(n, samples, generator=g, dtype=torch.float64)
    logit = PARAMS[1] + PARAMS[2] * (PARAMS[0] + noise)
    choice = (torch.rand(n, samples, generator=g, dtype=torch.float64) < logit.sigmoid()).double()
    log_w, _ = drawn(PARAMS, noise, choice)
    slope = choice - logit.sigmoid()  # of log q, by its logit
    plain = (bound(log_w)[:, None] * slope).sum(dim=1)
    vimco = ((bound(log_w)[:, None] - controls(log_w)) * slope).sum(dim=1)
    error = math.sqrt(float(plain.var() + vimco.var()) / n)
    assert float(plain.mean() - vimco.mean()) == pytest.approx(0, abs=4 * error)
    assert vimco.var() < 0.2 * plain.var()


def test_more_samples_make_the_bound_tighter() -> None:
    log_w = weights(0, 6, 20_000, spread=1.0)
    means = [float(bound(log_w[:, :p]).mean()) for p in (1, 2, 6)]
    assert means == sorted(means)
    assert means[-1] < math.log(math.exp(0.5)) + 0.02  # log p(x): the mean of w is exp(1/2)
