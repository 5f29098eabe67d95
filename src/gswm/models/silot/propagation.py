"""Propagation: the objects of frame t-1, at frame t, all in parallel.

Posterior and prior are twins. Each describes an object by the messages it gets from the others, and
samples the parts of its new state one after another, each conditioned on the previous ones:

    e = Conditioning(o, h)
    shift, z_hw ~ N(MLP_box([e, s']))    z_hw relative to its last value
    what ~ N(f ⊙ what + (1 - i) ⊙ m_s + (1 - t) ⊙ m_t, (1 - i) ⊙ σ_s + (1 - t) ⊙ σ_t)
    depth ~ N(MLP_depth([e, box, what, s]))    relative to its last value
    d_pres ~ Bernoulli(MLP_pres([e, box, what, depth, s]))    pres ← pres · d_pres
    h ← GRU([box, what, depth, pres], h)

    m_t, σ_t, f, t, i = MLP_what([e, box, s])    m_s, σ_s = MLP_seen(s)
    box = [xy, shift, z_hw]

The posterior sees the frame twice: s' near the object's last box, s in its new one,

    s' = Encoder'(mask' ⊙ ST(x, box + 0.1 Δ))    s = Encoder(mask ⊙ ST(x, new box))
    Δ, mask', mask = MLP_glimpse(e)

The prior does not see the frame: it lacks s', s, m_s, σ_s and i. The two share no weights.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian, steered
from gswm.core.networks import MLP, Map
from gswm.core.shapes import Frame, Points
from gswm.models.objects import Attributes, GRUObjects, ObjectNoise
from gswm.models.silot.conditioning import ObjectConditioning
from gswm.models.silot.networks import GLIMPSE, ObjectEncoder
from gswm.models.silot.objects import (
    LARGEST_LOGIT,
    AnchorConfig,
    Hidden,
    SilotSizes,
    bounded,
    bounded_std,
)

NEARBY = 0.1
"""Factor on the distance between the first glimpse and the last box, in anchors."""
LARGEST_GATE = 0.9999
FIRST_SCALE, FIRST_STD = 0.1, -2.0
"""Initial values: a factor on the weights of last layers, and the bias of the standard deviation of
shift and z_hw before its sigmoid.
"""
BOX = 6
"""Size of the description of a new box: xy, shift and z_hw."""

Encoding = Float[Tensor, "batch object _"]
GlimpseMask = Float[Tensor, "batch object pixel"]
Learns = Float[Tensor, "batch 1 1"]


@dataclass(frozen=True)
class SilotSight:
    """The features of a frame, and settings of its inference."""

    frame: Frame
    features: Map
    looks: Learns
    """1 if discovery runs, else 0."""
    learns: Learns
    """0 while the training wheels are on, so that boxes, depth and presence get no gradient; else
    1.
    """


@dataclass(frozen=True)
class PropagationEvidence:
    """Inputs of the objective from a step of the posterior."""

    q: Gaussian
    """Distribution of shift, z_hw, what and depth, concatenated."""
    pres: Bernoulli
    """Distribution of d_pres."""
    was: Attributes
    """The objects before the step."""
    h_prior: Float[Tensor, "*batch object hidden"]
    """The prior's state before the step."""
    now: Attributes
    """The objects after the step."""
    shift: Float[Tensor, "*batch object 2"]
    """The motion of the objects."""


