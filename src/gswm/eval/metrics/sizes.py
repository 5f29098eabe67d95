"""Tracking scores by object size.

The size of an object is the square root of its box's area, relative to the frame's side; boxes are
clipped at the borders of the frame. Each visible box (visibility of at least 0.25) counts in the
class of its own size, frame by frame.

    precision, recall, f1   of boxes, matched one to one at an IoU of at least 0.3, as in `labelled`
    mota, hota              as in `tracking`: MOTA at an IoU of at least 0.5

A prediction with a match at 0.3 counts in the class of its object, any other one in the class of
its own size. Less visible objects are ignore regions, as in `labelled`: they do not count as
misses, and a prediction without a match that lies in one with half of its area is dropped.
"""

from dataclasses import dataclass, replace
from math import inf, nan

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gswm.data.episode import Truth
from gswm.eval.metrics.boxes import Boxes, areas
from gswm.eval.metrics.labelled import matches, share, without_ignored
from gswm.eval.metrics.tracking import TrackingCounts, tracked

SIZES = {
    "all": (0.0, inf),
    "tiny": (0.0, 0.06),
    "small": (0.06, 0.12),
    "medium": (0.12, 0.25),
    "large": (0.25, inf),
}
"""Lower and upper bound of the sizes of each class."""
SCORES = ("true_boxes", "precision", "recall", "f1", "mota", "hota")
"""Scores of each class; names combine both, such as `f1_small`."""
VISIBLE = 0.25
"""Smallest visibility of objects that count."""


@dataclass(frozen=True)
class SizeCounts:
    """Counts of each episode, with a column for each of `SIZES`."""

    found: Int[Tensor, "row size"]
    tracks: tuple[TrackingCounts, ...]

    def scores(self) -> dict[str, float]:
        """Scores over all episodes; NaN for a class without boxes."""
        found = self.found.sum(dim=0).tolist()
        named = zip(SIZES, found, self.tracks, strict=True)
        return {
            f"{score}_{size}": value
            for size, number, tracks in named
            for score, value in class_scores(number, tracks).items()
        }

    def curves(self) -> dict[str, list[float]]:
        """Empty: these are scores of whole episodes."""
        return {}


def class_scores(found: int, tracks: TrackingCounts) -> dict[str, float]:
    """The scores of one class, by the names of `SCORES`."""
    boxes, guesses = int(tracks.objects.sum()), int(tracks.predictions.sum())
    scores = tracks.scores()
    values = (
        float(boxes),
        share(found, guesses),
        share(found, boxes),
        share(2 * found, boxes + guesses),
        *(scores[name] if boxes else nan for name in ("mota", "hota")),
    )
    return dict(zip(SCORES, values, strict=True))


def by_size(predicted: Boxes, truth: Truth, image_size: int) -> SizeCounts:
    """Compare tracks with the ground truth of the same frames."""
    true, hidden = split_by_visibility(truth, image_size)
    predicted = without_ignored(predicted.clipped(), true, hidden)
    pairs = matches(predicted, true)
    found, tracks = [], []
    for low, high in SIZES.values():
        of_true, of_predicted = in_class(true, low, high), in_class(predicted, low, high)
        pairs_here = pairs & of_true[..., None, :]
        kept = torch.where(pairs.any(dim=-1), pairs_here.any(dim=-1), of_predicted)
        found.append(pairs_here.sum(dim=(1, 2, 3)))
        tracks.append(tracked(replace(predicted, there=kept), replace(true, there=of_true)))
    return SizeCounts(torch.stack(found, dim=1), tuple(tracks))


def split_by_visibility(truth: Truth, image_size: int) -> tuple[Boxes, Boxes]:
    """Boxes of the objects that count, and of those that are ignored."""
    boxes = Boxes.of_truth(truth, image_size)
    if truth.visibility is None:
        nobody = torch.zeros_like(boxes.there)
        return boxes.clipped(), replace(boxes, there=nobody)
    visible = (truth.visibility >= VISIBLE).cpu()
    whole = replace(boxes, there=boxes.id > 0).clipped()
    return (
        replace(whole, there=whole.there & visible),
        replace(whole, there=whole.there & ~visible),
    )


def in_class(boxes: Boxes, low: float, high: float) -> Bool[Tensor, "row time object"]:
    """Mask of present boxes with a size from `low` to `high`."""
    size = areas(boxes).sqrt()
    return boxes.there & (size >= low) & (size < high)
