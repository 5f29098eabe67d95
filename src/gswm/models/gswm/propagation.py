"""Versatile propagation, V-Prop (§3.3, A.2): the objects of frame t-1, at frame t.

A prior imagines the objects; a posterior also looks at the frame. Each has an object-state RNN:

    h_k ← RNN_os([o_k, z_state_k, e_ctx_k, e_rel_k], h_k)            all at t-1, but the new h

The RNNs read positions multiplied by `PropagationConfig.position_scale`. Prior and posterior differ
in z_state alone. The prior's networks turn z_state into attributes, in the posterior too (§3.4.1):
a posterior that read attributes off the frame would leave z_state empty.

    prior       z_state ~ N(MLP_state_prior(h))
    posterior   z_state ~ N(MLP_state_post([ĥ, e_prop]))    e_prop = Conv_prop(ST(x, o_xy, s_prop))
    both        z_att ~ MLP_att(z_state)                    o ← o + c · gate · tanh(z_att)

Depth changes without the tanh, o_depth ← o_depth + c · gate · z_depth, and presence by a factor,
o_pres ← o_pres · z_pres. With `PropagationConfig.relative`, xy and hw change in units of the
surroundings and of the object:

    o_xy ← o_xy + c (o_hw + s_max) · gate · tanh(z_xy)      o_hw ← o_hw · exp(c · gate · tanh(z_hw))

Without z_state (G-SWM-D, "w/o MU") the RNNs give the attributes' latents themselves, ungated:

    prior       z_att ~ N(MLP_att_prior(h))
    posterior   z_att ~ N(MLP_att_post([ĥ, e_prop]))
"""

import math
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.geometry import crop, overlap
from gswm.core.networks import MLP, Encoder, per_object
from gswm.core.records import frames
from gswm.core.shapes import NOBODY, Scalars, Video
from gswm.models.gswm.interaction import FirstLayers, Interaction
from gswm.models.gswm.situation import CHANNELS, Situation, SituationKind, Survey
from gswm.models.objects import XY, Attributes, Latents, LSTMState, Objects, Sizes

READ_POSITIONS = {
    f"{rnn}.{mlp}.0.weight": objects
    for rnn in ("rnn_prior", "rnn_post")
    for mlp, objects in {
        "mlp_os": 1,
        "interaction.mlp_self": 1,
        "interaction.mlp_rel": 2,
        "interaction.mlp_weight": 2,
    }.items()
}
"""The weights of `Propagation` that read positions, and of how many objects each reads them."""

ALIKE = 0.005
"""Largest difference between the motions of two twins in a frame, in units of xy."""
FADING = 0.92
"""Factor on the presence of the younger twin in each frame, which is then absent after 9 frames. A
track whose object is hidden follows the object in front for a shorter time."""

RELATIVE_HW = 1e-3, 2.0
"""Smallest and largest side of a box that changes by factors."""

Hidden = Float[Tensor, "*batch object hidden"]
Encoding = Float[Tensor, "batch object e"]
Seen = Float[Tensor, " batch *seen"]
View = Float[Tensor, "batch channel height width"]
Views = Float[Tensor, "batch time channel height width"]


@dataclass(frozen=True)
class UpdateScales:
    """c of A.2: how far one step may move an attribute."""

    depth: float = 1.0
    xy: float = 0.2
    hw: float = 0.1
    what: float = 0.2


@dataclass(frozen=True)
class PropagationConfig:
    """Settings of V-Prop."""

    multimodal: bool = True
    """z_state between h and the attributes; off is the paper's G-SWM-D, "w/o MU"."""
    situation: SituationKind = "attend"
    """The part of the background that an object sees; "whole" is "w/o AOE", "off" is "w/o SA"."""
    situation_size: float = 0.25
    """s_ctx: how much larger than the object the background is that it sees."""
    proposal_range: tuple[float, float] = (0.0, 0.2)
    """s_min, s_max: how much larger than the object the region is that the posterior looks at."""
    update: UpdateScales = field(default_factory=UpdateScales)
    relative: bool = False
    """Whether c of xy is relative to the largest region that the posterior looks at, and c of hw to
    the size of the object. The same picture in a glimpse then means the same update for objects of
    all sizes.
    """
    tau: float = 1.0
    """Temperature of the relaxed presence."""
    position_scale: float = 1.0
    """Factor on xy wherever an object-state RNN reads it; half the image size gives pixels."""
    depth_limit: float | None = None
    """Largest |depth| of a propagated object. Rendering reads σ(depth), so the depth of an object
    in front may grow from frame to frame at no cost, and networks that read it then fail in videos
    longer than those of the training. Default: None (no limit, as in the paper).
    """
    what_limit: float | None = None
    """Largest |what|, of each component, of a propagated object. An object that looks the same in
    every frame may move its appearance by a constant step, which adds up: in videos longer than
    those of the training, every network that reads it then fails. Default: None (no limit, as in
    the paper).
    """
    twins: float | None = None
    """IoU of two objects that move alike above which the younger one fades in inference: both
    follow the same thing. Default: None (never, as in the paper).
    """


