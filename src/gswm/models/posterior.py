"""Models with one method for posterior means and samples.

`WorldModel` asks for `perceive` and, if the model can sample, `perceive_sample`. A model in which
the two differ only in their noise implements `posterior` instead.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch

from gswm.core.shapes import Frame, Video
from gswm.models.base import Actions, Config, Discover, WorldModel
from gswm.models.track import Track


@dataclass(frozen=True)
class How:
    """The arguments of `WorldModel.perceive` besides the videos."""

    discover: Discover
    render: bool
    actions: Actions | None
    background: Frame | None


class PosteriorModel(WorldModel[Config]):
    """A world model with one method for posterior means and samples."""

    @abstractmethod
    def posterior(self, video: Video, generator: torch.Generator | None, how: How) -> Track:
        """The objects of each video: a sample of the posterior, or its means without a generator.

        See `WorldModel.perceive`.
        """

    def perceive(
        self,
        video: Video,
        *,
        discover: Discover,
        render: bool,
        actions: Actions | None,
        background: Frame | None,
    ) -> Track:
        """See `Contract`."""
        return self.posterior(video, None, How(discover, render, actions, background))

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
        """See `Contract`."""
        return self.posterior(video, generator, How(discover, render, actions, background))
