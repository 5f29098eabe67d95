"""STOVE: what SuPAIR sees in single frames, filtered through the dynamics of the objects.

The bound of the likelihood of a video, with one sample of z, frames counted from 0:

    mean_{t≥2} [ log p(x_t | z_t) + log p(z_t | z_{t-1}) - log q(z_t | z_{t-1}, x_t) ]
    + log p(x_1 | z_1)

Velocities need two frames, so z_1 is what the encoder sees, by its means, and z_0 has none.
Encoder, matching and likelihood are done for all frames at once; only the dynamics recur.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gswm.baselines.stove.dynamics import MOTION, SIZE, Dynamics, DynamicsConfig, Evidence
from gswm.baselines.stove.encoder import Encoder, EncoderConfig
from gswm.baselines.stove.images import ImageModel, ImagesConfig, as_grey, hues
from gswm.baselines.stove.matching import Matching, in_order, with_velocities
from gswm.baselines.stove.scene import StoveScene, as_hw, as_scene
from gswm.distributions import Gaussian, normal_noise
from gswm.errors import UserError
from gswm.records import map_tensors, stack
from gswm.scene import as_track, repeat
from gswm.schedule import Anneal, Stage
from gswm.shapes import Video
from gswm.world_model import AnyVideo, Discover, Imagines, Loss, Track, as_float, check_video

Actions = Float[Tensor, "batch time action"]
Plans = Float[Tensor, "batch step action"] | Float[Tensor, "batch future step action"]
Rewards = Float[Tensor, "batch time"]
CHUNK = 256
"""How many frames are drawn at once."""


@dataclass(frozen=True)
class StoveSchedule:
    """What changes with the step."""

    lengths: tuple[tuple[int, int], ...] = ((0, 8),)
    """The curriculum: (from which step, T)."""
    background_only: int = 0
    """For so many steps only the background learns."""
    reward_weight: Anneal = Anneal(0.0, 15_000.0, 0, 20_000)
    """Of the rewards' cross entropy, beside the bound."""

    def stage(self, step: int) -> Stage:
        """The stage of `step`."""
        length = [length for start, length in self.lengths if start <= step][-1]
        return Stage(length, step < self.background_only)


