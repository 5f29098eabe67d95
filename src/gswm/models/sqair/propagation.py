"""Propagation: the objects of frame t-1, at frame t, one after another.

The posterior of object k depends on the latents of the objects before it in this frame (z' of the
last present one), and sees the frame twice: near the object's last box, and in its new one.

    s' = Encoder(mask ⊙ ST(x, where + 0.1 MLP_near(h)))        mask = σ(MLP_mask(h))
    r = RNN([s', z', z, h], r of the object before)
    where ~ N(where + MLP_where(r))        m, σ = Encoder(mask ⊙ ST(x, new where))
    h ← GRU([r, where, m, σ], h)
    what ~ N(f ⊙ what + (1 - i) ⊙ m + (1 - t) ⊙ m_h, (1 - i) ⊙ σ + (1 - t) ⊙ σ_h)
    pres ← pres · Bernoulli(MLP_pres([h, what, where]))

    m_h, σ_h = Linear(h)        f, i, t = σ(Linear(h))

With training wheels, presence does not change, in posterior and prior.

The prior does not see the frame, and treats objects independently:

    h ← GRU([what, where], h)
    where ~ N(where + Δ, σ)    what ~ N(what + Δ, σ)    pres ← pres · Bernoulli(exp(-upkeep) ρ)
    where both Δ, σ and ρ are of Linear(h)
"""

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian, steered
from gswm.core.networks import MLP
from gswm.core.shapes import Points
from gswm.models.objects import Attributes, GRUObjects, ObjectNoise
from gswm.models.sqair.networks import GlimpseEncoder, Mask
from gswm.models.sqair.objects import (
    WHERE,
    SqairSizes,
    assembled,
    box,
    choose,
    log_probability,
    spread,
    thinned,
    where_of,
)
from gswm.models.sqair.sight import Ratios, SqairSight, paid, stacked

NEARBY = 0.1
"""Factor on the distance between the first glimpse and the last box."""
WHERE_OFFSET = -3.0
"""Added to the standard deviation of where before its softplus, in posterior and prior."""
WHAT_OFFSET = -1.0
"""The same for the prior of what."""
STAYS = 3.0
"""Initial logit of presence in posterior and prior. Objects sometimes leave, from which presence
learns when they should.
"""
LARGEST_GATE = 0.9999
FIRST_SCALE = 0.1
"""Factor on the initial weights of last layers, so that objects initially stay in place."""

Hidden = Float[Tensor, "batch object hidden"]


class PropagationPrior(nn.Module):
    """p(z_t | z_<t) of each object."""

    def __init__(self, sizes: SqairSizes) -> None:
        super().__init__()
        self.rnn = nn.GRUCell(sizes.what + WHERE, sizes.hidden)
        self.readout = nn.Linear(sizes.hidden, 2 * WHERE + 2 * sizes.what + 1)
        still(self.readout, STAYS)

    def forward(self, was: Attributes, h: Hidden) -> tuple[Gaussian, Gaussian, Bernoulli, Hidden]:
        """The distributions of where, what and presence, and the next h."""
        where = where_of(was)
        x = torch.cat([was.what, where], dim=-1)
        h = self.rnn(x.flatten(0, 1), h.flatten(0, 1)).unflatten(0, h.shape[:2])
        params = self.readout(h).float()
        of_where, of_what, logit = params.split([2 * WHERE, 2 * was.what.shape[-1], 1], dim=-1)
        p_where = from_here(where, spread(of_where, WHERE_OFFSET))
        p_what = from_here(was.what, spread(of_what, WHAT_OFFSET))
        return p_where, p_what, Bernoulli(logit), h


