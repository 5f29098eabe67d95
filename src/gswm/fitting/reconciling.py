"""Labels of moving objects, compared with the detections of trained weights.

Background subtraction makes certain mistakes: a hand and the bottle that it carries become one
blob, and a shadow widens a box. Pretrained weights make others: they miss objects, and cut off
their ends. Each labelled box b of a frame is compared with the boxes s that the weights detect:

    agrees        IoU(b, s) ≥ 0.35 for some s, or no s has its center in b: b is used as it is
    contradicted  otherwise: b is unclear, and the boxes s inside it are used in its place

If a contradicted object agrees with the same track of the weights in most other frames, the box of
that track is used for it. Other tracks inside a contradicted box become separate objects, without
labels in other frames.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.core.geometry import overlap
from gswm.core.shapes import NOBODY
from gswm.data.labels import NUMBERS, UNCLEAR, Labels
from gswm.data.looking.teaching import Boxes
from gswm.models.track import Track

AGREE = 0.35
"""Smallest IoU between a labelled box and a box of the weights that agrees with it."""


def reconciled(boxes: Boxes, seen: Track) -> Boxes:
    """Labels of a stretch of frames, without boxes that the objects in `seen` contradict.

    Args:
        boxes: See `Labels.packed`.
        seen: One video, of the same frames.
    """
    labels = Labels.unpacked(torch.from_numpy(boxes)[None])
    xy, hw, ids = seen.xy[0].cpu(), seen.hw[0].cpu(), present_ids(seen)
    present, there = labels.present[0], (ids != NOBODY)[:, None]
    iou = overlap(labels.xy[0], labels.hw[0], xy, hw) * there
    inside = holds(labels.xy[0], labels.hw[0], xy) & there
    best, which = iou.max(dim=-1)
    agrees = present & (best >= AGREE)
    contradicted = present & ~agrees & inside.any(dim=-1)
    agreed = torch.where(agrees, ids.gather(1, which), NOBODY)

    own, doubtful = boxes.copy(), np.zeros_like(boxes)
    others: dict[int, Boxes] = {}
    for slot, start, end in lives(boxes[..., 1] > 0):
        votes = agreed[start:end, slot]
        votes = votes[votes != NOBODY]
        track = int(votes.mode().values) if len(votes) else NOBODY
        for time in range(start, end):
            if not contradicted[time, slot]:
                continue
            own[time, slot, :2] = 0, UNCLEAR
            for k in inside[time, slot].nonzero()[:, 0].tolist():
                box = (1, 1, *xy[time, k].tolist(), *hw[time, k].tolist())
                if (name := int(ids[time, k])) == track:
                    doubtful[time, slot] = own[time, slot]
                    own[time, slot] = box
                else:
                    others.setdefault(name, np.zeros((len(boxes), NUMBERS), np.float32))[time] = box
    for name, rows in others.items():
        elsewhere = (rows[:, 0] == 0)[:, None] & (ids == name).numpy()
        for time, k in np.argwhere(elsewhere & ~(agreed == name).any(dim=1)[:, None].numpy()):
            rows[time] = (0, UNCLEAR, *xy[time, k].tolist(), *hw[time, k].tolist())
    parts = [own, doubtful[:, doubtful.any(axis=(0, 2))]]
    return np.concatenate(parts + [rows[:, None] for rows in others.values()], axis=1)


def present_ids(seen: Track) -> Int[Tensor, "time slot"]:
    """The ids of a video's objects; NOBODY for an empty slot."""
    return torch.where(seen.pres[0] > 0.5, seen.id[0], NOBODY).cpu()


def holds(
    xy: Float[Tensor, "time box 2"],
    hw: Float[Tensor, "time box 2"],
    center: Float[Tensor, "time slot 2"],
) -> Bool[Tensor, "time box slot"]:
    """Whether a box contains a center; a box extends by hw, since xy goes from -1 to 1."""
    away = (center[:, None] - xy[:, :, None]).abs()
    return (away < hw[:, :, None].flip(-1)).all(dim=-1)


def lives(there: Bool[np.ndarray, "time box"]) -> list[tuple[int, int, int]]:
    """The slot, the first frame and the frame after the last, of each object."""
    edges = np.diff(there.astype(np.int8), axis=0, prepend=0, append=0)
    found = []
    for slot in range(there.shape[1]):
        begin, end = (np.flatnonzero(edges[:, slot] == sign) for sign in (1, -1))
        found += [(slot, int(a), int(b)) for a, b in zip(begin, end, strict=True)]
    return found
