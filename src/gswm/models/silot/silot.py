"""SILOT: features of all frames, then propagation, discovery and selection frame by frame.

Rendering, the learned prior and the objective follow, for all frames at once.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.networks import in_parts
from gswm.core.records import frames, stack
from gswm.core.schedule import PriorStage, Stage
from gswm.core.shapes import NOBODY, Video
from gswm.data.batches.batch import Batch
from gswm.models.base import Loss, Method, Owners, Regions, as_float
from gswm.models.config import check_positive, check_shares
from gswm.models.gru import GRUConfig, GRUModel, Looks, Source
from gswm.models.layers import NoContext
from gswm.models.objects import GRUObjects, ObjectNoise, number, select
from gswm.models.scene import Scene
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


@dataclass(frozen=True)
class SilotConfig(GRUConfig):
    """All settings of the model."""

    kind: ClassVar[str] = "silot"

    num_objects: int = 6
    """K: slots for objects; empty slots cost as much as others."""
    sigma: float = 0.15
    """Standard deviation of the Gaussian kernel that weights messages, in anchors."""
    sizes: SilotSizes = field(default_factory=SilotSizes)
    anchors: AnchorConfig = field(default_factory=AnchorConfig)
    discovery: SilotDiscovery = field(default_factory=SilotDiscovery)
    priors: FixedPriors = field(default_factory=FixedPriors)
    schedule: SilotSchedule = field(default_factory=SilotSchedule)

    @property
    def cells(self) -> int:
        """Number of cells of a frame."""
        return grid_of(self.image_size) ** 2

    def check(self) -> None:
        """Raise a UserError for settings that do not fit together."""
        super().check()
        self.priors.check()
        self.schedule.check()
        if self.image_size < 2 * CELL:
            raise UserError(
                f"cells have {CELL} pixels: the image size must be at least {2 * CELL}, "
                f"not {self.image_size}"
            )
        if (variables := self.num_objects + self.cells) > MOST:
            raise UserError(
                f"{self.num_objects} slots and {self.cells} cells are {variables} variables of the "
                f"count prior: at most {MOST} are possible, so lower --model.image-size or "
                "--model.num-objects"
            )
        check_positive(self, "--model", "sigma")
        check_positive(self.anchors, "--model.anchors", "size", "step")
        check_shares(self.discovery, "--model.discovery", *vars(self.discovery))


@dataclass(frozen=True)
class SilotFrame:
    """The objects of a frame, and the inputs of the objective."""

    objects: GRUObjects
    known: PropagationEvidence
    found: DiscoveryEvidence


class Silot(GRUModel[SilotConfig]):
    """Spatially invariant, label-free object tracking."""

    def __init__(self, cfg: SilotConfig) -> None:
        super().__init__(cfg)
        size, sizes, anchors = cfg.image_size, cfg.sizes, cfg.anchors
        self.widths = sizes.what, sizes.hidden
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
        """See `Contract`."""
        return [self.backbone, self.renderer]

    # -- training

    def parts(self) -> dict[str, list[nn.Module]]:
        """See `Contract`."""
        ours = self.propagation
        return {
            "discovery": [self.backbone, self.discovery],
            "posterior": [ours.post, ours.mlp_glimpse, ours.encode_near, ours.encode],
            "prior": [ours.prior],
            "drawing": [self.renderer],
        }

    def noise(self, batch: int, stage: Stage, generator: torch.Generator) -> SilotNoise:
        """See `Contract`."""
        return self.drawn((batch, stage.length), self.cfg.discovery.dropout, generator)

    def drawn(
        self, shape: tuple[int, int], dropout: float, source: torch.Generator | torch.device
    ) -> SilotNoise:
        """Random numbers for a number of videos and frames; zeros if `source` is a device."""
        what, slots, cells = self.cfg.sizes.what, self.cfg.num_objects, self.cfg.cells
        return SilotNoise.draw(shape, what, slots, cells, dropout, source)

    def loss(self, batch: Batch, noise: SilotNoise, step: Tensor, stage: PriorStage) -> Loss:
        """See `objective`; in the prior's stage, only KL_prop."""
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
        """The tracks from which the prior learns in its own stage."""
        video = as_float(batch.video)
        tracked = self.track(self.nobody(video), video, noise)
        return SilotTracks.of(stack([each.known for each in tracked], dim=1))

    def loss_of(self, observed: SilotTracks, noise: SilotNoise) -> Loss:
        """KL_prop, as a function of the learned prior alone."""
        known = observed.recall(self.propagation)
        terms = learned_terms(known, *expected(self.propagation, known))
        return Loss.of(terms, {"objects": number(known.was.pres[:, 1:])})

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
        return self.follow(objects, (SilotSight(*sight) for sight in sights), noise)

    def step(self, objects: GRUObjects, sight: SilotSight, noise: SilotNoise) -> SilotFrame:
        """Advance by one frame: propagate known objects, discover new ones, and keep K of both."""
        propagated, known = self.propagation.infer(objects, sight, noise.known)
        h_0 = self.propagation.start(len(sight.frame), self.cfg.cells)
        discovered, found = self.discovery.infer(propagated, sight, noise.found, h_0)
        return SilotFrame(select(propagated, discovered), known, found)

    # -- the fast path

    def batched(self) -> list[Method]:
        """See `Contract`."""
        return [
            *((self.backbone, "forward"), (self.renderer, "forward")),
            (self.propagation, "expect"),
        ]

    def halves(self) -> list[nn.Module]:
        """See `Contract`."""
        return [self.backbone]

    # -- inference and imagination

    def seen(
        self, objects: GRUObjects | None, video: Video, looks: Looks, source: Source
    ) -> list[GRUObjects]:
        """See `GRUModel`."""
        shape = (video.shape[0], video.shape[1])
        noise = self.drawn(shape, 0.0, source or self.device)
        noise = replace(noise, looks=looks[:, None, None].expand(*shape, 1, 1))
        before = self.nobody(video) if objects is None else objects
        return [each.objects for each in self.track(before, video, noise)]

    def noise_ahead(self, shape: tuple[int, int], source: Source) -> ObjectNoise:
        """See `GRUModel`."""
        return self.drawn(shape, 0.0, source or self.device).known

    # -- editing

    @torch.no_grad()
    def owners(self, state: Scene[GRUObjects]) -> Owners:
        """The object with the most weight at each pixel, where it is drawn."""
        _, alpha, importance = self.renderer.canvases(state.objects.o)
        first = importance[:, :, 0].argmax(dim=1)
        owner = state.objects.id.gather(1, first.flatten(1)).view_as(first)
        return torch.where(alpha[:, :, 0].amax(dim=1) > 0.5, owner, NOBODY)

    @torch.no_grad()
    def proposals(self, before: Scene[GRUObjects], state: Scene[GRUObjects]) -> Regions:
        """The region of the first glimpse of each object."""
        was = before.objects
        near, _ = self.propagation.near(was.o, self.propagation.post.hear(was.o, was.h_post))
        return Regions(*near)
