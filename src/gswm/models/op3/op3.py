"""OP3: refinement on each frame and prediction of the next, in turn ("interactive inference").

A clip's loss is the mean of the losses after each step of its schedule, weighted 1, 2, 3, ...:

    Σ_i i (-log p(x) + β KL(q(s) ‖ p(s))) / Σ_i i

x is the frame at that step. After a prediction the KL is 0: its result is the prior, and the
posterior begins with it.

The model has no boxes and no background: all K slots are alike, and `masks` decides which of them
show objects. These stay objects in imagination; an object whose region vanishes keeps its last box.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.records import cut, frames, map_tensors
from gswm.core.shapes import NOBODY, Frame, Video
from gswm.data.batches.batch import Batch
from gswm.models.base import (
    Actions,
    AnyVideo,
    Discover,
    Loss,
    Method,
    ModelConfig,
    as_float,
    check_discover,
    check_next,
)
from gswm.models.config import check_positive
from gswm.models.objects import LSTMState
from gswm.models.op3.decoder import BroadcastDecoder, SlotPictures
from gswm.models.op3.dynamics import PairDynamics
from gswm.models.op3.masks import MaskConfig, find
from gswm.models.op3.mixture import Mixture, drawn
from gswm.models.op3.noise import Op3Noise, first_noise
from gswm.models.op3.refinement import Look, Refinement
from gswm.models.op3.schedule import Op3Schedule, Op3Stage
from gswm.models.op3.slots import UNIT, Latents, Slots
from gswm.models.posterior import How, PosteriorModel
from gswm.models.state import State
from gswm.models.track import Track

Steps = Float[Tensor, "batch step object state"]


@dataclass(frozen=True)
class Op3Sizes:
    """Widths of the networks."""

    state: int = 64
    """Width of d and of s."""
    hidden: int = 128
    """Width of the LSTM and of the dynamics."""
    effect: int = 32
    """Width of the effects between entities."""
    channels: int = 32
    """Channels of the convolutions."""


@dataclass(frozen=True)
class Op3Config(ModelConfig):
    """All settings of the model."""

    kind: ClassVar[str] = "op3"

    num_objects: int = 7
    """K: number of slots, of which at least one shows the background."""
    std: float = 0.1
    """σ of a pixel's color."""
    beta: float = 0.01
    """Weight of the KL."""
    stride: int = 1
    """Stride of the three convolutions of refinement: 1 in the authors' release; 2 takes a
    fifteenth of the work.
    """
    sizes: Op3Sizes = field(default_factory=Op3Sizes)
    masks: MaskConfig = field(default_factory=MaskConfig)
    schedule: Op3Schedule = field(default_factory=Op3Schedule)

    @property
    def has_background(self) -> bool:
        """See `ModelConfig`; the background is a slot like any other."""
        return False

    def check(self) -> None:
        """Raise a UserError for settings that do not fit together."""
        super().check()
        self.schedule.check()
        self.masks.check()
        if self.num_objects < 2:
            raise UserError(
                f"--model.num-objects is {self.num_objects}: objects and background need 2 slots"
            )
        if self.image_size < 8:
            raise UserError(f"--model.image-size is {self.image_size}: it must be at least 8")
        check_positive(self, "--model", "std", "stride")


@dataclass(frozen=True, repr=False)
class Op3State(State):
    """The slots after a frame, and the objects in their masks."""

    slots: Slots
    xy: Float[Tensor, "batch object 2"]
    hw: Float[Tensor, "batch object 2"]
    pres: Float[Tensor, "batch object"]


