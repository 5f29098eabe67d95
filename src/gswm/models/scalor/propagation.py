"""Propagation: the objects of frame t-1, at frame t, each on its own.

The prior is an LSTM that knows only the object's past; objects do not interact:

    h ← LSTM_prior(Linear([where, pres, what, b, depth]), h)
    b, depth, what ~ N(Linear(h))    pres ~ Bernoulli(σ(Linear(h) + 5))

The posterior sees the image features around the object's last position, moves it, and looks again:

    e = Attend(ST(features, xy, 0.5))    ĥ ← GRU(Linear([where, pres, what, b, e]), ĥ)
    b ~ N(MLP_bias([ĥ, what, where, b, e]))              which moves the box
    m, s = gate_i · Conv_what(ST(x, xy, hw)) + gate_f · MLP_what(ĥ)
    what ~ N(m, softplus(s))             gate_f, gate_i = σ(MLP_gate([ĥ, e]))
    depth ~ N(MLP_depth([ĥ, what, e]))
    pres ~ Bernoulli(σ(8.8 tanh(MLP_pres([ĥ, where, b, what]) + 2)))

An object ends when its absence 1 - pres, accumulated over its life, reaches 0.6.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.geometry import crop
from gswm.core.networks import MLP, Map, per_object
from gswm.core.records import frames
from gswm.core.shapes import NOBODY, Frame, Points
from gswm.models.objects import Attributes, LSTMState, ObjectNoise
from gswm.models.scalor.networks import CHANNELS, block
from gswm.models.scalor.objects import BoxConfig, ScalorObjects, ScalorSizes
from gswm.models.scalor.rendering import Appearance

ATTENTION = 0.5
"""Fraction of the image around an object that its posterior sees."""
LARGEST_LOGIT = 8.8
ENDS = 0.6
"""An object ends when its absence reaches this."""
NARROW = 64

Encoding = Float[Tensor, "batch object e"]


@dataclass(frozen=True)
class Sight:
    """Features of a frame for inference."""

    frame: Frame
    features: Map
    tau: Float[Tensor, "batch 1 1"]
    """Temperature of the relaxed presence."""
    looks: Float[Tensor, "batch 1 1"]
    """1 if discovery runs, else 0."""


@dataclass(frozen=True)
class PropagationEvidence:
    """Inputs of the objective from a step of the posterior."""

    q: Gaussian
    """Distribution of bias, depth and what, concatenated."""
    pres: Bernoulli
    h_prior: Float[Tensor, "*batch object prior"]
    """The prior's state, from which its distributions follow."""
    weight: Float[Tensor, "*batch object 1"]
    """Weight of a slot: its presence, or 0 if its object ended."""
    held: Float[Tensor, "*batch object 1"]
    """1 for slots that held an object before this frame."""


