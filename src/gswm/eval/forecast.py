"""Forecasts: imagined object positions in a real video, compared with the positions seen later.

Most videos have no ground truth, so imagined positions are compared with the model's own track of
the same frames, and with hand labels if there are any. The protocol:

- The background never comes from the held-out part: a fit stores that of its training part, and
  for other models it is computed from the frames before the held-out part.
- A window is `given` frames and the next 10, or as many as there are. A new window starts every 4
  frames of the held-out part, or less often, so that there are at most 64. Windows are independent.
- The model tracks all frames of a window, and discovers objects in each. From its state after the
  given frames it also imagines the others, by the mean rollout.
- An object is compared in a frame if it is tracked in the last given frame and, under the same id,
  in that frame. An object that vanishes during imagination keeps its last position; `kept` is the
  share of objects that do not vanish.
- The error is the distance between box centers, in source pixels and as a fraction of the source
  video's height: the mean over all compared windows, objects and frames. `objects` counts pairs of
  a window and an object.
- `straight` is the error of a baseline that continues the track at constant velocity: the mean of
  the last 3 steps within the given frames, or of fewer for an object found later. An object found
  in the last given frame does not move.
- A label is compared if its IoU with the tracked box of a compared object is at least 0.3, matched
  one to one. Boxes are clipped at the borders of the picture, as labels are, and interpolated
  linearly if the label lies between frames that the model saw. `tracked` is the error of the track
  itself.
- PSNR is a mean over all imagined frames, at the model's resolution: for these frames, for their
  background without objects (in the light of the last given frame), and for the last given frame
  repeated.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, UInt8
from torch import Tensor

from gswm.core.records import concatenate, map_tensors
from gswm.core.shapes import NOBODY
from gswm.data.importing.film import Film
from gswm.data.importing.tensors import batch_of
from gswm.data.mot import MotBoxes
from gswm.data.placement import Footage
from gswm.eval.evaluate import finite
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.labelled import matches
from gswm.eval.metrics.pixels import psnr
from gswm.models.base import WorldModel, as_float

STEPS = 10
EVERY = 4
"""Distance between the starts of two windows, in frames."""
MOST = 64
"""Largest number of windows."""
RECENT = 3
"""Number of steps over which the baseline averages velocity."""
BATCH = 16
"""Windows per batch."""


@dataclass(frozen=True)
class Window:
    """Consecutive frames of a video: given ones and those to imagine."""

    video: UInt8[Tensor, "time 3 size size"]
    footage: Footage
    background: UInt8[Tensor, "3 size size"] | Float[Tensor, "3 size size"] | None = None


@dataclass(frozen=True)
class Offset:
    """A mean distance."""

    px: float
    """Distance in source pixels."""
    share: float
    """Distance as a fraction of the source video's height."""

    @staticmethod
    def of(px: Float64[Tensor, " pair"], height: Float64[Tensor, " pair"]) -> "Offset":
        """The mean; NaN for no values."""
        return Offset(px.mean().item(), (px / height).mean().item())

    def __str__(self) -> str:
        return f"{self.px:.1f} px, {100 * self.share:.1f} % of the height"


@dataclass(frozen=True)
class LabelOffsets:
    """Errors against labels."""

    boxes: int
    """Number of compared labels; a label counts once for each window that contains it."""
    imagined: Offset
    straight: Offset
    tracked: Offset


