"""Scores of tracks on a partly labelled video.

Only labelled frames are scored; all others are skipped as if the video did not have them. A
prediction that matches no scored label and lies in one ignore region with at least half of its area
is dropped before anything is counted.

    precision, recall, f1   of boxes, matched one to one at an IoU of at least 0.3
    mota, idf1, hota, ...   as in `tracking`: MOTA and IDF1 at an IoU of at least 0.5

Undefined scores are NaN: precision without predictions, F1 without boxes of either kind, and all
others without labelled objects.
"""

from dataclasses import dataclass, replace
from math import nan

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.shapes import NOBODY
from gswm.data.mot import MotBoxes
from gswm.eval.metrics.boxes import Boxes, coverage, overlaps
from gswm.eval.metrics.matching import least_pairs
from gswm.eval.metrics.tracking import tracked

FOUND = 0.3
"""IoU above which a box counts as found."""
IGNORED = 0.5
"""Smallest fraction of a prediction inside an ignore region for it to be dropped."""
TRACKING = ("mota", "idf1", "hota", "det_a", "ass_a")
"""Scores that need labelled objects."""


@dataclass(frozen=True)
class TrackScores:
    """Scores of tracks on labelled frames."""

    frames: int
    """Labelled frames."""
    objects: int
    """Labelled boxes that are scored."""
    predictions: int
    """Predicted boxes in these frames, without dropped ones."""
    precision: float
    recall: float
    f1: float
    mota: float
    idf1: float
    hota: float
    det_a: float
    ass_a: float
    switches: int


def score_tracks(labels: MotBoxes, tracks: MotBoxes, *, min_height: float = 0.0) -> TrackScores:
    """Score tracks against labels.

        labels, tracks = read_mot("labels/highway.txt"), read_mot("tracks.txt")
        score_tracks(labels, tracks, min_height=12.0).hota
        score_tracks(labels.after(0.8 * 1699), tracks).f1

    Args:
        labels: Boxes to score, and ignore regions, whose `conf` is 0.
        tracks: Predicted boxes of any frames; their `conf` is not used.
        min_height: Labels of at most this height in pixels become ignore regions.
    """
    if not len(labels):
        raise UserError("there are no labelled frames to score; check the labels")
    frames = np.unique(labels.frame)
    counts = (labels.conf != 0) & (labels.box[:, 3] > min_height)
    objects, regions = labels[counts], labels[~counts]
    tracks = tracks[np.isin(tracks.frame, frames) & (tracks.id >= 0)]
    _, names = np.unique(objects.id, return_inverse=True)
    true = in_slots(objects, frames, names)
    predicted = in_slots(tracks, frames, places(tracks))
    ignored = in_slots(regions, frames, places(regions))
    predicted = without_ignored(predicted, true, ignored)

    found = int(matches(predicted, true).sum())
    boxes, guesses = int(true.there.sum()), int(predicted.there.sum())
    scores = tracked(predicted, true).scores()
    return TrackScores(
        *(len(frames), boxes, guesses),
        precision=share(found, guesses),
        recall=share(found, boxes),
        f1=share(2 * found, boxes + guesses),
        **{name: scores[name] if boxes else nan for name in TRACKING},
        switches=int(scores["switches"]),
    )


def share(part: int, whole: int) -> float:
    """A fraction; NaN of nothing."""
    return part / whole if whole else nan


def without_ignored(predicted: Boxes, true: Boxes, ignored: Boxes) -> Boxes:
    """`predicted` without boxes that match no label and lie in an ignore region."""
    matched = matches(predicted, true).any(dim=-1)
    inside = (coverage(predicted, ignored) >= IGNORED).any(dim=-1)
    return replace(predicted, there=predicted.there & (matched | ~inside))


def matches(predicted: Boxes, true: Boxes) -> Bool[Tensor, "row time slot object"]:
    """As many one-to-one matches with an IoU of at least 0.3 as possible, then the best ones."""
    iou = overlaps(predicted, true)
    return least_pairs(1 - iou, iou >= FOUND)


def in_slots(
    rows: MotBoxes, frames: Int64[np.ndarray, " time"], slot: Int64[np.ndarray, " row"]
) -> Boxes:
    """Rows as one video with only `frames` frames, each row in its slot."""
    shape = (1, len(frames), int(slot.max(initial=0)) + 1)
    xy, hw = np.zeros((*shape, 2)), np.zeros((*shape, 2))
    id, there = np.full(shape, NOBODY), np.zeros(shape, bool)
    at = 0, np.searchsorted(frames, rows.frame), slot
    xy[at], hw[at] = rows.box[:, :2] + rows.box[:, 2:] / 2, rows.box[:, :1:-1]
    id[at], there[at] = rows.id, True
    return Boxes(*(torch.from_numpy(values) for values in (xy, hw, id, there)))


def places(rows: MotBoxes) -> Int64[np.ndarray, " row"]:
    """Number of preceding rows of the same frame, for each row."""
    order = np.argsort(rows.frame, kind="stable")
    ordered = rows.frame[order]
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    return place