@dataclass(frozen=True)
class PropagationNoise:
    """Random numbers of one step."""

    state: Float[Tensor, "*batch object state"]
    att: Float[Tensor, "*batch object z_att"]
    pres: Float[Tensor, "*batch object 1"]


@dataclass(frozen=True)
class Drawn:
    """The latents of a step: presence, the other attributes, and the state behind them."""

    q: Gaussian
    """The sampled distribution: of z_state, or of z_att if there is no z_state."""
    z_state: Float[Tensor, "batch object state"]
    pres: Bernoulli
    z_att: Float[Tensor, "batch object z_att"]
    gate: Float[Tensor, "batch object z_att"]


@dataclass(frozen=True)
class PropagationEvidence:
    """Inputs of the objective from a step of the posterior."""

    q: Gaussian
    h_prior: Float[Tensor, "*batch object hidden"]
    """The input of the prior."""
    pres: Bernoulli
    """The distribution of z̃_pres, for the auxiliary loss (§3.4.2)."""
    weight: Float[Tensor, "*batch object 1"]
    """Weight of each slot: its previous presence, without gradient."""


class ObjectStateRNN(nn.Module):
    """OS-RNN: the history of each object, in a vector."""

    def __init__(self, sizes: Sizes, num_e_ctx: int, position_scale: float = 1.0) -> None:
        super().__init__()
        self.position_scale = position_scale
        own = sizes.o + sizes.state
        self.interaction = Interaction(own + sizes.hidden, sizes.encoding)
        self.mlp_os = MLP(own + num_e_ctx + sizes.encoding, [], sizes.hidden)
        self.rnn_os = nn.LSTMCell(sizes.hidden, sizes.hidden)
        self.h_0 = nn.Parameter(torch.randn(2, sizes.hidden))

    def start(self, batch: int, num_objects: int) -> LSTMState:
        """The state of objects that were not there before."""
        return LSTMState(*self.h_0.expand(batch, num_objects, 2, -1).unbind(2))

    def own(self, prev: Objects) -> Float[Tensor, "batch object own"]:
        """[o, z_state] as the networks read it."""
        o = prev.o
        if self.position_scale != 1:
            # Networks are slow to learn fine differences: a tenth of a pixel is 0.003 of xy.
            o = replace(o, xy=o.xy * self.position_scale)
        return torch.cat([o.cat(), prev.z_state], dim=-1)

    def forward(
        self,
        prev: Objects,
        e_ctx: Encoding,
        state: LSTMState,
        first: FirstLayers | None = None,
    ) -> LSTMState:
        """h_t, from the objects at t-1."""
        own = self.own(prev)
        e_rel = self.interaction(torch.cat([own, state.h], dim=-1), prev.o.pres, first)
        x = self.mlp_os(torch.cat([own, e_ctx, e_rel], dim=-1))

        hc = self.rnn_os(x.flatten(0, 1), (state.h.flatten(0, 1), state.c.flatten(0, 1)))
        return LSTMState(*(v.unflatten(0, x.shape[:2]) for v in hc))


class StateLatent(nn.Module):
    """z_state, and the attributes' latents from it (§3.3.3)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        hidden, e, att = sizes.hidden, sizes.encoding, sizes.z_att
        self.mlp_state_prior = MLP(hidden, [e, e], 2 * sizes.state)
        self.mlp_state_post = MLP(hidden + e, [e, e], 2 * sizes.state)
        # Paper: MLP_att and MLP_gate. Here one network gives both, as in the authors' release.
        self.mlp_att = MLP(sizes.state, [e, e], 1 + 3 * att)
        self.splits = [1, 2 * att, att]

    @property
    def mlp_prior(self) -> MLP:
        """The prior's network."""
        return self.mlp_state_prior

    def prior(self, h_prior: Hidden) -> Gaussian:
        """p(z̃_state | h)."""
        return Gaussian.of(self.mlp_state_prior(h_prior))

    def post(self, h_post: Hidden, e_prop: Encoding, noise: PropagationNoise) -> Drawn:
        """q(z̃_state | ĥ, e_prop), and p(z̃_att | z̃_state)."""
        q = Gaussian.of(self.mlp_state_post(torch.cat([h_post, e_prop], dim=-1)))
        return self.draw(q, noise)

    def draw(self, q: Gaussian, noise: PropagationNoise) -> Drawn:
        """All latents, given where z_state comes from."""
        z_state = q.draw(noise.state)
        logit, params, gate = self.mlp_att(z_state).float().split(self.splits, dim=-1)
        z_att = Gaussian.of(params).draw(noise.att)
        return Drawn(q, z_state, Bernoulli(logit), z_att, gate.sigmoid())


