"""The likelihood: each pixel is a mixture of the K slots' colors.

    m_k = softmax_k(l_k)    p_k = N(x; μ_k, σ²)    log p(x) = Σ_pixels log Σ_k m_k p_k

Everything is computed in log space. Refinement uses these gradients of -log p(x):

    ∂/∂m_k = -p_k / Σ_j m_j p_j        ∂/∂μ_k = -r_k (x - μ_k) / σ²,    r_k = m_k p_k / Σ_j m_j p_j
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import Gaussian
from gswm.core.shapes import Frame
from gswm.models.elbo import per_video
from gswm.models.op3.decoder import SlotPictures

PerPixel = Float[Tensor, "batch object 1 height width"]
STEEPEST = 20.0
"""Largest logarithm of a gradient with respect to a mask."""
Colors = Float[Tensor, "batch object 3 height width"]


@dataclass(frozen=True)
class Mixture:
    """A frame under K slots."""

    error: Colors
    """x - μ_k."""
    std: float
    log_m: PerPixel
    log_p: PerPixel
    log_mix: Float[Tensor, "batch 1 1 height width"]
    """log Σ_k m_k p_k."""

    @staticmethod
    def of(x: Frame, picture: SlotPictures, std: float) -> "Mixture":
        """The likelihood of each pixel under each slot."""
        error = x[:, None] - picture.mu
        noise = Gaussian(torch.zeros_like(error), torch.full_like(error, std))
        log_p = noise.log_density(error).sum(dim=2, keepdim=True)
        log_m = picture.logit.log_softmax(dim=1)
        return Mixture(
            error, std, log_m, log_p, torch.logsumexp(log_m + log_p, dim=1, keepdim=True)
        )

    def nll(self) -> Float[Tensor, " batch"]:
        """-log p(x)."""
        return -per_video(self.log_mix)

    def apart(self) -> PerPixel:
        """p_k / Σ_j p_j: the owner of each pixel by its color alone."""
        return self.log_p.softmax(dim=1)

    def mixed(self) -> PerPixel:
        """Σ_j m_j p_j, repeated for each slot."""
        return self.log_mix.exp().expand_as(self.log_p)

    def others(self) -> PerPixel:
        """Σ_{j≠k} m_j p_j."""
        return self.mixed() - (self.log_m + self.log_p).exp()

    def by_mask(self) -> PerPixel:
        """∂/∂m_k of -log p(x), clipped, since it can reach 1 / m_k."""
        return -(self.log_p - self.log_mix).clamp_max(STEEPEST).exp()

    def by_color(self) -> Colors:
        """∂/∂μ_k of -log p(x)."""
        return -(self.log_m + self.log_p - self.log_mix).exp() * self.error / self.std**2


def drawn(picture: SlotPictures) -> Frame:
    """Σ_k m_k μ_k."""
    return (picture.logit.softmax(dim=1) * picture.mu).sum(dim=1)