class Propagation(nn.Module):
    """Posterior and prior of known objects."""

    def __init__(self, boxes: BoxConfig, sizes: ScalorSizes, grid: int) -> None:
        super().__init__()
        self.boxes, self.side = boxes, grid // 2
        what, h, e = sizes.what, sizes.hidden, sizes.encoding
        self.splits = [4, 1, what]
        self.linear_prior = nn.Linear(what + 10, e)
        self.rnn_prior = nn.LSTMCell(e, sizes.prior)
        self.head_prior = nn.Linear(sizes.prior, 1 + 2 * sum(self.splits))
        seen = nn.Linear(CHANNELS * self.side**2, e)
        self.attend = nn.Sequential(*block(CHANNELS, CHANNELS, 1), nn.Flatten(), seen)
        self.linear_post = nn.Linear(what + 9 + e, e)
        self.rnn_post = nn.GRUCell(e, h)
        self.mlp_bias = MLP(h + what + 8 + e, [e], 8)
        self.mlp_what = MLP(h, [NARROW], 2 * what)
        self.mlp_gate = MLP(h + e, [NARROW], 2)
        self.mlp_depth = MLP(h + what + e, [e], 2)
        self.mlp_pres = MLP(h + 8 + what, [NARROW], 1)

    def prior(self, h: Float[Tensor, "*batch prior"]) -> tuple[Gaussian, Bernoulli]:
        """p(bias, depth, what) and p(pres)."""
        logit, params = self.head_prior(h).float().tensor_split([1], dim=-1)
        return Gaussian.of(params), Bernoulli(logit + 5)

    def remember(self, prev: ScalorObjects) -> LSTMState:
        """Advance the prior's RNN by one frame."""
        return self.advance(self.linear_prior(prev.told_prior), prev.h_prior)

    def recall(
        self, told: Float[Tensor, "batch time object n"], stays: Bool[Tensor, "batch time object"]
    ) -> Float[Tensor, "batch time object prior"]:
        """The prior's h in each frame, from the inputs of all frames.

        Where an object does not stay, h starts anew for the next one.
        """
        x = self.linear_prior(told)
        nothing = x.new_zeros(*x[:, 0].shape[:2], self.rnn_prior.hidden_size)
        states = [LSTMState(nothing, nothing)]
        for each, same in zip(frames(x[:, :-1]), frames(stays[:, :-1, :, None]), strict=True):
            since = LSTMState(states[-1].h * same, states[-1].c * same)
            states.append(self.advance(each, since))
        return torch.stack([state.h for state in states], dim=1)

    def advance(self, x: Encoding, state: LSTMState) -> LSTMState:
        """The cell of the prior's RNN, for each object."""
        h, c = self.rnn_prior(x.flatten(0, 1), (state.h.flatten(0, 1), state.c.flatten(0, 1)))
        return LSTMState(h.unflatten(0, x.shape[:2]), c.unflatten(0, x.shape[:2]))

    def imagine(self, prev: ScalorObjects, noise: ObjectNoise) -> ScalorObjects:
        """p(z_t | z_<t): objects move without evidence, and none leaves."""
        h_prior = self.remember(prev)
        p, _ = self.prior(h_prior.h)
        z = p.draw(torch.cat([noise.where, noise.depth, noise.what], dim=-1))
        bias, depth, what = z.split(self.splits, dim=-1)
        xy = self.boxes.moved(prev.o.xy, bias)
        o = Attributes(prev.o.pres, depth, self.boxes.hw(bias), xy, what)
        return replace(prev, o=o, bias=bias, h_prior=h_prior)

    def infer(
        self, prev: ScalorObjects, sight: Sight, appearance: Appearance, noise: ObjectNoise
    ) -> tuple[ScalorObjects, PropagationEvidence]:
        """q(z_t | x_t, z_<t)."""
        h_prior, was = self.remember(prev), prev.o
        e = self.see(sight.features, was.xy)
        x = self.linear_post(torch.cat([prev.told, e], dim=-1))
        h = self.rnn_post(x.flatten(0, 1), prev.h_post.flatten(0, 1)).unflatten(0, x.shape[:2])

        told = torch.cat([h, was.what, was.hw, was.xy, prev.bias, e], dim=-1)
        mean, std = self.mlp_bias(told).float().chunk(2, dim=-1)
        q_bias = Gaussian.of(torch.cat([mean, std - 2], dim=-1))
        bias = q_bias.draw(noise.where)
        hw, xy = self.boxes.hw(bias), self.boxes.moved(was.xy, bias)
        q_what = self.mix(h, e, appearance.look(sight.frame, xy, hw))
        what = q_what.draw(noise.what)
        q_depth = Gaussian.of(self.mlp_depth(torch.cat([h, what, e], dim=-1)))
        logit = self.mlp_pres(torch.cat([h, hw, xy, bias, what], dim=-1)).float()
        q_pres = Bernoulli(LARGEST_LOGIT * (logit + 2).tanh())

        there = q_pres.draw(noise.pres, sight.tau)
        absence = prev.absence + (1 - there.detach())
        alive = prev.alive & (absence[..., 0] < ENDS)
        there = there * alive[..., None]
        o = Attributes(there, q_depth.draw(noise.depth), hw, xy, what)
        ids = torch.where(alive, prev.id, NOBODY)
        objects = ScalorObjects(o, bias, absence, h_prior, h, ids, prev.born)
        held = prev.alive[..., None].to(there.dtype)
        q = Gaussian.joined([q_bias, q_depth, q_what])
        return objects, PropagationEvidence(q, q_pres, h_prior.h, there, held)

    def see(self, features: Map, xy: Points) -> Encoding:
        """e: the image features around the last position of each object."""
        size = torch.full_like(xy, ATTENTION)
        return per_object(self.attend, crop(features, xy.detach(), size, self.side))

    def mix(self, h: Encoding, e: Float[Tensor, "batch object n"], seen: Gaussian) -> Gaussian:
        """q(what): a gated combination of the seen and the remembered appearance."""
        remembered = Gaussian.of(self.mlp_what(h))
        gates = self.mlp_gate(torch.cat([h, e], dim=-1)).float().sigmoid()
        gate_f, gate_i = gates.split(1, dim=-1)
        mean = gate_i * seen.mean + gate_f * remembered.mean
        return Gaussian(mean, F.softplus(gate_i * seen.std + gate_f * remembered.std))
