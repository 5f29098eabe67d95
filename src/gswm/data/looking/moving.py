"""Detects moving objects as regions that differ from the background and travel.

Components of the foreground are linked from frame to frame. Fragments that keep their distance
while they travel are one object (common fate). A trace that stays in place, like a tree in the
wind, is not an object, and neither is the hole that an object leaves in the background.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from scipy import ndimage
from scipy.optimize import linear_sum_assignment

from gswm.data.background import components, match_light

SIGMA = 1.4826
"""Factor from the median absolute value of a Gaussian to its standard deviation."""
SMOOTH = 0.7
"""Standard deviation of the blur against noise, in pixels."""
FAINTEST = 0.035
"""Smallest difference that counts, from 0 to 1."""
NOISES = 5.0
"""Smallest difference that counts, in multiples of the noise."""
CEILING = 0.25
"""Largest threshold for a noisy pixel."""
QUIET = 0.35
"""Quantile over time that defines a pixel's noise; objects may cover it in most other frames."""
AROUND = 9
"""Side of the neighborhood over which noise is pooled, in pixels."""
SHARE = 0.3
"""Ratio of an object's weakest to its strongest differences."""
LEAST_AREA = 5
MOST = 150
"""Largest number of components per frame."""
REACH = 0.12
"""Largest first step of a new object, relative to the longer side."""
GAP = 2
"""Largest number of frames for which a trace may be lost."""
LENGTH = 4
"""Smallest number of frames of an object's trace."""
SHORT = 12
"""Frames of a short trace."""
WINDOW = 30
"""Number of frames in which an object must show that it travels."""
BUSY = 0.25
"""Fraction of frames with restless motion that makes a place busy, like a tree in the wind."""
STRAIGHT = 0.1
"""Largest deviation from a straight line, relative to its reach, of a path through a busy place."""
SPECKS = 0.02
"""Fraction of all differences that specks, which are not objects, may make up."""
EIGHT = np.ones((3, 3), bool)
"""The neighbors of a pixel."""


@dataclass(frozen=True)
class Blob:
    """One connected component of the foreground in one frame, in analyzed pixels."""

    time: int
    box: tuple[float, float, float, float]
    """Left, top, right, bottom."""
    center: tuple[float, float]
    area: float
    contrast: float
    """Mean difference from the background, from 0 to 1."""
    edges: float
    """Edge strength along its outline in the frame, relative to the background."""
    change: float
    """Mean difference from the previous frame, from 0 to 1."""

    @property
    def wh(self) -> tuple[float, float]:
        """Width and height."""
        return self.box[2] - self.box[0], self.box[3] - self.box[1]

    @property
    def size(self) -> float:
        """Side of a square with the area of the box."""
        width, height = self.wh
        return math.sqrt(width * height)

    def at_border(self, height: int, width: int) -> bool:
        """Whether the frame may cut it off."""
        left, top, right, bottom = self.box
        return left <= 1 or top <= 1 or right >= width - 1 or bottom >= height - 1

    def joined(self, other: "Blob") -> "Blob":
        """The union of both."""
        share = self.area / (self.area + other.area)

        def mean(a: float, b: float) -> float:
            return share * a + (1 - share) * b

        low = [min(a, b) for a, b in zip(self.box[:2], other.box[:2], strict=True)]
        high = [max(a, b) for a, b in zip(self.box[2:], other.box[2:], strict=True)]
        return Blob(
            self.time,
            (low[0], low[1], high[0], high[1]),
            (mean(self.center[0], other.center[0]), mean(self.center[1], other.center[1])),
            self.area + other.area,
            mean(self.contrast, other.contrast),
            mean(self.edges, other.edges),
            mean(self.change, other.change),
        )


Trace = tuple[Blob, ...]
"""One moving or standing thing over time."""


def differences(
    frames: UInt8[np.ndarray, "time height width 3"],
    background: Float[torch.Tensor, "3 height width"],
) -> tuple[Float[np.ndarray, "time 3 height width"], Float[np.ndarray, " time"]]:
    """Frames minus the background in their light, and the brightness of that light, 1 as usual."""
    video = torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2))).float() / 255
    light = match_light(background, video)
    lit = light.on(background).clamp(0, 1)
    usual = background.mean().clamp_min(1 / 255)
    return (video - lit).numpy(), (lit.mean(dim=(1, 2, 3)) / usual).numpy()


def magnitude(
    difference: Float[np.ndarray, "time 3 height width"],
) -> Float[np.ndarray, "time height width"]:
    """The largest difference over the three channels, after a blur."""
    blurred = ndimage.gaussian_filter(difference, (0, 0, SMOOTH, SMOOTH), mode="nearest")
    return np.abs(blurred).max(axis=1)


