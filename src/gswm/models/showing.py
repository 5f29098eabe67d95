"""What an editor needs of a model beside its tracks: pictures of edited scenes, and to go on.

A model that has these methods can be thrown about in; one that has not is shown all the same.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gswm.core.geometry import paste
from gswm.core.networks import per_object
from gswm.core.shapes import Frame
from gswm.models.base import AnyVideo, Discover, check_video
from gswm.models.objects import NOBODY, Objects
from gswm.models.scene import Scene, as_track
from gswm.models.track import Track

Owners = Int[Tensor, "batch height width"]
"""The id of the object that is seen at each pixel; -1 for the background."""


@dataclass(frozen=True)
class Regions:
    """Where a model looked for each object of a frame."""

    xy: Float[Tensor, "batch object 2"]
    hw: Float[Tensor, "batch object 2"]


@runtime_checkable
class Editor(Protocol):
    """A model in whose scenes objects can be thrown."""

    def view(self, state: Any, background: Frame) -> Track:
        """The scene as one frame, before a background."""
        ...

    def owners(self, state: Any) -> Owners:
        """Which object is seen at each pixel."""
        ...

    def proposals(self, before: Any, state: Any) -> Regions:
        """The regions in which the objects of the frame before were looked for."""
        ...

    def infer_after(
        self, state: Any, video: AnyVideo, *, discover: Discover = "first", render: bool = True
    ) -> Track:
        """The objects of each video, which goes on from a state."""
        ...


class Shows:
    """An editor, for a model made of context, discovery, propagation and renderer."""

    @torch.no_grad()
    def view(self: Any, state: Scene, background: Frame) -> Track:
        """The scene as one frame, before a background."""
        behind = background.to(self.device)
        frame = self.renderer(state.objects.o).over(behind)
        return as_track([state], frame[:, None], behind[:, None])

    @torch.no_grad()
    def owners(self: Any, state: Scene) -> Owners:
        """Which object is seen at each pixel: the one that has the most weight there (A.4)."""
        o, ids = state.objects.o, state.objects.id
        alpha_att = per_object(self.renderer.deconv_what, o.what).sigmoid()[:, :, 3:]
        alpha_att = alpha_att * o.pres[..., None, None]
        alpha = paste(alpha_att, o.xy, o.hw, self.image_size)[:, :, 0]
        first = (alpha * o.depth.sigmoid()[..., None]).argmax(dim=1)
        owner = ids.gather(1, first.flatten(1)).view_as(first)
        return torch.where(alpha.amax(dim=1) > 0.5, owner, NOBODY)

    @torch.no_grad()
    def proposals(self: Any, before: Scene, state: Scene) -> Regions:
        """s_prop around where each object was (A.2)."""
        o = before.objects.o
        low, high = self.propagation.cfg.proposal_range
        share = self.propagation.mlp_prop(state.objects.h_post.h).sigmoid()
        return Regions(o.xy, o.hw + low + (high - low) * share)

    @torch.no_grad()
    def infer_after(
        self: Any,
        state: Scene,
        video: AnyVideo,
        *,
        discover: Discover = "first",
        render: bool = True,
    ) -> Track:
        """The objects of each video, which goes on from a state, by the means of the posterior.

        With "first", no object is new: the first frame was before.
        """
        video = check_video(video, self.image_size).to(self.device)
        batch, time = video.shape[:2]
        always = discover == "always"
        keep = torch.full((time,), always, device=video.device)
        noise = self.noise_shape.none(batch, time, keep, time if always else 0)
        contexts = self.context.infer(state.context, noise.context, video)
        seen = self.propagation.situation.survey(contexts.mu_bg)
        seen = torch.cat([state.seen[:, None], seen], dim=1)
        e_img = None
        if always:
            e_img = self.discovery.look(video, contexts.mu_bg, noise.keep, batch * time)
        objects, tracked = state.objects, list[Objects]()
        for t, now in enumerate(noise.frames()):
            objects, _ = self.propagation.infer(objects, seen[:, t], video[:, t], now.propagation)
            if e_img is not None:
                objects, _ = self.discover(objects, e_img[:, t], now)
            tracked.append(objects)
        return self.as_track(tracked, contexts, render=render)
