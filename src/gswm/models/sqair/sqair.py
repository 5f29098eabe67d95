"""SQAIR: propagation, then discovery, object by object and frame by frame.

A training step draws P posterior samples of each video, which are consecutive rows of one batch.
Rendering and the bound follow, for all frames at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.records import frames, map_tensors, repeat, stack
from gswm.core.schedule import Anneal, Curriculum, Stage
from gswm.core.shapes import NOBODY, Video
from gswm.data.batches.batch import Batch
from gswm.models.base import Loss, Method, Owners, Regions, as_float
from gswm.models.config import check_positive
from gswm.models.gru import GRUConfig, GRUModel, Looks, Source
from gswm.models.layers import NoContext
from gswm.models.objects import Attributes, Extents, GRUObjects, ObjectNoise, number, select
from gswm.models.scene import Scene
from gswm.models.sqair.discovery import Discovery
from gswm.models.sqair.networks import STRIDE, FrameEncoder, GlimpseEncoder
from gswm.models.sqair.noise import SqairNoise
from gswm.models.sqair.objective import costs, terms_of
from gswm.models.sqair.objects import SqairSizes
from gswm.models.sqair.propagation import Propagation
from gswm.models.sqair.rendering import SumRenderer
from gswm.models.sqair.sight import Ratios, SqairSight

OWNED = 0.1
"""Smallest brightness of an object in the pixels that it owns."""


@dataclass(frozen=True)
class SqairSchedule(Curriculum):
    """The curriculum, the training wheels, and the cost of an object."""

    lengths: tuple[tuple[int, int], ...] = ((0, 3), (6_000, 5), (15_000, 10))
    """The curriculum: (from which step, T)."""
    wheels: int = 3_000
    """Number of steps with training wheels: each video has one object, found in its first frame and
    propagated, and presences do not learn. One object learns to draw a whole digit before several
    can share it, and propagation learns to follow it before it can be switched off.
    """
    cost: Anneal = field(default=Anneal(80.0, 50.0, 5_000, 8_000))
    """Nats that a new object must gain in log p(x). This is more than a second object gains by
    correcting the first one's errors in a digit, and more than `upkeep`, so that propagating an
    object is cheaper than finding it again.
    """
    upkeep: Anneal = field(default=Anneal(0.0, 30.0, 4_000, 7_000))
    """Nats that a propagated object must gain in each frame, so that an object leaves with its
    digit instead of staying to draw nothing."""

    def now(self, step: Tensor) -> tuple[Float[Tensor, ""], ...]:
        """`learns`, `cost` and `upkeep` of `SqairSight`; `step` stays on its device."""
        return (step >= self.wheels).float(), self.cost.at(step), self.upkeep.at(step)

    def steady(self, length: int) -> "SqairSchedule":
        """See `Curriculum`; everything learns, and objects cost nothing."""
        free = Anneal(0.0, 0.0)
        return replace(super().steady(length), wheels=0, cost=free, upkeep=free)


@dataclass(frozen=True)
class SqairConfig(GRUConfig):
    """All settings of the model."""

    kind: ClassVar[str] = "sqair"

    num_objects: int = 3
    """K: slots for objects; a frame takes 2 K sequential steps."""
    samples: int = 5
    """P: posterior samples of each video in training."""
    likelihood_std: float = 0.6
    """Standard deviation of a pixel's colors."""
    first_hw: float = 0.4
    """Initial size of boxes, as a fraction of the image."""
    tight_boxes: bool = True
    """Shrink reported boxes to the drawn pixels. The bound does not depend on what is around an
    object in its box."""
    sizes: SqairSizes = field(default_factory=SqairSizes)
    schedule: SqairSchedule = field(default_factory=SqairSchedule)

    def check(self) -> None:
        """Raise a UserError for settings that do not fit together."""
        super().check()
        if self.image_size < 16 or self.image_size % STRIDE:
            raise UserError(
                f"the image size must be a multiple of {STRIDE} and at least 16, "
                f"not {self.image_size}"
            )
        if self.samples < 2:
            raise UserError(
                f"--model.samples is {self.samples}: VIMCO compares at least 2 samples of a video"
            )
        check_positive(self, "--model", "likelihood_std")
        if self.schedule.wheels < 0:
            raise UserError(
                f"--model.schedule.wheels is {self.schedule.wheels}: it must not be below 0"
            )
        if not 0 < self.first_hw < 1:
            raise UserError(f"--model.first-hw is {self.first_hw}: it must be between 0 and 1")


@dataclass(frozen=True)
class SqairFrame:
    """The objects of a frame, and the inputs of the objective."""

    objects: GRUObjects
    known: Ratios
    found: Ratios


