"""Stills: a few frames of an example, true and imagined, small enough for a result file.

Balls can be drawn again from their positions. Frames of the 3D worlds cannot, and the true ones
need a simulator. So the result contains the frames themselves, side by side in one PNG as text, and
their boxes as numbers.
"""

import base64
import io
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from gswm.data.episode import Episodes
from gswm.eval.baselines import known
from gswm.eval.examples import NEAR, listed
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.matching import nearest_ids

STEPS = (1, 5, 10, 15, 20, 40, 60, 80)
"""Imagined frames to keep, counted from 1; shorter futures have fewer."""
COLORS, ROUNDS = 256, 4
"""Palette size of the PNG and number of k-means iterations: half the file size, without visible
loss.
"""


def stills(
    episodes: Episodes, predicted: Boxes, drawn: Float[Tensor, "_row _step 3 _h _w"], given: int
) -> list[dict[str, Any]]:
    """The frames of each episode, and their boxes; `predicted` has one future of each.

    An imagined object has the id of the true one that it is matched to in the last given frame.
    Unmatched objects get ids that no true object has.
    """
    steps = [step for step in STEPS if step <= drawn.shape[1]]
    times = [given + step - 1 for step in steps]
    true = Boxes.of_truth(known(episodes), episodes.video.shape[-1])
    imagined = named(predicted, true, nearest_ids(true, predicted, given - 1, NEAR))
    few = drawn[:, [step - 1 for step in steps]]
    painted = (255 * few.clamp(0, 1)).round().to(torch.uint8).cpu()
    return [
        {
            "steps": steps,
            "true": as_text(episodes.video[i, times].cpu()),
            "true_boxes": [listed(true, i, time) for time in times],
            "imagined": as_text(painted[i]),
            "boxes": [listed(imagined, i, time) for time in times],
        }
        for i in range(len(episodes))
    ]


def named(boxes: Boxes, true: Boxes, partners: Int[Tensor, "row object"]) -> Boxes:
    """A model's boxes with the ids of the true objects that they are matched to."""
    number = true.id.amax(dim=1)
    same = boxes.id[..., None] == partners[:, None, None]
    found = (same * number[:, None, None]).amax(dim=-1)
    alone = boxes.id + int(number.max()) + 1
    return replace(boxes, id=torch.where(same.any(dim=-1), found, alone))


def as_text(frames: UInt8[Tensor, "time 3 height width"]) -> str:
    """Frames side by side as one PNG, encoded in base64."""
    wide = np.concatenate(list(frames.permute(0, 2, 3, 1).numpy()), axis=1)
    file = io.BytesIO()
    image = Image.fromarray(wide).quantize(COLORS, kmeans=ROUNDS, dither=Image.Dither.NONE)
    image.save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def from_text(text: str) -> UInt8[np.ndarray, "_time _height _width 3"]:
    """Decode frames from such a PNG; raises a ValueError if it is damaged."""
    try:
        with Image.open(io.BytesIO(base64.b64decode(text))) as image:
            wide = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError("the PNG is damaged") from error
    height, width, _ = wide.shape
    if width % height:
        raise ValueError(f"the PNG has {width} x {height} pixels: these are no square frames")
    return np.stack(np.split(wide, width // height, axis=1))