class Op3(PosteriorModel[Op3Config]):
    """Entity abstraction in visual model-based reinforcement learning."""

    boxes_from = "masks"

    def __init__(self, cfg: Op3Config) -> None:
        super().__init__(cfg)
        sizes, size = cfg.sizes, cfg.image_size
        self.d_0 = nn.Parameter(torch.randn(sizes.state) / 8)
        self.lam_0 = nn.Parameter(torch.randn(2 * sizes.state) / 8)
        self.decoder = BroadcastDecoder(2 * sizes.state, sizes.channels, size)
        self.refinement = Refinement(sizes.state, sizes.hidden, sizes.channels, cfg.stride, size)
        self.dynamics = PairDynamics(sizes.state, sizes.hidden, sizes.effect)
        self.first_noise: Tensor
        noise = first_noise(cfg.num_objects, sizes.state)
        self.register_buffer("first_noise", noise, persistent=False)

    # -- training

    def parts(self) -> dict[str, list[nn.Module]]:
        """See `Contract`."""
        return {
            "decoder": [self.decoder],
            "refinement": [self.refinement],
            "dynamics": [self.dynamics],
        }

    def noise(self, batch: int, stage: Op3Stage, generator: torch.Generator) -> Op3Noise:
        """See `Contract`."""
        steps = 1 + len(self.cfg.schedule.order(stage))
        return Op3Noise.draw((batch, steps, self.cfg.num_objects, self.cfg.sizes.state), generator)

    def loss(self, batch: Batch, noise: Op3Noise, step: Tensor, stage: Op3Stage) -> Loss:
        """See the module's docstring."""
        video = as_float(batch.video)
        now, *later = frames(noise.s)
        order = self.cfg.schedule.order(stage)
        time, nlls, kls = 0, list[Tensor](), list[Tensor]()
        errors: dict[str, list[Tensor]] = {"R": [], "P": []}
        look = self.look(video[:, 0], self.start(now))
        for i, (kind, eps) in enumerate(zip(order, later, strict=True), start=1):
            time += kind == "P"
            slots = self.refine(look, eps) if kind == "R" else self.predict(look.slots, eps)
            look = self.look(video[:, time], slots)
            nlls.append(i * look.nll)
            kls.append(i * self.cfg.beta * look.kl)
            with torch.no_grad():
                errors[kind].append((drawn(look.picture) - look.x).square().mean())
        weight = len(order) * (len(order) + 1) / 2
        terms = {
            name: torch.stack(each).sum(dim=0) / weight
            for name, each in (("nll", nlls), ("kl", kls))
        }
        metrics = {"squared_error": errors["R"][-1]}
        if errors["P"]:
            metrics["predicted_error"] = torch.stack(errors["P"]).mean()
        return Loss.of(terms, metrics)

    # -- the steps of inference

    def start(self, eps: Latents) -> Slots:
        """All slots before the first frame, equal except for the noise."""
        shape = eps.shape[:2]
        d, lam = self.d_0.repeat(*shape, 1), self.lam_0.repeat(*shape, 1)
        unit = torch.cat([torch.zeros_like(eps), torch.full_like(eps, UNIT)], dim=-1)
        return Slots(d, lam, unit, eps, self.no_memory(eps))

    def no_memory(self, eps: Latents) -> LSTMState:
        """The LSTM's state before the refinements of a frame."""
        zeros = eps.new_zeros(*eps.shape[:2], self.cfg.sizes.hidden)
        return cut(LSTMState(zeros, zeros))

    def look(self, x: Frame, slots: Slots) -> Look:
        """Compare the slots' picture with a frame, with a gradient with respect to λ.

        The gradient is taken with respect to a view of λ, so that hooks on λ do not see it. It is
        needed even if nothing is learned, and then only through this picture.
        """
        if torch.is_grad_enabled():
            old = slots.lam
            lam = old.view_as(old) if old.requires_grad else old.detach().requires_grad_()
            return self.compared(x, replace(slots, lam=lam))
        with torch.inference_mode(False), torch.enable_grad():
            x, fresh = map_tensors(lambda tensor: tensor.detach().clone(), (x, slots))
            return self.compared(x, replace(fresh, lam=fresh.lam.requires_grad_()))

    def compared(self, x: Frame, slots: Slots) -> Look:
        """The picture of the slots, and its likelihood given a frame."""
        picture = self.decoder(slots.z)
        mixture = Mixture.of(x, picture, self.cfg.std)
        return Look(slots, picture, mixture, x, mixture.nll(), slots.kl())

    def refine(self, look: Look, eps: Latents) -> Slots:
        """R: refine the posterior of the current frame."""
        loss = (look.nll, look.kl)
        weights = (torch.ones_like(look.nll), torch.full_like(look.kl, self.cfg.beta))
        (gradient,) = torch.autograd.grad(
            loss, look.slots.lam, weights, retain_graph=torch.is_grad_enabled()
        )
        lam, memory = self.refinement(look, gradient)
        return replace(look.slots, lam=lam, eps=eps, memory=memory)

    def predict(self, slots: Slots, eps: Latents) -> Slots:
        """P: the prior of the next frame, from which its posterior starts."""
        d, lam = self.dynamics(slots.z)
        return Slots(d, lam, lam, eps, self.no_memory(eps))

    def refined(self, x: Frame, slots: Slots, eps: Steps) -> Slots:
        """One R for each step of the noise."""
        for each in frames(eps):
            slots = self.refine(self.look(x, slots), each)
        return slots

    # -- the fast path

    def recurrent(self) -> list[Method]:
        """See `Contract`: the small networks; recomputing convolutions would not pay off."""
        return [(self.refinement, "update"), (self.dynamics, "forward")]

    def replayable(self) -> list[Method]:
        """See `Contract`."""
        return [(self, "refined"), (self.dynamics, "forward"), (self.decoder, "forward")]

    # -- inference and imagination

    def posterior(self, video: Video, generator: torch.Generator | None, how: How) -> Track:
        """See `PosteriorModel`; samples start with the same noise in their slots as means do.

        There is no discovery: all slots exist from the first frame on, and masks decide in each
        frame which of them are objects.
        """
        return self.tracked(None, video, generator, how.render)

    @torch.no_grad()
    def infer_after(
        self,
        state: Op3State,
        video: AnyVideo,
        *,
        discover: Discover = "first",
        render: bool = True,
    ) -> Track:
        """The objects of each video, which continues from a state, by means of the posterior."""
        check_discover(discover)
        video = check_next(video, state, self.image_size).to(self.device)
        return self.tracked(state.slots, video, None, render)

    def tracked(
        self,
        slots: Slots | None,
        video: Video,
        generator: torch.Generator | None,
        render: bool,
    ) -> Track:
        """The objects of each video, starting from given slots; means without a generator."""
        schedule, seen = self.cfg.schedule, list[Slots]()
        for x in frames(video):
            if slots is None:
                times, slots = schedule.first, self.start(self.first_noise.expand(len(x), -1, -1))
            else:
                (eps,) = frames(self.drawn_noise(len(x), 1, generator))
                times, slots = schedule.later, self.predict(slots, eps)
            slots = self.refined(x, slots, self.drawn_noise(len(x), times, generator))
            seen.append(slots)
        return self.as_track(seen, None, render)

    def drawn_noise(self, batch: int, steps: int, generator: torch.Generator | None) -> Steps:
        """Random numbers for a number of videos and samples; 0 without a generator."""
        shape = (batch, steps, self.cfg.num_objects, self.cfg.sizes.state)
        if generator is None:
            return torch.zeros(shape, device=self.device)
        return Op3Noise.draw(shape, generator).s

    def rollout(
        self,
        state: Op3State,
        steps: int,
        generator: torch.Generator | None,
        *,
        render: bool,
        actions: Actions | None,
    ) -> Track:
        """One future of each state: repeated predictions."""
        slots, imagined = state.slots, list[Slots]()
        for eps in frames(self.drawn_noise(len(state.pres), steps, generator)):
            slots = self.predict(slots, eps)
            imagined.append(slots)
        return self.as_track(imagined, state, render)

    def as_track(self, seen: Sequence[Slots], before: Op3State | None, render: bool) -> Track:
        """The slots as a track; if a previous state is given, its objects remain objects."""
        states, shown = list[Op3State](), list[tuple[Frame, Frame]]()
        for slots in seen:
            picture = self.decoder(slots.z)
            state = self.located(slots, picture, before)
            before = state if before is not None else None
            states.append(state)
            if render:
                shown.append((drawn(picture).clamp(0, 1), behind(picture, state.pres)))
        xy, hw, pres = (
            torch.stack([getattr(state, name) for state in states], dim=1)
            for name in ("xy", "hw", "pres")
        )
        slot = torch.arange(pres.shape[-1], device=pres.device)
        ids = torch.where(pres > 0.5, slot, NOBODY)
        video, background = (
            (torch.stack(part, dim=1) for part in zip(*shown, strict=True))
            if render
            else (None,) * 2
        )
        return Track(xy, hw, torch.zeros_like(pres), pres, ids, video, background, tuple(states))

    def located(self, slots: Slots, picture: SlotPictures, before: Op3State | None) -> Op3State:
        """The objects and boxes of the slots."""
        cfg = self.cfg.masks
        found = find(picture.logit.softmax(dim=1)[:, :, 0], cfg.threshold)
        if before is None:
            is_object = (found.share >= cfg.smallest) & (found.share <= cfg.largest)
            return Op3State(slots, found.xy, found.hw, is_object.float())
        there = (found.share > 0)[..., None]
        xy, hw = torch.where(there, found.xy, before.xy), torch.where(there, found.hw, before.hw)
        return Op3State(slots, xy, hw, before.pres)


def behind(picture: SlotPictures, pres: Float[Tensor, "batch object"]) -> Frame:
    """The mixture of the slots that are not objects; black if all are."""
    object_there = (pres > 0.5)[..., None, None, None]
    logit = torch.where(object_there, -torch.inf, picture.logit)
    mask = logit.softmax(dim=1).nan_to_num(0.0)
    return (mask * picture.mu).sum(dim=1).clamp(0, 1)