def threshold(
    magnitudes: Sequence[Float[np.ndarray, "_time height width"]],
) -> Float[np.ndarray, "height width"]:
    """The difference above which a pixel surely shows something else, given its noise."""
    some = np.concatenate([m[:: max(1, len(magnitudes) * len(m) // 120)] for m in magnitudes])
    noise = np.quantile(some, QUIET, axis=0)
    own = np.minimum(NOISES * ndimage.percentile_filter(noise, 75, AROUND), CEILING)
    return np.maximum(np.maximum(own, NOISES * float(np.median(noise))), FAINTEST)


def foreground(
    magnitude: Float[np.ndarray, "height width"], high: Float[np.ndarray, "height width"]
) -> Bool[np.ndarray, "height width"]:
    """Pixels above half of `high` whose component has one above `high`, closed and filled.

    A component with strong differences is reduced to those above a fraction of them: the weak ones
    around it are its shadow, or blur by the lens and the codec.
    """
    weak, sure = magnitude > high / 2, magnitude > high
    labels, count = components(weak)
    if not count:
        return weak
    boxes = ndimage.find_objects(labels)
    mask = np.zeros_like(weak)
    for label in np.unique(labels[sure]).tolist():
        box = boxes[label - 1]
        inside = labels[box] == label
        strong = np.quantile(magnitude[box][inside], 0.95)
        mask[box] |= inside & (magnitude[box] > SHARE * strong)
    mask = ndimage.binary_closing(np.pad(mask, 2, mode="edge"), EIGHT)[2:-2, 2:-2]
    return np.asarray(ndimage.binary_fill_holes(mask))


def blobs_of(
    time: int,
    mask: Bool[np.ndarray, "height width"],
    difference: Float[np.ndarray, "3 height width"],
    edges: Float[np.ndarray, "height width"],
    change: Float[np.ndarray, "height width"],
) -> list[Blob]:
    """The connected components of a mask, only the largest ones if there are many."""
    labels, count = components(mask)
    if not count:
        return []
    index = np.arange(1, count + 1)
    areas = ndimage.sum_labels(mask, labels, index)
    kept = index[areas >= LEAST_AREA]
    kept = kept[np.argsort(-areas[kept - 1], kind="stable")][:MOST]
    amount = np.abs(difference).mean(axis=0)
    slices = ndimage.find_objects(labels)
    out = []
    for label in kept.tolist():
        rows, columns = slices[label - 1]
        inside = labels[rows, columns] == label
        y, x = np.nonzero(inside)
        left, top, right, bottom = map(float, (columns.start, rows.start, columns.stop, rows.stop))
        wide = (
            slice(max(0, rows.start - 1), rows.stop + 1),
            slice(max(0, columns.start - 1), columns.stop + 1),
        )
        whole = labels[wide] == label
        rim = ndimage.binary_dilation(whole) & np.logical_not(ndimage.binary_erosion(whole))
        out.append(
            Blob(
                time,
                (left, top, right, bottom),
                (columns.start + float(x.mean()) + 0.5, rows.start + float(y.mean()) + 0.5),
                float(len(x)),
                float(amount[rows, columns][inside].mean()),
                float(edges[wide][rim].mean()),
                float(change[rows, columns][inside].mean()),
            )
        )
    return out


def slopes(
    picture: Float[np.ndarray, "*time height width"],
) -> Float[np.ndarray, "*time height width"]:
    """The gradient magnitude of a gray image at each pixel."""
    across = np.gradient(picture, axis=-1)
    return np.hypot(across, np.gradient(picture, axis=-2))


def linked(frames: Sequence[Sequence[Blob]], side: int) -> list[Trace]:
    """Link blobs of successive frames to traces, by extrapolation."""
    going: list[list[Blob]] = []
    closed: list[list[Blob]] = []
    for time, blobs in enumerate(frames):
        closed += [trace for trace in going if time - trace[-1].time > GAP + 1]
        going = [trace for trace in going if time - trace[-1].time <= GAP + 1]
        taken: set[int] = set()
        if going and blobs:
            cost = misfits(going, blobs, side)
            for i, j in zip(*linear_sum_assignment(cost), strict=True):
                if cost[i, j] < 1:
                    going[i].append(blobs[j])
                    taken.add(int(j))
        going += [[blob] for j, blob in enumerate(blobs) if j not in taken]
    return [tuple(trace) for trace in closed + going]


def misfits(
    traces: Sequence[Sequence[Blob]], blobs: Sequence[Blob], side: int
) -> Float[np.ndarray, "trace blob"]:
    """The cost of continuing each trace with each blob: below 1 if it is allowed."""
    last = [trace[-1] for trace in traces]
    before = [trace[-min(4, len(trace))] for trace in traces]
    since = np.array([max(1, a.time - b.time) for a, b in zip(last, before, strict=True)])
    at, here = np.array([b.center for b in last]), np.array([b.center for b in blobs])
    velocity = (at - np.array([b.center for b in before])) / since[:, None]
    steps = (blobs[0].time - np.array([b.time for b in last]))[:, None]
    areas, area = np.array([b.area for b in last])[:, None], np.array([b.area for b in blobs])
    ratio = np.maximum(areas, area) / np.minimum(areas, area)
    size = np.maximum(np.array([b.size for b in last])[:, None], np.array([b.size for b in blobs]))
    new = np.array([len(trace) == 1 for trace in traces])[:, None]
    first = np.maximum(0.6 * size + 2, REACH * side * np.minimum(1, 1.2 / ratio))
    later = 0.5 * size + 2 + 0.6 * np.hypot(*velocity.T)[:, None]
    away = here - (at + steps[:, :1] * velocity)[:, None]
    far = np.hypot(away[..., 0], away[..., 1]) / (np.where(new, first, later) * np.sqrt(steps))
    return np.where((far < 1) & (ratio <= 4), far * (1 - 0.3 / ratio), 1e3)


def places(trace: Trace) -> Float[np.ndarray, "time 2"]:
    """Centers of a trace's boxes, smoothed over five frames."""
    at = np.array([b.center for b in trace])
    window = min(5, len(at) - (len(at) + 1) % 2)
    return at if window < 3 else ndimage.uniform_filter1d(at, window, axis=0, mode="nearest")


def travels(trace: Trace) -> bool:
    """Whether a trace travels, instead of trembling or swaying."""
    if len(trace) < LENGTH:
        return False
    flicker = np.median(np.abs(np.diff(np.log([blob.area for blob in trace]))))
    if flicker > 0.3:
        return False
    at, sizes = places(trace), np.array([blob.size for blob in trace])
    starts = range(0, max(1, len(at) - WINDOW // 2), WINDOW // 2)
    windows = [slice(start, start + WINDOW) for start in starts]
    moving = [goes(at[window], float(np.median(sizes[window]))) for window in windows]
    return sum(moving) >= 0.15 * len(moving)


def goes(at: Float[np.ndarray, "time 2"], size: float) -> bool:
    """Whether a path leads far, or straight; a short one must do both.

    Things that sway get no further in thirty frames than in ten.
    """
    extent = reach(at)
    directness = extent / max(float(np.hypot(*np.diff(at, axis=0).T).sum()), 1e-6)
    if len(at) < SHORT:
        return extent >= max(4.0, 1.2 * size) and directness >= 0.6
    third = len(at) // 3
    in_thirds = float(np.median([reach(at[i : i + third]) for i in range(0, 3 * third, third)]))
    far = extent >= max(4.0, size) and directness >= 0.15 and extent >= 1.4 * in_thirds
    return far or (extent >= max(3.0, 0.15 * size) and directness >= 0.6)


def reach(at: Float[np.ndarray, "time 2"]) -> float:
    """Diagonal of the bounding box of a path."""
    return float(np.hypot(*np.ptp(at, axis=0)))


def travelling(traces: Sequence[Trace], frames: int) -> list[Trace]:
    """Traces that travel, except by chance."""
    going = [trace for trace in traces if travels(trace)]
    restless = [t for t in traces if not travels(t) and not stays(t, frames)]
    return [trace for trace in going if not sways(trace, restless, frames)]


def sways(trace: Trace, restless: Sequence[Trace], frames: int) -> bool:
    """Whether a trace that travels is a chance link of things that sway.

    It is one if other things constantly appear and disappear there, unless it is long and straight.

    Args:
        trace: A trace that may travel.
        restless: Traces that do not travel.
        frames: Number of frames of the stretch.
    """
    at = np.array([b.center for b in trace])
    boxes = np.array([b.box for other in restless for b in other]).reshape(-1, 4)
    inside = (at[:, None] >= boxes[:, :2]) & (at[:, None] < boxes[:, 2:])
    if inside.all(axis=-1).sum() <= BUSY * frames * len(at):
        return False
    return len(at) < SHORT or bend(at) > STRAIGHT * reach(at)


def bend(at: Float[np.ndarray, "time 2"]) -> float:
    """Mean distance of a path from its best-fitting uniform motion."""
    steady = np.stack([np.ones(len(at)), np.arange(len(at))], axis=1)
    away = at - steady @ np.linalg.lstsq(steady, at, rcond=None)[0]
    return float(np.sqrt((away**2).sum(axis=1).mean()))


def main_ones(traces: Sequence[Trace]) -> list[Trace]:
    """Traces without the faintest and smallest, which contribute almost nothing to the change."""
    weights = np.array([sum(b.area * b.contrast for b in trace) for trace in traces])
    if not len(weights):
        return []
    order = np.argsort(weights)
    few = np.cumsum(weights[order]) < SPECKS * weights.sum()
    dropped = set(order[few].tolist())
    return [trace for i, trace in enumerate(traces) if i not in dropped]


def together(one: Trace, other: Trace) -> bool:
    """Whether two traces are fragments of one thing: near each other, with the same motion."""
    if one[0].time > other[-1].time or other[0].time > one[-1].time:
        return False
    mine, theirs = {b.time: b for b in one}, {b.time: b for b in other}
    shared = sorted(mine.keys() & theirs.keys())
    if len(shared) < max(3, 0.5 * min(len(one), len(other))):
        return False
    apart = [gap(mine[t], theirs[t]) for t in shared]
    size = float(np.median([max(mine[t].size, theirs[t].size) for t in shared]))
    if np.median(apart) > 0.3 * size:
        return False
    offset = np.array([np.subtract(mine[t].center, theirs[t].center) for t in shared])
    way = np.array([mine[t].center for t in shared])
    moved = float(np.hypot(*np.ptp(way, axis=0)))
    drift = float(np.hypot(*np.ptp(ndimage.uniform_filter1d(offset, 3, axis=0), axis=0)))
    return drift < max(0.15 * size, 0.2 * moved) + 0.5


def gap(one: Blob, other: Blob) -> float:
    """Distance of two boxes in pixels; 0 if they overlap."""
    across = max(one.box[0], other.box[0]) - min(one.box[2], other.box[2])
    down = max(one.box[1], other.box[1]) - min(one.box[3], other.box[3])
    return float(np.hypot(max(0.0, across), max(0.0, down)))


def joined_traces(traces: Sequence[Trace]) -> list[Trace]:
    """Traces, with fragments of one thing merged."""
    done: list[Trace] = []
    for trace in sorted(traces, key=lambda t: -sum(b.area for b in t)):
        for i, other in enumerate(done):
            if together(other, trace):
                done[i] = union(other, trace)
                break
        else:
            done.append(trace)
    return done


def union(one: Trace, other: Trace) -> Trace:
    """Merge two traces, frame by frame."""
    blobs = {b.time: b for b in one}
    for blob in other:
        blobs[blob.time] = blobs[blob.time].joined(blob) if blob.time in blobs else blob
    return tuple(blobs[time] for time in sorted(blobs))


def stays(trace: Trace, frames: int) -> bool:
    """Whether a trace stays in place, unchanged, for long."""
    areas = np.log([b.area for b in trace])
    return len(trace) >= max(LENGTH, 0.3 * frames) and float(np.std(areas)) < 0.25


def stands(trace: Trace, sizes: tuple[float, float], noise: float) -> bool:
    """Whether a trace that stays is an object, and not a part of the background.

    Its pixels do not change; its outline is an edge in the frame and not in the background, where
    it would be a hole that something left; and its size is that of travelling objects.
    """
    size, edges, change = (
        float(np.median([getattr(b, name) for b in trace])) for name in ("size", "edges", "change")
    )
    steady = change < 2.5 * noise + 0.01
    return steady and edges > 1.5 and 0.6 * sizes[0] <= size <= 1.5 * sizes[1]


def followed(
    frames: UInt8[np.ndarray, "time height width 3"],
    difference: Float[np.ndarray, "time 3 height width"],
    magnitudes: Float[np.ndarray, "time height width"],
    high: Float[np.ndarray, "height width"],
) -> tuple[list[Trace], Float[np.ndarray, " time"]]:
    """All traces of a stretch, and the foreground fraction of each frame."""
    grey = frames.mean(axis=-1, dtype=np.float32) / 255
    behind = grey - difference.mean(axis=1)
    blurred = ndimage.gaussian_filter(grey, (0, SMOOTH, SMOOTH))
    ratio = slopes(blurred) / (slopes(ndimage.gaussian_filter(behind, (0, SMOOTH, SMOOTH))) + 0.004)
    change = np.abs(np.diff(grey, axis=0, prepend=grey[:1]))
    covered, blobs = [], []
    for time in range(len(frames)):
        mask = foreground(magnitudes[time], high)
        covered.append(float(mask.mean()))
        blobs.append(blobs_of(time, mask, difference[time], ratio[time], change[time]))
    traces = linked(blobs, max(frames.shape[1:3]))
    return traces, np.array(covered)
