"""SILOT: features of all frames, then propagation, discovery and selection frame by frame.

Drawing, the learned prior and the objective come after, for all frames at once.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.networks import in_parts
from gswm.core.records import cut, frames, map_tensors, stack
from gswm.core.schedule import PriorStage, Stage
from gswm.core.shapes import NOBODY, Frame, Video
from gswm.data.batches.batch import Batch
from gswm.models.base import (
    Actions,
    AnyVideo,
    Discover,
    Loss,
    Method,
    ModelConfig,
    Owners,
    Regions,
    WorldModel,
    as_float,
    check_video,
)
from gswm.models.layers import Foreground, NoContext
from gswm.models.objects import Attributes, GRUObjects, number, select
from gswm.models.scene import Scene, as_track
from gswm.models.silot.discovery import Discovery, DiscoveryEvidence, SilotDiscovery
from gswm.models.silot.networks import CELL, Backbone, glorot, grid_of
from gswm.models.silot.noise import SilotNoise
from gswm.models.silot.objective import (
    MOST,
    CountPrior,
    FixedPriors,
    color_terms,
    count_terms,
    fixed_terms,
    learned_terms,
)
from gswm.models.silot.objects import AnchorConfig, SilotSizes
from gswm.models.silot.observed import SilotTracks, expected
from gswm.models.silot.propagation import Propagation, PropagationEvidence, SilotSight
from gswm.models.silot.rendering import SpriteRenderer
from gswm.models.silot.schedule import SilotSchedule
from gswm.models.track import Track


@dataclass(frozen=True)
class SilotConfig(ModelConfig):
    """All settings of the model."""

    kind: ClassVar[str] = "silot"

    num_objects: int = 6
    """K: slots for objects; each costs as much, empty or not."""
    sigma: float = 0.15
    """Of the Gaussian kernel, in anchors: how far objects are heard."""
    sizes: SilotSizes = field(default_factory=SilotSizes)
    anchors: AnchorConfig = field(default_factory=AnchorConfig)
    discovery: SilotDiscovery = field(default_factory=SilotDiscovery)
    priors: FixedPriors = field(default_factory=FixedPriors)
    schedule: SilotSchedule = field(default_factory=SilotSchedule)

    @property
    def has_background(self) -> bool:
        """See `ModelConfig`: it is black."""
        return False

    @property
    def cells(self) -> int:
        """How many cells a frame has."""
        return grid_of(self.image_size) ** 2

    def check(self) -> None:
        """Refuse settings that do not fit together."""
        super().check()
        self.priors.check()
        self.schedule.check()
        if self.image_size < 2 * CELL:
            raise UserError(
                f"cells have {CELL} pixels: the image size must be at least {2 * CELL}, "
                f"not {self.image_size}"
            )
        if self.num_objects < 1:
            raise UserError(f"there must be at least 1 slot for objects, not {self.num_objects}")
        if (variables := self.num_objects + self.cells) > MOST:
            raise UserError(
                f"{self.num_objects} slots and {self.cells} cells are {variables} variables of the "
                f"count prior: at most {MOST} are possible, so lower --model.image-size or "
                "--model.num-objects"
            )
        positive = {"sigma": self.sigma, "anchors.size": self.anchors.size}
        positive["anchors.step"] = self.anchors.step
        for name, value in positive.items():
            if not value > 0:
                raise UserError(f"--model.{name} is {value}: it must be above 0")
        for name, share in vars(self.discovery).items():
            if not 0 <= share <= 1:
                flag = f"--model.discovery.{name.replace('_', '-')}"
                raise UserError(f"{flag} is {share}: it must be from 0 to 1")


@dataclass(frozen=True)
class SilotFrame:
    """The objects of a frame, and what the objective needs to know of them."""

    objects: GRUObjects
    known: PropagationEvidence
    found: DiscoveryEvidence


class Silot(WorldModel[SilotConfig]):
    """Spatially invariant, label-free object tracking."""

    editable = True

    def __init__(self, cfg: SilotConfig) -> None:
        super().__init__(cfg)
        size, sizes, anchors = cfg.image_size, cfg.sizes, cfg.anchors
        self.backbone = Backbone(sizes.encoding)
        self.propagation = Propagation(sizes, anchors, cfg.sigma)
        self.discovery = Discovery(cfg.discovery, sizes, anchors, cfg.sigma, size)
        self.renderer = SpriteRenderer(sizes.what, size)
        self.background = NoContext(size)
        self.count_prior = CountPrior(cfg.num_objects + cfg.cells)
        self.apply(glorot)
        for layer in (self.propagation.prior, self.propagation.post):
            layer.start_still()

    def coarse(self) -> list[nn.Module]:
        """See `WorldModel`."""
        return [self.backbone, self.renderer]

    # -- training

    def parts(self) -> dict[str, list[nn.Module]]:
        """See `WorldModel`."""
        ours = self.propagation
        return {
            "discovery": [self.backbone, self.discovery],
            "posterior": [ours.post, ours.mlp_glimpse, ours.encode_near, ours.encode],
            "prior": [ours.prior],
            "drawing": [self.renderer],
        }

    def noise(self, batch: int, stage: Stage, generator: torch.Generator) -> SilotNoise:
        """See `WorldModel`."""
        return self.drawn((batch, stage.length), self.cfg.discovery.dropout, generator)

    def drawn(
        self, shape: tuple[int, int], dropout: float, generator: torch.Generator
    ) -> SilotNoise:
        """Random numbers for so many videos and frames."""
        what, slots, cells = self.cfg.sizes.what, self.cfg.num_objects, self.cfg.cells
        return SilotNoise.draw(shape, what, slots, cells, dropout, generator)

    def means(self, shape: tuple[int, int], looks: Float[Tensor, " time"]) -> SilotNoise:
        """No random numbers, for so many videos and frames."""
        what, slots, cells = self.cfg.sizes.what, self.cfg.num_objects, self.cfg.cells
        return SilotNoise.none(shape, what, slots, cells, looks)

    def loss(self, batch: Batch, noise: SilotNoise, step: Tensor, stage: PriorStage) -> Loss:
        """See `objective`; of it KL_prop, where the learned prior learns alone."""
        if stage.prior_only:
            return self.loss_of(self.observe(batch, noise), noise)
        video, schedule = as_float(batch.video), self.cfg.schedule
        log_p = schedule.count.log_p(step).to(video.device)
        tracked = self.track(
            self.nobody(video), video, noise, schedule.learns(step).to(video.device)
        )
        o = stack([each.objects.o for each in tracked], dim=1)
        mu = self.draw(o).mu_fg.unflatten(0, video.shape[:2])  # over black
        known = stack([each.known for each in tracked], dim=1)
        found = stack([each.found for each in tracked], dim=1)
        terms = color_terms(video, mu)
        terms |= fixed_terms(known, found, self.cfg.priors)
        terms |= count_terms(known, found, self.count_prior, log_p)
        terms |= learned_terms(known, *expected(self.propagation, known))
        metrics = {"objects": number(o.pres)}
        return Loss.of(terms, metrics | {"squared_error": (video - mu).square().mean()})

    @torch.no_grad()
    def observe(self, batch: Batch, noise: SilotNoise) -> SilotTracks:
        """The tracks from which the learned prior learns where it learns alone."""
        video = as_float(batch.video)
        tracked = self.track(self.nobody(video), video, noise)
        return SilotTracks.of(stack([each.known for each in tracked], dim=1))

    def loss_of(self, observed: SilotTracks, noise: SilotNoise) -> Loss:
        """KL_prop, as a function of the learned prior alone."""
        known = observed.recall(self.propagation)
        terms = learned_terms(known, *expected(self.propagation, known))
        return Loss.of(terms, {"objects": number(known.was.pres[:, 1:])})

    def nobody(self, video: Video) -> GRUObjects:
        """Before the first frame."""
        sizes = self.cfg.sizes
        return GRUObjects.none(sizes.what, sizes.hidden, self.cfg.num_objects, video)

    def track(
        self,
        objects: GRUObjects,
        video: Video,
        noise: SilotNoise,
        learns: Float[Tensor, ""] | None = None,
    ) -> list[SilotFrame]:
        """The objects of every frame, from those before the first."""
        features = in_parts(self.backbone, video.flatten(0, 1)).unflatten(0, video.shape[:2])
        learns = torch.ones_like(noise.looks) if learns is None else learns.expand_as(noise.looks)
        sights = frames((video, features, noise.looks, learns))
        objects, tracked = cut(objects), list[SilotFrame]()
        for sight, now in zip(sights, frames(noise), strict=True):
            tracked.append(self.step(objects, SilotSight(*sight), now))
            objects = tracked[-1].objects
        return tracked

    def step(self, objects: GRUObjects, sight: SilotSight, noise: SilotNoise) -> SilotFrame:
        """One frame more: the known objects propagate, new ones are found, K of both stay."""
        propagated, known = self.propagation.infer(objects, sight, noise.known)
        h_0 = self.propagation.start(len(sight.frame), self.cfg.cells)
        discovered, found = self.discovery.infer(propagated, sight, noise.found, h_0)
        return SilotFrame(select(propagated, discovered), known, found)

    def draw(self, o: Attributes) -> Foreground:
        """The objects of all frames at once, one video after the other."""
        return in_parts(self.renderer, map_tensors(lambda x: x.flatten(0, 1), o))

    # -- the fast path

    def recurrent(self) -> list[Method]:
        """See `WorldModel`."""
        return [(self, "step")]

    def batched(self) -> list[Method]:
        """See `WorldModel`."""
        return [
            *((self.backbone, "forward"), (self.renderer, "forward")),
            (self.propagation, "expect"),
        ]

    def halves(self) -> list[nn.Module]:
        """See `WorldModel`."""
        return [self.backbone]

    def replayable(self) -> list[Method]:
        """See `WorldModel`."""
        return [(self, "step"), (self.propagation, "imagine")]

    # -- inference and imagination

    def perceive(
        self,
        video: Video,
        *,
        discover: Discover,
        render: bool,
        actions: Actions | None,
        background: Frame | None,
    ) -> Track:
        """The objects of each video, by the means of the posterior."""
        return self.tracked(self.nobody(video), video, self.looks(video, discover), None, render)

    def perceive_sample(
        self,
        video: Video,
        generator: torch.Generator,
        *,
        discover: Discover,
        render: bool,
        actions: Actions | None,
        background: Frame | None,
    ) -> Track:
        """The objects of each video, by a sample of the posterior."""
        looks = self.looks(video, discover)
        return self.tracked(self.nobody(video), video, looks, generator, render)

    def looks(self, video: Video, discover: Discover) -> Float[Tensor, " time"]:
        """1 in the frames in which there is discovery, else 0."""
        looks = torch.full_like(video[0, :, 0, 0, 0], discover == "always")
        looks[0] = 1
        return looks

    def tracked(
        self,
        objects: GRUObjects,
        video: Video,
        looks: Float[Tensor, " time"],
        generator: torch.Generator | None,
        render: bool,
    ) -> Track:
        """The objects of each video: samples, or without a generator means."""
        shape = (video.shape[0], video.shape[1])
        noise = self.means(shape, looks)
        if generator is not None:
            noise = replace(self.drawn(shape, 0.0, generator), looks=noise.looks)
        tracked = self.track(objects, video, noise)
        return self.as_track([each.objects for each in tracked], render)

    def rollout(
        self,
        state: Scene[GRUObjects],
        steps: int,
        generator: torch.Generator | None,
        *,
        render: bool,
        actions: Actions | None,
    ) -> Track:
        """One future of each state, by the learned prior; presence stays as it is."""
        shape = (len(state.objects.id), steps)
        if generator is None:
            noise = self.means(shape, torch.zeros(steps, device=self.device))
        else:
            noise = self.drawn(shape, 0.0, generator)
        objects, imagined = state.objects, list[GRUObjects]()
        for now in frames(noise.known):
            objects = self.propagation.imagine(objects, now)
            imagined.append(objects)
        return self.as_track(imagined, render)

    def as_track(self, objects: list[GRUObjects], render: bool) -> Track:
        """What a user sees of the objects."""
        nothing = self.background.start(len(objects[0].id))
        scenes = [Scene(each, nothing, nothing) for each in objects]
        if not render:
            return as_track(scenes, None, None)
        foreground = self.draw(stack([each.o for each in objects], dim=1))
        mu = foreground.mu_fg.unflatten(0, (-1, len(objects)))
        return as_track(scenes, mu, torch.zeros_like(mu))

    # -- editing

    @torch.no_grad()
    def view(self, state: Scene[GRUObjects], background: Frame) -> Track:
        """Draw a state as one frame, over a background."""
        behind = background.to(self.device)
        frame = self.renderer(state.objects.o).over(behind)
        return as_track([state], frame[:, None], behind[:, None])

    @torch.no_grad()
    def owners(self, state: Scene[GRUObjects]) -> Owners:
        """The object with the most weight at each pixel, where it is drawn."""
        _, alpha, importance = self.renderer.canvases(state.objects.o)
        first = importance[:, :, 0].argmax(dim=1)
        owner = state.objects.id.gather(1, first.flatten(1)).view_as(first)
        return torch.where(alpha[:, :, 0].amax(dim=1) > 0.5, owner, NOBODY)

    @torch.no_grad()
    def proposals(self, before: Scene[GRUObjects], state: Scene[GRUObjects]) -> Regions:
        """The first glimpse of each object."""
        was = before.objects
        near, _ = self.propagation.near(was.o, self.propagation.post.hear(was.o, was.h_post))
        return Regions(*near)

    @torch.no_grad()
    def infer_after(
        self,
        state: Scene[GRUObjects],
        video: AnyVideo,
        *,
        discover: Discover = "first",
        render: bool = True,
    ) -> Track:
        """The objects of each video, which continues from a state, by means of the posterior.

        With "first", no object is new: the first frame was before.
        """
        video = check_video(video, self.image_size).to(self.device)
        looks = torch.full_like(video[0, :, 0, 0, 0], discover == "always")
        return self.tracked(state.objects, video, looks, None, render)