@dataclass(frozen=True)
class ForecastScores:
    """Scores over all windows; see the module."""

    given: int
    steps: int
    windows: int
    objects: int
    imagined: Offset
    straight: Offset
    imagined_px: tuple[float, ...]
    """Error of each step; NaN if nothing was compared."""
    straight_px: tuple[float, ...]
    kept: float
    psnr: float
    psnr_background: float
    psnr_still: float
    labels: LabelOffsets | None
    """Errors against labels; None without labels to compare."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, with None for NaN and infinity."""
        return finite(asdict(self))

    def rows(self) -> list[tuple[str, str]]:
        """All scores as pairs of a name and a value in words."""
        rows = [
            (f"PSNR of {self.steps} imagined frames after {self.given}", f"{self.psnr:.1f} dB"),
            ("PSNR of the background alone", f"{self.psnr_background:.1f} dB"),
            ("PSNR of the last given frame, repeated", f"{self.psnr_still:.1f} dB"),
        ]
        compared = f"{self.objects} in {self.windows}"
        if not self.objects:
            return [*rows, ("objects tracked beyond the given frames, in windows", compared)]
        last = max(k for k, px in enumerate(self.imagined_px) if not math.isnan(px))
        ends = f"{self.imagined_px[last]:.1f} px", f"{self.straight_px[last]:.1f} px"
        rows += [
            ("error of imagined centers", str(self.imagined)),
            ("error of constant velocity", str(self.straight)),
            (f"errors at step {last + 1}: imagined, constant velocity", ", ".join(ends)),
            ("objects compared, in windows", compared),
            ("objects that do not vanish while imagined", f"{self.kept:.0%}"),
        ]
        if self.labels is not None:
            rows += [
                ("error of imagined centers, by labels", str(self.labels.imagined)),
                ("error of constant velocity, by labels", str(self.labels.straight)),
                ("error of the track itself, by labels", str(self.labels.tracked)),
                ("labels compared", f"{self.labels.boxes}"),
            ]
        return rows


@dataclass(frozen=True)
class Compared:
    """Errors in source pixels; NaN for objects that are not compared."""

    imagined: Float64[Tensor, "window step object"]
    straight: Float64[Tensor, "window step object"]
    kept: Bool[Tensor, "window step object"]
    height: Float64[Tensor, " window"]
    psnr: Float64[Tensor, "window step 3"]
    """PSNR of imagined frames, of their background, and of the last given frame."""
    labelled: Float64[Tensor, "label 3"]
    """Errors against labels: imagined, straight and tracked."""
    labelled_height: Float64[Tensor, " label"]

    def scores(self, given: int) -> ForecastScores:
        """Means over all windows, objects and frames."""
        there = ~self.imagined.isnan()
        height = self.height[:, None, None].expand_as(there)[there]
        steps = self.imagined.shape[1]
        labels = None
        if len(self.labelled):
            offsets = (Offset.of(px, self.labelled_height) for px in self.labelled.unbind(1))
            labels = LabelOffsets(len(self.labelled), *offsets)
        return ForecastScores(
            given=given,
            steps=steps,
            windows=len(there),
            objects=int(there.any(dim=1).sum()),
            imagined=Offset.of(self.imagined[there], height),
            straight=Offset.of(self.straight[there], height),
            imagined_px=tuple(self.imagined[:, k][there[:, k]].mean().item() for k in range(steps)),
            straight_px=tuple(self.straight[:, k][there[:, k]].mean().item() for k in range(steps)),
            kept=self.kept[there].double().mean().item(),
            **dict(zip(PSNRS, self.psnr.mean(dim=(0, 1)).tolist(), strict=True)),
            labels=labels,
        )


PSNRS = ("psnr", "psnr_background", "psnr_still")


def forecast(
    model: WorldModel[Any],
    windows: Iterable[Window],
    given: int,
    labels: MotBoxes | None = None,
) -> ForecastScores | None:
    """Score a model on windows of equal length; None if there are none.

    Args:
        model: A model on the device to use.
        windows: Windows of videos that the model was not trained on.
        given: Frames of each window that the model sees before it imagines.
        labels: Boxes of the windows' video, in source pixels; ignore regions are not used.
    """
    parts = [compare(model, batch, given, labels) for batch in batches(windows)]
    return concatenate(parts).scores(given) if parts else None