class NoStateLatent(nn.Module):
    """The attributes' latents without a z_state: a single mode (G-SWM-D, "w/o MU")."""

    FIRST_STD = 0.1
    """Initial standard deviation. With 0.7, as from random weights, and without gates, objects in a
    maze jump by ten pixels: the model learns to remove them, and never learns to move them."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        hidden, e, att = sizes.hidden, sizes.encoding, sizes.z_att
        self.mlp_att_prior = MLP(hidden, [e, e], 2 * att)
        self.mlp_att_post = MLP(hidden + e, [e, e], 1 + 2 * att)
        for mlp in (self.mlp_att_prior, self.mlp_att_post):
            std = cast(nn.Linear, mlp[-1]).bias[-att:]
            nn.init.constant_(std, math.log(math.expm1(self.FIRST_STD)))

    @property
    def mlp_prior(self) -> MLP:
        """The prior's network."""
        return self.mlp_att_prior

    def prior(self, h_prior: Hidden) -> Gaussian:
        """p(z̃_att | h)."""
        return Gaussian.of(self.mlp_att_prior(h_prior))

    def post(self, h_post: Hidden, e_prop: Encoding, noise: PropagationNoise) -> Drawn:
        """q(z̃_att | ĥ, e_prop)."""
        params = self.mlp_att_post(torch.cat([h_post, e_prop], dim=-1)).float()
        logit, params = params.tensor_split([1], dim=-1)
        return replace(self.draw(Gaussian.of(params), noise), pres=Bernoulli(logit))

    def draw(self, q: Gaussian, noise: PropagationNoise) -> Drawn:
        """All latents, given where z_att comes from; objects stay where nothing says otherwise."""
        stays = Bernoulli(torch.full_like(q.mean[..., :1], torch.inf))
        return Drawn(q, noise.state, stays, q.draw(noise.att), torch.ones_like(q.mean))


