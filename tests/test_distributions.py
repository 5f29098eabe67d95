"""Closed forms compared with torch.distributions, or Python floats where those are inexact."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator
from torch.distributions import Normal, RelaxedBernoulli, kl_divergence

from gswm.core.distributions import Bernoulli, Gaussian, logistic_noise, normal_noise

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_gaussian_kl_is_torchs(seed: int) -> None:
    g = generator(seed)
    q, p = (Gaussian.of(2 * torch.randn(3, 8, generator=g)) for _ in range(2))
    want = kl_divergence(Normal(q.mean, q.std), Normal(p.mean, p.std))
    torch.testing.assert_close(q.kl(p), want, rtol=1e-4, atol=1e-4)
    assert q.kl(p).min() >= -1e-6
    torch.testing.assert_close(q.kl(q), torch.zeros(3, 4))


def test_a_gaussian_comes_from_a_mean_and_a_std_before_its_softplus() -> None:
    params = torch.tensor([[1.0, -2.0, 0.5, -30.0]])
    got = Gaussian.of(params)
    assert got.mean.tolist() == [[1.0, -2.0]]
    torch.testing.assert_close(got.std, F.softplus(params[:, 2:]) + 1e-4)
    assert got.std.min() >= 1e-4


@given(st.floats(-30, 30), st.sampled_from([1e-10, 1e-4, 0.3, 0.5, 0.99]))
def test_bernoulli_kl_is_exact(logit: float, p: float) -> None:
    """Even at 1e-10, where torch.distributions gives 7.28 for 10.82."""
    rho, other = 1 / (1 + math.exp(-logit)), 1 / (1 + math.exp(logit))
    want = rho * math.log(rho / p) + other * math.log(other / (1 - p))
    got = float(Bernoulli(torch.tensor([logit])).kl(p))
    assert got == pytest.approx(want, rel=1e-4, abs=1e-5)
    assert got >= -1e-5


@given(st.floats(0.01, 0.99))
def test_bernoulli_kl_is_zero_at_the_prior(p: float) -> None:
    got = Bernoulli(torch.tensor([p], dtype=torch.float64).logit()).kl(p)
    assert abs(float(got)) < 1e-12


def test_bernoulli_kl_has_a_gradient_at_the_extremes() -> None:
    logit = torch.tensor([-80.0, -20.0, 20.0, 80.0], requires_grad=True)
    Bernoulli(logit).kl(1e-10).sum().backward()
    assert logit.grad is not None
    assert torch.isfinite(logit.grad).all()


def test_a_relaxed_bernoulli_has_torchs_law() -> None:
    rho, tau = torch.full((200_000,), 0.3), 0.5
    ours = Bernoulli(rho.logit()).draw(logistic_noise((200_000,), generator()), tau)
    torch.manual_seed(0)
    theirs = RelaxedBernoulli(torch.tensor(tau), rho).sample()
    for power in (1, 2, 3):
        assert float(ours.pow(power).mean()) == pytest.approx(
            float(theirs.pow(power).mean()), abs=4e-3
        )


def test_zero_noise_gives_the_mean_and_the_probability() -> None:
    q, b = Gaussian.of(torch.randn(3, 8)), Bernoulli(torch.randn(3, 1))
    assert torch.equal(q.draw(torch.zeros(3, 4)), q.mean)
    assert torch.equal(b.draw(torch.zeros(3, 1)), b.rho)


def test_noise_has_its_law_and_is_the_generators() -> None:
    normal, logistic = (draw((100_000,), generator(3)) for draw in (normal_noise, logistic_noise))
    assert abs(float(normal.mean())) < 0.01
    assert float(normal.std()) == pytest.approx(1, abs=0.01)
    assert abs(float(logistic.mean())) < 0.02
    assert float(logistic.std()) == pytest.approx(math.pi / math.sqrt(3), abs=0.02)
    assert torch.equal(normal, normal_noise((100_000,), generator(3)))
    assert not torch.equal(normal, normal_noise((100_000,), generator(4)))


def test_gradients_pass_through_a_draw() -> None:
    params = torch.randn(2, 6, requires_grad=True)
    logit = torch.randn(2, 1, requires_grad=True)
    drawn = (
        Gaussian.of(params).draw(torch.ones(2, 3)).sum()
        + Bernoulli(logit).draw(torch.ones(2, 1)).sum()
    )
    drawn.backward()
    assert params.grad is not None
    assert (params.grad != 0).all()
    assert logit.grad is not None
    assert (logit.grad != 0).all()
