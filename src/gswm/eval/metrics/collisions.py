"""Collisions: do imagined objects change velocity when the true ones collide?

In frame t, an object's velocity jumps by |(x_{t+1} - x_t) - (x_{t-1} - x_{t-2})|, in sides of the
frame, which contains the full effect of an impulse between the frames t - 1 and t. A jump above
`JUMP` is a predicted collision. A true collision is a contact in the simulator between two visible
objects, with a true jump above `JUMP`.

Imagined objects are matched to true ones in the first imagined frame, as in the center error. A
predicted collision is right if the true object collides at most `NEAR` frames before or after it.
Each true collision is matched to at most one prediction:

    precision = right / imagined,    recall = right / true,    F1 = their harmonic mean

A model that misses an object misses its collisions. `collision_delay` is the mean delay of right
predictions in frames.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

JUMP = 0.008
"""Half a pixel of 64 per frame; smaller changes are hardly visible."""
NEAR = 3
APART = 2
"""Largest distance in frames between jumps that count as one collision."""
LIMIT = 1.0


@dataclass(frozen=True)
class Collisions:
    """Counts of collisions in each episode."""

    right: Int[Tensor, " row"]
    imagined: Int[Tensor, " row"]
    true: Int[Tensor, " row"]
    late: Int[Tensor, " row"]
    """Sum of the delays of correct predictions, in frames."""

    def scores(self) -> dict[str, float]:
        """Scores over the collisions of all episodes; NaN without any."""
        right, imagined, true, late = (
            float(counts.sum()) for counts in (self.right, self.imagined, self.true, self.late)
        )
        return {
            "collision_precision": right / imagined if imagined else torch.nan,
            "collision_recall": right / true if true else torch.nan,
            "collision_f1": 2 * right / (imagined + true) if imagined + true else torch.nan,
            "collision_delay": late / right if right else torch.nan,
        }

    def curves(self) -> dict[str, list[float]]:
        """Empty: these are scores of whole episodes."""
        return {}


def collisions(
    predicted: Boxes, true: Boxes, contacts: Float[Tensor, "row time object object"], given: int
) -> Collisions:
    """Collisions in the frames after the `given` ones.

    `contacts` are the impulses between pairs of objects since the previous frame. All three
    arguments cover all frames.
    """
    pairs = nearest_ids(true.frames(given), predicted.frames(given), frame=0, limit=LIMIT)
    followed = predicted.of(pairs)
    both = true.there[..., :, None] & true.there[..., None, :]
    touched = ((contacts.cpu() > 0) & both).any(dim=-1)
    imagined, happened = hits(jumps(followed) > JUMP), hits(touched & (jumps(true) > JUMP))
    imagined[:, :given] = False
    happened[:, :given] = False
    right, late = matched(imagined, happened)
    numbers = (right, imagined.sum(dim=(1, 2)), happened.sum(dim=(1, 2)), late)
    return Collisions(*numbers)


def jumps(boxes: Boxes) -> Float[Tensor, "row time object"]:
    """The change of each velocity in each frame; 0 if unknown."""
    out = torch.zeros_like(boxes.xy[..., 0])
    steps = boxes.xy.diff(dim=1)
    change = steps[:, 2:] - steps[:, :-2]
    there = boxes.there
    known = there[:, 3:] & there[:, 2:-1] & there[:, 1:-2] & there[:, :-3]
    out[:, 2:-1] = torch.hypot(change[..., 0], change[..., 1]) * known
    return out


def hits(signs: Bool[Tensor, "row time object"]) -> Bool[Tensor, "row time object"]:
    """The first of consecutive jumps that are within `APART` frames of each other."""
    signs = signs.clone()
    recent = torch.full_like(signs[:, 0], -APART - 1, dtype=torch.int64)
    for t in range(signs.shape[1]):
        now = signs[:, t].clone()
        signs[:, t] = now & (t - recent > APART)
        recent = torch.where(now, t, recent)
    return signs


def matched(
    imagined: Bool[Tensor, "row time object"], happened: Bool[Tensor, "row time object"]
) -> tuple[Int[Tensor, " row"], Int[Tensor, " row"]]:
    """Number of correct predictions, and the sum of their delays in frames.

    Pairs closest in time are matched first; of two as close, the earlier prediction.
    """
    left, open_ = imagined.clone(), happened.clone()
    right, late = (torch.zeros(len(imagined), dtype=torch.int64) for _ in range(2))
    for offset in sorted(range(-NEAR, NEAR + 1), key=abs):
        shifted = torch.zeros_like(left)
        if offset >= 0:
            shifted[:, : left.shape[1] - offset] = left[:, offset:]
        else:
            shifted[:, -offset:] = left[:, :offset]
        found = shifted & open_
        open_ &= ~found
        back = torch.roll(found, offset, dims=1)
        left &= ~back
        right += found.sum(dim=(1, 2))
        late += offset * found.sum(dim=(1, 2))
    return right, late
