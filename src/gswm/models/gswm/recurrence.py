"""The recurrence of G-SWM (§3.1): propagation and discovery, frame by frame."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.devices import one_thread
from gswm.core.records import frames
from gswm.core.shapes import NOBODY, Frame, Video
from gswm.models.base import Discover
from gswm.models.gswm.config import GSWMConfig
from gswm.models.gswm.context import Context
from gswm.models.gswm.discovery import (
    Discovery,
    DiscoveryEvidence,
    confirm,
    correct,
    reappear,
    revive,
)
from gswm.models.gswm.noise import GSWMNoise, NoiseShape
from gswm.models.gswm.propagation import (
    Propagation,
    PropagationEvidence,
    PropagationNoise,
    Seen,
    View,
    Views,
)
from gswm.models.gswm.rendering import Renderer
from gswm.models.gswm.situation import Survey
from gswm.models.layers import Contexts, NoContext, StaticContext
from gswm.models.objects import Attributes, Objects, Sizes, select
from gswm.models.posterior import PosteriorModel

FEW = 32
"""Total number of slots up to which a step on a CPU is faster in one thread."""


@dataclass(frozen=True)
class Evidence:
    """Inputs of the objective for one frame."""

    found: DiscoveryEvidence
    known: PropagationEvidence | None
    """None in the first frame."""


class Recurrence(PosteriorModel[GSWMConfig]):
    """The networks of G-SWM, and the objects of each frame from those of the frame before."""

    select = staticmethod(select)
    """`gswm.fast` replaces it by a kernel."""

    def __init__(self, cfg: GSWMConfig) -> None:
        super().__init__(cfg)
        sizes = cfg.sizes if cfg.propagation.multimodal else replace(cfg.sizes, state=0)
        size, propagation = cfg.image_size, cfg.propagation
        if cfg.background == "black":
            propagation = replace(propagation, situation="off")
        self.sizes = sizes
        self.noise_shape = NoiseShape(sizes, cfg.num_objects, cfg.discovery.grid**2)
        self.context = context_of(cfg, sizes)
        self.propagation = Propagation(
            propagation, sizes, size, subtracts=cfg.background == "static"
        )
        self.discovery = Discovery(cfg.discovery, sizes, size, background=cfg.background != "black")
        if cfg.discovery.start_at_prior:
            self.discovery.start_at(cfg.schedule.hw_prior_mean.start, cfg.schedule.pres_prior.start)
        self.renderer = Renderer(sizes.what, size, sizes.glimpse)

    def track(
        self, video: Video, contexts: Contexts, noise: GSWMNoise
    ) -> tuple[list[Objects], list[Evidence]]:
        """The objects of every frame, and the inputs of the objective."""
        seen = frames(self.propagation.situation.survey(contexts.mu_bg))
        e_img = frames(self.discovery.look(video, contexts.mu_bg, noise.keep, sum(noise.kept)))
        x, at = frames(self.propagation.visible(video, contexts.mu_bg)), noise.frames()
        objects, first = self.begin(e_img[0], at[0])
        tracked, evidence = [objects], [first]
        with one_thread(self.steps_are_small(len(video))):
            for t in range(1, len(x)):
                objects, more = self.step(objects, seen[t - 1], x[t], e_img[t], at[t])
                tracked.append(objects)
                evidence.append(more)
        return tracked, evidence

    def steps_are_small(self, batch: int) -> bool:
        """Whether frames are processed one by one, for few videos on a CPU."""
        few = batch * self.cfg.num_objects <= FEW
        return few and self.device.type == "cpu" and not torch.is_grad_enabled()

    def begin(
        self, e_img: Float[Tensor, "batch cell e"], noise: GSWMNoise
    ) -> tuple[Objects, Evidence]:
        """The first frame, in which all objects are new."""
        objects, found = self.discover(self.empty(len(e_img)), e_img, noise)
        return objects, Evidence(found, None)

    def step(
        self,
        objects: Objects,
        seen: Float[Tensor, " batch *seen"],
        frame: View,
        e_img: Float[Tensor, "batch cell e"],
        noise: GSWMNoise,
    ) -> tuple[Objects, Evidence]:
        """Advance by one frame: propagate known objects, discover new ones, and keep K of both."""
        propagated, known = self.propagation.infer(objects, seen, frame, noise.propagation)
        objects, found = self.discover(propagated, e_img, noise)
        return objects, Evidence(found, known)

    def discover(
        self, propagated: Objects, e_img: Float[Tensor, "batch cell e"], noise: GSWMNoise
    ) -> tuple[Objects, DiscoveryEvidence]:
        """Select the K objects of a frame from those propagated and those discovered."""
        batch, cells, _ = e_img.shape
        h_0 = (
            self.propagation.rnn_prior.start(batch, cells),
            self.propagation.rnn_post.start(batch, cells),
        )
        found, evidence = self.discovery.infer(propagated, e_img, noise.keep, noise.discovery, h_0)
        if (weight := self.cfg.discovery.correction) is not None and not torch.is_grad_enabled():
            propagated = correct(propagated, found, noise.keep, weight)
        if self.cfg.discovery.doubt is not None and not torch.is_grad_enabled():
            propagated = confirm(propagated, found, evidence.weight)
        if (least := self.cfg.discovery.revival) is not None:
            propagated, found = revive(propagated, found, least)
        if (least := self.cfg.discovery.hidden) is not None:
            propagated, found = reappear(propagated, found, least)
        return self.select(propagated, found), evidence

    def empty(self, batch: int) -> Objects:
        """K empty slots."""
        slots, like = self.cfg.num_objects, self.propagation.rnn_prior.h_0
        o = Attributes.split(like.new_zeros(batch, slots, self.sizes.o))
        z_state = like.new_zeros(batch, slots, self.sizes.state)
        h_prior = self.propagation.rnn_prior.start(batch, slots)
        h_post = self.propagation.rnn_post.start(batch, slots)
        ids = torch.full((batch, slots), NOBODY, device=like.device)
        return Objects(o, z_state, h_prior, h_post, ids, torch.zeros_like(ids[:, 0]))

    def tracked(
        self,
        video: Video,
        discover: Discover,
        background: Frame | None,
        generator: torch.Generator | None = None,
    ) -> tuple[list[Objects], list[PropagationEvidence], Contexts]:
        """The objects of every frame, the evidence of all but the first, and the background.

        Means of the posterior, or samples if there is a generator.
        """
        batch, time = video.shape[:2]
        keep = torch.arange(time, device=video.device) < (1 if discover == "first" else time)
        noise = self.noise_shape.none(batch, time, keep, 1 if discover == "first" else time)
        if generator is not None:
            drawn = self.noise_shape.draw(batch, time, 0.0, generator)
            noise = replace(drawn, keep=noise.keep, kept=noise.kept)
        start = self.context.start(batch, background)
        contexts = self.context.infer(start, noise.context, video)
        if discover == "first":
            return *self.tracked_from_first(video, contexts, noise), contexts
        objects, evidence = self.track(video, contexts, noise)
        return objects, [each.known for each in evidence if each.known is not None], contexts

    def tracked_from_first(
        self, video: Video, contexts: Contexts, noise: GSWMNoise
    ) -> tuple[list[Objects], list[PropagationEvidence]]:
        """See `tracked`, if objects are discovered in the first frame alone.

        In other frames all would be absent, and `select` would choose none of them.
        """
        e_img = self.discovery.look(
            video[:, :1], contexts.mu_bg[:, :1], noise.keep[:, :1], len(video)
        )
        at = noise.frames()
        objects, _ = self.begin(e_img[:, 0], at[0])
        seen = self.propagation.situation.survey(contexts.mu_bg)
        views = self.propagation.visible(video, contexts.mu_bg)
        later, known = self.follow(objects, seen[:, :-1], views[:, 1:], at[1:])
        return [objects, *later], known

    def follow(
        self, objects: Objects, seen: Survey, views: Views, noise: list[GSWMNoise]
    ) -> tuple[list[Objects], list[PropagationEvidence]]:
        """Propagate known objects through several frames, and discover none.

        `seen` is one frame earlier than `views`.
        """
        tracked, known = [objects], list[PropagationEvidence]()
        with one_thread(self.steps_are_small(len(views))):
            for t, now in enumerate(noise):
                objects, evidence = self.follow_once(
                    tracked[-1], seen[:, t], views[:, t], now.propagation
                )
                tracked.append(objects)
                known.append(evidence)
        return tracked[1:], known

    def follow_once(
        self, objects: Objects, seen: Seen, frame: View, noise: PropagationNoise
    ) -> tuple[Objects, PropagationEvidence]:
        """Advance by one frame without discovery."""
        return self.propagation.infer(objects, seen, frame, noise)


def context_of(cfg: GSWMConfig, sizes: Sizes) -> Context | StaticContext | NoContext:
    """The context module for a config."""
    if cfg.background == "learned":
        return Context(sizes, cfg.image_size)
    return StaticContext() if cfg.background == "static" else NoContext(cfg.image_size)
