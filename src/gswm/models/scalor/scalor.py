"""SCALOR: features of the whole clip, then propagation and discovery frame by frame.

Rendering, the background and the objective follow, for all frames at once.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.networks import in_parts
from gswm.core.records import cut, frames, map_tensors, stack
from gswm.core.shapes import NOBODY, Ids, Mask, Scalars, Video
from gswm.data.batches.batch import Batch
from gswm.models.base import Actions, Loss, Method, ModelConfig, as_float
from gswm.models.config import check_positive
from gswm.models.elbo import context_terms, likelihood_terms
from gswm.models.layers import Contexts, Foreground, NoContext
from gswm.models.objects import Attributes, ObjectNoise, number
from gswm.models.posterior import How, PosteriorModel
from gswm.models.scalor.background import Background
from gswm.models.scalor.discovery import Discovery, DiscoveryEvidence, Proposals, ScalorDiscovery
from gswm.models.scalor.networks import ImageFeatures
from gswm.models.scalor.noise import ScalorNoise
from gswm.models.scalor.objective import discovery_terms, propagation_terms
from gswm.models.scalor.objects import (
    BoxConfig,
    ScalorObjects,
    ScalorSizes,
    admitted,
    carried,
    joined,
)
from gswm.models.scalor.observed import Observed
from gswm.models.scalor.propagation import Propagation, PropagationEvidence, Sight
from gswm.models.scalor.rendering import Appearance
from gswm.models.scalor.schedule import ScalorSchedule, ScalorStage
from gswm.models.scene import Scene, as_track
from gswm.models.track import Track


@dataclass(frozen=True)
class ScalorConfig(ModelConfig):
    """All settings of the model."""

    kind: ClassVar[str] = "scalor"

    num_objects: int = 5
    """K: slots for objects; empty slots cost as much as others."""
    background: bool = False
    """Whether the background is learned; otherwise it is black."""
    sizes: ScalorSizes = field(default_factory=ScalorSizes)
    boxes: BoxConfig = field(default_factory=BoxConfig)
    discovery: ScalorDiscovery = field(default_factory=ScalorDiscovery)
    schedule: ScalorSchedule = field(default_factory=ScalorSchedule)

    @property
    def has_background(self) -> bool:
        """See `ModelConfig`."""
        return self.background

    def check(self) -> None:
        """Raise a UserError for settings that do not fit together."""
        super().check()
        self.schedule.likelihood_std.check_positive("--model.schedule.likelihood-std")
        self.schedule.pres_prior.check_probability("--model.schedule.pres-prior")
        check_positive(self.schedule, "--model.schedule", "tau_end", "tau_steps")
        size, grid, boxes = self.image_size, self.discovery.grid, self.boxes
        if grid < 2 or grid % 2 or size not in (8 * grid, 16 * grid):
            fits = f"{size // 16} or {size // 8}"
            raise UserError(f"a grid of {grid} does not fit images of {size}: it must be {fits}")
        if self.background and (size < 64 or size & (size - 1)):
            raise UserError(
                "with a background, SCALOR's image size must be 64, 128 or a larger power of 2, "
                f"not {size}"
            )
        if (steps := self.schedule.prior_repeats) < 0 or (
            steps and self.schedule.prior_only is None
        ):
            raise UserError(
                f"--model.schedule.prior-repeats is {steps}: 0, or more with prior-only"
            )
        if boxes.size <= boxes.size_range or boxes.ratio <= boxes.ratio_range:
            raise UserError(
                "a box may have no size: --model.boxes.*-range must be below its middle"
            )


@dataclass(frozen=True)
class ScalorFrame:
    """The objects of a frame."""

    objects: ScalorObjects
    """The objects that continue in the next frame."""
    shown: Attributes
    """The objects that are drawn, including discovered ones that do not continue."""
    known: PropagationEvidence
    found: DiscoveryEvidence


class Scalor(PosteriorModel[ScalorConfig]):
    """Scalable object-oriented representation."""

    def __init__(self, cfg: ScalorConfig) -> None:
        super().__init__(cfg)
        size, sizes, grid = cfg.image_size, cfg.sizes, cfg.discovery.grid
        stride = size // grid
        self.features = ImageFeatures(stride, grid)
        self.appearance = Appearance(sizes.what, size)
        self.propagation = Propagation(cfg.boxes, sizes, grid)
        self.discovery = Discovery(cfg.discovery, cfg.boxes, stride)
        self.background = Background(sizes.context, size) if cfg.background else NoContext(size)

    def coarse(self) -> list[nn.Module]:
        """See `Contract`."""
        return [self.features.conv, self.appearance, self.background]

    def noise(
        self, batch: int, stage: ScalorStage, generator: torch.Generator | None
    ) -> ScalorNoise:
        """The random numbers of a training step; zeros without a generator."""
        shape, cells = (batch, stage.length), self.cfg.discovery.grid**2
        sizes, slots = self.cfg.sizes, self.cfg.num_objects
        return ScalorNoise.draw(shape, sizes, slots, cells, generator or self.device)

    def loss(self, batch: Batch, noise: ScalorNoise, step: Tensor, stage: ScalorStage) -> Loss:
        """-ELBO, as a mean over time; in the prior's stage, only KL_prop."""
        if stage.prior_only:
            return self.loss_of(self.observe(batch, noise), noise)
        video, schedule = as_float(batch.video), self.cfg.schedule
        annealed = (schedule.likelihood_std.at(step), schedule.pres_prior.at(step))
        std, rho, tau = (x.to(video.device, torch.float32) for x in (*annealed, schedule.tau(step)))
        terms, metrics = {}, {"objects": torch.zeros_like(std)}
        nothing = torch.zeros_like(video).flatten(0, 1)
        foreground = Foreground(nothing, nothing[:, :1])
        if not stage.background_only:
            looks = torch.ones(video.shape[:2], device=video.device)
            tracked = self.track(video, noise, tau, looks, detached=stage.detached)
            foreground = self.draw(stack([each.shown for each in tracked], dim=1))
            known = stack([each.known for each in tracked], dim=1)
            terms = propagation_terms(known, *self.propagation.prior(known.h_prior))
            terms |= discovery_terms(stack([each.found for each in tracked], dim=1), rho)
            metrics = {"objects": number_in(tracked)}
        contexts = self.behind(foreground, video, noise)
        mu = over(foreground, contexts)
        terms |= likelihood_terms(video, mu, std) | context_terms(contexts)
        per_frame = {name: term / stage.length for name, term in terms.items()}
        return Loss.of(per_frame, metrics | {"squared_error": (video - mu).square().mean()})

    @torch.no_grad()
    def observe(self, batch: Batch, noise: ScalorNoise) -> Observed:
        """Infer the tracks from which the prior learns alone, at the final temperature."""
        video = as_float(batch.video)
        tau = video.new_full((), self.cfg.schedule.tau_end)
        tracked = self.track(video, noise, tau, torch.ones_like(video[:, :, 0, 0, 0]))
        known = stack([each.known for each in tracked], dim=1)
        return Observed.of([each.objects for each in tracked], known, number_in(tracked))

    def loss_of(self, observed: Observed, noise: ScalorNoise) -> Loss:
        """The part of -ELBO that depends on the prior."""
        terms = observed.terms(self.propagation).items()
        per_frame = {name: term / observed.told.shape[1] for name, term in terms}
        return Loss.of(per_frame, {"objects": observed.number})

    def track(
        self,
        video: Video,
        noise: ScalorNoise,
        tau: Float[Tensor, ""],
        looks: Float[Tensor, "batch time"],
        *,
        detached: bool = False,
    ) -> list[ScalorFrame]:
        """The objects of every frame; the first has none to propagate."""
        objects = ScalorObjects.none(self.cfg.sizes, len(video), self.cfg.num_objects, video)
        looks = looks[..., None, None]
        sights = frames((video, self.features(video), tau.expand_as(looks), looks))
        tracked: list[ScalorFrame] = []
        for sight, now in zip(sights, frames(noise), strict=True):
            if detached or not tracked:
                objects = cut(objects)
            tracked.append(self.step(objects, Sight(*sight), now))
            objects = tracked[-1].objects
        return tracked

    def step(self, objects: ScalorObjects, sight: Sight, noise: ScalorNoise) -> ScalorFrame:
        """Advance by one frame: propagate known objects, discover new ones, keep some of both."""
        propagated, known = self.propagate(objects, sight, noise.known)
        explained = self.explain(propagated.o)
        proposed = self.propose(explained, sight, noise.found)
        rejected, kept = self.judge(proposed.o, explained, propagated.id)
        objects, shown = self.carry(propagated, proposed.o, kept)
        there = proposed.o.pres
        found = DiscoveryEvidence(proposed.q, proposed.pres, there, rejected, sight.looks)
        return ScalorFrame(objects, shown, known, found)

    def propagate(
        self, objects: ScalorObjects, sight: Sight, noise: ObjectNoise
    ) -> tuple[ScalorObjects, PropagationEvidence]:
        """Propagate the known objects."""
        return self.propagation.infer(objects, sight, self.appearance, noise)

    @torch.no_grad()
    def explain(self, o: Attributes) -> Mask:
        """α of the propagated objects."""
        return self.appearance(o).alpha

    def propose(self, explained: Mask, sight: Sight, noise: ObjectNoise) -> Proposals:
        """Propose one new object in each cell."""
        return self.discovery.propose(explained, sight, self.appearance, noise)

    @torch.no_grad()
    def judge(
        self, o: Attributes, explained: Mask, known: Ids
    ) -> tuple[Bool[Tensor, "batch cell 1"], Float[Tensor, "batch cell 1"]]:
        """Mask of the rejected proposals, and 1 for each accepted one that gets a free slot."""
        rejected = self.discovery.rejected(self.appearance.masks(o), explained, o.pres)
        free = (known == NOBODY).sum(dim=1)
        return rejected, admitted(o.pres * ~rejected, free) * ~rejected

    def carry(
        self, propagated: ScalorObjects, proposed: Attributes, kept: Scalars
    ) -> tuple[ScalorObjects, Attributes]:
        """The objects that continue in the next frame, and those of this one."""
        objects = joined(propagated, proposed, kept)
        return carried(objects), objects.o

    def draw(self, o: Attributes) -> Foreground:
        """Draw the objects of all frames at once."""
        return in_parts(self.appearance, map_tensors(lambda x: x.flatten(0, 1), o))

    def behind(self, foreground: Foreground | None, video: Video, noise: ScalorNoise) -> Contexts:
        """The background, inferred from the pixels without objects."""
        if isinstance(self.background, NoContext):
            return self.background.imagine(self.background.start(len(video)), noise.context)
        assert foreground is not None
        alpha = foreground.alpha.unflatten(0, video.shape[:2])
        return self.background.infer(noise.context, torch.cat([video, 1 - alpha], dim=2))

    def recurrent(self) -> list[Method]:
        """See `Contract`."""
        features = self.features
        ours = [(self, "propagate"), (self, "propose")]
        return [*ours, (features.first, "step"), (features.second, "step")]

    def batched(self) -> list[Method]:
        """See `Contract`."""
        return [(self, "explain"), (self, "judge"), (self, "carry"), (self.appearance, "forward")]

    def halves(self) -> list[nn.Module]:
        """See `Contract`."""
        f = self.features
        return [f.conv, f.lateral, f.join, self.appearance.deconv_what]

    def replayable(self) -> list[Method]:
        """See `Contract`."""
        return [(self, "step"), (self.propagation, "imagine")]

    def posterior(self, video: Video, generator: torch.Generator | None, how: How) -> Track:
        """See `PosteriorModel`; the temperature is the final one. The authors' release samples."""
        batch, time = video.shape[:2]
        noise = self.noise(batch, ScalorStage(time), generator)
        tau = video.new_tensor(self.cfg.schedule.tau_end)
        looks = video.new_full((batch, time), how.discover == "always")
        looks[:, 0] = 1
        tracked = self.track(video, noise, tau, looks)
        seen = how.render or self.cfg.background
        foreground = self.draw(stack([each.shown for each in tracked], dim=1)) if seen else None
        contexts = self.behind(foreground, video, noise)
        objects = [each.objects for each in tracked]
        return tracks(objects, foreground if how.render else None, contexts)

    def rollout(
        self,
        state: Scene,
        steps: int,
        generator: torch.Generator | None,
        *,
        render: bool,
        actions: Actions | None,
    ) -> Track:
        """A future from a state; the background is always the prior's mean."""
        noise = self.noise(len(state.objects.id), ScalorStage(steps), generator)
        objects, imagined = state.objects, []
        for now in frames(noise.known):
            objects = self.propagation.imagine(objects, now)
            imagined.append(objects)
        foreground = self.draw(stack([each.o for each in imagined], dim=1)) if render else None
        contexts = self.background.imagine(state.context, torch.zeros_like(noise.context))
        return tracks(imagined, foreground, contexts)


def number_in(tracked: list[ScalorFrame]) -> Float[Tensor, ""]:
    """Number of objects that continue from a frame to the next."""
    return number(torch.stack([each.objects.o.pres for each in tracked], dim=1))


def tracks(
    objects: list[ScalorObjects], foreground: Foreground | None, contexts: Contexts
) -> Track:
    """The objects as a track for users, with images if there is a foreground."""
    nothing = objects[0].bias[:, 0, :0]
    both = zip(objects, contexts.states, strict=True)
    scenes = [Scene(each, context, nothing) for each, context in both]
    if foreground is None:
        return as_track(scenes, None, None)
    return as_track(scenes, over(foreground, contexts), contexts.mu_bg)


def over(foreground: Foreground, contexts: Contexts) -> Video:
    """μ of every frame."""
    mu_bg = contexts.mu_bg
    return foreground.over(mu_bg.flatten(0, 1)).unflatten(0, mu_bg.shape[:2])
