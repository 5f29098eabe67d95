"""Models with GRUs per object, on a black background: the base of SILOT and SQAIR.

Each frame is one step: known objects propagate, new ones are discovered, and K of both are kept. A
subclass has `propagation` and `renderer`, and implements

    step          one frame
    seen          the objects of every frame of several videos
    noise_ahead   the random numbers of a rollout

It inherits inference, imagination, drawing and edits.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.networks import in_parts
from gswm.core.records import cut, frames, map_tensors, stack
from gswm.core.shapes import Frame, Video
from gswm.models.base import (
    Actions,
    AnyVideo,
    Config,
    Discover,
    Method,
    ModelConfig,
    check_discover,
    check_next,
)
from gswm.models.layers import Foreground, NoContext
from gswm.models.objects import Attributes, Extents, GRUObjects, ObjectNoise
from gswm.models.posterior import How, PosteriorModel
from gswm.models.scene import Scene, as_track
from gswm.models.track import Track

Looks = Float[Tensor, " time"]
Source = torch.Generator | None
"""Draws samples; None for means."""


@dataclass(frozen=True)
class GRUConfig(ModelConfig):
    """Settings of a model on black."""

    @property
    def has_background(self) -> bool:
        """See `ModelConfig`."""
        return False


class GRUModel(PosteriorModel[Config]):
    """A world model whose objects are `GRUObjects`."""

    editable = True
    propagation: Any
    """A module that moves objects by the prior: its `imagine` takes objects and their noise."""
    renderer: Any
    """A module that draws `Attributes` as a `Foreground`."""
    background: NoContext
    widths: tuple[int, int]
    """Widths of an object's what and of each of its GRUs."""

    @abstractmethod
    def step(self, objects: GRUObjects, sight: Any, noise: Any) -> Any:
        """Process one frame; return a record that has its `objects`."""

    @abstractmethod
    def seen(
        self, objects: GRUObjects | None, video: Video, looks: Looks, source: Source
    ) -> list[GRUObjects]:
        """The objects of every frame: samples of the posterior, or without a source its means.

        Args:
            objects: those before the first frame. Default: none.
            video: the frames.
            looks: 1 in frames with discovery, else 0.
            source: draws the samples.
        """

    @abstractmethod
    def noise_ahead(self, shape: tuple[int, int], source: Source) -> ObjectNoise:
        """Random numbers to imagine that many videos and frames; 0 without a source."""

    def nobody(self, like: Float[Tensor, " batch *rest"]) -> GRUObjects:
        """Empty slots, for as many videos as `like` has rows."""
        return GRUObjects.none(*self.widths, self.cfg.num_objects, like)

    def follow(self, objects: GRUObjects, sights: Iterable[Any], noise: Any) -> list[Any]:
        """The result of `step` for every frame, given the objects before the first."""
        objects, tracked = cut(objects), list[Any]()
        for sight, now in zip(sights, frames(noise), strict=True):
            tracked.append(self.step(objects, sight, now))
            objects = tracked[-1].objects
        return tracked

    def draw(self, o: Attributes) -> Foreground:
        """Draw the objects of all frames at once."""
        return in_parts(self.renderer, map_tensors(lambda x: x.flatten(0, 1), o))

    # -- the fast path

    def recurrent(self) -> list[Method]:
        """See `Contract`."""
        return [(self, "step")]

    def replayable(self) -> list[Method]:
        """See `Contract`."""
        return [(self, "step"), (self.propagation, "imagine")]

    # -- inference and imagination

    def posterior(self, video: Video, generator: torch.Generator | None, how: How) -> Track:
        """See `PosteriorModel`; discovery always runs in the first frame."""
        looks = looks_in(video, how.discover)
        looks[0] = 1
        return self.as_track(self.seen(None, video, looks, generator), how.render)

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

        With "first" no object is discovered, since the first frame is already past.
        """
        check_discover(discover)
        video = check_next(video, state, self.image_size).to(self.device)
        looks = looks_in(video, discover)
        return self.as_track(self.seen(state.objects, video, looks, None), render)

    def rollout(
        self,
        state: Scene[GRUObjects],
        steps: int,
        generator: torch.Generator | None,
        *,
        render: bool,
        actions: Actions | None,
    ) -> Track:
        """One future of each state, by the prior of propagation; presence does not change."""
        noise = self.noise_ahead((len(state.objects.id), steps), generator)
        objects, imagined = state.objects, list[GRUObjects]()
        for now in frames(noise):
            objects = self.propagation.imagine(objects, now)
            imagined.append(objects)
        return self.as_track(imagined, render)

    def as_track(self, objects: list[GRUObjects], render: bool) -> Track:
        """The objects as a track for users."""
        nothing = self.background.start(len(objects[0].id))
        o = stack([each.o for each in objects], dim=1)
        parts = self.reported(o)
        scenes = [
            Scene(each, nothing, nothing, part) for each, part in zip(objects, parts, strict=True)
        ]
        if not render:
            return as_track(scenes, None, None)
        drawn = self.draw(o).mu_fg.clamp(0, 1)
        mu = drawn.unflatten(0, (-1, len(objects)))
        return as_track(scenes, mu, torch.zeros_like(mu))

    def reported(self, o: Attributes) -> Sequence[Extents | None]:
        """The part of each box that a track reports, in every frame; None for all of it."""
        return [None] * o.pres.shape[1]

    # -- editing

    @torch.no_grad()
    def view(self, state: Scene[GRUObjects], background: Frame) -> Track:
        """Draw a state as one frame, over a background."""
        behind = background.to(self.device)
        frame = self.renderer(state.objects.o).over(behind).clamp(0, 1)
        return as_track([state], frame[:, None], behind[:, None])


def looks_in(video: Video, discover: Discover) -> Looks:
    """1 for every frame in which discovery runs, else 0."""
    return torch.full_like(video[0, :, 0, 0, 0], discover == "always")
