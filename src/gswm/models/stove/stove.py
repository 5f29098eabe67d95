"""STOVE: SuPAIR's inference in single frames, filtered through the dynamics of the objects.

The bound of the likelihood of a video, with one sample of z, frames counted from 0:

    mean_{t≥2} [ log p(x_t | z_t) + log p(z_t | z_{t-1}) - log q(z_t | z_{t-1}, x_t) ]
    + log p(x_1 | z_1)

Velocities need two frames, so z_1 is the mean of the encoder, and z_0 has no velocity. Encoder,
matching and likelihood run for all frames at once; only the dynamics are recurrent.

With actions, `actions[:, t]` is taken in frame t and influences frame t + 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian, normal_noise
from gswm.core.errors import UserError
from gswm.core.records import frames, map_tensors, stack
from gswm.core.schedule import Stage
from gswm.core.shapes import Video
from gswm.data.batches.batch import Batch
from gswm.models.base import Actions, Loss, Method, Noise, as_float
from gswm.models.posterior import How, PosteriorModel
from gswm.models.scene import as_track
from gswm.models.stove.config import StoveConfig
from gswm.models.stove.dynamics import SIZE, Dynamics, StoveEvidence
from gswm.models.stove.matching import Matching, in_order, with_velocities
from gswm.models.stove.scene import StoveScene, as_hw, as_scene
from gswm.models.stove.supair import ImageModel, SupairEncoder, as_grey, hues
from gswm.models.track import Track

Images = Float[Tensor, "batch time channel height width"]
Hues = Float[Tensor, "batch time object 3"]
CHUNK = 256
"""Number of frames that are drawn at once."""


@dataclass(frozen=True)
class StoveNoise(Noise):
    """All random numbers of a training step."""

    latents: Float[Tensor, "batch object latent"]
    """Noise of the latents of frame 1."""
    z: Float[Tensor, "batch time object z"]


class Stove(PosteriorModel[StoveConfig]):
    """Structured object-aware physics prediction for video modeling."""

    def __init__(self, cfg: StoveConfig) -> None:
        super().__init__(cfg)
        channels = 3 if cfg.color else 1
        self.encoder = SupairEncoder(cfg.encoder, cfg.image_size, channels, cfg.num_objects)
        self.matching = Matching(cfg.num_objects)
        self.images = ImageModel(cfg.images, cfg.image_size, channels)
        self.dynamics = Dynamics(cfg.dynamics, cfg.num_objects)

    def coarse(self) -> list[nn.Module]:
        """See `Contract`; in 8 bits, the layers after the LSTM, which place boxes, lose 2 %."""
        return [self.encoder.lstm]

    @property
    def num_actions(self) -> int:
        """See `Contract`."""
        return self.cfg.dynamics.actions

    def noise(self, batch: int, stage: Stage, generator: torch.Generator) -> StoveNoise:
        """The random numbers of a training step."""
        shapes = self.noise_shapes(batch, stage.length)
        return StoveNoise(*(normal_noise(shape, generator) for shape in shapes))

    def noise_shapes(self, batch: int, time: int) -> list[tuple[int, ...]]:
        """Shapes of the latents of frame 1, and of z of all frames."""
        num, dynamics = self.cfg.num_objects, self.cfg.dynamics
        return [(batch, num, dynamics.latents), (batch, time, num, SIZE + dynamics.width // 2)]

    def recurrent(self) -> list[Method]:
        """See `Contract`."""
        return [(self.dynamics, "infer")]

    def batched(self) -> list[Method]:
        """See `Contract`."""
        return [(self.images, "forward"), (self.encoder, "forward")]

    def replayable(self) -> list[Method]:
        """See `Contract`."""
        return [(self.dynamics, "infer"), (self.dynamics, "forward")]

    def loss(self, batch: Batch, noise: StoveNoise, step: Tensor, stage: Stage) -> Loss:
        """-ELBO, and the cross entropy of the rewards if the batch has any.

        A reward is from -1 to 0. Those of the first two frames are not predicted.
        """
        actions, rewards = batch.actions, batch.rewards
        self.check_actions(actions, stage.length - 1)
        video, cfg = as_float(batch.video), self.cfg
        images = self.look(video)
        if stage.background_only:
            log_p = self.images.log_background(images.flatten(0, 1), None)
            means = log_p.unflatten(0, images.shape[:2]).mean(dim=1)
            return Loss.of({"background": -means}, {})

        where, hue = self.see(video, images)
        z, evidence = self.filter(where, hue, noise, actions)
        found = stack(evidence, dim=1)
        size, s = z.flatten(0, 1).tensor_split([SIZE], dim=-1)
        likelihood = self.images(images[:, 1:].flatten(0, 1), s[..., :2], as_hw(size))
        likelihood = map_tensors(lambda x: x.unflatten(0, z.shape[:2]), likelihood)
        parts = {name: getattr(likelihood, name) for name in ("background", "patches", "overlap")}
        terms = {name: -log_p[:, 0] - log_p[:, 1:].mean(dim=1) for name, log_p in parts.items()}
        prior = Gaussian(found.p, torch.full_like(found.p, cfg.dynamics.prior_std))
        terms["transition"] = -per_video(prior.log_density(z[:, 1:, :, SIZE:]))
        terms["posterior"] = per_video(found.q.log_density(z[:, 1:]))
        if found.reward is not None and rewards is not None:
            chance = rewards[:, 2 : stage.length] + 1
            wrong = F.binary_cross_entropy_with_logits(found.reward, chance, reduction="none")
            terms["reward"] = cfg.schedule.reward_weight.at(step) * wrong.mean(dim=1)
        hidden, width = likelihood.hidden.mean(), size[..., 0].mean()
        metrics = {"hidden": hidden, "width": width, "std": found.q.std.mean()}
        return Loss.of(terms, {name: value.detach() for name, value in metrics.items()})

    def look(self, video: Video) -> Images:
        """Convert a video to the input of the networks."""
        return video if self.cfg.color else as_grey(video)

    def see(self, video: Video, images: Images) -> tuple[Gaussian, Hues]:
        """(s_x, q, x, y, v) of the objects as seen in each single frame, and their hues.

        The objects are in the same order in all frames.
        """
        where = self.encoder(images.flatten(0, 1))
        with torch.no_grad():
            boxes = (where.mean[..., SIZE:], as_hw(where.mean[..., :SIZE]))
            hue = hues(video.flatten(0, 1), *boxes, self.cfg.images.patch)
        where, hue = map_tensors(lambda x: x.unflatten(0, images.shape[:2]), (where, hue))
        place = (where.mean[..., SIZE:] + 1) / 2
        order = self.matching(torch.cat([place, hue], dim=-1) if self.cfg.match_hue else place)
        where, hue = map_tensors(lambda x: in_order(x, order), (where, hue))
        return with_velocities(where), hue

    def filter(
        self, where: Gaussian, hue: Hues, noise: StoveNoise, actions: Actions | None
    ) -> tuple[Float[Tensor, "batch rest object z"], list[StoveEvidence]]:
        """The z of all frames but the first, and the inputs of the objective."""
        latents = self.cfg.dynamics.prior_std * noise.latents
        z = torch.cat([where.mean[:, 1], latents], dim=-1)
        found, evidence, last = [z], [], hue.shape[1] - 1
        before = map_tensors(lambda x: x[:, 1:last], (hue, actions))
        after = map_tensors(lambda x: x[:, 2:], (where, noise.z))
        for (known, action), (seen, eps) in zip(frames(before), frames(after), strict=True):
            z, more = self.dynamics.infer(z[..., SIZE:], seen, eps, known, action)
            found.append(z)
            evidence.append(more)
        return torch.stack(found, dim=1), evidence

    def posterior(self, video: Video, generator: torch.Generator | None, how: How) -> Track:
        """See `PosteriorModel`; the authors' release begins its rollouts with samples.

        There is no discovery: every slot is an object from the first frame on, in which it has no
        velocity yet. The first two frames have no posterior: as in training, their positions are
        the encoder's means, and the latents of the second frame are samples of the prior.
        """
        if generator is None:
            shapes = self.noise_shapes(*video.shape[:2])
            noise = StoveNoise(*(video.new_zeros(shape) for shape in shapes))
        else:
            noise = self.noise(len(video), Stage(video.shape[1]), generator)
        where, hue = self.see(video, self.look(video))
        states = [torch.cat([where.mean[:, 0], torch.zeros_like(noise.latents)], dim=-1)]
        if video.shape[1] > 1:
            states += self.filter(where, hue, noise, how.actions)[0].unbind(dim=1)
        return self.as_track(
            [as_scene(z, hue[:, t]) for t, z in enumerate(states)], render=how.render
        )

    def rollout(
        self,
        state: StoveScene,
        steps: int,
        generator: torch.Generator | None,
        *,
        render: bool,
        actions: Actions | None,
    ) -> Track:
        """A future from a state, in which the first action is taken."""
        if actions is not None and state.objects.id.shape[1] != self.cfg.num_objects:
            raise UserError("with actions, no object can be added")
        scene, scenes, rewards = state, [], []
        for t in range(steps):
            o = scene.objects.o
            action = None if actions is None else actions[:, t]
            moved, reward = self.dynamics(scene.s, o.pres, o.what, action)
            shape = tuple(scene.s.shape)
            noise = 0 * scene.s if generator is None else normal_noise(shape, generator)
            scenes.append(scene := scene.after(moved.draw(noise)))
            rewards.append(reward)
        track = self.as_track(scenes, render=render)
        if not self.cfg.dynamics.rewards:
            return track
        return replace(track, reward=torch.stack(rewards, dim=1).sigmoid() - 1)

    def as_track(self, scenes: Sequence[StoveScene], *, render: bool) -> Track:
        """The objects as a track for users."""
        if not render:
            return as_track(scenes, None, None)
        o = stack([scene.objects.o for scene in scenes], dim=1)
        flat = [x.flatten(0, 1).split(CHUNK) for x in (o.xy, o.hw, o.pres, o.what)]
        drawn = [self.images.draw(*chunk) for chunk in zip(*flat, strict=True)]
        mu, mu_bg = (
            torch.cat(part).unflatten(0, o.xy.shape[:2]) for part in zip(*drawn, strict=True)
        )
        return as_track(scenes, mu, mu_bg)


def per_video(log_density: Float[Tensor, "batch rest object n"]) -> Float[Tensor, " batch"]:
    """Sum over objects, and mean over frames."""
    return log_density.sum(dim=(2, 3)).mean(dim=1)
