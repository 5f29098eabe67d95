"""SCALOR: features of the whole clip, then propagation and discovery frame by frame.

Drawing, the background and the objective come after, for all frames at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.baselines.scalor.background import Background
from gswm.baselines.scalor.discovery import Discovery, DiscoveryEvidence, ScalorDiscovery
from gswm.baselines.scalor.networks import ImageFeatures
from gswm.baselines.scalor.objective import discovery_terms, propagation_terms
from gswm.baselines.scalor.objects import BoxConfig, ScalorObjects, ScalorSizes, carried
from gswm.baselines.scalor.propagation import ObjectNoise, Propagation, PropagationEvidence, Sight
from gswm.baselines.scalor.rendering import Appearance
from gswm.baselines.scalor.schedule import ScalorSchedule, ScalorStage
from gswm.distributions import logistic_noise, normal_noise
from gswm.errors import UserError
from gswm.imagining import Imagines
from gswm.model.context import Contexts, NoContext
from gswm.model.objective import context_terms, likelihood_terms
from gswm.model.rendering import Foreground
from gswm.networks import in_parts
from gswm.objects import Attributes
from gswm.records import concatenate, frames, map_tensors, stack
from gswm.replay import replayed
from gswm.scene import Scene, as_track
from gswm.shapes import Video
from gswm.world_model import AnyVideo, Discover, Loss, Track, as_float, check_video

Make = Callable[[tuple[int, ...], torch.Generator], Tensor]


@dataclass(frozen=True)
class ScalorConfig:
    """All settings of the model."""

    image_size: int = 64
    num_objects: int = 10
    """K: slots for objects."""
    background: bool = False
    """Whether there is a background; without one it is black."""
    sizes: ScalorSizes = field(default_factory=ScalorSizes)
    boxes: BoxConfig = field(default_factory=BoxConfig)
    discovery: ScalorDiscovery = field(default_factory=ScalorDiscovery)
    schedule: ScalorSchedule = field(default_factory=ScalorSchedule)


@dataclass(frozen=True)
class ScalorNoise:
    """All that is random, for some frames of some videos."""

    context: Float[Tensor, "*batch context"]
    known: ObjectNoise
    found: ObjectNoise

    def rows(self, which: slice) -> "ScalorNoise":
        """Of some of the videos."""
        return map_tensors(lambda tensor: tensor[which], self)

    def frame(self, t: int) -> "ScalorNoise":
        """Of one frame of each video."""
        return map_tensors(lambda tensor: tensor[:, t], self)


@dataclass(frozen=True)
class Tracked:
    """The objects of a frame."""

    objects: ScalorObjects
    """Those that go on to the next."""
    drawn: Attributes
    """All that are drawn: those that propagated, and those found."""
    known: PropagationEvidence
    found: DiscoveryEvidence


class Scalor(Imagines, nn.Module):
    """Scalable object-oriented representation."""

    def __init__(self, cfg: ScalorConfig) -> None:
        super().__init__()
        check(cfg)
        size, sizes, grid = cfg.image_size, cfg.sizes, cfg.discovery.grid
        self.cfg, stride = cfg, size // grid
        self.features = ImageFeatures(stride, grid)
        self.appearance = Appearance(sizes.what, size)
        self.propagation = Propagation(cfg.boxes, sizes, grid)
        self.discovery = Discovery(cfg.discovery, cfg.boxes, sizes, stride)
        self.background = Background(sizes.context) if cfg.background else NoContext(size)

    def stage(self, step: int) -> ScalorStage:
        """The stage of training that `step` belongs to."""
        return self.cfg.schedule.stage(step)

    def noise(
        self, batch: int, stage: ScalorStage, generator: torch.Generator | None
    ) -> ScalorNoise:
        """All that is random in a training step; without a generator none, and all is a mean."""
        sizes, lead, zero = (
            self.cfg.sizes,
            (batch, stage.length),
            torch.zeros((), device=self.device),
        )

        def draw(make: Make, *shape: int) -> Tensor:
            return (
                zero.expand(*lead, *shape)
                if generator is None
                else make((*lead, *shape), generator)
            )

        def of(num: int) -> ObjectNoise:
            where, depth, what = (draw(normal_noise, num, n) for n in (4, 1, sizes.what))
            return ObjectNoise(where, depth, what, draw(logistic_noise, num, 1))

        known, found = of(self.cfg.num_objects), of(self.cfg.discovery.grid**2)
        return ScalorNoise(draw(normal_noise, sizes.context), known, found)

    def loss(self, video: AnyVideo, noise: ScalorNoise, step: Tensor, stage: ScalorStage) -> Loss:
        """-ELBO, a mean over time."""
        video, schedule = as_float(video), self.cfg.schedule
        annealed = (schedule.likelihood_std.at(step), schedule.pres_prior.at(step))
        std, rho, tau = (x.to(video.device, torch.float32) for x in (*annealed, schedule.tau(step)))
        terms, metrics = {}, {"objects": torch.zeros_like(std)}
        nothing = torch.zeros_like(video).flatten(0, 1)
        foreground = Foreground(nothing, nothing[:, :1])
        if not stage.background_only:
            looks = torch.ones(video.shape[:2], device=video.device)
            tracked = self.track(video, noise, tau, looks, detached=stage.detached)
            foreground = self.draw([each.drawn for each in tracked])
            known = stack([each.known for each in tracked], dim=1)
            terms = propagation_terms(known, *self.propagation.prior(known.h_prior))
            terms |= discovery_terms(stack([each.found for each in tracked], dim=1), rho)
            there = torch.stack([each.objects.o.pres for each in tracked], dim=1) > 0.5
            metrics = {"objects": there.float().sum(dim=(2, 3)).mean()}
        contexts = self.behind(foreground, video, noise)
        mu = over(foreground, contexts)
        terms |= likelihood_terms(video, mu, std) | context_terms(contexts)
        per_frame = {name: term / stage.length for name, term in terms.items()}
        return Loss.of(per_frame, metrics | {"squared_error": (video - mu).square().mean()})

    def track(
        self,
        video: Video,
        noise: ScalorNoise,
        tau: Float[Tensor, ""],
        looks: Float[Tensor, "batch time"],
        *,
        detached: bool = False,
    ) -> list[Tracked]:
        """The objects of every frame; in the first there are none to propagate."""
        batch, features = len(video), frames(self.features(video))
        objects = ScalorObjects.none(self.cfg.sizes, batch, self.cfg.num_objects, video)
        taus, tracked = tau.expand(batch, 1, 1), []
        for t in range(video.shape[1]):
            if detached or t == 0:
                objects = map_tensors(cut, objects)
            sight = Sight(video[:, t], features[t], taus, looks[:, t, None, None])
            tracked.append(self.step(objects, sight, noise.frame(t)))
            objects = tracked[-1].objects
        return tracked

    @replayed
    def step(self, objects: ScalorObjects, sight: Sight, noise: ScalorNoise) -> Tracked:
        """One frame more: the known objects propagate, new ones are found, some of both stay."""
        propagated, known = self.propagation.infer(objects, sight, self.appearance, noise.known)
        discovered, found = self.discovery.infer(propagated, sight, self.appearance, noise.found)
        drawn = concatenate([propagated.o, discovered.o], dim=1)
        return Tracked(carried(propagated, discovered), drawn, known, found)

    def draw(self, objects: list[Attributes]) -> Foreground:
        """The objects of all frames at once, one video after the other."""
        o = map_tensors(lambda x: x.flatten(0, 1), stack(objects, dim=1))
        return in_parts(self.appearance, o)

    def behind(self, foreground: Foreground | None, video: Video, noise: ScalorNoise) -> Contexts:
        """The background, which is inferred from where no object is."""
        if isinstance(self.background, NoContext):
            return self.background.imagine(self.background.start(len(video)), noise.context)
        assert foreground is not None
        alpha = foreground.alpha.unflatten(0, video.shape[:2])
        return self.background.infer(noise.context, torch.cat([video, 1 - alpha], dim=2))

    def recurrent(self) -> list[tuple[nn.Module, str]]:
        """See `Parts`."""
        return [(self, "step"), (self.features.first, "step"), (self.features.second, "step")]

    def batched(self) -> list[tuple[nn.Module, str]]:
        """See `Parts`."""
        return [(self.appearance, "forward")]

    def halves(self) -> list[nn.Module]:
        """See `Parts`."""
        f = self.features
        return [f.conv, f.lateral, f.join, self.appearance.deconv_what]

    @torch.no_grad()
    def infer(
        self, video: AnyVideo, *, discover: Discover = "always", render: bool = True
    ) -> Track:
        """The objects of each video, by the means of the posterior, at the last temperature."""
        video = check_video(video, self.image_size).to(self.device)
        batch, time = video.shape[:2]
        noise = self.noise(batch, ScalorStage(time), None)
        tau = video.new_tensor(self.cfg.schedule.tau_end)
        looks = video.new_full((batch, time), discover == "always")
        looks[:, 0] = 1
        tracked = self.track(video, noise, tau, looks)
        drawn = render or self.cfg.background
        foreground = self.draw([each.drawn for each in tracked]) if drawn else None
        contexts = self.behind(foreground, video, noise)
        objects = [each.objects for each in tracked]
        return tracks(objects, foreground if render else None, contexts)

    def go_on(
        self, state: Scene, steps: int, generator: torch.Generator | None, *, render: bool
    ) -> Track:
        """From a state; the background by its mean, also where objects are drawn."""
        noise = self.noise(len(state.objects.id), ScalorStage(steps), generator)
        objects, imagined = state.objects, []
        for t in range(steps):
            objects = self.propagation.imagine(objects, noise.frame(t).known)
            imagined.append(objects)
        foreground = self.draw([each.o for each in imagined]) if render else None
        contexts = self.background.imagine(state.context, torch.zeros_like(noise.context))
        return tracks(imagined, foreground, contexts)

    @property
    def image_size(self) -> int:
        """Pixels of a frame, high and wide."""
        return self.cfg.image_size

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.propagation.head_prior.weight.device


def tracks(
    objects: list[ScalorObjects], foreground: Foreground | None, contexts: Contexts
) -> Track:
    """What a user sees of the objects; with pictures where there is a foreground."""
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


def cut(tensor: Tensor) -> Tensor:
    """A tensor through which no gradient passes, though one reaches it, as `Deferred` needs."""
    return tensor.detach().requires_grad_(tensor.is_floating_point() and torch.is_grad_enabled())


def check(cfg: ScalorConfig) -> None:
    """Refuse settings that do not fit together."""
    size, grid, boxes = cfg.image_size, cfg.discovery.grid, cfg.boxes
    if grid < 2 or grid % 2 or size not in (8 * grid, 16 * grid):
        fits = f"{size // 16} or {size // 8}"
        raise UserError(f"a grid of {grid} does not fit images of {size}: it must be {fits}")
    if cfg.background and size != 64:
        raise UserError(f"SCALOR's background has 64 × 64 pixels, and the image {size} × {size}")
    if cfg.num_objects < 1:
        raise UserError(f"there must be at least 1 slot for objects, not {cfg.num_objects}")
    if boxes.size <= boxes.size_range or boxes.ratio <= boxes.ratio_range:
        raise UserError("a box may have no size: --model.boxes.*-range must be below its middle")
