"""Slots: the latents of K entities, which all share the same networks.

    z = (d, s)        d deterministic, s ~ q(s) = N(λ_1, softplus(λ_2) + 1e-5)

Softplus gives the variance. λ is refined on each frame. The prior of s is a standard normal in the
first frame; in later frames it is the prediction of the dynamics, from which refinement starts.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import Gaussian
from gswm.models.objects import LSTMState

Params = Float[Tensor, "batch object params"]
Latents = Float[Tensor, "batch object state"]
LEAST_VARIANCE = 1e-5
UNIT = math.log(math.e - 1)
"""λ_2 for a variance of about 1."""


@dataclass(frozen=True)
class Slots:
    """The state of K slots that is carried from one inference step to the next."""

    d: Latents
    lam: Params
    """λ, the parameters of q(s)."""
    prior: Params
    """The parameters of p(s)."""
    eps: Latents
    """The noise of the sample s; 0 for the mean."""
    memory: LSTMState
    """State of the refinement network."""

    @property
    def s(self) -> Latents:
        """A sample of q(s)."""
        return as_gaussian(self.lam).draw(self.eps)

    @property
    def z(self) -> Float[Tensor, "batch object z"]:
        """The decoder's input."""
        return torch.cat([self.d, self.s], dim=-1)

    def kl(self) -> Float[Tensor, " batch"]:
        """KL(q(s) ‖ p(s)), summed over slots."""
        return as_gaussian(self.lam).kl(as_gaussian(self.prior)).sum(dim=(1, 2))


def as_gaussian(lam: Params) -> Gaussian:
    """The distribution with these parameters."""
    mean, raw = lam.float().chunk(2, dim=-1)
    return Gaussian(mean, (F.softplus(raw) + LEAST_VARIANCE).sqrt())
