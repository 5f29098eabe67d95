"""Collisions: does an imagined object change its velocity where, and when, a true one is hit?

In a frame t an object's velocity jumps by |(x_{t+1} - x_t) - (x_{t-1} - x_{t-2})|, in sides of the
frame: that is all that a push between the frames t - 1 and t does. It is said to be hit where the
jump is above `JUMP`. An object is truly hit where the simulator has a contact with another that is
in view as well, and the true jump is above `JUMP`.

Imagined objects stand for the true ones that they are nearest to in the first imagined frame, as in
the center error. A hit that is imagined is right if the true object is hit at most `NEAR` frames
before or after it, and each true hit answers for one imagined one at the most:

    precision = right / imagined,    recall = right / true,    F1 = their harmonic mean

A model that misses an object misses its hits. `collision_delay` is by how many frames the right
ones are late.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

JUMP = 0.008
"""Half a pixel of 64 a frame: what the picture hardly shows is no hit."""
NEAR = 3
APART = 2
"""Jumps that follow each other within so many frames are one hit."""
LIMIT = 1.0


@dataclass(frozen=True)
class Collisions:
    """Counts of hits, of each episode."""

    right: Int[Tensor, " row"]
    imagined: Int[Tensor, " row"]
    true: Int[Tensor, " row"]
    late: Int[Tensor, " row"]
    """Frames by which the right ones are late, all together."""

    def scores(self) -> dict[str, float]:
        """Over the hits of all episodes; not a number where there are none."""
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
        """None."""
        return {}


def collisions(
    predicted: Boxes, true: Boxes, contacts: Float[Tensor, "row time object object"], given: int
) -> Collisions:
    """Hits of the frames after the `given` ones.

    `contacts` are the impulses between each two objects since the frame before. All frames are
    there of all three.
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
    """By how much each velocity changes in each frame; 0 where it is not known."""
    out = torch.zeros_like(boxes.xy[..., 0])
    steps = boxes.xy.diff(dim=1)
    change = steps[:, 2:] - steps[:, :-2]
    there = boxes.there
    known = there[:, 3:] & there[:, 2:-1] & there[:, 1:-2] & there[:, :-3]
    out[:, 2:-1] = torch.hypot(change[..., 0], change[..., 1]) * known
    return out


def hits(signs: Bool[Tensor, "row time object"]) -> Bool[Tensor, "row time object"]:
    """The first of signs that follow each other within `APART` frames."""
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
    """Number of right imagined hits, and the sum of their delays in frames.

    The closest in time are matched first; of two as close, the earlier imagined one.
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
