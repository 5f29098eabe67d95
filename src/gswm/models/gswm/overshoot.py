"""Overshooting: the prior learns from its own rollouts.

The ELBO trains the prior to predict one step from states that the posterior inferred. In a rollout,
only the first state is inferred; all others are the prior's own predictions, so errors accumulate.
Therefore the last training stage freezes the posterior. The prior observes `given` frames of a
track o, imagines the next `horizon` frames m times, x¹ … xᵐ, and minimizes their distance from the
track in each frame:

    score = mean_i |xⁱ - o| - ½ mean_{i≠j} |xⁱ - xʲ|           the energy score, of each object

This is a proper scoring rule (Gneiting & Raftery 2007): its expectation is lowest for samples of
the true distribution. If the future is certain, it is the distance. If several futures are
possible, the second term rewards samples that spread over them. With one rollout by means, only the
first term remains.

The score can also be added to the ELBO, for rollouts from random frames of each training step.

Tracks are means of the posterior, which do not depend on the prior's networks. They are therefore
inferred once and reused.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.records import map_tensors, stack
from gswm.core.shapes import NOBODY
from gswm.models.base import Noise
from gswm.models.elbo import PerVideo, per_video
from gswm.models.gswm.noise import NoiseShape, RolloutNoise
from gswm.models.gswm.propagation import Propagation, PropagationEvidence, PropagationNoise, Seen
from gswm.models.gswm.schedule import Overshooting
from gswm.models.gswm.situation import Survey
from gswm.models.objects import Attributes, LSTMState, Objects

TINY = 1e-30
"""Keeps norms above 0."""
SHORTEST = 1e-3
"""Distances around this and below are smoothed, so that they have a gradient at 0."""
TRACE = 1e-3
"""A slot whose presence never exceeds this in the given frames is empty."""
TOGETHER = 8
"""Number of windows that a CPU rolls out together."""

Windows = Int[Tensor, " window"]
Slots = Int[Tensor, "window some"]


@dataclass(frozen=True)
class OvershootNoise(Noise):
    """Random numbers of the rollouts of several windows, for each frame."""

    rollouts: PropagationNoise

    @staticmethod
    def draw(
        shape: NoiseShape, batch: int, cfg: Overshooting, generator: torch.Generator
    ) -> "OvershootNoise":
        """Draw noise for `samples` rollouts of each window, or for one rollout by means."""
        frames = max(1, cfg.samples) * cfg.horizon
        drawn = PropagationNoise(*shape.of(batch, frames, shape.num_objects, generator))
        return OvershootNoise(drawn if cfg.samples else map_tensors(torch.zeros_like, drawn))

    def part(self, windows: Windows, slots: Slots) -> "OvershootNoise":
        """That of some slots of some windows."""
        return map_tensors(lambda values: chosen(values, windows, slots), self)


@dataclass(frozen=True)
class Tracks:
    """Objects of several windows, inferred by the posterior; only positions have full precision."""

    o: Attributes
    id: Int[Tensor, "batch frame object"]
    z_state: Float[Tensor, "batch given object state"]
    """z_state in the given frames."""
    q: Gaussian
    """The posterior of each given frame but the first."""
    seen: Seen
    """The background, assumed to be constant."""

    @staticmethod
    def of(
        objects: list[Objects], known: list[PropagationEvidence], seen: Seen, given: int
    ) -> "Tracks":
        """Build from the objects and evidence of each frame, and the background."""
        o = stack([each.o for each in objects], dim=1)
        ids = torch.stack([each.id for each in objects], dim=1)
        z_state = torch.stack([each.z_state for each in objects[:given]], dim=1)
        parts = [each.q for each in known[: given - 1]]
        q = stack(parts, dim=1) if parts else Gaussian(z_state[:, :0], z_state[:, :0])
        half = map_tensors(Tensor.half, (z_state, q, seen))
        return Tracks(replace(o, what=o.what.half()), ids, *half)

    def full(self) -> "Tracks":
        """Convert to full precision."""
        o, q = map_tensors(Tensor.float, (self.o, self.q))
        return Tracks(o, self.id, self.z_state.float(), q, self.seen.float())

    def part(self, windows: Windows, slots: Slots) -> "Tracks":
        """Those of some slots of some windows."""
        o, q = map_tensors(lambda values: chosen(values, windows, slots), (self.o, self.q))
        ids, z_state = (chosen(values, windows, slots) for values in (self.id, self.z_state))
        return Tracks(o, ids, z_state, q, self.seen[windows])

    def at(self, t: int, h: LSTMState) -> Objects:
        """The objects of a frame as the input of the prior, with `h` as its state."""
        o = map_tensors(lambda values: values[:, t], self.o)
        return Objects(o, self.z_state[:, t], h, h, self.id[:, t], self.id[:, t, 0])


def overshoot_terms(
    propagation: Propagation, tracks: Tracks, cfg: Overshooting, noise: OvershootNoise
) -> dict[str, PerVideo]:
    """The score of the rollouts and KL(z̃), per object; only the prior's networks get gradients.

    The score is summed over frames, as a fraction of the image, and so is comparable to center
    errors.
    """
    tracks = tracks.full()
    if tracks.id.is_cuda:  # the step is captured, so its shapes are fixed
        return terms_of(propagation, tracks, cfg, noise)
    parts = groups(tracks, cfg.given)
    terms = [terms_of(propagation, tracks.part(*at), cfg, noise.part(*at)) for at in parts]
    back = torch.cat([window for window, _ in parts]).argsort()
    return map_tensors(lambda *values: torch.cat(values)[back], *terms)


def groups(tracks: Tracks, given: int) -> list[tuple[Windows, Slots]]:
    """Groups of windows with about as many objects, and the slots that contain them.

    A rollout of all slots takes several times as long: most of them are empty.
    """
    empty = (tracks.o.pres[:, :given, :, 0] <= TRACE).all(dim=1)
    number, slots = (~empty).sum(dim=1), empty.long().argsort(dim=1, stable=True)
    parts = number.argsort().split(TOGETHER)
    return [(part, slots[part, : max(1, int(number[part].max()))]) for part in parts]


def chosen(values: Tensor, windows: Windows, slots: Slots) -> Tensor:
    """Some slots of some windows: of (window, frame, slot, *rest)."""
    return values[windows[:, None], :, slots].movedim(1, 2)


def terms_of(
    propagation: Propagation, tracks: Tracks, cfg: Overshooting, noise: OvershootNoise
) -> dict[str, PerVideo]:
    """See `overshoot_terms`; empty slots take part."""
    with only_prior_learns(propagation):
        start, told = recall(propagation, tracks, cfg.given)
        x = rollouts(propagation, start, tracks.seen, noise.rollouts, cfg)
    y = map_tensors(lambda values: values[:, cfg.given :], tracks.o)
    same = tracks.id[:, cfg.given :] == tracks.id[:, cfg.given - 1 : cfg.given]
    number = tracks.o.pres[:, cfg.given - 1].sum(dim=(1, 2)).clamp_min(1)
    terms = {"overshoot": per_video(y.pres[..., 0] * same * score(x, y, cfg.looks)) / number}
    if told is not None and cfg.kl:
        weight = tracks.o.pres[:, : cfg.given - 1]
        terms["kl_overshoot"] = cfg.kl * per_video(weight * tracks.q.kl(told)) / number
    return terms


def recall(propagation: Propagation, tracks: Tracks, given: int) -> tuple[Objects, Gaussian | None]:
    """The objects of the last given frame, and the prior of all given frames but the first."""
    batch, _, slots, _ = tracks.z_state.shape
    h = start = propagation.rnn_prior.start(batch, slots)
    remembered = []
    for t in range(given - 1):
        prev = tracks.at(t, h)
        h = propagation.rnn_prior(prev, propagation.situation(tracks.seen, prev.o), h)
        remembered.append(h.h)
        new = (tracks.id[:, t + 1] != tracks.id[:, t])[..., None]
        h = LSTMState(torch.where(new, start.h, h.h), torch.where(new, start.c, h.c))
    told = propagation.latent.prior(torch.stack(remembered, dim=1)) if remembered else None
    return tracks.at(given - 1, h), told


def joint_term(
    propagation: Propagation,
    objects: list[Objects],
    survey: Survey,
    cfg: Overshooting,
    noise: RolloutNoise,
) -> PerVideo:
    """The score of rollouts from random frames of the tracks, to which no gradient flows.

    The prior learns, and with `joint_decoder` MLP_att. An object counts as long as its slot still
    holds the object of the start.
    """
    horizon, row = cfg.joint_frames(len(objects)), torch.arange(len(survey), device=survey.device)
    # Not from the first frame, in which the prior has no history.
    first = 1 + (noise.start * (len(objects) - 1 - horizon)).long()
    ahead = first[..., None] + 1 + torch.arange(horizon, device=first.device)

    def at_start(*values: Tensor) -> Tensor:
        return torch.stack(values, dim=1).detach()[row[:, None], first].flatten(0, 1)

    def later(*values: Tensor) -> Tensor:
        return torch.stack(values, dim=1).detach()[row[:, None, None], ahead].flatten(0, 1)

    start = map_tensors(at_start, *objects)
    y = map_tensors(later, *(each.o for each in objects))
    ids, seen = later(*(each.id for each in objects)), at_start(*survey.unbind(dim=1))
    drawn = map_tensors(
        lambda n: n.unflatten(1, (first.shape[1], -1)).flatten(0, 1), noise.propagation
    )
    decoders = propagation.decoders() if cfg.joint_decoder else []
    with only_prior_learns(propagation, *decoders):
        x = rollouts(propagation, start, seen, drawn, replace(cfg, horizon=horizon))
    there = start.id != NOBODY
    weight = y.pres[..., 0] * (there[:, None] & (ids == start.id[:, None]))
    number = (start.o.pres[..., 0] * there).sum(dim=1).clamp_min(1)
    lost = per_video(weight * score(x, y, cfg.looks)) / number
    return cfg.joint * lost.unflatten(0, first.shape).mean(dim=1)


def rollouts(
    propagation: Propagation,
    start: Objects,
    seen: Seen,
    noise: PropagationNoise,
    cfg: Overshooting,
) -> Attributes:
    """Roll out the prior: the attributes of (batch, rollout, frame, object).

    The noise sets the number of rollouts per start.
    """
    number = noise.pres.shape[1] // cfg.horizon

    def each(values: Tensor) -> Tensor:
        return values[:, None].expand(-1, number, *values.shape[1:]).flatten(0, 1)

    now, seen = map_tensors(each, start), each(seen)
    at = map_tensors(lambda n: n.unflatten(1, (number, cfg.horizon)).flatten(0, 1), noise)
    imagined = []
    for t in range(cfg.horizon):
        if t:
            now = map_tensors(lambda x: calmed(x, cfg.decay, cfg.limit), now)
        now = propagation.imagine(now, seen, map_tensors(lambda n, t=t: n[:, t], at))
        imagined.append(now.o)
    return map_tensors(lambda x: x.unflatten(0, (-1, number)), stack(imagined, dim=1))


def calmed(x: Tensor, decay: float, limit: float | None) -> Tensor:
    """The identity, with a gradient that is scaled by `decay` and limited for each object.

    The norm of an object's gradient is at most `limit` times the geometric mean over all objects
    that have one.
    """
    if not x.is_floating_point() or (decay == 1 and limit is None):
        return x
    return Calmed.apply(x, decay, limit)  # pyright: ignore[reportReturnType]


class Calmed(torch.autograd.Function):
    """See `calmed`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, decay: float, limit: float | None) -> Tensor:
        """Return the values."""
        ctx.decay, ctx.limit = decay, limit
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Scale the gradient down."""
        grad = grads[0] * ctx.decay
        if ctx.limit is not None:
            norm = grad.norm(dim=-1, keepdim=True)
            some = norm > 0
            logs = torch.where(some, norm, 1).log()
            typical = (logs.sum() / some.sum().clamp_min(1)).exp()
            grad = grad * (ctx.limit * typical / norm.clamp_min(TINY)).clamp_max(1)
        return grad, None, None


def score(x: Attributes, y: Attributes, looks: float) -> Float[Tensor, "*batch object"]:
    """Energy score of rollouts against a track; xy is halved to be a fraction of the frame.

    Depths are compared by σ, as in rendering: those of objects in front may grow without limit.
    """
    place = energy_score(x.xy, y.xy) / 2 + energy_score(x.hw, y.hw)
    width = math.sqrt(y.what.shape[-1])
    look = energy_score(x.depth.sigmoid(), y.depth.sigmoid())
    look = look + energy_score(x.what, y.what) / width
    return place + looks * look


def energy_score(
    x: Float[Tensor, "batch sample *rest n"], y: Float[Tensor, "batch *rest n"]
) -> Float[Tensor, " batch *rest"]:
    """mean_i |xⁱ - y| - ½ mean_{i≠j} |xⁱ - xʲ|."""
    away = distance(x, y[:, None]).mean(dim=1)
    if (number := x.shape[1]) == 1:
        return away
    pairs = [(i, j) for i in range(number) for j in range(i)]
    apart = [distance(x[:, i], x[:, j]) for i, j in pairs]
    return away - torch.stack(apart).mean(dim=0) / 2


def distance(
    a: Float[Tensor, "*#shape n"], b: Float[Tensor, "*#shape n"]
) -> Float[Tensor, "*both"]:
    """|a - b|, with a gradient also where they are equal."""
    return ((a - b).square().sum(dim=-1) + SHORTEST**2).sqrt() - SHORTEST


@contextmanager
def only_prior_learns(propagation: Propagation, *also: nn.Module) -> Iterator[None]:
    """Pass gradients through all networks, but only to parameters of the prior and of `also`."""
    learning = [*propagation.networks_of_prior(), *also]
    ours = {p for module in learning for p in module.parameters()}
    others = [p for p in propagation.parameters() if p.requires_grad and p not in ours]
    for param in others:
        param.requires_grad_(False)
    try:
        yield
    finally:
        for param in others:
            param.requires_grad_()