class Propagation(nn.Module):
    """V-Prop."""

    crop = staticmethod(crop)
    """`gswm.fast` replaces it by a kernel."""

    def __init__(
        self, cfg: PropagationConfig, sizes: Sizes, image_size: int, *, subtracts: bool = False
    ) -> None:
        """With `subtracts`, glimpses also show the difference of the frame from its background."""
        super().__init__()
        self.cfg, self.sizes, self.subtracts = cfg, sizes, subtracts
        self.situation = Situation(cfg.situation, cfg.situation_size, sizes, image_size)
        self.rnn_prior = ObjectStateRNN(sizes, self.situation.num_e, cfg.position_scale)
        self.rnn_post = ObjectStateRNN(sizes, self.situation.num_e, cfg.position_scale)
        self.mlp_prop = MLP(sizes.hidden, [sizes.encoding, sizes.encoding], 2)
        first, *later = CHANNELS
        channels = [2 * first if subtracts else first, *later]
        self.conv_prop = Encoder(sizes.glimpse, channels, sizes.encoding)
        self.latent = StateLatent(sizes) if cfg.multimodal else NoStateLatent(sizes)

    def visible(self, video: Video, mu_bg: Video) -> Views:
        """The pictures that the posterior's glimpses are cut from."""
        return torch.cat([video, video - mu_bg], dim=2) if self.subtracts else video

    def networks_of_prior(self) -> list[nn.Module]:
        """The networks on which no posterior depends."""
        return [self.rnn_prior, self.latent.mlp_prior]

    def decoders(self) -> list[nn.Module]:
        """The networks that prior and posterior share to decode their samples."""
        return [self.latent.mlp_att] if isinstance(self.latent, StateLatent) else []

    def imagine(self, prev: Objects, seen: Seen, noise: PropagationNoise) -> Objects:
        """p(z̃_t | z_<t): the objects move, unseen; none of them leaves (App. D)."""
        return self.imagine_next(prev, seen, noise, self.rnn_prior.interaction.first_layers())

    def imagine_all(self, prev: Objects, seen: Survey, noise: PropagationNoise) -> list[Objects]:
        """The objects of several frames, one after another."""
        first, imagined = self.rnn_prior.interaction.first_layers(), [prev]
        for t, now in enumerate(frames(noise)):
            imagined.append(self.imagine_next(imagined[-1], seen[:, t], now, first))
        return imagined[1:]

    def imagine_next(
        self, prev: Objects, seen: Seen, noise: PropagationNoise, first: FirstLayers
    ) -> Objects:
        """See `imagine`; `first` is the same in all frames."""
        h_prior = self.rnn_prior(prev, self.situation(seen, prev.o), prev.h_prior, first)
        drawn = self.latent.draw(self.latent.prior(h_prior.h), noise)
        o = replace(self.move(prev.o, drawn, noise.pres), pres=prev.o.pres)
        return replace(prev, o=o, z_state=drawn.z_state, h_prior=h_prior, h_post=h_prior)

    def infer(
        self, prev: Objects, seen: Seen, frame: View, noise: PropagationNoise
    ) -> tuple[Objects, PropagationEvidence]:
        """q(z̃_t | x_t, z_<t); twins fade, but not in training."""
        e_ctx = self.situation(seen, prev.o)
        h_prior, h_post = self.remember(prev, e_ctx)
        drawn = self.latent.post(h_post.h, self.look(frame, prev.o, h_post.h), noise)
        o = self.move(prev.o, drawn, noise.pres)
        objects = replace(prev, o=o, z_state=drawn.z_state, h_prior=h_prior, h_post=h_post)
        weight = prev.o.pres.detach()
        if self.cfg.twins is not None and not torch.is_grad_enabled():
            objects = fade_twins(prev, objects, self.cfg.twins)
        return objects, PropagationEvidence(drawn.q, h_prior.h, drawn.pres, weight)

    def remember(self, prev: Objects, e_ctx: Encoding) -> tuple[LSTMState, LSTMState]:
        """Both RNNs, h and ĥ, one step on."""
        h_prior = self.rnn_prior(prev, e_ctx, prev.h_prior)
        return h_prior, self.rnn_post(prev, e_ctx, prev.h_post)

    def look(self, frame: View, o: Attributes, h: Hidden) -> Encoding:
        """e_prop: the frame around where each object was; h sets how far around."""
        low, high = self.cfg.proposal_range
        s_prop = o.hw + low + (high - low) * self.mlp_prop(h).float().sigmoid()
        return per_object(self.conv_prop, self.crop(frame, o.xy, s_prop, self.sizes.glimpse))

    def move(self, o: Attributes, drawn: Drawn, noise_pres: Scalars) -> Attributes:
        """The attributes to which the latents move `o` (A.2, "Attribute updates")."""
        z, gate, c = Latents.split(drawn.z_att), Latents.split(drawn.gate), self.cfg.update
        xy, hw = c.xy * gate.xy * z.xy.tanh(), c.hw * gate.hw * z.hw.tanh()
        if self.cfg.relative:
            xy = xy * (o.hw.detach() + self.cfg.proposal_range[1]).flip(-1)
            # Otherwise the box of an empty slot grows without end.
            hw = (o.hw * hw.exp()).clamp(*RELATIVE_HW) - o.hw
        depth = o.depth + c.depth * gate.depth * z.depth
        if (most := self.cfg.depth_limit) is not None:
            depth = depth.clamp(-most, most)
        what = o.what + c.what * gate.what * z.what.tanh()
        if (most := self.cfg.what_limit) is not None:
            what = what.clamp(-most, most)
        return Attributes(
            pres=o.pres * drawn.pres.draw(noise_pres, self.cfg.tau),
            depth=depth,
            hw=o.hw + hw,
            xy=o.xy + xy,
            what=what,
        )


def fade_twins(before: Objects, after: Objects, least: float) -> Objects:
    """Reduce the presence of objects that coincide with an older one and move as it does.

    Args:
        before: The objects of the previous frame.
        after: The same objects, propagated.
        least: See `PropagationConfig.twins`.
    """
    o, ids = after.o, after.id
    known = (ids != NOBODY) & (o.pres[..., 0] > 0.5)
    moved = o.xy - before.o.xy
    alike = (moved[:, :, None] - moved[:, None]).norm(dim=-1) < ALIKE
    alike = alike & (overlap(o.xy, o.hw, o.xy, o.hw) > least)
    older = known[:, None] & (ids[:, None] < ids[:, :, None])
    unique = ~(alike & older).any(dim=-1, keepdim=True)
    return replace(after, o=replace(o, pres=o.pres * torch.where(unique, 1.0, FADING)))


def rescaled(weights: dict[str, Tensor], factor: float, prefix: str) -> dict[str, Tensor]:
    """Weights of a model, those that read positions multiplied by `factor`.

    `prefix` stands before the names of `Propagation`'s weights.
    """
    changed = dict(weights)
    for name, objects in READ_POSITIONS.items():
        if (key := prefix + name) in weights:
            changed[key] = weights[key].clone()
            for columns in changed[key].chunk(objects, dim=1):
                columns[:, XY] *= factor
    return changed
