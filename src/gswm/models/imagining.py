"""How videos go on, in several futures, under actions where a model takes them."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import map_tensors, repeat
from gswm.models.base import AnyVideo, check_video
from gswm.models.track import Track

Actions = Float[Tensor, "batch moment action"]
Plans = Actions | Float[Tensor, "batch future moment action"]


class Imagines:
    """Imagination, for a module with settings `cfg` that can infer, and go on from a state.

    Its `go_on(state, steps, generator, render=…)` is one future of each video; without a generator
    nothing is sampled.
    """

    recipe: Any = None
    """The `Recipe` it was built by, or loaded with; None where it was built by its settings."""

    @property
    def image_size(self: Any) -> int:
        """Pixels of a frame, high and wide."""
        return self.cfg.image_size

    @property
    def device(self: Any) -> torch.device:
        """Where the model is."""
        return next(self.parameters()).device

    @torch.no_grad()
    def imagine(
        self: Any,
        video: AnyVideo,
        given: int,
        steps: int,
        *,
        futures: int = 1,
        sample: bool = True,
        generator: torch.Generator | None = None,
        render: bool = True,
        actions: Actions | None = None,
    ) -> Track:
        """How each video goes on (App. D): no discovery after the first frame, nobody leaves.

        The given frames are inferred once, by means; `sample` is about what comes after them.
        A model that takes actions is given those of all frames: `actions[:, t]` is done in frame
        t, and decides on frame t + 1.
        """
        video = check_video(video, self.image_size)
        if not 1 <= given <= video.shape[1]:
            raise UserError(f"given must be from 1 to the video's {video.shape[1]} frames")
        self.check_actions(actions, given - 1)
        how: dict[str, Any] = {"render": render}
        how |= {} if actions is None else {"actions": actions}
        past = self.infer(video[:, :given], discover="first", **how)
        how |= {} if actions is None else {"actions": actions[:, given - 1 :]}
        how |= {"futures": futures, "sample": sample, "generator": generator}
        return replace(self.imagine_from(past.state_at(-1), steps, **how), past=past)

    @torch.no_grad()
    def imagine_from(
        self: Any,
        state: Any,
        steps: int,
        *,
        futures: int = 1,
        sample: bool = True,
        generator: torch.Generator | None = None,
        render: bool = True,
        actions: Plans | None = None,
    ) -> Track:
        """How it goes on from a state, in which the first action is done.

        Where actions have an axis for futures, every future has a plan of its own.
        """
        if steps < 1 or futures < 1:
            raise UserError("steps and futures must be at least 1")
        self.check_actions(actions, steps)
        generator = generator or torch.Generator(self.device).manual_seed(0)
        how: dict[str, Any] = {"render": render}
        if actions is not None:
            plans = actions if actions.dim() == 4 else actions[:, None]
            plans = plans.to(self.device).expand(-1, futures, -1, -1)
            how["actions"] = plans.flatten(0, 1)
        many = repeat(state, futures)
        track = self.go_on(many, steps, generator if sample else None, **how)
        spread = map_tensors(lambda x: x.unflatten(0, (-1, futures)), replace(track, states=()))
        return replace(spread, states=track.states)

    def check_actions(self: Any, actions: Tensor | None, least: int) -> None:
        """Refuse actions; a model that takes them refuses fewer than `least`, or other ones."""
        if actions is not None:
            raise UserError(
                "this model takes no actions: leave them off, or take a STOVE built with "
                "model.dynamics.actions"
            )
