"""Motion: do imagined objects move in the direction of the true ones?

Imagined objects are matched to true ones in the first imagined frame, as in the center error. Over
the first ten steps, or fewer, each moves by Δ, and the true one by Δ*:

    moved = Σ |Δ| / Σ |Δ*|        moved_along = Σ Δ · Δ* / Σ |Δ*|²

Sums run over the pairs of all episodes. Both scores are 1 for perfect motion, and 0 if nothing
moves. Boxes that jump randomly increase `moved`, but not `moved_along`.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.distance import LIMIT, TABLE_STEPS
from gswm.eval.metrics.matching import nearest_ids


@dataclass(frozen=True)
class ObjectMotion:
    """Sums over the pairs of each episode."""

    imagined: Float64[Tensor, " row"]
    """|Δ|."""
    true: Float64[Tensor, " row"]
    """|Δ*|."""
    along: Float64[Tensor, " row"]
    """Δ · Δ*."""
    square: Float64[Tensor, " row"]
    """|Δ*|²."""

    def scores(self) -> dict[str, float]:
        """Ratios over all episodes; NaN if no true object moves."""
        imagined, true, along, square = (
            float(part.sum()) for part in (self.imagined, self.true, self.along, self.square)
        )
        return {
            "moved": imagined / true if true else torch.nan,
            "moved_along": along / square if square else torch.nan,
        }

    def curves(self) -> dict[str, list[float]]:
        """Empty: these are scores of whole episodes."""
        return {}


def motion(predicted: Boxes, true: Boxes) -> ObjectMotion:
    """Measure imagined frames."""
    pairs = nearest_ids(true, predicted, frame=0, limit=LIMIT)
    followed, last = predicted.of(pairs), min(TABLE_STEPS, true.id.shape[1]) - 1
    known = (followed.there & true.there)[:, [0, last]].all(dim=1)
    ours, theirs = (
        torch.where(known[..., None], boxes.xy[:, last] - boxes.xy[:, 0], 0)
        for boxes in (followed, true)
    )
    imagined, real = (way.norm(dim=-1).sum(dim=-1) for way in (ours, theirs))
    along, square = ((ours * theirs).sum(dim=(1, 2)), theirs.square().sum(dim=(1, 2)))
    return ObjectMotion(imagined, real, along, square)