class PropagationLayer(nn.Module):
    """The networks of the posterior, and of the prior."""

    def __init__(
        self, sizes: SilotSizes, anchors: AnchorConfig, sigma: float, *, sees: bool
    ) -> None:
        super().__init__()
        self.anchors, self.sees = anchors, sees
        e, what, hidden = sizes.encoding, sizes.what, [sizes.head] * 2
        s = e if sees else 0
        self.hear = ObjectConditioning(sizes, anchors, sigma)
        self.mlp_box = MLP(e + s, hidden, 8)
        self.mlp_what = MLP(e + BOX + s, hidden, (5 if sees else 4) * what)
        if sees:
            self.mlp_seen = MLP(s, hidden, 2 * what)
        self.mlp_depth = MLP(e + BOX + what + s, hidden, 2)
        self.mlp_pres = MLP(e + BOX + what + 1 + s, hidden, 1)
        self.rnn = nn.GRUCell(BOX + what + 2, sizes.hidden)

    @torch.no_grad()
    def start_still(self) -> None:
        """Initialize so that objects change little.

        Otherwise they would jump by the size of a ball in every frame, and new ones would replace
        them.
        """
        for mlp in (self.mlp_box, self.mlp_what, self.mlp_depth, self.mlp_pres):
            cast(nn.Linear, mlp[-1]).weight.mul_(FIRST_SCALE)
        cast(nn.Linear, self.mlp_box[-1]).bias[4:] = FIRST_STD

    def box(self, was: Attributes, e: Encoding, *seen: Encoding) -> Gaussian:
        """The distribution of shift and z_hw."""
        change = bounded(self.mlp_box(torch.cat([e, *seen], dim=-1)))
        where = torch.cat([torch.zeros_like(was.xy), self.anchors.z_hw(was.hw)], dim=-1)
        return Gaussian(where + change.mean, change.std)

    def what(self, was: Attributes, e: Encoding, box: Encoding, *seen: Encoding) -> Gaussian:
        """Combine the previous what with the seen and the expected one."""
        params = self.mlp_what(torch.cat([e, box, *seen], dim=-1)).float()
        mean_t, std_t, *gates = params.split(was.what.shape[-1], dim=-1)
        keep, *drop = (LARGEST_GATE * (gate + 1).sigmoid() for gate in gates)
        mean = keep * was.what + (1 - drop[0]) * mean_t
        std = (1 - drop[0]) * bounded_std(std_t)
        for of, gate in zip(seen, drop[1:], strict=True):
            found = bounded(self.mlp_seen(of))
            mean = mean + (1 - gate) * found.mean
            std = std + (1 - gate) * found.std
        return Gaussian(mean, std)

    def depth(self, was: Attributes, *told: Encoding) -> Gaussian:
        """The distribution of depth, centered on the previous one."""
        change = bounded(self.mlp_depth(torch.cat(told, dim=-1)))
        return Gaussian(was.depth + change.mean, change.std)

    def pres(self, *told: Encoding) -> Bernoulli:
        """The distribution of d_pres."""
        logit = self.mlp_pres(torch.cat(told, dim=-1)).float()
        return Bernoulli(logit.clamp(-LARGEST_LOGIT, LARGEST_LOGIT))

    def described(self, o: Attributes, shift: Points) -> Encoding:
        """The description of a box as the networks read it."""
        return torch.cat([o.xy, shift, self.anchors.z_hw(o.hw)], dim=-1)

    def remember(self, o: Attributes, shift: Points, h: Hidden) -> Hidden:
        """Advance the GRU by one frame."""
        x = torch.cat([self.described(o, shift), o.what, o.depth, o.pres], dim=-1)
        return self.rnn(x.flatten(0, 1), h.flatten(0, 1)).unflatten(0, h.shape[:2])


