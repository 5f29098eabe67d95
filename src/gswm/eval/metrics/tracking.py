"""Tracking: MOTA and MOTP, IDF1, and HOTA, of boxes against true boxes (Table 10).

    MOTA   1 - (misses + false alarms + switches) / objects; pairs have an IoU of at least 0.5, an
           object keeps its match of the previous frame if possible, and a switch is a match other
           than the last one
    MOTP   mean IoU of the pairs; motmetrics' is 1 minus this
    IDF1   F1 with one match for the whole episode
    HOTA   √(DetA AssA), averaged over IoU thresholds α from 0.05 to 0.95: detection and association

Counts are summed over all episodes before dividing, as in motmetrics' "OVERALL" and TrackEval's
combined sequences. Rules and thresholds are TrackEval's.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from gswm.core.shapes import NOBODY
from gswm.eval.metrics.boxes import Boxes, overlaps
from gswm.eval.metrics.matching import best_pairs, partner

OVERLAP = 0.5
ALPHAS = tuple(0.05 * i for i in range(1, 20))
EPS = torch.finfo(torch.float64).eps
STAY = 1000.0
"""Bonus for keeping the partner of the previous frame: larger than any overlap."""


@dataclass(frozen=True)
class TrackingCounts:
    """Counts of each episode."""

    objects: Int[Tensor, " row"]
    predictions: Int[Tensor, " row"]
    matches: Int[Tensor, " row"]
    switches: Int[Tensor, " row"]
    overlap: Float64[Tensor, " row"]
    """IoU, summed over matches."""
    id_matches: Float64[Tensor, " row"]
    hota_matches: Float64[Tensor, "row alpha"]
    hota_overlap: Float64[Tensor, "row alpha"]
    hota_association: Float64[Tensor, "row alpha 3"]
    """Association, its recall and its precision, summed over matches."""

    def scores(self) -> dict[str, float]:
        """Scores over all episodes."""
        objects, predictions, matches = (
            x.sum().double() for x in (self.objects, self.predictions, self.matches)
        )
        misses, alarms, switches = objects - matches, predictions - matches, self.switches.sum()
        clear = {
            "mota": 1 - (misses + alarms + switches) / objects.clamp_min(1),
            "motp": self.overlap.sum() / matches.clamp_min(1),
            "idf1": 2 * self.id_matches.sum() / (objects + predictions).clamp_min(1),
            "misses": misses,
            "false_alarms": alarms,
            "switches": switches,
        }
        return {name: float(value) for name, value in (clear | self.hota()).items()}

    def hota(self) -> dict[str, Tensor]:
        """HOTA and its parts, as means over α."""
        objects, predictions = self.objects.sum(), self.predictions.sum()
        hits = self.hota_matches.sum(dim=0)
        detection = hits / (objects + predictions - hits).clamp_min(1)
        parts = self.hota_association.sum(dim=0) / hits.clamp_min(1)[:, None]
        association, recall, precision = parts.unbind(dim=-1)
        hota = (detection * association).sqrt()
        half = ALPHAS.index(OVERLAP)
        return {
            "hota": hota.mean(),
            "hota_50": hota[half],
            "det_a": detection.mean(),
            "det_re": (hits / objects.clamp_min(1)).mean(),
            "det_pr": (hits / predictions.clamp_min(1)).mean(),
            "ass_a": association.mean(),
            "ass_re": recall.mean(),
            "ass_pr": precision.mean(),
            "loc_a": torch.where(hits > 0, self.hota_overlap.sum(dim=0) / hits, 1.0).mean(),
        }

    def curves(self) -> dict[str, list[float]]:
        """Empty: these are scores of whole episodes."""
        return {}

    def per_row(self) -> dict[str, Float64[Tensor, " row"]]:
        """MOTA of each row; if all rows have as many objects, its mean is the overall MOTA."""
        wrong = self.objects + self.predictions - 2 * self.matches + self.switches
        return {"mota": 1 - wrong.double() / self.objects.clamp_min(1)}


def tracked(predicted: Boxes, true: Boxes) -> TrackingCounts:
    """Count for the same frames. True objects are identified by slot, predicted ones by id."""
    iou = overlaps(true, predicted)
    who, number = renumber(predicted)
    matches, switches, overlap = clear(iou, who, true.there, predicted.there)
    frames = true.there.sum(dim=1).double()
    seen = tally(predicted.there.double()[:, :, None], who, number)[:, 0]
    same = tally((iou >= OVERLAP).double(), who, number)
    id_matches = torch.where(best_pairs(same), same, 0).sum(dim=(1, 2))
    return TrackingCounts(
        *(true.there.sum(dim=(1, 2)), predicted.there.sum(dim=(1, 2))),
        *(matches, switches, overlap, id_matches),
        *hota(iou, who, frames, seen),
    )


def clear(
    iou: Float64[Tensor, "row time object slot"],
    who: Int[Tensor, "row time slot"],
    true_there: Bool[Tensor, "row time object"],
    there: Bool[Tensor, "row time slot"],
) -> tuple[Int[Tensor, " row"], Int[Tensor, " row"], Float64[Tensor, " row"]]:
    """Matches, switches, and the IoU of the matches (CLEAR MOT)."""
    rows, time, objects, _ = iou.shape
    before = last = torch.full((rows, objects), NOBODY)
    matches = switches = torch.zeros(rows, dtype=torch.int64)
    overlap = torch.zeros(rows, dtype=torch.float64)
    for t in range(time):
        stays = before[:, :, None] == who[:, t, None]
        possible = iou[:, t] >= OVERLAP - EPS
        pairs = best_pairs(torch.where(possible, iou[:, t] + STAY * stays, 0))
        now = partner(pairs, who[:, t])
        matched = now != NOBODY
        matches = matches + matched.sum(dim=1)
        switches = switches + (matched & (last != NOBODY) & (last != now)).sum(dim=1)
        overlap = overlap + torch.where(pairs, iou[:, t], 0).sum(dim=(1, 2))
        last = torch.where(matched, now, last)
        # Frames without anything to compare are skipped.
        compared = true_there[:, t].any(dim=1) & there[:, t].any(dim=1)
        before = torch.where(compared[:, None], now, before)
    return matches, switches, overlap


def hota(
    iou: Float64[Tensor, "row time object slot"],
    who: Int[Tensor, "row time slot"],
    frames: Float64[Tensor, "row object"],
    seen: Float64[Tensor, "row id"],
) -> tuple[
    Float64[Tensor, "row alpha"], Float64[Tensor, "row alpha"], Float64[Tensor, "row alpha 3"]
]:
    """Matches, their IoU and their association at each α; `frames` is the lifetime of objects."""
    number = seen.shape[1]
    either = iou.sum(dim=-1, keepdim=True) + iou.sum(dim=-2, keepdim=True) - iou
    together = tally(torch.where(either > EPS, iou / either, 0), who, number)
    lengths = frames[:, :, None] + seen[:, None]
    alignment = together / (lengths - together).clamp_min(EPS)
    padded = torch.nn.functional.pad(alignment, (0, 1))
    score = padded[:, None].take_along_dim(who[:, :, None], dim=-1) * iou
    pairs = best_pairs(score)

    matches, overlap, association = [], [], []
    for alpha in ALPHAS:
        hit = pairs & (iou >= alpha - EPS)
        count = tally(hit.double(), who, number)
        matches.append(count.sum(dim=(1, 2)))
        overlap.append(torch.where(hit, iou, 0).sum(dim=(1, 2, 3)))
        sizes = lengths - count, frames[:, :, None], seen[:, None]
        parts = [(count * count / size.clamp_min(1)).sum(dim=(1, 2)) for size in sizes]
        association.append(torch.stack(parts, dim=-1))
    return torch.stack(matches, 1), torch.stack(overlap, 1), torch.stack(association, 1)


def renumber(boxes: Boxes) -> tuple[Int[Tensor, "row time slot"], int]:
    """Renumber ids to 0, 1, ... in each episode; empty slots get the number of ids."""
    beyond = torch.iinfo(boxes.id.dtype).max
    ids = torch.where(boxes.there, boxes.id, beyond).flatten(1)
    ordered, order = ids.sort(dim=1)
    new = torch.zeros_like(ordered)
    new[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).cumsum(dim=1)
    rank = torch.empty_like(new).scatter_(1, order, new)
    here = boxes.there.flatten(1)
    number = int(torch.where(here, rank, -1).max()) + 1 if here.any() else 0
    return torch.where(here, rank, number).reshape(boxes.id.shape), number


def tally(
    values: Float64[Tensor, "row time object slot"], who: Int[Tensor, "row time slot"], number: int
) -> Float64[Tensor, "row object id"]:
    """Values of pairs of object and slot, summed over time for each object and id."""
    ids = who[:, :, None].expand_as(values)
    at, flat = (rearrange(x, "row time k slot -> row k (time slot)") for x in (ids, values))
    summed = values.new_zeros(*flat.shape[:2], number + 1).scatter_add_(2, at, flat)
    return summed[..., :number]