def batches(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Batches of windows."""
    held: list[Window] = []
    for window in windows:
        held.append(window)
        if len(held) == BATCH:
            yield held
            held = []
    if held:
        yield held


def starts(frames: int, given: int, first: int = 0) -> range:
    """First frames of the windows in a video of `frames` frames, starting at `first`."""
    length = window_length(frames - first, given)
    room = frames - first - length + 1
    return range(first, first + max(0, room), max(EVERY, -(-room // MOST)))


def window_length(frames: int, given: int) -> int:
    """Length of a window in a video of this length; short videos have fewer frames to imagine."""
    return given + max(1, min(STEPS, frames - given))


def held_out_from(film: Film, last: float) -> int:
    """The number of frames before the held-out part at the end of a video; at least one."""
    return int(np.searchsorted(film.footage.frames, (1 - last) * len(film.source_times)))


def film_windows(
    film: Film, given: int, last: float, background: Float[Tensor, "1 3 size size"] | None
) -> Iterator[Window]:
    """The windows in the held-out part at the end of a video."""
    numbers = film.footage.frames
    first = held_out_from(film, last)
    length = window_length(len(numbers) - first, given)
    begins = starts(len(numbers), given, first)
    recent: deque[np.ndarray] = deque(maxlen=length)
    seen = 0
    for take in film.chunks():
        for frame in take.video:
            recent.append(frame)
            seen += 1
            if seen - length in begins:
                which = slice(seen - length, seen)
                footage = Footage(film.placement, numbers[which], film.footage.times[which])
                behind = None if background is None else background[0]
                yield Window(batch_of(np.stack(recent))[0], footage, behind)


def compare(
    model: WorldModel[Any], windows: Sequence[Window], given: int, labels: MotBoxes | None
) -> Compared:
    """Track and imagine several windows, and compare the two."""
    video = torch.stack([window.video for window in windows]).to(model.device)
    pictures = [window.background for window in windows if window.background is not None]
    behind = torch.stack(pictures).to(model.device) if pictures else None
    seen = model.infer(video, render=False, background=behind)
    future = model.imagine_from(seen.state_at(given - 1), video.shape[1] - given, sample=False)

    track = Boxes.of_track(seen)
    now = track.frames(given - 1, given)
    ids = torch.where(now.there, now.id, NOBODY)[:, 0]
    tracked = in_picture(track.of(ids), windows)
    rollout = in_picture(Boxes.of_track(replace(future, past=None)).flat().of(ids), windows)
    now, after = tracked.frames(given - 1, given), tracked.frames(given)
    imagined = held(now, rollout)
    straight = continued(tracked.frames(0, given), after.id.shape[1])

    size = picture_sizes(windows)
    lacks = ~after.there
    errors = [
        apart(each, after, size).masked_fill(lacks, torch.nan) for each in (imagined, straight)
    ]
    true = as_float(video[:, given:])
    drawn = future.reconstruction, future.background
    assert drawn[0] is not None
    frames = [
        *(None if each is None else each[:, 0] for each in drawn),
        as_float(video[:, given - 1 : given]).expand_as(true),
    ]
    decibels = [
        torch.full(true.shape[:2], torch.nan)
        if each is None
        else psnr(each.float().clamp(0, 1), true).cpu()
        for each in frames
    ]
    rows = [(now.then(each)) for each in (imagined, straight, after)]
    labelled, heights = label_errors(rows, windows, given, labels)
    return Compared(
        *errors,
        kept=rollout.there,
        height=size[:, 1],
        psnr=torch.stack(decibels, dim=-1).double(),
        labelled=labelled,
        labelled_height=heights,
    )


def picture_sizes(windows: Sequence[Window]) -> Float64[Tensor, "window 2"]:
    """Width and height of the source picture of each window."""
    places = [window.footage.placement for window in windows]
    return torch.tensor([(each.width, each.height) for each in places], dtype=torch.float64)


def in_picture(boxes: Boxes, windows: Sequence[Window]) -> Boxes:
    """Boxes as fractions of the width and height of the source picture."""
    xy, hw = torch.empty_like(boxes.xy), torch.empty_like(boxes.hw)
    for i, window in enumerate(windows):
        place = window.footage.placement
        size = np.array([place.width, place.height])
        center, wh = place.to_source(2 * boxes.xy[i].numpy() - 1, boxes.hw[i].numpy())
        xy[i], hw[i] = torch.from_numpy(center / size), torch.from_numpy(wh / size).flip(-1)
    return replace(boxes, xy=xy, hw=hw)


def apart(
    one: Boxes, other: Boxes, size: Float64[Tensor, "window 2"]
) -> Float64[Tensor, "window step object"]:
    """Distances between centers of the same objects, in source pixels."""
    return ((one.xy - other.xy) * size[:, None, None]).norm(dim=-1)


def held(now: Boxes, rollout: Boxes) -> Boxes:
    """A rollout in which vanished objects keep their last positions."""
    xy, hw = [now.xy[:, 0]], [now.hw[:, 0]]
    for t in range(rollout.id.shape[1]):
        there = rollout.there[:, t, :, None]
        xy.append(torch.where(there, rollout.xy[:, t], xy[-1]))
        hw.append(torch.where(there, rollout.hw[:, t], hw[-1]))
    return replace(rollout, xy=torch.stack(xy[1:], dim=1), hw=torch.stack(hw[1:], dim=1))


def continued(past: Boxes, steps: int) -> Boxes:
    """The objects of a track's last frame, continued at constant velocity."""
    time = past.id.shape[1]
    age = past.there.flip(1).long().cumprod(dim=1).sum(dim=1)
    since = (age - 1).clamp(0, RECENT)
    before = past.xy.take_along_dim((time - 1 - since)[:, None, :, None], dim=1)
    last = map_tensors(lambda values: values[:, -1:], past)
    velocity = (last.xy - before) / since.clamp_min(1)[:, None, :, None]
    ahead = torch.arange(1, steps + 1, dtype=velocity.dtype)[None, :, None, None]
    alike = map_tensors(lambda values: values.expand(-1, steps, *values.shape[2:]), last)
    return replace(alike, xy=last.xy + ahead * velocity)


def label_errors(
    rows: Sequence[Boxes], windows: Sequence[Window], given: int, labels: MotBoxes | None
) -> tuple[Float64[Tensor, "label 3"], Float64[Tensor, " label"]]:
    """Errors of imagined, straight and tracked boxes, and the heights of the pictures.

    `rows` begin with the last given frame.
    """
    errors: list[Tensor] = []
    heights: list[Tensor] = []
    sizes = picture_sizes(windows)
    for i, window in enumerate(windows if labels is not None else ()):
        assert labels is not None
        seen = window.footage.frames[given - 1 :]
        inside = (labels.frame - 1 > seen[0]) & (labels.frame - 1 <= seen[-1])
        counted = labels[inside & (labels.conf != 0)]
        of_window = [map_tensors(lambda values: values[i : i + 1], each) for each in rows]  # noqa: B023
        for number in (np.unique(counted.frame) - 1).tolist():
            true = label_boxes(counted[counted.frame == number + 1], sizes[i])
            found = [at_frame(each, seen, number).clipped() for each in of_window]
            pairs = matches(found[-1], true)[0, 0]
            who, label = pairs.nonzero().unbind(1)
            off = [(each.xy[0, 0, who] - true.xy[0, 0, label]) * sizes[i] for each in found]
            errors.append(torch.stack([each.norm(dim=-1) for each in off], dim=-1))
            heights.append(sizes[i, 1].expand(len(who)))
    none = torch.zeros(0, dtype=torch.float64)
    return torch.cat([none[:, None].expand(0, 3), *errors]), torch.cat([none, *heights])


def label_boxes(rows: MotBoxes, size: Float64[Tensor, "2"]) -> Boxes:
    """Labels of one frame as fractions of the picture."""
    low, wh = torch.from_numpy(rows.box).split(2, dim=-1)
    xy, hw = (low + wh / 2) / size, (wh / size).flip(-1)
    id = torch.from_numpy(rows.id)[None, None]
    return Boxes(xy[None, None], hw[None, None], id, torch.ones_like(id, dtype=torch.bool))


def at_frame(boxes: Boxes, seen: np.ndarray, number: int) -> Boxes:
    """The boxes at one source frame, interpolated between the frames that the model saw."""
    k = int(np.searchsorted(seen, number, side="right")) - 1
    if seen[k] == number:
        return boxes.frames(k, k + 1)
    share = (number - seen[k]) / (seen[k + 1] - seen[k])
    early, late = boxes.frames(k, k + 1), boxes.frames(k + 1, k + 2)
    xy, hw = early.xy.lerp(late.xy, share), early.hw.lerp(late.hw, share)
    return Boxes(xy, hw, early.id, early.there & late.there)
