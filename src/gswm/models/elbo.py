"""Terms of the evidence lower bound that models share."""

import math

from jaxtyping import Float
from torch import Tensor

from gswm.core.shapes import Video
from gswm.models.layers import Contexts

PerVideo = Float[Tensor, " batch"]


def likelihood_terms(x: Video, mu: Video, std: Float[Tensor, ""]) -> dict[str, PerVideo]:
    """-log N(x; μ, σ²) of all pixels of a video."""
    constant = x[0].numel() * (std.log() + 0.5 * math.log(2 * math.pi))
    return {"nll": per_video((x - mu).square()) / (2 * std**2) + constant}


def context_terms(contexts: Contexts) -> dict[str, PerVideo]:
    """KL(z_ctx)."""
    return {"kl_context": per_video(contexts.q.kl(contexts.p))}


def per_video(values: Float[Tensor, " batch *rest"]) -> PerVideo:
    """Sum over all axes except the videos."""
    return values.flatten(1).sum(dim=1)
