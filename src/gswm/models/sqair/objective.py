"""The objective: -L / T of the bound L, and its terms.

    log w = Σ_t log N(x_t; μ_t, σ²) - Σ_t [log q - log p](where, what, pres)

Each part of -log w is weighted by the normalized weight w̃ of its sample, so the terms add up to
-L / T, and their gradients to its gradient; see `bound`. `samples` is log P - H(w̃): 0 if all
samples have the same weight, log P if one has all of it. It has no gradient. `vimco` has the value
0 and the gradient of the choices.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.shapes import Video
from gswm.models.elbo import PerVideo, likelihood_terms
from gswm.models.sqair.bound import Weights, score, shares
from gswm.models.sqair.sight import Ratios


def costs(
    x: Video, mu: Video, std: Float[Tensor, ""], known: Ratios, found: Ratios
) -> tuple[dict[str, PerVideo], PerVideo]:
    """The terms of -log w of each sample, and log q of all its presences."""
    spent = likelihood_terms(x, mu, std)
    for name in ("where", "what", "pres"):
        spent[f"kl_{name}"] = (getattr(known, name) + getattr(found, name)).sum(dim=1)
    return spent, (known.log_q + found.log_q).sum(dim=1)


def terms_of(spent: dict[str, Weights], log_q: Weights, frames: int) -> dict[str, PerVideo]:
    """The terms of the loss, by video."""
    log_w = -torch.stack(list(spent.values())).sum(dim=0)
    share, samples = shares(log_w)
    terms = {name: (share * cost).sum(dim=1) for name, cost in spent.items()}
    terms |= {"samples": samples, "vimco": -score(log_w, log_q)}
    return {name: term / frames for name, term in terms.items()}
