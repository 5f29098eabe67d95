"""G-SWM (§3.1): context, propagation, discovery and rendering.

Everything outside the recurrence runs for all frames at once: the context and the trunk of
discovery before it, rendering and the objective after it.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from gswm.core.devices import one_thread
from gswm.core.distributions import Bernoulli
from gswm.core.geometry import paste
from gswm.core.networks import per_object
from gswm.core.records import frames, map_tensors, stack
from gswm.core.schedule import Stage
from gswm.core.shapes import NOBODY, Frame, Video
from gswm.data.batches.augment import AugmentNoise, augmented, moved
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
    as_float,
    check_discover,
    check_next,
)
from gswm.models.elbo import context_terms, likelihood_terms, per_video
from gswm.models.gswm import labels, objective
from gswm.models.gswm.config import GSWMConfig as GSWMConfig
from gswm.models.gswm.context import Context
from gswm.models.gswm.noise import GSWMNoise
from gswm.models.gswm.overshoot import OvershootNoise, Tracks, joint_term, overshoot_terms
from gswm.models.gswm.propagation import PropagationNoise, rescaled
from gswm.models.gswm.recurrence import Recurrence
from gswm.models.gswm.schedule import OvershootStage
from gswm.models.layers import Contexts, StaticContext
from gswm.models.objects import Objects, number
from gswm.models.posterior import How
from gswm.models.scene import Scene, as_track
from gswm.models.track import Track

AT_ONCE = 9
"""Number of imagined frames that are replayed together on a GPU."""


class GSWM(Recurrence):
    """Generative Structured World Model."""

    editable = True

    @property
    def saved_background(self) -> Tensor | None:
        """See `Contract`."""
        return self.context.picture if isinstance(self.context, StaticContext) else None

    @property
    def doubts(self) -> bool:
        """See `Contract`."""
        return self.cfg.discovery.doubt is not None

    @torch.no_grad()
    def settled(self, track: Track) -> Track:
        """See `WorldModel`."""
        if not self.doubts:
            return track
        stays = track.confirmed
        states = zip(track.states, (~stays).unbind(dim=1), strict=False)
        scenes = tuple(scene.without(gone) for scene, gone in states)
        return replace(track, pres=track.pres * stays, states=scenes)

    def adapted(self, weights: dict[str, Tensor], of: ModelConfig) -> dict[str, Tensor]:
        """Convert weights for another position scale, without changing the function."""
        if not isinstance(of, GSWMConfig):
            return weights
        factor = of.propagation.position_scale / self.cfg.propagation.position_scale
        return weights if factor == 1 else rescaled(weights, factor, "propagation.")

    def coarse(self) -> list[nn.Module]:
        """See `Contract`."""
        return [self.discovery.conv_disc, self.renderer, self.context]

    def coarsest(self) -> list[nn.Module]:
        """See `Contract`: Conv_ctx, whose weights hardly matter where backgrounds are alike."""
        return [self.context.conv] if isinstance(self.context, Context) else []

    def parts(self) -> dict[str, list[nn.Module]]:
        """See `Contract`."""
        ours = self.propagation
        prior = ours.networks_of_prior()
        inner = [ours.rnn_prior, ours.rnn_post, ours.mlp_prop, ours.conv_prop, ours.situation]
        inner += list(ours.latent.children())
        return {
            "discovery": [self.discovery],
            "posterior": [module for module in inner if module not in prior],
            "prior": prior,
            "drawing": [self.renderer, self.context],
        }

    def noise(
        self, batch: int, stage: Stage, generator: torch.Generator
    ) -> GSWMNoise | OvershootNoise:
        """The random numbers of a training step."""
        cfg, shape = self.cfg.schedule.overshoot, self.noise_shape
        if isinstance(stage, OvershootStage):
            return OvershootNoise.draw(shape, batch, cfg, generator)
        noise = shape.draw(batch, stage.length, self.cfg.discovery.dropout, generator)
        if self.cfg.augment:
            noise = replace(noise, augment=AugmentNoise.draw(batch, generator))
        if not (frames := cfg.joint_frames(stage.length)) or stage.background_only:
            return noise
        frames *= max(1, cfg.samples)
        drawn = shape.rollouts(batch, cfg.joint_starts, frames, generator)
        if not cfg.samples:
            means = map_tensors(torch.zeros_like, drawn.propagation)
            drawn = replace(drawn, propagation=means)
        return replace(noise, rollouts=drawn)

    def loss(
        self, batch: Batch, noise: GSWMNoise | OvershootNoise, step: Tensor, stage: Stage
    ) -> Loss:
        """-ELBO and the auxiliary loss (§3.4.2), or the score of rollouts in the prior's stage."""
        if isinstance(noise, OvershootNoise):
            return self.loss_of(self.observe(batch, noise), noise)
        video, cfg = as_float(batch.video), self.cfg
        std = cfg.schedule.likelihood_std.at(step).to(video.device, torch.float32)
        behind = None if batch.background is None else as_float(batch.background)
        boxes = batch.labels if cfg.takes_labels else None
        if noise.augment is not None and behind is not None:
            video, behind = augmented(video, behind, noise.augment)
            boxes = None if boxes is None else moved(boxes, noise.augment, cfg.image_size)
        contexts = self.context.infer(self.context.start(len(video), behind), noise.context, video)
        terms = context_terms(contexts)
        if stage.background_only:
            terms |= likelihood_terms(video, contexts.mu_bg, std)
            return Loss.of(terms, {"objects": torch.zeros_like(std)})

        objects, evidence = self.track(video, contexts, noise)
        o = stack([each.o for each in objects], dim=1)
        shown = o
        matches = None if boxes is None else labels.match(objects, boxes)
        if cfg.boxes_by_label and matches is not None and boxes is not None:
            shown = labels.anchored(o, matches, boxes)
        painted = self.renderer.paint(shown, contexts.mu_bg)
        mu = painted.mu
        hw_mean = cfg.schedule.hw_prior_mean.at(step).to(video.device, torch.float32)
        prior_att = self.discovery.prior_att(hw_mean)
        found = stack([each.found for each in evidence], dim=1)
        known = [each.known for each in evidence if each.known is not None]
        target = video if boxes is None else labels.explicable(video, contexts.mu_bg, boxes)
        terms |= likelihood_terms(target, mu, std)
        pres_prior = Bernoulli(cfg.schedule.pres_prior.at(step).logit().to(video.device))
        terms |= objective.discovery_terms(found, noise.keep, prior_att, pres_prior)
        if not cfg.schedule.motion_weight.is_zero:
            moves = objective.motion(target, contexts.mu_bg, cfg.motion_threshold)
            taught = {"motion": per_video((painted.alpha - moves).square())}
            if boxes is None:
                first = Bernoulli(found.pres.logit[:, 0])
                taught["motion_pres"] = objective.motion_pres(first, moves[:, 0], cfg.object_size)
            weight = cfg.schedule.motion_weight.at(step).to(video.device, torch.float32)
            terms |= {name: weight * term for name, term in taught.items()}
        if boxes is not None and matches is not None:
            weight = cfg.schedule.label_weight.at(step).to(video.device, torch.float32)
            taught = labels.label_terms(objects, matches, found, known, noise.keep, boxes)
            terms |= {name: weight * term for name, term in taught.items()}
        if not cfg.schedule.slack_weight.is_zero:
            weight = cfg.schedule.slack_weight.at(step).to(video.device, torch.float32)
            terms["slack"] = weight * objective.slack(o, painted.fill, cfg.image_size)
        if known:
            prior = self.propagation.latent.prior(stack(known, dim=1).h_prior)
            aux = pres_prior if cfg.aux_pres else None
            more = objective.propagation_terms(stack(known, dim=1), prior, aux)
            if aux is not None:
                more["aux_pres"] = more["aux_pres"] * cfg.schedule.aux_weight.at(step).to(mu.device)
            terms |= more
        if noise.rollouts is not None:
            seen = self.propagation.situation.survey(contexts.mu_bg)
            terms["overshoot"] = joint_term(
                self.propagation, objects, seen, cfg.schedule.overshoot, noise.rollouts
            )
        metrics = {"objects": number(o.pres)}
        return Loss.of(terms, metrics | {"squared_error": (video - mu).square().mean()})

    @torch.no_grad()
    def observe(self, batch: Batch, noise: OvershootNoise) -> Tracks:
        """The tracks from which the prior learns in the last stage."""
        given, discover = self.cfg.schedule.overshoot.given, self.cfg.schedule.overshoot.discover
        behind = None if batch.background is None else as_float(batch.background)
        objects, known, contexts = self.tracked(as_float(batch.video), discover, behind)
        seen = self.propagation.situation.survey(contexts.mu_bg[:, given - 1 : given])
        return Tracks.of(objects, known, seen[:, 0], given)

    def loss_of(self, observed: Tracks, noise: OvershootNoise) -> Loss:
        """The distance of the prior's rollouts from the tracks."""
        cfg = self.cfg.schedule.overshoot
        terms = overshoot_terms(self.propagation, observed, cfg, noise)
        return Loss.of(terms, {"objects": number(observed.o.pres)})

    def recurrent(self) -> list[Method]:
        """See `Contract`."""
        return [(self, "step"), *self.context.recurrent()]

    def batched(self) -> list[Method]:
        """See `Contract`."""
        ours = [(self.discovery.conv_disc, "forward"), (self.renderer, "forward")]
        return [*ours, *self.context.batched()]

    def halves(self) -> list[nn.Module]:
        """See `Contract`."""
        objects = [self.discovery.conv_disc, self.renderer.deconv_what, self.propagation.conv_prop]
        return [*objects, self.propagation.situation, self.context]

    def replayable(self) -> list[Method]:
        """See `Contract`."""
        ours = [(self, "step"), (self, "follow_once")]
        imagination = [(self.propagation, name) for name in ("imagine", "imagine_all")]
        return [*ours, *imagination, *self.context.recurrent()]

    def posterior(self, video: Video, generator: torch.Generator | None, how: How) -> Track:
        """See `PosteriorModel`; samples include all latents and the relaxed presence."""
        objects, _, contexts = self.tracked(video, how.discover, how.background, generator)
        return self.as_track(objects, contexts, render=how.render)

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
        batch = len(state.objects.id)
        keep = torch.zeros(steps, dtype=torch.bool, device=self.device)
        noise = self.noise_shape.none(batch, steps, keep, 0)
        if generator is not None:
            drawn = self.noise_shape.of(batch, steps, self.cfg.num_objects, generator)
            noise = replace(noise, propagation=PropagationNoise(*drawn))

        contexts = self.context.imagine(state.context, noise.context)
        seen = self.propagation.situation.survey(contexts.mu_bg)
        seen = torch.cat([state.seen[:, None], seen], dim=1)
        imagined, whole = [state.objects], steps - steps % AT_ONCE
        with one_thread(self.steps_are_small(batch)):
            for t in range(0, whole, AT_ONCE):
                now = map_tensors(lambda x, t=t: x[:, t : t + AT_ONCE], noise.propagation)
                imagined += self.propagation.imagine_all(
                    imagined[-1], seen[:, t : t + AT_ONCE], now
                )
            for t, now in enumerate(frames(noise.propagation)[whole:], start=whole):
                imagined.append(self.propagation.imagine(imagined[-1], seen[:, t], now))
        return self.as_track(imagined[1:], contexts, render=render)

    def as_track(self, objects: list[Objects], contexts: Contexts, *, render: bool) -> Track:
        """The objects as a track for users."""
        o = stack([each.o for each in objects], dim=1)
        seen = self.propagation.situation.survey(contexts.mu_bg).unbind(dim=1)
        drawn = [None] * len(objects)
        if self.cfg.reports_extents:
            drawn = self.renderer.extents(o.what)
        scenes = list(map(Scene, objects, contexts.states, seen, drawn))
        if not render:
            return as_track(scenes, None, None)
        return as_track(scenes, self.renderer.draw(o, contexts.mu_bg), contexts.mu_bg)

    # -- editing

    @torch.no_grad()
    def view(self, state: Scene, background: Frame) -> Track:
        """Draw a scene as one frame, over a background."""
        behind = background.to(self.device)
        frame = self.renderer(state.objects.o).over(behind)
        return as_track([state], frame[:, None], behind[:, None])

    @torch.no_grad()
    def owners(self, state: Scene) -> Owners:
        """The object with the most weight at each pixel (A.4)."""
        o, ids = state.objects.o, state.objects.id
        alpha_att = per_object(self.renderer.deconv_what, o.what).sigmoid()[:, :, 3:]
        alpha_att = alpha_att * o.pres[..., None, None]
        alpha = paste(alpha_att, o.xy, o.hw, self.image_size)[:, :, 0]
        first = (alpha * o.depth.sigmoid()[..., None]).argmax(dim=1)
        owner = ids.gather(1, first.flatten(1)).view_as(first)
        return torch.where(alpha.amax(dim=1) > 0.5, owner, NOBODY)

    @torch.no_grad()
    def proposals(self, before: Scene, state: Scene) -> Regions:
        """The region s_prop around the last position of each object (A.2)."""
        o = before.objects.o
        low, high = self.propagation.cfg.proposal_range
        share = self.propagation.mlp_prop(state.objects.h_post.h).sigmoid()
        return Regions(o.xy, o.hw + low + (high - low) * share)

    @torch.no_grad()
    def infer_after(
        self,
        state: Scene,
        video: AnyVideo,
        *,
        discover: Discover = "first",
        render: bool = True,
    ) -> Track:
        """Infer videos that continue from a state, with the means of the posterior.

        With "first" no object is discovered, since the first frame is already past.
        """
        check_discover(discover)
        video = check_next(video, state, self.image_size).to(self.device)
        batch, time = video.shape[:2]
        always = discover == "always"
        keep = torch.full((time,), always, device=video.device)
        noise = self.noise_shape.none(batch, time, keep, time if always else 0)
        contexts = self.context.infer(state.context, noise.context, video)
        seen = self.propagation.situation.survey(contexts.mu_bg)
        seen = torch.cat([state.seen[:, None], seen], dim=1)
        x = self.propagation.visible(video, contexts.mu_bg)
        if not always:
            tracked, _ = self.follow(state.objects, seen[:, :-1], x, noise.frames())
            return self.as_track(tracked, contexts, render=render)
        e_img = self.discovery.look(video, contexts.mu_bg, noise.keep, batch * time)
        objects, tracked = state.objects, list[Objects]()
        with one_thread(self.steps_are_small(batch)):
            for t, now in enumerate(noise.frames()):
                objects, _ = self.step(objects, seen[:, t], x[:, t], e_img[:, t], now)
                tracked.append(objects)
        return self.as_track(tracked, contexts, render=render)