class Sqair(GRUModel[SqairConfig]):
    """Sequential attend, infer, repeat."""

    def __init__(self, cfg: SqairConfig) -> None:
        super().__init__(cfg)
        size, sizes = cfg.image_size, cfg.sizes
        self.widths = sizes.what, sizes.hidden
        self.encoder = FrameEncoder(size, sizes)
        self.glimpse = GlimpseEncoder(sizes)
        self.propagation = Propagation(sizes)
        self.discovery = Discovery(sizes, cfg.num_objects, cfg.first_hw)
        self.renderer = SumRenderer(sizes, size)
        self.background = NoContext(size)

    # -- training

    def parts(self) -> dict[str, list[nn.Module]]:
        """See `Contract`."""
        return {
            "discovery": [self.encoder, self.discovery],
            "propagation": [self.propagation],
            "looks": [self.glimpse, self.renderer],
        }

    def noise(self, batch: int, stage: Stage, generator: torch.Generator) -> SqairNoise:
        """See `Contract`."""
        return self.drawn((batch, self.cfg.samples, stage.length), generator)

    def drawn(self, shape: tuple[int, ...], source: torch.Generator | torch.device) -> SqairNoise:
        """Random numbers for K objects of any shape; zeros if `source` is a device."""
        return SqairNoise.draw((*shape, self.cfg.num_objects), self.cfg.sizes.what, source)

    def loss(self, batch: Batch, noise: SqairNoise, step: Tensor, stage: Stage) -> Loss:
        """The bound; see `objective`."""
        video, samples = as_float(batch.video), self.cfg.samples
        rows = map_tensors(lambda x: x.flatten(0, 1), noise)
        looks = torch.ones_like(video[0, :, 0, 0, 0])
        now = [x.to(video.device) for x in self.cfg.schedule.now(step)]
        tracked = self.track(None, video, rows, looks, now, samples)
        o = stack([each.objects.o for each in tracked], dim=1)
        mu = self.draw(o).mu_fg.unflatten(0, o.pres.shape[:2])
        known = stack([each.known for each in tracked], dim=1)
        found = stack([each.found for each in tracked], dim=1)
        std = torch.full_like(looks[0], self.cfg.likelihood_std)
        spent, log_q = costs(repeat(video, samples), mu, std, known, found)
        every = map_tensors(lambda x: x.unflatten(0, (-1, samples)), (spent, log_q))
        terms = terms_of(*every, frames=video.shape[1])
        error = (repeat(video, samples) - mu).square().mean()
        return Loss.of(terms, {"objects": number(o.pres), "squared_error": error.detach()})

    def track(
        self,
        objects: GRUObjects | None,
        video: Video,
        noise: SqairNoise,
        looks: Float[Tensor, " time"],
        now: Sequence[Float[Tensor, ""]] | None = None,
        samples: int = 1,
    ) -> list[SqairFrame]:
        """The objects of every frame of each sample, from those before the first, if any.

        `now` is the result of `SqairSchedule.now`. Default: everything learns, and objects cost
        nothing.
        """
        later = torch.ones_like(looks)
        if objects is None:
            later = torch.cat([torch.zeros_like(later[:1]), later[1:]])
            objects = self.nobody(video.new_zeros(len(video) * samples))
        free = torch.zeros_like(looks[0])
        when = (looks, later, *(now or (free + 1, free, free)))
        when = (each.expand_as(looks)[None, :, None].expand(len(video), -1, -1) for each in when)
        sights = frames(repeat((video, *when), samples))
        return self.follow(objects, (SqairSight(*sight) for sight in sights), noise)

    def step(self, objects: GRUObjects, sight: SqairSight, noise: SqairNoise) -> SqairFrame:
        """Advance by one frame: propagate known objects and discover new ones."""
        propagated, known = self.propagation.infer(objects, sight, noise.known, self.glimpse)
        h_0 = self.propagation.start()
        networks = (self.encoder, self.glimpse, self.renderer)
        discovered, found = self.discovery.infer(propagated, sight, noise.found, *networks, h_0)
        return SqairFrame(select(propagated, discovered), known, found)

    # -- the fast path

    def batched(self) -> list[Method]:
        """See `Contract`."""
        return [(self.renderer, "forward")]

    # -- inference and imagination

    def seen(
        self, objects: GRUObjects | None, video: Video, looks: Looks, source: Source
    ) -> list[GRUObjects]:
        """See `GRUModel`; without samples, presence is the more likely of 0 and 1."""
        noise = self.drawn(tuple(video.shape[:2]), source or self.device)
        return [each.objects for each in self.track(objects, video, noise, looks)]

    def noise_ahead(self, shape: tuple[int, int], source: Source) -> ObjectNoise:
        """See `GRUModel`."""
        return self.drawn(shape, source or self.device).known

    def reported(self, o: Attributes) -> Sequence[Extents | None]:
        """See `GRUModel`."""
        return self.renderer.extents(o.what) if self.cfg.tight_boxes else super().reported(o)

    # -- editing

    @torch.no_grad()
    def owners(self, state: Scene[GRUObjects]) -> Owners:
        """The brightest object at each pixel, where it is drawn."""
        light, first = self.renderer.canvases(state.objects.o).amax(dim=2).max(dim=1)
        owner = state.objects.id.gather(1, first.flatten(1)).view_as(first)
        return torch.where(light > OWNED, owner, NOBODY)

    @torch.no_grad()
    def proposals(self, before: Scene[GRUObjects], state: Scene[GRUObjects]) -> Regions:
        """The region of the first glimpse of each object."""
        near, _ = self.propagation.near(before.objects.o, before.objects.h_post)
        return Regions(*near)
