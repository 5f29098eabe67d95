"""The two distributions of the paper, and their divergences (B.1, B.2).

The caller passes in the noise of each sample; zero noise gives the mean. A training step is
therefore a pure function of its inputs, all code paths agree given the same noise, and nothing here
breaks a compiled graph.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gswm.core.records import Record, map_tensors

Values = Float[Tensor, "*shape"]

SMALLEST_STD = 1e-4
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Gaussian:
    """N(mean, std²), with independent elements."""

    mean: Values
    std: Values

    @staticmethod
    def of(params: Float[Tensor, "*batch params"]) -> "Gaussian":
        """From the output of a network: the mean, then the std before its softplus (B.2)."""
        mean, std = params.float().chunk(2, dim=-1)
        return Gaussian(mean, F.softplus(std) + SMALLEST_STD)

    def draw(self, noise: Values) -> Values:
        """A reparametrized sample, from standard normal noise."""
        return self.mean + self.std * noise

    def kl(self, p: "Gaussian") -> Values:
        """KL(self ‖ p)."""
        ratio = self.std / p.std
        shift = (self.mean - p.mean) / p.std
        return 0.5 * (ratio**2 + shift**2 - 1) - ratio.log()

    def log_density(self, at: Values) -> Values:
        """The logarithm of the density."""
        return -0.5 * ((at - self.mean) / self.std) ** 2 - self.std.log() - HALF_LOG_2_PI

    def times(self, other: "Gaussian") -> "Gaussian":
        """The normalized product of the two densities."""
        ours, theirs = self.std.square(), other.std.square()
        mean = (theirs * self.mean + ours * other.mean) / (ours + theirs)
        return Gaussian(mean, self.std * other.std / (ours + theirs).sqrt())

    def part(self, which: slice) -> "Gaussian":
        """The marginal of some elements of the last axis."""
        return Gaussian(self.mean[..., which], self.std[..., which])

    @staticmethod
    def joined(parts: "Sequence[Gaussian]") -> "Gaussian":
        """Concatenate along the last axis."""
        means, stds = [part.mean for part in parts], [part.std for part in parts]
        return Gaussian(torch.cat(means, dim=-1), torch.cat(stds, dim=-1))


@dataclass(frozen=True)
class Bernoulli:
    """1 with probability ρ = σ(logit), relaxed to (0, 1) when sampled."""

    logit: Values

    @property
    def rho(self) -> Values:
        """The probability of a one."""
        return self.logit.sigmoid()

    def draw(self, noise: Values, tau: float | Tensor = 1.0) -> Values:
        """A relaxed sample at temperature tau, from logistic noise."""
        return ((self.logit + noise) / tau).sigmoid()

    def kl(self, p: "float | Bernoulli") -> Values:
        """KL(self ‖ Bernoulli(p)) of the unrelaxed distributions, accurate for p down to 1e-10."""
        if isinstance(p, Bernoulli):
            log_one, log_zero = F.logsigmoid(p.logit), F.logsigmoid(-p.logit)
        else:
            log_one, log_zero = math.log(p), math.log1p(-p)
        one, zero = F.logsigmoid(self.logit) - log_one, F.logsigmoid(-self.logit) - log_zero
        return self.rho * one + (1 - self.rho) * zero


def normal_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Noise for a Gaussian."""
    return torch.randn(shape, generator=generator, device=generator.device)


def logistic_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Noise for a relaxed Bernoulli."""
    uniform = torch.rand(shape, generator=generator, device=generator.device)
    return uniform.clamp(1e-6, 1 - 1e-6).logit()


def steered(distribution: Record, learns: Tensor) -> Record:
    """The same distribution; gradients flow into it only where `learns` is 1."""
    return map_tensors(lambda x: x.detach() + learns * (x - x.detach()), distribution)