@dataclass(frozen=True)
class StoveConfig:
    """All settings of the model."""

    image_size: int = 64
    num_objects: int = 3
    """How many there are, always."""
    color: bool = False
    """Whether the networks see three channels, or their sum."""
    match_hue: bool = False
    """Whether objects are matched between frames by their colors too."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    images: ImagesConfig = field(default_factory=ImagesConfig)
    dynamics: DynamicsConfig = field(default_factory=DynamicsConfig)
    schedule: StoveSchedule = field(default_factory=StoveSchedule)


@dataclass(frozen=True)
class StoveNoise:
    """All that is random in a step."""

    latents: Float[Tensor, "batch object latent"]
    """Of frame 1."""
    z: Float[Tensor, "batch time object z"]

    def rows(self, which: slice) -> "StoveNoise":
        """Of some of the videos."""
        return map_tensors(lambda tensor: tensor[which], self)


@dataclass(frozen=True)
class Sight:
    """What single frames show of the objects, which are in the same order in all of them."""

    where: Gaussian
    """(s_x, q, x, y, v_x, v_y)."""
    hue: Float[Tensor, "batch time object 3"]


class Stove(Imagines, nn.Module):
    """Structured object-aware physics prediction for video modeling."""

    def __init__(self, cfg: StoveConfig) -> None:
        super().__init__()
        check(cfg)
        self.cfg, channels = cfg, 3 if cfg.color else 1
        self.encoder = Encoder(cfg.encoder, cfg.image_size, channels, cfg.num_objects)
        self.matching = Matching(cfg.num_objects)
        self.images = ImageModel(cfg.images, cfg.image_size, channels)
        self.dynamics = Dynamics(cfg.dynamics, cfg.num_objects)

    def stage(self, step: int) -> Stage:
        """The stage of training that `step` belongs to."""
        return self.cfg.schedule.stage(step)

    def noise(self, batch: int, stage: Stage, generator: torch.Generator) -> StoveNoise:
        """All that is random in a training step."""
        num, width = self.cfg.num_objects, self.cfg.dynamics.width // 2
        latents = normal_noise((batch, num, self.cfg.dynamics.latents), generator)
        z = normal_noise((batch, stage.length, num, SIZE + width), generator)
        return StoveNoise(latents, z)

    def recurrent(self) -> list[tuple[nn.Module, str]]:
        """The methods that are called frame by frame, each a function of its arguments alone."""
        return [(self.dynamics, "infer")]

    def loss(
        self,
        video: AnyVideo,
        noise: StoveNoise,
        step: Tensor,
        stage: Stage,
        *,
        actions: Actions | None = None,
        rewards: Rewards | None = None,
    ) -> Loss:
        """-ELBO, and what the rewards' head is wrong by.

        `actions[:, t]` is done in frame t, and `rewards[:, t]`, from -1 to 0, earned on the way
        there; those of the first two frames are not told.
        """
        self.check_actions(actions)
        video = as_float(video)
        images, cfg = self.look(video), self.cfg
        if stage.background_only:
            black = images.flatten(0, 1)
            log_p = self.images.log_background(black, torch.ones_like(black[:, :1]))
            log_p = log_p.unflatten(0, images.shape[:2]).mean(dim=1)
            return Loss.of({"background": -log_p}, {"objects": torch.zeros_like(log_p[0])})

        sight = self.see(video, images)
        z, evidence = self.filter(sight, noise, actions)
        found = stack(evidence, dim=1)
        size, s = z.flatten(0, 1).tensor_split([SIZE], dim=-1)
        likelihood = self.images(images[:, 1:].flatten(0, 1), s[..., :2], as_hw(size))
        likelihood = map_tensors(lambda x: x.unflatten(0, z.shape[:2]), likelihood)
        parts = {name: getattr(likelihood, name) for name in ("background", "patches", "overlap")}
        terms = {name: -log_p[:, 0] - log_p[:, 1:].mean(dim=1) for name, log_p in parts.items()}
        prior = Gaussian(found.p, torch.full_like(found.p, cfg.dynamics.prior_std))
        terms["transition"] = -per_video(prior.log_density(z[:, 1:, :, SIZE:]))
        terms["posterior"] = per_video(found.q.log_density(z[:, 1:]))
        if cfg.dynamics.rewards and rewards is not None:
            wrong = F.binary_cross_entropy_with_logits(
                found.reward, rewards[:, 2 : z.shape[1] + 1] + 1, reduction="none"
            )
            terms["reward"] = cfg.schedule.reward_weight.at(step) * wrong.mean(dim=1)
        seen = (1 - likelihood.hidden).sum(dim=-1).mean()
        std = found.q.std[..., SIZE : SIZE + 2].mean()
        metrics = {"objects": seen, "width": size[..., 0].mean(), "position_std": std}
        return Loss.of(terms, {name: value.detach() for name, value in metrics.items()})

    def look(self, video: Video) -> Float[Tensor, "batch time channel height width"]:
        """What the networks see of a video."""
        return video if self.cfg.color else as_grey(video)

    def see(
        self, video: Video, images: Float[Tensor, "batch time channel height width"]
    ) -> Sight:
        """The objects of every frame, by what it shows alone, in the order of the first."""
        where = self.encoder(images.flatten(0, 1))
        with torch.no_grad():
            boxes = (where.mean[..., 2:], as_hw(where.mean[..., :SIZE]))
            hue = hues(video.flatten(0, 1), *boxes, self.cfg.images.patch)
        where, hue = map_tensors(lambda x: x.unflatten(0, images.shape[:2]), (where, hue))
        features = [(where.mean[..., 2:] + 1) / 2, *([hue] if self.cfg.match_hue else [])]
        order = self.matching(torch.cat(features, dim=-1))
        where = map_tensors(lambda x: in_order(x, order), where)
        return Sight(with_velocities(where), in_order(hue, order))

    def filter(
        self, sight: Sight, noise: StoveNoise, actions: Actions | None
    ) -> tuple[Float[Tensor, "batch time object z"], list[Evidence]]:
        """z of all frames but the first, and what the objective needs to know of them."""
        latents = self.cfg.dynamics.prior_std * noise.latents
        z = torch.cat([sight.where.mean[:, 1], latents], dim=-1)
        found, evidence = [z], []
        for t in range(2, sight.hue.shape[1]):
            seen = map_tensors(lambda x, t=t: x[:, t], sight.where)
            action = None if actions is None else actions[:, t - 1]
            hue = sight.hue[:, t - 1] if self.cfg.dynamics.hue else None
            z, more = self.dynamics.infer(z[..., SIZE:], seen, noise.z[:, t], hue, action)
            found.append(z)
            evidence.append(more)
        return torch.stack(found, dim=1), evidence

    @torch.no_grad()
    def infer(
        self,
        video: AnyVideo,
        *,
        discover: Discover = "always",
        render: bool = True,
        actions: Actions | None = None,
    ) -> Track:
        """The objects of each video, by the means of the posterior.

        There is nothing to discover: every slot is an object from the first frame on. The state
        of the first frame has no velocity. `actions[:, t]` is done in frame t.
        """
        self.check_actions(actions)
        video = check_video(video, self.image_size).to(self.device)
        sight = self.see(video, self.look(video))
        batch, time, num, _ = sight.hue.shape
        none = sight.hue.new_zeros(())
        latents = none.expand(batch, num, self.cfg.dynamics.latents)
        z = none.expand(batch, time, num, SIZE + MOTION + self.cfg.dynamics.latents)
        first = torch.cat([sight.where.mean[:, 0], latents], dim=-1)
        states = [first]
        if time > 1:
            states += self.filter(sight, StoveNoise(latents, z), actions)[0].unbind(dim=1)
        scenes = [as_scene(z, sight.hue[:, t]) for t, z in enumerate(states)]
        return self.as_track(scenes, render=render)

    def imagine(
        self, video: AnyVideo, given: int, steps: int, *, actions: Actions | None = None, **how: Any
    ) -> Track:
        """How each video goes on; with `actions` those of given and of imagined frames."""
        if actions is None:
            return super().imagine(video, given, steps, **how)
        if not 1 <= given <= video.shape[1]:
            raise UserError(f"given must be from 1 to the video's {video.shape[1]} frames")
        render = how.get("render", True)
        past = self.infer(video[:, :given], render=render, actions=actions)
        plan = actions[:, given - 1 : given - 1 + steps]
        return replace(self.imagine_from(past.state_at(-1), steps, actions=plan, **how), past=past)

    @torch.no_grad()
    def imagine_from(
        self,
        state: StoveScene,
        steps: int,
        *,
        futures: int = 1,
        sample: bool = True,
        generator: torch.Generator | None = None,
        render: bool = True,
        actions: Plans | None = None,
    ) -> Track:
        """How it goes on from a state, under actions if the model takes them.

        `actions[:, t]` is done before imagined frame t; with an axis for futures, every future
        has a plan of its own.
        """
        if steps < 1 or futures < 1:
            raise UserError("steps and futures must be at least 1")
        batch = len(state.objects.id)
        self.check_actions(actions, steps)
        if actions is not None:
            plans = actions if actions.dim() == 4 else actions[:, None]
            actions = plans.to(self.device).expand(batch, futures, -1, -1).flatten(0, 1)
        scene: StoveScene = repeat(state, futures)
        scenes, rewards = [], []
        generator = generator or torch.Generator(self.device).manual_seed(0)
        for t in range(steps):
            o = scene.objects.o
            action = None if actions is None else actions[:, t]
            moved = self.dynamics(scene.s, o.pres, o.what, action)
            drawn = moved.s.mean
            if sample:
                drawn = moved.s.draw(normal_noise(tuple(drawn.shape), generator))
            scenes.append(scene := scene.after(drawn))
            rewards.append(moved.reward)
        track = self.as_track(scenes, render=render)
        if self.cfg.dynamics.rewards:
            track = replace(track, reward=torch.stack(rewards, dim=1).sigmoid() - 1)
        spread = map_tensors(lambda x: x.unflatten(0, (batch, futures)), replace(track, states=()))
        return replace(spread, states=track.states)

    def as_track(self, scenes: Sequence[StoveScene], *, render: bool) -> Track:
        """What a user sees of the objects."""
        if not render:
            return as_track(scenes, None, None)
        o = stack([scene.objects.o for scene in scenes], dim=1)
        lead = o.xy.shape[:2]
        flat = [x.flatten(0, 1).split(CHUNK) for x in (o.xy, o.hw, o.pres, o.what)]
        drawn = [self.images.draw(*chunk) for chunk in zip(*flat, strict=True)]
        mu, mu_bg = (torch.cat(part).unflatten(0, lead) for part in zip(*drawn, strict=True))
        return as_track(scenes, mu, mu_bg)

    def check_actions(self, actions: Tensor | None, steps: int | None = None) -> None:
        """Refuse actions that the model does not take, and a lack of those that it does."""
        number = self.cfg.dynamics.actions
        if (actions is None) != (number == 0):
            raise UserError(
                f"this model takes actions of {number} numbers: give `actions`"
                if number
                else "this model takes no actions: set --model.dynamics.actions and train it"
            )
        if actions is not None and actions.shape[-1] != number:
            raise UserError(f"an action has {number} numbers here, not {actions.shape[-1]}")
        if actions is not None and steps is not None and actions.shape[-2] != steps:
            raise UserError(f"{steps} steps take as many actions, not {actions.shape[-2]}")

    @property
    def image_size(self) -> int:
        """Pixels of a frame, high and wide."""
        return self.cfg.image_size

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.images.spn_object.mean.device


def per_video(log_density: Float[Tensor, "batch time object n"]) -> Float[Tensor, " batch"]:
    """Summed over objects, mean over frames."""
    return log_density.sum(dim=(2, 3)).mean(dim=1)


def check(cfg: StoveConfig) -> None:
    """Refuse settings that do not fit together."""
    if cfg.num_objects < 1:
        raise UserError(f"there must be at least 1 object, not {cfg.num_objects}")
    if cfg.dynamics.width % 2 or cfg.dynamics.latents < 1:
        raise UserError(f"the width must be even and at least 10, not {cfg.dynamics.width}")
    if min(length for _, length in cfg.schedule.lengths) < 3:
        raise UserError("a velocity needs two frames, and a step one more: T must be at least 3")
    if min(cfg.images.object.depth, cfg.images.background.depth) < 1:
        raise UserError("a sum-product network must be at least 1 deep")
