"""Discovery: new objects, one after another, until there are no more.

Step i = 1, ..., K of the posterior sees the residual of the frame, which neither the propagated
objects nor the previous discoveries explain. It also depends on both:

    rest_i = x - Σ_k draw(z_k) - Σ_{j<i} draw(z_j)
    r_i = RNN([Conv(rest_i), Σ_k pres_k MLP(z_k), what, where, pres of i - 1], r_{i-1})
    where_i ~ N(MLP_where(r_i))        what_i ~ N(Encoder(ST(rest_i, where_i)))
    pres_i = pres_{i-1} · Bernoulli(MLP_pres([r_i, what_i, where_i]))

so the number of objects n has the probability Π_{i≤n} ρ_i (1 - ρ_{n+1}). There are at most as many
new objects as free slots; a step without a free slot finds nothing, with certainty. With training
wheels, at most one object is found in the first frame, and none later. The prior counts in the same
way, given only the propagated objects and their number `kept`:

    pres_i = pres_{i-1} · Bernoulli(exp(-cost) σ(MLP_n([i, kept, t > 0])))
    where_i ~ N(MLP([where_{i-1}, Σ_k pres_k MLP(z_k), kept]))        what_i ~ N(0, 1)

A new object must gain at least `cost` nats in log p(x), whatever the prior learns.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian, steered
from gswm.core.networks import MLP
from gswm.core.shapes import NOBODY
from gswm.models.objects import GRUObjects, ObjectNoise
from gswm.models.sqair.networks import GlimpseEncoder, SetSummary
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
from gswm.models.sqair.rendering import SumRenderer
from gswm.models.sqair.sight import Ratios, SqairSight, paid, stacked

FIRST_LOGIT = 0.0
"""Initial logit of presence."""
WHERE_OFFSET = -2.0
"""Added to the standard deviation of where before its softplus."""
SELDOM = -4.0
"""Initial decrease of the prior's logit of presence after the first frame."""

Code = Float[Tensor, "batch hidden"]


class DiscoveryPrior(nn.Module):
    """The prior of discovery: the number of new objects, and their boxes."""

    def __init__(self, sizes: SqairSizes, first_hw: float) -> None:
        super().__init__()
        self.summary = SetSummary(sizes)
        self.mlp_n = MLP(3, [10], 1)
        self.mlp_where = MLP(WHERE + sizes.hidden + 1, [sizes.head], 2 * WHERE)
        start_at(self.mlp_where, first_hw)

    def where(self, propagated: GRUObjects, drawn: Float[Tensor, "batch object 4"]) -> Gaussian:
        """The distribution of each object, given the previous one."""
        o = propagated.o
        before = torch.cat([torch.zeros_like(drawn[:, :1]), drawn[:, :-1]], dim=1)
        known = torch.cat([self.summary(o.pres, o.what, where_of(o)), o.pres.sum(dim=1)], dim=-1)
        known = known[:, None].expand(-1, drawn.shape[1], -1)
        return spread(self.mlp_where(torch.cat([before, known], dim=-1)))

    def more(self, kept: Float[Tensor, "batch 1"], sight: SqairSight, slots: int) -> Bernoulli:
        """The probability of one more object, at each step."""
        later = sight.later
        before = torch.arange(slots, device=kept.device, dtype=kept.dtype)[None, :, None]
        known = torch.stack([kept, later], dim=-1).expand(-1, slots, -1)
        told = torch.cat([before.expand(len(kept), -1, -1), known], dim=-1)
        learned = Bernoulli(self.mlp_n(told).float() + SELDOM * later[:, None])
        return thinned(learned, sight.cost[:, None])


