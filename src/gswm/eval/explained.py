"""The share of a video that a model leaves unexplained, compared with a still picture.

    unexplained = Σ (x - x̂)² / Σ (x - b)²    b = median_t x, or a background that the model is given

The denominator excludes the static background, which makes any error look small, and keeps the
moving parts. Objects in front of a given background count too, since the model should draw them. A
model that fits the video leaves little unexplained. One that draws no moving object leaves about 1,
and one that does not know the background leaves many times that.

If a model is given the background, boxes are what matters: an object in a box counts as explained,
whatever its colors.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.core.geometry import centers
from gswm.models.base import Actions, AnyFrame, AnyVideo, WorldModel, as_float
from gswm.models.track import Track

Drawn = Float[Tensor, "batch time 3 height width"]

FRAMES = 24
"""Number of frames of a video that are measured: those that change most."""
EPISODES = 8
"""Number of validation videos that are measured."""
NOISE = 1e-4
"""Mean squared change below which a video counts as still."""


def unexplained(video: AnyVideo, drawn: Drawn, behind: Drawn | None = None) -> float:
    """The share of what changes in videos that a reconstruction leaves.

    Args:
        video: The frames.
        drawn: Their reconstruction.
        behind: The given background in the light of each frame. Default: the median of the frames.
    """
    frames = as_float(video)
    still = frames.median(dim=1, keepdim=True).values if behind is None else behind
    error, change = ((frames - other).square().mean() for other in (drawn.clamp(0, 1), still))
    return (error / change.clamp(min=NOISE)).item()


def measure(
    model: WorldModel[Any],
    video: AnyVideo,
    *,
    actions: Actions | None = None,
    background: AnyFrame | None = None,
) -> float | None:
    """The unexplained share of the frames that change most; see `measure_track`."""
    at = busiest(video)
    shown = video[:, at : at + FRAMES].to(model.device)
    acted = None if actions is None else actions[:, at : at + FRAMES]
    return measure_track(model, shown, model.infer(shown, actions=acted, background=background))


def measure_track(model: WorldModel[Any], video: AnyVideo, track: Track) -> float | None:
    """The unexplained share of a tracked video; None if nothing is drawn, or nothing moves."""
    if track.reconstruction is None:
        return None
    video = video.to(track.reconstruction.device)
    if not model.cfg.takes_background:
        return measure_drawn(video, track.reconstruction)
    assert track.background is not None
    at = busiest(video)
    which = slice(at, at + FRAMES)
    frames, drawn = as_float(video[:, which]), track.reconstruction[:, which]
    xy, hw, present = track.xy[:, which], track.hw[:, which], track.present[:, which]
    inside = boxed(xy, hw, present, frames.shape[-2:])
    return measure_drawn(frames, torch.where(inside, frames, drawn), track.background[:, which])


def boxed(
    xy: Float[Tensor, "batch time object 2"],
    hw: Float[Tensor, "batch time object 2"],
    present: Bool[Tensor, "batch time object"],
    size: Sequence[int],
) -> Bool[Tensor, "batch time 1 height width"]:
    """The pixels of frames of some height and width that are in the box of an object."""
    y, x = (centers(n, xy) for n in size)
    across = (x - xy[..., :1]).abs() <= hw[..., 1:]
    down = (y - xy[..., 1:]).abs() <= hw[..., :1]
    inside = down[..., None] & across[..., None, :] & present[..., None, None]
    return inside.any(dim=2)[:, :, None]


def measure_drawn(video: AnyVideo, drawn: Drawn, behind: Drawn | None = None) -> float | None:
    """The unexplained share of the frames that change most; None if nothing moves in them."""
    at = busiest(video)
    which = slice(at, at + FRAMES)
    frames = as_float(video[:, which])
    if (frames - frames.median(dim=1, keepdim=True).values).square().mean() < NOISE:
        return None
    return unexplained(frames, drawn[:, which], None if behind is None else behind[:, which])


def busiest(video: AnyVideo) -> int:
    """The first of the `FRAMES` consecutive frames with the most change."""
    if video.shape[1] <= FRAMES:
        return 0
    frames = as_float(video[..., ::4, ::4])
    change = (frames[:, 1:] - frames[:, :-1]).square().mean(dim=(0, 2, 3, 4))
    return int(torch.stack([each.sum() for each in change.unfold(0, FRAMES - 1, 1)]).argmax())
