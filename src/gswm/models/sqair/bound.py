"""The importance-weighted bound, and its gradient with discrete latents: VIMCO.

P samples z_1, ..., z_P of the posterior, each of all frames of a video, have the weights

    log w_j = log p(x, z_j) - log q(z_j | x)        L = log (1/P) Σ_j w_j,    E[L] ≤ log p(x)

A sample consists of noise ε_j (for reparametrized continuous latents) and of choices d_j
(presences), whose probability q(d_j | ε_j) depends on the parameters, also through the continuous
latents that were sampled before. So the gradient of E[L] is the mean of

    Σ_j w̃_j ∇ log w_j  +  Σ_j L ∇ log q(d_j | ε_j),        w̃_j = w_j / Σ_i w_i

The first sum is ∇L with the choices held fixed; ∇ is the total derivative everywhere, through the
reparametrized latents too. In the second one L may be replaced by L - b_j for any b_j that does not
depend on sample j, as ∇ log q has the mean 0. VIMCO (Mnih, Rezende; ICML 2016) uses the bound of
the other samples, with the geometric mean of their weights in place of w_j:

    b_j = log (1/P) (Σ_{i≠j} w_i + exp(1/(P - 1) Σ_{i≠j} log w_i))
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

Weights = Float[Tensor, "batch sample"]
"""The weight log w of each posterior sample of each video."""


def bound(log_w: Weights) -> Float[Tensor, " batch"]:
    """L of each video."""
    return log_w.logsumexp(dim=1) - math.log(log_w.shape[1])


def controls(log_w: Weights) -> Weights:
    """b_j: the bound expected without sample j."""
    samples = log_w.shape[1]
    others = (log_w.sum(dim=1, keepdim=True) - log_w) / (samples - 1)
    own = torch.eye(samples, dtype=torch.bool, device=log_w.device)
    # Row j has all weights, with the j-th replaced.
    replaced = torch.where(own, others[:, :, None], log_w[:, None])
    return replaced.logsumexp(dim=2) - math.log(samples)


def score(log_w: Weights, log_q: Weights) -> Float[Tensor, " batch"]:
    """A term of value 0 whose gradient is Σ_j (L - b_j) ∇ log q(d_j | ε_j)."""
    with torch.no_grad():
        signal = bound(log_w)[:, None] - controls(log_w)
    return (signal * (log_q - log_q.detach())).sum(dim=1)


def shares(log_w: Weights) -> tuple[Weights, Float[Tensor, " batch"]]:
    """w̃, and log P - H(w̃): the bound is Σ_j w̃_j log w_j minus the latter.

    Neither passes a gradient: ∇L is Σ_j w̃_j ∇ log w_j.
    """
    log_share = log_w.detach().log_softmax(dim=1)
    share = log_share.exp()
    return share, math.log(log_w.shape[1]) + (share * log_share).sum(dim=1)