class Propagation(nn.Module):
    """Posterior and prior of known objects."""

    def __init__(self, sizes: SilotSizes, anchors: AnchorConfig, sigma: float) -> None:
        super().__init__()
        self.anchors, e = anchors, sizes.encoding
        self.prior = PropagationLayer(sizes, anchors, sigma, sees=False)
        self.post = PropagationLayer(sizes, anchors, sigma, sees=True)
        self.mlp_glimpse = MLP(e, [sizes.head] * 2, 4 + 2 * GLIMPSE**2)
        self.encode_near, self.encode = ObjectEncoder(e), ObjectEncoder(e)
        self.h_0 = nn.Parameter(0.1 * torch.randn(sizes.hidden))

    def start(self, batch: int, num: int) -> Hidden:
        """The state of both GRUs for new objects."""
        return self.h_0.expand(batch, num, -1)

    def expect(
        self, was: Attributes, h_prior: Hidden, now: Attributes, shift: Points
    ) -> tuple[Gaussian, Bernoulli]:
        """p(z_t | z_<t) of shift, z_hw, what and depth, and of d_pres.

        Each part is conditioned on the inferred values of the parts before it.
        """
        prior = self.prior
        e, box = prior.hear(was, h_prior), prior.described(now, shift)
        parts = [
            prior.box(was, e),
            prior.what(was, e, box),
            prior.depth(was, e, box, now.what),
        ]
        return Gaussian.joined(parts), prior.pres(e, box, now.what, now.depth)

    def imagine(self, prev: GRUObjects, noise: ObjectNoise) -> GRUObjects:
        """p(z_t | z_<t): objects move without evidence, and none leaves."""
        was, prior = prev.o, self.prior
        e = prior.hear(was, prev.h_prior)
        shift, hw, xy = self.moved(was, prior.box(was, e).draw(noise.where))
        now = Attributes(was.pres, was.depth, hw, xy, was.what)
        box = prior.described(now, shift)
        what = prior.what(was, e, box).draw(noise.what)
        depth = prior.depth(was, e, box, what).draw(noise.depth)
        return self.remember(prev, replace(now, what=what, depth=depth), shift)

    def infer(
        self, prev: GRUObjects, sight: SilotSight, noise: ObjectNoise
    ) -> tuple[GRUObjects, PropagationEvidence]:
        """q(z_t | x_t, z_<t)."""
        was, post, learns = prev.o, self.post, sight.learns
        e = post.hear(was, prev.h_post)
        near, masks = self.near(was, e)
        s_near = self.encode_near(sight.frame, *near, masks[0])
        q_box = steered(post.box(was, e, s_near), learns)
        shift, hw, xy = self.moved(was, q_box.draw(noise.where))
        s = self.encode(sight.frame, xy, hw, masks[1])

        now = Attributes(was.pres, was.depth, hw, xy, was.what)
        box = post.described(now, shift)
        q_what = post.what(was, e, box, s)
        what = q_what.draw(noise.what)
        q_depth = steered(post.depth(was, e, box, what, s), learns)
        depth = q_depth.draw(noise.depth)
        q_pres = steered(post.pres(e, box, what, depth, s), learns)
        pres = was.pres * q_pres.draw(noise.pres)
        now = replace(now, pres=pres, what=what, depth=depth)
        q = Gaussian.joined([q_box, q_what, q_depth])
        evidence = PropagationEvidence(q, q_pres, was, prev.h_prior, now, shift)
        return self.remember(prev, now, shift), evidence

    def near(
        self, was: Attributes, e: Encoding
    ) -> tuple[tuple[Points, Points], tuple[GlimpseMask, GlimpseMask]]:
        """The box of the first glimpse, and the masks of both glimpses."""
        pixels = GLIMPSE**2
        params = self.mlp_glimpse(e).float().split([2, 2, pixels, pixels], dim=-1)
        by_xy, by_hw = (self.anchors.size * NEARBY * each for each in params[:2])
        first, second = ((each + 1).sigmoid() for each in params[2:])
        return (was.xy + 2 * by_xy, was.hw + by_hw), (first, second)

    def moved(self, was: Attributes, box: Encoding) -> tuple[Points, Points, Points]:
        """Shift, hw and xy of a sampled box."""
        shift, z_hw = box.split(2, dim=-1)
        return shift, self.anchors.hw(z_hw), self.anchors.moved(was.xy, shift)

    def remember(self, prev: GRUObjects, now: Attributes, shift: Points) -> GRUObjects:
        """The objects after a step, with both GRUs advanced."""
        h_prior = self.prior.remember(now, shift, prev.h_prior)
        h_post = self.post.remember(now, shift, prev.h_post)
        return replace(prev, o=now, h_prior=h_prior, h_post=h_post)
