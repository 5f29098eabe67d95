"""The objective: the evidence lower bound, a mean over the frames of a video.

    -ELBO = 1/T Σ_t  -log N(x; μ, σ²) + KL(z_bg) + KL_prop + KL_disc

    KL_prop = Σ_k held_k KL(pres_k) + pres_k KL(b_k, depth_k, what_k)
    KL_disc = Σ_c KL(pres_c) + pres_c KL(where_c, depth_c, what_c)

The prior of a cell's presence is Bernoulli(ρ), where ρ decreases during training and is 1e-8 if the
cell was rejected. All other priors of discovery are N(0, 1).
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.models.elbo import PerVideo, per_video
from gswm.models.scalor.discovery import DiscoveryEvidence
from gswm.models.scalor.propagation import PropagationEvidence

REJECTED = 1e-8


def propagation_terms(
    evidence: PropagationEvidence, p: Gaussian, p_pres: Bernoulli
) -> dict[str, PerVideo]:
    """KL_prop, summed over time."""
    return {
        "kl_prop_pres": per_video(evidence.held * evidence.pres.kl(p_pres)),
        "kl_prop": per_video(evidence.weight * evidence.q.kl(p)),
    }


def discovery_terms(evidence: DiscoveryEvidence, rho: Float[Tensor, ""]) -> dict[str, PerVideo]:
    """KL_disc, summed over the frames with discovery."""
    small = math.log(REJECTED) - math.log1p(-REJECTED)
    p_pres = Bernoulli(torch.where(evidence.rejected, small, rho.logit()))
    standard = Gaussian(torch.zeros_like(rho), torch.ones_like(rho))
    return {
        "kl_disc_pres": per_video(evidence.looked * evidence.pres.kl(p_pres)),
        "kl_disc": per_video(evidence.weight * evidence.q.kl(standard)),
    }
