"""Center error: how far imagined objects are from the true ones (§5.1, Table 2 and Fig. 5).

The unit is the side of the frame. In the first generated frame, predicted objects (presence above
a half) are matched to the true ones by least squared distance, pairs further apart than 1 left
out. Each pair then holds for all frames:

    paper_t = mean over pairs of |xy_t - true xy_t|
    table = Σ of the first ten steps of the mean over episodes of paper_t

Objects that are missed, and those that are not there, cost nothing in it: a model that finds only
the easy ones does well. So there is a strict error beside it, with the same pairs and C = 1:

    strict_t = (Σ over true objects of min(|xy_t - true xy_t|, C), or C where it has no pair,
                + C for each predicted object without a pair) / number of true objects

C is the distance from which on the paper makes no pair: whoever is that far off was missed. So
nothing is gained by dropping an object, however wrong it is, nor by an object too many. Of N
objects, one missed or one too many adds about 10 / N to the sum of ten steps. This is the OSPA
metric of order 1, but with pairs that hold over time, and per true object.

Where the authors' program gives NaN, for all episodes at once, this leaves out what cannot be
measured: a pair of which one is gone (nobody leaves in imagination), and an episode without any
pair, for which `center_unmatched` counts. Where that is 0, both are the same.

The paper's error is that of the mean rollout. `SampledErrors` has the same error of single sampled
futures, each with pairs of its own, as a mean over several: it also counts the noise of the prior.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

LIMIT = 1.0
"""C."""
TABLE_STEPS = 10


@dataclass(frozen=True)
class CenterErrors:
    """Of each episode, step by step."""

    paper: Float64[Tensor, "row step"]
    """NaN where there is no pair."""
    strict: Float64[Tensor, "row step"]

    def scores(self) -> dict[str, float]:
        """The paper's number, and the strict one; both also as a mean over all steps."""
        paper, strict = self.paper.nanmean(dim=0), self.strict.mean(dim=0)
        return {
            "center_error": paper[:TABLE_STEPS].sum().item(),
            "strict_error": strict[:TABLE_STEPS].sum().item(),
            "center_error_mean": paper.mean().item(),
            "strict_error_mean": strict.mean().item(),
            "center_unmatched": float(self.paper.isnan().all(dim=1).sum()),
        }

    def curves(self) -> dict[str, list[float]]:
        """Over the steps."""
        paper, strict = self.paper.nanmean(dim=0), self.strict.mean(dim=0)
        return {"center_error": paper.tolist(), "strict_error": strict.tolist()}

    def per_row(self) -> dict[str, Float64[Tensor, " row"]]:
        """The scores of each row; NaN where there is no pair."""
        return {
            "center_error": self.paper[:, :TABLE_STEPS].sum(dim=1),
            "strict_error": self.strict[:, :TABLE_STEPS].sum(dim=1),
            "center_error_mean": self.paper.mean(dim=1),
            "strict_error_mean": self.strict.mean(dim=1),
        }


@dataclass(frozen=True)
class SampledErrors:
    """The paper's error of single sampled futures, over the generated frames."""

    paper: Float64[Tensor, "row future step"]
    """NaN where there is no pair."""

    def scores(self) -> dict[str, float]:
        """The paper's number of one sampled future, and its mean over all steps."""
        paper = self.paper.flatten(0, 1).nanmean(dim=0)
        return {
            "center_error_sample": paper[:TABLE_STEPS].sum().item(),
            "center_error_sample_mean": paper.mean().item(),
        }

    def curves(self) -> dict[str, list[float]]:
        """Over the steps."""
        return {"center_error_sample": self.paper.flatten(0, 1).nanmean(dim=0).tolist()}

    def per_row(self) -> dict[str, Float64[Tensor, " row"]]:
        """The scores of each row, over its futures; NaN where there is no pair."""
        return {
            "center_error_sample": self.paper[..., :TABLE_STEPS].sum(dim=-1).nanmean(dim=1),
            "center_error_sample_mean": self.paper.mean(dim=-1).nanmean(dim=1),
        }


def sampled_errors(sampled: Boxes, true: Boxes, number: int) -> SampledErrors:
    """Of generated frames alone; `number` futures of an episode are rows that follow each other."""
    return SampledErrors(center_errors(sampled, true.each(number)).paper.unflatten(0, (-1, number)))


def center_errors(predicted: Boxes, true: Boxes) -> CenterErrors:
    """Of generated frames alone."""
    pairs = nearest_ids(true, predicted, frame=0, limit=LIMIT)
    followed = predicted.of(pairs)
    apart = torch.linalg.vector_norm(followed.xy - true.xy, dim=-1)
    both = followed.there & true.there
    paper = torch.where(both, apart, torch.nan).nanmean(dim=-1)

    charge = torch.where(both, apart.clamp_max(LIMIT), LIMIT)
    missed_or_off = torch.where(true.there, charge, 0).sum(dim=-1)
    surplus = predicted.there.sum(dim=-1) - both.sum(dim=-1)
    number = true.there.sum(dim=-1).clamp_min(1)
    return CenterErrors(paper, (missed_or_off + LIMIT * surplus) / number)
