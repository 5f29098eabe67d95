"""Sampled futures: do they cover all possible futures, and nothing else (§5.2, Fig. 3)?

Each true object is followed in every sampled future by the predicted object nearest to it in the
last given frame. If all episodes start alike, every distinct true future is a mode of each of them
(the single ball has two). Otherwise the only known mode is the actual future, and only min_ade_k is
reported.

    share_m      the samples that end nearest to mode m, modes from left to right
    on_mode      the samples that end within 3 pixels (of 64) of some mode
    coverage     the modes that some sample of an episode ends that near to
    end_error    mean distance of an end to the nearest mode's end
    min_ade_k    mean distance over time of the best of k samples to a mode, mean over modes

If the object was not found, its sample is near no mode, at a distance of one frame side, as in the
strict error. Larger distances are clipped to that, so that losing an object is never better.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

NEAR = 3 / 64
FAR = 0.5
"""Largest distance at which a predicted object is matched to a true one."""
LOST = 1.0
"""Upper bound of distances, and the distance of an object that was not found."""
BEST_OF = (1, 5, 10, 20, 50, 100)
MOST_MODES = 16


@dataclass(frozen=True)
class Futures:
    """Samples and ground truth for each true object of each episode."""

    samples: Float64[Tensor, "row future step 2"]
    """NaN if the object was not found."""
    true: Float64[Tensor, "row step 2"]
    start: Float64[Tensor, "row given 2"]
    """True positions in the given frames."""

    def modes(self) -> Float64[Tensor, "row mode step 2"]:
        """Every true future of each row."""
        distinct = self.true.unique(dim=0)
        if (self.start == self.start[:1]).all() and len(distinct) <= MOST_MODES:
            left_to_right = distinct[:, -1, 0].argsort()
            return distinct[left_to_right].expand(len(self.true), *distinct.shape)
        return self.true[:, None]

    def scores(self) -> dict[str, float]:
        """Means over rows; NaN if no object is there in all frames."""
        if not len(self.true):
            return {f"min_ade_{k}": torch.nan for k in BEST_OF if k <= self.samples.shape[1]}
        apart = torch.linalg.vector_norm(self.samples[:, :, None] - self.modes()[:, None], dim=-1)
        found = ~apart.isnan().any(dim=-1)
        apart = apart.nan_to_num(LOST).clamp_max(LOST)
        ends, ade = apart[..., -1], apart.mean(dim=-1)
        nearest, which = ends.min(dim=-1)
        near = (ends <= NEAR) & found
        modes, samples = ends.shape[2], ends.shape[1]
        best = {k: ade[:, :k].amin(dim=1).mean().item() for k in BEST_OF if k <= samples}
        if modes == 1:
            return {f"min_ade_{k}": value for k, value in best.items()}
        shares = [((which == m) & found[..., 0]).double().mean().item() for m in range(modes)]
        return {
            **{f"share_{m}": share for m, share in enumerate(shares)},
            "modes": float(modes),
            "on_mode": near.any(dim=-1).double().mean().item(),
            "coverage": near.any(dim=1).double().mean().item(),
            "end_error": nearest.mean().item(),
            **{f"min_ade_{k}": value for k, value in best.items()},
        }

    def curves(self) -> dict[str, list[float]]:
        """Empty: these are scores of whole futures."""
        return {}


def futures(predicted: Boxes, true: Boxes, given: int, number: int) -> Futures:
    """Measure all frames; `number` consecutive rows are futures of one episode."""
    pairs = nearest_ids(true, predicted, given - 1, limit=FAR)
    followed = predicted.of(pairs).frames(given)
    samples = torch.where(followed.there[..., None], followed.xy, torch.nan)
    samples = samples.unflatten(0, (-1, number)).permute(0, 3, 1, 2, 4)
    first = slice(None, None, number)
    there = true.there[first].all(dim=1)
    paths = true.xy[first].transpose(1, 2)[there]
    return Futures(samples[there], paths[:, given:], paths[:, :given])
