"""Examples: the first episodes of an evaluation as plain numbers, from which they can be drawn.

Positions are fractions of the frame's side, from its top left corner, or None for absent objects.
Each true object is followed in each future by the object matched to it in the last given frame.
"""

from typing import Any

import torch
from torch import Tensor

from gswm.core.records import map_tensors
from gswm.data.episode import Episodes
from gswm.eval.baselines import known
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

EPISODES = 3
STEPS = 40
"""Number of imagined frames with positions."""
STRIP = 8
"""Number of frames with tracked boxes, from the first to the last."""
NEAR = 0.25
"""Largest distance at which a predicted object is matched to a true one."""
DIGITS = 4


def examples(
    episodes: Episodes,
    predicted: Boxes,
    tracked: Boxes | None,
    given: int,
    number: int,
    first: int = 0,
) -> list[dict[str, Any]]:
    """The examples of each episode, counted from `first`.

    Rows of `predicted` are `number` futures of one episode, then those of the next. There may be
    rows of more episodes.
    """
    truth = known(episodes)
    true = Boxes.of_truth(truth, episodes.video.shape[-1])
    predicted = map_tensors(lambda values: values[: number * len(episodes)], predicted)
    ids = nearest_ids(true.each(number), predicted, given - 1, NEAR)
    stop = min(given + STEPS, true.id.shape[1])
    followed = predicted.of(ids).frames(given, stop)
    futures = places(followed).reshape(len(episodes), number, stop - given, -1, 2)
    before = places(true.frames(0, stop))
    out = []
    for i in range(len(episodes)):
        # Objects are the slots that are filled in the last given frame.
        here = true.there[i, given - 1].nonzero()[:, 0]
        out.append(
            {
                "episode": first + i,
                "given": given,
                "sizes": rounded(true.hw[i, given - 1, here, 0]),
                "colors": [hexadecimal(truth.colors[i, given - 1, k]) for k in here.tolist()],
                "true": rounded(before[i][:, here]),
                "futures": rounded(futures[i][:, :, here]),
                "tracked": [] if tracked is None else strip(tracked, i),
                "corridor": grid(episodes, i),
            }
        )
    return out


def places(boxes: Boxes) -> Tensor:
    """Centers; NaN for absent objects."""
    return torch.where(boxes.there[..., None], boxes.xy, torch.nan)


def strip(tracked: Boxes, row: int) -> list[dict[str, Any]]:
    """The boxes of several frames of one video."""
    last = tracked.id.shape[1] - 1
    times = torch.linspace(0, last, min(STRIP, last + 1)).round().long().unique().tolist()
    return [{"frame": time, "boxes": listed(tracked, row, time)} for time in times]


def listed(boxes: Boxes, row: int, time: int) -> list[list[float | int]]:
    """Id, x, y, width and height of each box of one frame."""
    there = boxes.there[row, time]
    shape = torch.cat([boxes.xy[row, time, there], boxes.hw[row, time, there].flip(-1)], dim=-1)
    names = boxes.id[row, time, there].tolist()
    return [[name, *box] for name, box in zip(names, rounded(shape), strict=True)]


def grid(episodes: Episodes, row: int) -> list[list[int]]:
    """The corridor cells of a maze; empty for other worlds."""
    return [] if episodes.corridors is None else episodes.corridors.grid[row].cpu().tolist()


def hexadecimal(color: Tensor) -> str:
    """A color as "#rrggbb"."""
    return "#" + "".join(f"{round(255 * float(value)):02x}" for value in color)


def rounded(values: Tensor) -> list[Any]:
    """Nested lists of rounded numbers."""
    scaled = (values.double() * 10**DIGITS).round() / 10**DIGITS
    return scaled.tolist()