class Discovery(nn.Module):
    """New objects."""

    def __init__(self, sizes: SqairSizes, slots: int, first_hw: float) -> None:
        super().__init__()
        hidden, what = sizes.hidden, sizes.what
        self.slots = slots
        self.prior = DiscoveryPrior(sizes, first_hw)
        self.summary = SetSummary(sizes)
        self.rnn = nn.RNNCell(2 * hidden + what + WHERE + 1, hidden)
        self.mlp_where = MLP(hidden, [hidden], 2 * WHERE)
        self.mlp_pres = MLP(hidden + what + WHERE, [sizes.head], 1)
        self.r_0 = nn.Parameter(0.1 * torch.randn(hidden))
        start_at(self.mlp_where, first_hw)
        with torch.no_grad():
            cast(nn.Linear, self.mlp_pres[-1]).bias[0] = FIRST_LOGIT

    def infer(
        self,
        propagated: GRUObjects,
        sight: SqairSight,
        noise: ObjectNoise,
        encoder: nn.Module,
        glimpse: GlimpseEncoder,
        renderer: SumRenderer,
        h_0: tuple[Tensor, Tensor],
    ) -> tuple[GRUObjects, Ratios]:
        """q(z | x, propagated objects) of K objects, absent ones last."""
        o, batch = propagated.o, len(sight.frame)
        kept = o.pres.sum(dim=1)
        room = (self.slots - kept) * sight.looks
        room = torch.where(sight.learns > 0, room, room.clamp_max(1) * (1 - sight.later))
        known = self.summary(o.pres, o.what, where_of(o))
        rest = sight.frame - renderer.drawn(o)
        r = self.r_0.expand(batch, -1)
        where, what = torch.zeros_like(where_of(o)[:, 0]), torch.zeros_like(o.what[:, 0])
        pres = torch.ones_like(kept)
        found, q_wheres, q_whats = [], [], []
        for i in range(self.slots):
            code = encoder(rest).float()
            r = self.rnn(torch.cat([code, known, what, where, pres], dim=-1), r)
            q_where = spread(self.mlp_where(r), WHERE_OFFSET)
            where = q_where.draw(noise.where[:, i])
            q_what = spread(glimpse(rest, *box(where[:, None]))[:, 0])
            what = q_what.draw(noise.what[:, i])
            logit = self.mlp_pres(torch.cat([r, what, where], dim=-1)).float()
            q_pres = steered(Bernoulli(logit), sight.learns)
            fits = pres * (i < room)
            asked = fits * sight.learns
            drawn = torch.where(sight.learns > 0, choose(q_pres, noise.pres[:, i]), 1.0)
            pres = fits * drawn
            if i + 1 < self.slots:
                new = (each[:, None] for each in (pres, where, what))
                rest = rest - renderer.drawn(assembled(*new))
            found.append((pres, where, what, asked, drawn, q_pres.logit))
            q_wheres.append(q_where)
            q_whats.append(q_what)
        every = (torch.stack(each, dim=1) for each in zip(*found, strict=True))
        there, places, looks, asked, drawn, logit = every
        nobody = torch.full_like(there[..., 0], NOBODY, dtype=torch.long)
        h_prior, h_post = (h.expand(batch, self.slots, -1) for h in h_0)
        found_o = assembled(there, places, looks)
        objects = GRUObjects(found_o, h_prior, h_post, nobody, propagated.born)
        p_pres = self.prior.more(kept, sight, self.slots)
        log_q, log_p = (
            (asked * log_probability(each, drawn)).sum(dim=(1, 2))
            for each in (Bernoulli(logit), p_pres)
        )
        ratios = Ratios(
            paid(stacked(q_wheres), self.prior.where(propagated, places), places, there),
            paid(stacked(q_whats), standard(looks), looks, there),
            log_q - log_p,
            log_q,
        )
        return objects, ratios


def start_at(mlp: MLP, first_hw: float) -> None:
    """Initialize a network of where to boxes of a given size in the middle of the frame."""
    with torch.no_grad():
        last = cast(nn.Linear, mlp[-1])
        last.bias[:2] = torch.tensor(first_hw).logit()
        last.bias[2:WHERE] = 0


def standard(like: Tensor) -> Gaussian:
    """N(0, 1)."""
    return Gaussian(torch.zeros_like(like), torch.ones_like(like))
