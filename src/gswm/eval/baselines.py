"""Non-learned baselines, which know the ground truth of the given frames.

    center     all objects in the middle of the frame
    stay       all objects keep their last positions
    straight   constant velocity, through walls
    walls      the simulator of the balls, without collisions
    simulator  the simulator of the balls, with collisions if the world has them

`stay` also repeats the last given frame, so it has PSNR and SSIM, even for videos without ground
truth. The others draw nothing.

They put scores into perspective: a model that has learned motion beats `straight`, one that has
learned collisions beats `walls`, and `simulator` has no error.

docs/evaluation.md lists their center errors with known identities. Here objects are matched in the
first imagined frame, as those of a model are. Two objects that have swapped places are then matched
wrongly, which lowers the error by up to 0.006.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.core.shapes import NOBODY
from gswm.data.episode import Episodes, Truth
from gswm.data.worlds.physics import simulate
from gswm.models.base import as_float
from gswm.models.track import Track

Rule = Literal["center", "stay", "straight", "walls", "simulator"]


@dataclass(frozen=True)
class Baseline:
    """A baseline in place of a model."""

    rule: Rule
    collide: bool = True
    """Whether objects of one layer collide in this world."""

    def imagine(self, episodes: Episodes, given: int, steps: int) -> Track:
        """Predict one future of each episode after its first `given` frames."""
        if episodes.truth is None and self.rule == "stay":
            return repeated(nothing_on(episodes.video, given, steps), episodes.video, given)
        truth, side = known(episodes), episodes.video.shape[-1]
        past = map_tensors(lambda values: values[:, :given], truth)
        now = map_tensors(lambda values: values[:, given - 1 : given], truth)
        ahead = map_tensors(lambda values: values.expand(-1, steps, *values.shape[2:]), now)
        moved = track_of(ahead, self.positions(now, steps, side), side)
        future = map_tensors(lambda values: values[:, None], moved)
        future = replace(future, past=track_of(past, past.positions, side))
        return repeated(future, episodes.video, given) if self.rule == "stay" else future

    def positions(
        self, now: Truth, steps: int, side: int
    ) -> Float64[Tensor, "episode {steps} object 2"]:
        """Predict all positions in the next frames from the ground truth of one frame."""
        x, v = now.positions, now.velocities
        ahead = torch.arange(1, steps + 1, dtype=x.dtype, device=x.device)[:, None, None]
        match self.rule:
            case "center":
                return torch.full_like(x, side / 2).expand(-1, steps, -1, -1)
            case "stay":
                return x.expand(-1, steps, -1, -1)
            case "straight":
                return x + ahead * v
        collide = self.collide and self.rule == "simulator"
        radii = torch.where(now.present, now.sizes, 0)[:, 0]
        start = x[:, 0], v[:, 0], radii, now.layers[:, 0]
        path, _ = simulate(*start, steps + 1, float(side), collide)
        return path[:, 1:]


def repeated(
    future: Track, video: UInt8[Tensor, "episode time 3 height width"], given: int
) -> Track:
    """A future that repeats the last given frame."""
    last = as_float(video[:, given - 1])[:, None, None]
    frames = last.expand(-1, -1, future.pres.shape[2], -1, -1, -1)
    return replace(future, reconstruction=frames)


def nothing_on(
    video: UInt8[Tensor, "episode time 3 height width"], given: int, steps: int
) -> Track:
    """An empty track, for videos without ground truth."""

    def track(*axes: int) -> Track:
        none = torch.zeros(len(video), *axes, 0)
        points, ids = none[..., None].expand(*none.shape, 2), torch.full(none.shape, NOBODY)
        return Track(points, points, none, none, ids, None, None)

    return replace(track(1, steps), past=track(given))


def known(episodes: Episodes) -> Truth:
    """The ground truth of `episodes`; raises a UserError if there is none."""
    if episodes.truth is None:
        raise UserError("these videos have no ground truth for objects")
    return episodes.truth


def track_of(truth: Truth, positions: Tensor, side: int) -> Track:
    """The objects of `truth` at `positions`, as a model would return them."""
    return Track(
        xy=(2 * positions / side - 1).float(),
        hw=(truth.boxes_hw() / side).float(),
        depth=truth.order.float(),
        pres=truth.present.float(),
        id=torch.where(truth.present, truth.ids, NOBODY),
        reconstruction=None,
        background=None,
    )