class Propagation(nn.Module):
    """Posterior and prior of known objects."""

    def __init__(self, sizes: SqairSizes) -> None:
        super().__init__()
        hidden, what, pixels = sizes.hidden, sizes.what, sizes.glimpse**2
        self.prior = PropagationPrior(sizes)
        self.mlp_near = MLP(hidden, [sizes.head], WHERE)
        self.mlp_mask = MLP(hidden, [sizes.head], pixels)
        self.rnn = nn.RNNCell(3 * what + 2 * WHERE + 1 + hidden, hidden)
        self.mlp_where = MLP(hidden, [hidden], 2 * WHERE)
        self.gru = nn.GRUCell(hidden + WHERE + 2 * what, hidden)
        self.temporal = nn.Linear(hidden, 2 * what)
        self.gates = nn.Linear(hidden, 3 * what)
        self.mlp_pres = MLP(hidden + what + WHERE, [sizes.head], 1)
        self.r_0 = nn.Parameter(0.1 * torch.randn(hidden))
        self.h_prior_0 = nn.Parameter(0.1 * torch.randn(hidden))
        self.h_post_0 = nn.Parameter(0.1 * torch.randn(hidden))
        still(cast(nn.Linear, self.mlp_where[-1]))
        still(cast(nn.Linear, self.mlp_pres[-1]), STAYS)
        with torch.no_grad():
            self.gates.bias.fill_(1)
            cast(nn.Linear, self.mlp_mask[-1]).bias.fill_(1)

    def start(self) -> tuple[Tensor, Tensor]:
        """The h of prior and posterior, for new objects."""
        return self.h_prior_0, self.h_post_0

    def infer(
        self, prev: GRUObjects, sight: SqairSight, noise: ObjectNoise, encode: GlimpseEncoder
    ) -> tuple[GRUObjects, Ratios]:
        """q(z_t | x_t, z_<t)."""
        was, h_post = prev.o, prev.h_post
        before, slots = where_of(was), was.pres.shape[1]
        (xy, hw), mask = self.near(was, h_post)
        s_near = encode(sight.frame, xy, hw, mask)[..., : was.what.shape[-1]]
        own = torch.cat([s_near, was.what, before, h_post], dim=-1)
        r = self.r_0.expand(len(own), -1)
        last = torch.zeros_like(torch.cat([was.what, before, was.pres], dim=-1)[:, 0])
        drawn, q_wheres, q_whats = [], [], []
        for k in range(slots):
            there = was.pres[:, k]
            told = self.rnn(torch.cat([own[:, k], last], dim=-1), r)
            q_where = from_here(before[:, k], spread(self.mlp_where(told), WHERE_OFFSET))
            where = q_where.draw(noise.where[:, k])
            at = box(where[:, None])
            seen = spread(encode(sight.frame, *at, mask[:, k : k + 1])[:, 0])
            h = self.gru(torch.cat([told, where, seen.mean, seen.std], dim=-1), h_post[:, k])
            q_what = self.what(was.what[:, k], seen, h)
            what = q_what.draw(noise.what[:, k])
            logit = self.mlp_pres(torch.cat([h, what, where], dim=-1)).float()
            q_pres = steered(Bernoulli(logit), sight.learns)
            choice = torch.where(sight.learns > 0, choose(q_pres, noise.pres[:, k]), 1.0)
            pres = there * choice
            r = torch.where(there > 0, told, r)
            last = torch.where(pres > 0, torch.cat([what, where, pres], dim=-1), last)
            drawn.append((pres, where, what, h, choice, q_pres.logit))
            q_wheres.append(q_where)
            q_whats.append(q_what)
        every = (torch.stack(each, dim=1) for each in zip(*drawn, strict=True))
        pres, where, what, h, choice, logit = every
        p_where, p_what, p_pres, h_prior = self.prior(was, prev.h_prior)
        asked = was.pres * sight.learns[:, None]
        log_q = asked * log_probability(Bernoulli(logit), choice)
        p_pres = thinned(p_pres, sight.upkeep[:, None])
        log_p = asked * log_probability(p_pres, choice)
        ratios = Ratios(
            paid(stacked(q_wheres), p_where, where, pres),
            paid(stacked(q_whats), p_what, what, pres),
            (log_q - log_p).sum(dim=(1, 2)),
            log_q.sum(dim=(1, 2)),
        )
        o = assembled(pres, where, what)
        return replace(prev, o=o, h_prior=h_prior, h_post=h), ratios

    def imagine(self, prev: GRUObjects, noise: ObjectNoise) -> GRUObjects:
        """p(z_t | z_<t): objects move without evidence, and none leaves."""
        p_where, p_what, _, h_prior = self.prior(prev.o, prev.h_prior)
        o = assembled(prev.o.pres, p_where.draw(noise.where), p_what.draw(noise.what))
        return replace(prev, o=o, h_prior=h_prior)

    def near(self, was: Attributes, h: Hidden) -> tuple[tuple[Points, Points], Mask]:
        """The box of the first glimpse, and the mask of both."""
        around = box(where_of(was) + NEARBY * self.mlp_near(h).float())
        return around, self.mlp_mask(h).float().sigmoid()

    def what(
        self,
        was: Float[Tensor, "batch what"],
        seen: Gaussian,
        h: Float[Tensor, "batch hidden"],
    ) -> Gaussian:
        """Combine the previous what with the seen and the expected one."""
        expected = spread(self.temporal(h))
        keep, old, tired = (LARGEST_GATE * self.gates(h).float().sigmoid()).chunk(3, dim=-1)
        mean = keep * was + (1 - old) * seen.mean + (1 - tired) * expected.mean
        return Gaussian(mean, (1 - old) * seen.std + (1 - tired) * expected.std)


def from_here(was: Tensor, change: Gaussian) -> Gaussian:
    """The distribution of a value after a change."""
    return Gaussian(was + change.mean, change.std)


@torch.no_grad()
def still(last: nn.Linear, logit: float = 0.0) -> None:
    """Initialize a network to small changes; `logit` is the initial value of its last output."""
    last.weight.mul_(FIRST_SCALE)
    last.bias.zero_()
    last.bias[-1] = logit
