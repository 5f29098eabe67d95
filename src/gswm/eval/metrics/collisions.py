"""Collisions: do imagined objects change velocity when the true ones collide?

The velocity of an object before frame t is the slope of the line that fits its centers in the
`SPAN` frames before t best (least squares), and the velocity after it is that in the next `SPAN`
frames, from t on. Their difference has the full effect of an impulse between the frames t - 1 and
t. It is a *kink* if it is above `JUMP`, and the largest within `NEAR` frames before and after.

A predicted collision is a kink of an imagined object that is in the frame. A true collision is a
kink of a true object, with a contact between two visible objects in the simulator at most `NEAR`
frames before or after it.

Imagined objects are matched to true ones in the first imagined frame, as in the center error, and
predicted collisions to true ones of the same object that are at most `NEAR` frames away, one to
one. Near the threshold, chance decides, so a prediction is also right if the true kink is only
above half of `JUMP`:

    precision = right / predicted,    recall = found / true,    F1 = their harmonic mean

A model that misses an object misses its collisions. `collision_delay` is the mean delay of found
collisions in frames.

`SPAN` is the smallest number of frames for which both scores are above 0.9 if the predictions
are true boxes with a noise of 0.3 pixels of 64; tools/obj3d_errors.py measures it.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

JUMP = 0.008
"""Half a pixel of 64 per frame; smaller changes are hardly visible."""
SPAN = 6
NEAR = 3
LIMIT = 1.0


@dataclass(frozen=True)
class Collisions:
    """Counts of collisions in each episode."""

    right: Int[Tensor, " row"]
    """Predictions that are near a true collision, or near a true one that is half as strong."""
    imagined: Int[Tensor, " row"]
    found: Int[Tensor, " row"]
    """True collisions that are predicted."""
    true: Int[Tensor, " row"]
    late: Int[Tensor, " row"]
    """Sum of the delays of found collisions, in frames."""

    def scores(self) -> dict[str, float]:
        """Scores over the collisions of all episodes; NaN without any."""
        counts = (self.right, self.imagined, self.found, self.true, self.late)
        right, imagined, found, true, late = (float(each.sum()) for each in counts)
        none = 0.0 if imagined + true else torch.nan
        return {
            "collision_precision": right / imagined if imagined else torch.nan,
            "collision_recall": found / true if true else torch.nan,
            "collision_f1": 2 / (imagined / right + true / found) if right and found else none,
            "collision_delay": late / found if found else torch.nan,
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
    followed = replace(followed, there=followed.there & followed.clipped().there)
    both = true.there[..., :, None] & true.there[..., None, :]
    touched = within(((contacts.cpu() > 0) & both).any(dim=-1).double(), NEAR, NEAR) > 0
    imagined, changes = kinks(velocity_changes(followed), JUMP), velocity_changes(true)
    happened, faint = (kinks(changes, least) & touched for least in (JUMP, JUMP / 2))
    for each in (imagined, happened, faint):
        each[:, :given] = False
    right, _ = matched(imagined, faint)
    found, late = matched(imagined, happened)
    numbers = (right, imagined.sum(dim=(1, 2)), found, happened.sum(dim=(1, 2)), late)
    return Collisions(*numbers)


def velocity_changes(boxes: Boxes) -> Float[Tensor, "row time object"]:
    """The change of each velocity in each frame; 0 if unknown."""
    out = torch.zeros_like(boxes.xy[..., 0])
    if boxes.xy.shape[1] < 2 * SPAN:
        return out
    offset = torch.arange(SPAN, dtype=boxes.xy.dtype) - (SPAN - 1) / 2
    slopes = boxes.xy.unfold(1, SPAN, 1) @ (offset / offset.square().sum())
    change = slopes[:, SPAN:] - slopes[:, :-SPAN]
    known = boxes.there.unfold(1, 2 * SPAN, 1).all(dim=-1)
    out[:, SPAN : 1 - SPAN] = torch.hypot(change[..., 0], change[..., 1]) * known
    return out


def kinks(
    changes: Float[Tensor, "row time object"], least: float
) -> Bool[Tensor, "row time object"]:
    """Whether a change is above `least` and the largest near it; of equal ones, the first."""
    before = within(changes, NEAR, -1)
    return (changes > least) & (changes > before) & (changes >= within(changes, -1, NEAR))


def within(
    values: Float[Tensor, "row time object"], before: int, after: int
) -> Float[Tensor, "row time object"]:
    """The largest value from `before` frames before each frame to `after` frames after it."""
    padded = F.pad(values, (0, 0, before, after))
    return padded.unfold(1, before + after + 1, 1).amax(dim=-1)


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
