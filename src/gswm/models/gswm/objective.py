"""The objective (§3.4.2): the evidence lower bound, and a charge for presence.

    -ELBO = -log N(x; μ, σ²) + KL(z_ctx) + KL(z̃) + KL(z̄)

    KL(z̃) = Σ_k pres_k KL(q(z̃_k) ‖ p(z̃_k))
    KL(z̄) = Σ_ij KL(z̄_pres) + KL(z̄_state) + z̄_pres · KL(z̄_depth, z̄_hw, z̄_xy, z̄_what)
    auxiliary = Σ_k pres_k KL(q(z̃_pres_k) ‖ Bernoulli(small))

Sums run over pixels, objects and frames. A propagated slot counts by the presence it had one
frame before: one that never held an object costs nothing, however many there are.
"""

from jaxtyping import Bool
from torch import Tensor

from gswm.core.distributions import Gaussian
from gswm.models.elbo import PerVideo, per_video
from gswm.models.gswm.discovery import DiscoveryConfig, DiscoveryEvidence
from gswm.models.gswm.propagation import PropagationEvidence


def propagation_terms(
    evidence: PropagationEvidence, p: Gaussian, aux_prior: float | None
) -> dict[str, PerVideo]:
    """KL(z̃), and the auxiliary loss of presence unless it is off."""
    terms = {"kl_state": per_video(evidence.weight * evidence.q.kl(p))}
    if aux_prior is not None:
        terms["aux_pres"] = per_video(evidence.weight * evidence.pres.kl(aux_prior))
    return terms


def discovery_terms(
    evidence: DiscoveryEvidence,
    keep: Bool[Tensor, "batch time"],
    p_att: Gaussian,
    cfg: DiscoveryConfig,
) -> dict[str, PerVideo]:
    """KL(z̄), of the frames in which there is discovery."""
    looked = keep[:, :, None, None]
    standard = Gaussian(evidence.q_state.mean.new_zeros(()), evidence.q_state.mean.new_ones(()))
    return {
        "kl_disc_pres": per_video(looked * evidence.pres.kl(cfg.pres_prior)),
        "kl_disc_att": per_video(evidence.weight * evidence.q_att.kl(p_att)),
        "kl_disc_state": per_video(looked * evidence.q_state.kl(standard)),
    }
