"""Maze: do agents keep to the corridors (§5.2, Fig. 6)?

Agents are followed by identity: each true agent is matched, in the last given frame, to the nearest
predicted object within one cell of it. An agent is in the corridor as long as its center has been
in a corridor cell in every imagined frame so far. An agent that was not found is not in the
corridor. `pace` is the speed of the followed agents relative to the true speed; it exposes agents
that stay in the corridor by standing still. `intact` is the fraction of the agents whose box is
about as large as the true one, anywhere, and `intact_inside` that of the agents in the corridor.

The count of the authors' release is reported too: objects of the first frame, followed by slot and
including the given frames, regardless of the number of agents.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

AFTER = (10, 25, 50)
LARGEST = 2.0
"""Largest ratio between the areas of a box and the true one."""


@dataclass(frozen=True)
class Corridor:
    """Measurements of each future of each episode."""

    inside: Int[Tensor, "row step"]
    """Number of true agents whose object is still in the corridor."""
    intact: Int[Tensor, "row step"]
    """Number of true agents whose object is about as large as they are."""
    intact_inside: Int[Tensor, "row step"]
    """Number of true agents for which both hold."""
    agents: Int[Tensor, " row"]
    pace: Float64[Tensor, " row"]
    """Mean step of the followed objects, relative to that of the true agents; NaN without any."""
    release: Int[Tensor, "row time"]
    """The count of the authors' release."""

    def scores(self) -> dict[str, float]:
        """Fractions of the true agents, averaged over all steps and after some of them."""
        share, intact = self.share(), self.share_of(self.intact)
        steps = [*(n for n in AFTER if n < len(share)), len(share)]
        return {
            "in_corridor": share.mean().item(),
            **{f"in_corridor_{n}": share[n - 1].item() for n in steps},
            "intact": intact.mean().item(),
            f"intact_{steps[-1]}": intact[-1].item(),
            "intact_inside": (self.intact_inside.sum() / self.inside.sum()).item(),
            "pace": self.pace.nanmean().item(),
            "agents": self.agents.double().mean().item(),
            "release_count": self.release.double().mean().item(),
        }

    def curves(self) -> dict[str, list[float]]:
        """Fractions at each imagined step; the authors' count at all frames."""
        release = self.release.double().mean(dim=0)
        shares = {"in_corridor": self.share(), "intact": self.share_of(self.intact)}
        return {n: s.tolist() for n, s in shares.items()} | {"release_count": release.tolist()}

    def share(self) -> Float64[Tensor, " step"]:
        """Fraction of all agents of all rows that are in the corridor."""
        return self.share_of(self.inside)

    def share_of(self, some: Int[Tensor, "row step"]) -> Float64[Tensor, " step"]:
        """A count as a fraction of all agents of all rows."""
        return some.sum(dim=0).double() / self.agents.sum().clamp_min(1)


def corridor(
    predicted: Boxes, true: Boxes, grid: Int[Tensor, "row height width"], given: int
) -> Corridor:
    """Measure all frames, of which the model saw the first `given`."""
    last = given - 1
    cell = 1 / max(grid.shape[1:])
    pairs = nearest_ids(true, predicted, last, cell)
    followed = predicted.of(pairs).frames(last)
    ahead = followed.frames(1)
    kept = (in_corridor(ahead.xy, grid) & ahead.there).cummin(dim=1).values
    alike = similar(ahead.hw, true.frames(given).hw) & ahead.there
    return Corridor(
        inside=kept.sum(dim=-1),
        intact=alike.sum(dim=-1),
        intact_inside=(kept & alike).sum(dim=-1),
        agents=true.there[:, last].sum(dim=-1),
        pace=mean_step(followed) / mean_step(true.frames(last)),
        release=release_count(predicted, grid),
    )


def release_count(
    predicted: Boxes, grid: Int[Tensor, "row height width"]
) -> Int[Tensor, "row time"]:
    """Number of slots that are filled in the first frame and have been in a corridor ever since."""
    kept = in_corridor(predicted.xy, grid).cummin(dim=1).values
    return (kept & predicted.there[:, :1]).sum(dim=-1)


def in_corridor(
    xy: Float64[Tensor, "row time object 2"], grid: Int[Tensor, "row height width"]
) -> Bool[Tensor, "row time object"]:
    """Whether each position is in a corridor cell; False outside the frame."""
    _, height, width = grid.shape
    cell = (xy * torch.tensor([width, height])).floor().long()
    within = (cell >= 0) & (cell < torch.tensor([width, height]))
    column, row = cell.clamp_min(0).unbind(dim=-1)
    flat = row.clamp_max(height - 1) * width + column.clamp_max(width - 1)
    open_cell = grid.flatten(1).gather(1, flat.flatten(1)).reshape(flat.shape) == 1
    return open_cell & within.all(dim=-1)


def similar(
    hw: Float64[Tensor, "row time object 2"], true: Float64[Tensor, "row time object 2"]
) -> Bool[Tensor, "row time object"]:
    """Whether boxes have about the same area."""
    area, right = hw.clamp_min(0).prod(dim=-1), true.prod(dim=-1)
    return (area >= right / LARGEST) & (area <= right * LARGEST)


def mean_step(boxes: Boxes) -> Float64[Tensor, " row"]:
    """Mean distance that objects move per frame."""
    step = torch.linalg.vector_norm(boxes.xy.diff(dim=1), dim=-1)
    both = boxes.there[:, 1:] & boxes.there[:, :-1]
    return torch.where(both, step, torch.nan).flatten(1).nanmean(dim=1)
