"""Maze: do agents keep to the corridors (§5.2, Fig. 6)?

By identity: each true agent is matched, in the last given frame, to the nearest predicted object
within one cell of it, and that object is followed. An agent is in the corridor as long as its
center has been in a corridor cell in every generated frame so far. An agent that was not found
is not in the corridor. `pace` says how far the followed agents move in a step, that of the true
ones being 1: to stand still is to stay in the corridor, too. `intact` says how many of the agents
still have a box about as large as the true one, wherever it is, and `intact_inside` how many of
those in the corridor.

The release's count stands beside it: whatever is there in the first frame, followed by slot, the
given frames included, without regard to how many agents there are.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

AFTER = (10, 25, 50)
LARGEST = 2.0
"""Largest factor between the areas of a box and the true one."""


@dataclass(frozen=True)
class Corridor:
    """Of each future of each episode."""

    inside: Int[Tensor, "row step"]
    """True agents whose object is still in the corridor."""
    intact: Int[Tensor, "row step"]
    """True agents whose object is about as large as they are."""
    intact_inside: Int[Tensor, "row step"]
    """Both."""
    agents: Int[Tensor, " row"]
    pace: Float64[Tensor, " row"]
    """Mean step of the followed objects, over that of the true agents; NaN if there are none."""
    release: Int[Tensor, "row time"]
    """The authors' count."""

    def scores(self) -> dict[str, float]:
        """Shares of the true agents: a mean over steps, and after some of them."""
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
        """Over the generated steps; the authors' count over all frames."""
        release = self.release.double().mean(dim=0)
        shares = {"in_corridor": self.share(), "intact": self.share_of(self.intact)}
        return {n: s.tolist() for n, s in shares.items()} | {"release_count": release.tolist()}

    def share(self) -> Float64[Tensor, " step"]:
        """In the corridor, of all agents of all rows."""
        return self.share_of(self.inside)

    def share_of(self, some: Int[Tensor, "row step"]) -> Float64[Tensor, " step"]:
        """Of all agents of all rows."""
        return some.sum(dim=0).double() / self.agents.sum().clamp_min(1)


def corridor(
    predicted: Boxes, true: Boxes, grid: Int[Tensor, "row height width"], given: int
) -> Corridor:
    """Of all frames, the first `given` of which the model saw."""
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
    """Slots that are there in the first frame, and in a corridor in each frame so far."""
    kept = in_corridor(predicted.xy, grid).cummin(dim=1).values
    return (kept & predicted.there[:, :1]).sum(dim=-1)


def in_corridor(
    xy: Float64[Tensor, "row time object 2"], grid: Int[Tensor, "row height width"]
) -> Bool[Tensor, "row time object"]:
    """Whether the cell of each place is a corridor; none is outside the frame."""
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
