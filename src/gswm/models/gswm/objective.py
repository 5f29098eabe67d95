"""The objective (§3.4.2): the evidence lower bound, and an auxiliary loss of presence.

    -ELBO = -log N(x; μ, σ²) + KL(z_ctx) + KL(z̃) + KL(z̄)

    KL(z̃) = Σ_k pres_k KL(q(z̃_k) ‖ p(z̃_k))
    KL(z̄) = Σ_ij KL(z̄_pres) + KL(z̄_state) + z̄_pres · KL(z̄_depth, z̄_hw, z̄_xy, z̄_what)
    auxiliary = Σ_k pres_k KL(q(z̃_pres_k) ‖ Bernoulli(small))

Two more terms are off by default. The slack of a box is its number of empty pixels, with h and w in
pixels. The motion loss compares objects with m, which marks pixels that differ from a static
background; boxes are never computed from m. `MISSED` weights the cells with a center.

    slack = Σ_k pres_k h_k w_k (1 - mean α_k)
    motion = Σ (α - m)²    motion_pres = -Σ_ij log q(z̄_pres = is a center of m in the cell)

Sums run over pixels, objects and frames. A propagated slot is weighted by its presence one frame
before, so slots that never held an object cost nothing.
"""

import math

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.shapes import Video
from gswm.models.elbo import PerVideo, per_video
from gswm.models.gswm.discovery import DiscoveryEvidence
from gswm.models.gswm.propagation import PropagationEvidence
from gswm.models.objects import Attributes

STEEPNESS = 6.0
"""Steepness of the soft threshold, in units of the threshold."""
LEAST_DENSE = 0.15
"""Fraction of the neighborhood of an object's center that must move."""
MISSED = 10.0
"""Cost of missing a moving object, relative to finding one where nothing moves."""


def propagation_terms(
    evidence: PropagationEvidence, p: Gaussian, aux_prior: Bernoulli | None
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
    p_pres: Bernoulli,
) -> dict[str, PerVideo]:
    """KL(z̄) of the frames with discovery."""
    looked = keep[:, :, None, None]
    standard = Gaussian(evidence.q_state.mean.new_zeros(()), evidence.q_state.mean.new_ones(()))
    return {
        "kl_disc_pres": per_video(looked * evidence.pres.kl(p_pres)),
        "kl_disc_att": per_video(evidence.weight * evidence.q_att.kl(p_att)),
        "kl_disc_state": per_video(looked * evidence.q_state.kl(standard)),
    }


def motion_pres(
    first_pres: Bernoulli, moves: Float[Tensor, "batch 1 height width"], object_size: float
) -> PerVideo:
    """The cost of presence in the first frame, given the moving pixels.

    Args:
        first_pres: presence in each cell of the first frame, where every object is new.
        moves: where that frame differs from the background, from 0 to 1.
        object_size: of a typical object, as a share of the frame.
    """
    grid = math.isqrt(first_pres.logit.shape[1])
    there = peaks(moves, object_size, grid)
    missed = there * -F.logsigmoid(first_pres.logit) * MISSED
    false = (1 - there) * -F.logsigmoid(-first_pres.logit)
    return per_video(missed + false)


def slack(o: Attributes, fill: Float[Tensor, "batch time object 1"], image_size: int) -> PerVideo:
    """Number of empty pixels in the boxes of present objects."""
    pixels = o.hw.prod(dim=-1, keepdim=True) * image_size**2
    return per_video(o.pres.detach() * pixels * (1 - fill))


def motion(video: Video, mu_bg: Video, threshold: float) -> Float[Tensor, "b t 1 h w"]:
    """A soft mask of pixels that differ from the background by more than a threshold."""
    differs = (video - mu_bg).abs().amax(dim=2, keepdim=True)
    return ((differs / threshold - 1) * STEEPNESS).sigmoid()


def peaks(
    moves: Float[Tensor, "batch 1 height width"], object_size: float, grid: int
) -> Float[Tensor, "batch cell 1"]:
    """1 for each cell that contains the center of something that moves."""
    size = moves.shape[-1]
    window = max(3, 2 * round(object_size * size / 2) + 1)
    dense = F.avg_pool2d(moves, window, 1, window // 2)
    dense = F.avg_pool2d(dense, window, 1, window // 2)  # twice, so that there is one maximum
    highest = (dense == F.max_pool2d(dense, window, 1, window // 2)) & (dense > LEAST_DENSE)
    return F.max_pool2d(highest.to(moves.dtype), size // grid).flatten(1)[..., None]
