"""The objective, a sum over the frames of a video.

    -log p(x | z) + KL_disc + KL_fixed + KL_prop + KL_count

    KL_disc = Σ_c pres_c KL(z_c ‖ fixed prior)
    KL_fixed = Σ_k pres_k KL(change of z_k ‖ fixed prior)
    KL_prop = Σ_k pres_k KL(z_k ‖ learned prior) + was_k KL(d_pres_k ‖ learned prior)
    KL_count = Σ_k was_k KL(d_pres_k ‖ count prior) + Σ_c KL(pres_c ‖ count prior)

A propagated object thus has two KL terms, and the objective is not a bound of the evidence. Colors
are probabilities of Bernoulli distributions. was_k is the presence one frame before, without a
gradient: empty slots cost nothing.

The count prior is SPAIR's. Of N = K + cells binary variables, first those of propagated objects,

    P(count = c) ∝ p^c, c = 0, ..., N    and all subsets of one size are equally likely

so a given outcome of the first i variables with k ones has a probability proportional to

    S[i, k] = Σ_c p^c binom(N - i, c - k) / binom(N, c)

and variable i is 1 with the odds S[i + 1, k + 1] / S[i + 1, k]. A presence above 0.5 counts as 1.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.shapes import Video
from gswm.models.config import check_positive
from gswm.models.elbo import PerVideo, per_video
from gswm.models.silot.discovery import DiscoveryEvidence
from gswm.models.silot.propagation import PropagationEvidence

EPS = 1e-6
"""Smallest probability of a color."""
MOST = 256
"""Largest number of variables of the count prior, whose table takes 8 N³ bytes (here 136 MB)."""


@dataclass(frozen=True)
class FixedPriors:
    """Gaussians with fixed parameters. Default of means: 0."""

    hw_mean: float = -2.2
    """Mean of z_hw, the logit of height and width in anchors, in discovery and propagation."""
    hw_std: float = 0.5
    shift_std: float = 0.3
    what_std: float = 0.4
    """Standard deviation of the change of what per frame; in discovery it is 1, as for z_xy."""
    depth_std: float = 1.0
    """Standard deviation of depth in discovery, and of its change."""

    def check(self) -> None:
        """Raise a UserError for a standard deviation of 0."""
        check_positive(self, "--model.priors", "hw_std", "shift_std", "what_std", "depth_std")

    def discovered(self, num_what: int, like: Tensor) -> Gaussian:
        """The prior of z_xy, z_hw, what and depth."""
        return self.of(1.0, 1.0, num_what, like)

    def changed(self, num_what: int, like: Tensor) -> Gaussian:
        """The prior of shift, z_hw, and the changes of what and depth."""
        return self.of(self.shift_std, self.what_std, num_what, like)

    def of(self, xy_std: float, what_std: float, num_what: int, like: Tensor) -> Gaussian:
        """The joint prior of all four parts."""
        numbers = (2, 2, num_what, 1)
        means = (0.0, self.hw_mean, 0.0, 0.0)
        stds = (xy_std, self.hw_std, what_std, self.depth_std)
        parts = [
            Gaussian(like.new_full((n,), mean), like.new_full((n,), std))
            for n, mean, std in zip(numbers, means, stds, strict=True)
        ]
        return Gaussian.joined(parts)


class CountPrior(nn.Module):
    """SPAIR's prior over N binary variables."""

    def __init__(self, num: int) -> None:
        super().__init__()
        self.num = num
        self.log_share: Tensor
        i, k, c = torch.meshgrid(*[torch.arange(num + 1)] * 3, indexing="ij")
        possible = (k <= c) & (c - k <= num - i)
        share = log_binomial(num - i, (c - k).clamp(min=0)) - log_binomial(torch.tensor(num), c)
        share = torch.where(possible, share, -torch.inf)
        self.register_buffer("log_share", share, persistent=False)

    @torch.no_grad()
    def forward(self, ones: Bool[Tensor, "*batch variable"], log_p: Float[Tensor, ""]) -> Bernoulli:
        """The distribution of each variable, given the previous ones."""
        count = torch.arange(self.num + 1, device=ones.device)
        s = (self.log_share + count * log_p.double()).logsumexp(dim=-1)
        logit = s[1:, 1:] - s[1:, :-1]
        before = ones.long().cumsum(dim=-1) - ones.long()
        return Bernoulli(logit[count[:-1], before].float())


def log_binomial(n: Tensor, k: Tensor) -> Tensor:
    """The logarithm of the binomial coefficient, in double precision."""
    n, k = n.double(), k.double()
    return (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()


def color_terms(x: Video, mu: Video) -> dict[str, PerVideo]:
    """-log p(x | z) of all pixels of a video, for colors from 0 to 1."""
    mu = EPS + (1 - 2 * EPS) * mu.clamp(0, 1)
    return {"nll": -per_video(x * mu.log() + (1 - x) * (1 - mu).log())}


def count_terms(
    known: PropagationEvidence,
    found: DiscoveryEvidence,
    prior: CountPrior,
    log_p: Float[Tensor, ""],
) -> dict[str, PerVideo]:
    """KL_count."""
    there = torch.cat([known.now.pres, found.there], dim=-2)[..., 0] > 0.5
    slots = known.now.pres.shape[-2]
    of_slots, of_cells = prior(there, log_p).logit[..., None].tensor_split([slots], dim=-2)
    paid = known.was.pres.detach() * known.pres.kl(Bernoulli(of_slots))
    new = found.looked * found.pres.kl(Bernoulli(of_cells))
    return {"kl_count": per_video(paid) + per_video(new)}


def fixed_terms(
    known: PropagationEvidence,
    found: DiscoveryEvidence,
    priors: FixedPriors,
) -> dict[str, PerVideo]:
    """KL_disc and KL_fixed."""
    what = known.was.what
    num, like = what.shape[-1], what.new_zeros(())
    nothing = torch.zeros_like(known.q.mean[..., :4])
    before = torch.cat([nothing, what, known.was.depth], dim=-1)
    change = Gaussian(known.q.mean - before, known.q.std)
    return {
        "kl_disc": per_video(found.there * found.q.kl(priors.discovered(num, like))),
        "kl_fixed": per_video(known.now.pres * change.kl(priors.changed(num, like))),
    }


def learned_terms(
    known: PropagationEvidence, p: Gaussian, p_pres: Bernoulli
) -> dict[str, PerVideo]:
    """KL_prop."""
    paid = known.was.pres.detach() * known.pres.kl(p_pres)
    return {
        "kl_prop": per_video(known.now.pres * known.q.kl(p)),
        "kl_prop_pres": per_video(paid),
    }
