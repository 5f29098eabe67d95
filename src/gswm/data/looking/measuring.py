"""The whole measurement: from the path of a video to its facts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from gswm.data.looking import moving, steadiness
from gswm.data.looking.facts import Quantiles, VideoFacts
from gswm.data.looking.footage import Place, Region, Sampled, Stretch, place_of
from gswm.data.looking.moving import Blob, Trace
from gswm.data.standing import empty_scene

BACKGROUND = 120
"""Number of frames whose median is the background."""
STEP = 1.0
"""Analyzed pixels per step below which motion is too slow to measure well."""
GOOD_STEP = 2.0
STRIDES = (1, 4, 16)
"""Frames per step to try until something moves."""
SLOW = 0.15
"""Fraction of its highest speed below which an object counts as standing."""
ENOUGH = 40
"""Smallest number of steps that a video must have left."""

RGB = UInt8[np.ndarray, "height width 3"]


@dataclass(frozen=True)
class Followed:
    """A stretch, and the objects in it."""

    stretch: Stretch
    travelling: tuple[Trace, ...]
    standing: tuple[Trace, ...]
    covered: Float[np.ndarray, " time"]
    light: Float[np.ndarray, " time"]
    doubtful: tuple[Trace, ...] = ()
    """Things that stay in place and may or may not be objects."""

    @property
    def objects(self) -> tuple[Trace, ...]:
        """Moving and standing objects."""
        return self.travelling + self.standing

    @property
    def counts(self) -> Float[np.ndarray, " time"]:
        """Objects in each frame."""
        return presence(self.objects, len(self.stretch.frames))


@dataclass(frozen=True)
class Measurement:
    """Measurements of a video, and images that show them."""

    facts: VideoFacts
    followed: tuple[Followed, ...]
    background: RGB
    """Background of the first scene."""
    scale: float
    """Pixels of the video per pixel of `background` and of the stretches."""


def measure(path: str | Path, region: Region | None = None) -> Measurement:
    """Measure a video file, a folder of videos or an imported HDF5 file.

    Args:
        path: A video of a fixed camera.
        region: Left, top, width and height in pixels of the part of the frame to analyze.
    """
    place = place_of(Path(path), region)
    longest = max(reel.count for reel in place.reels)
    strides = [stride for stride in STRIDES if stride == 1 or longest >= ENOUGH * stride]
    found = measure_at(place, 1)
    for stride in strides[1:]:
        if not found.facts.objects and found.facts.camera < 0.25:
            found = measure_at(place, stride)
    facts = found.facts
    step = facts.speeds.median * facts.stride / found.scale
    if facts.objects and step < STEP:
        wanted = round(facts.stride * GOOD_STEP / max(step, 0.01))
        stride = min(wanted, longest // ENOUGH, 8 * facts.stride)
        if stride > facts.stride:
            slower = measure_at(place, stride)
            found = slower if slower.facts.objects else found
    return found


def measure_at(place: Place, stride: int) -> Measurement:
    """Measure every `stride`-th frame."""
    footage = place.read(stride)
    scenes, cuts = [], 0
    for _, group in groupby(footage.stretches, key=lambda stretch: stretch.reel):
        stretches = list(group)
        parts = [part for stretch in stretches for part in steadiness.without_cuts(stretch)]
        different = steadiness.scenes(parts)
        scenes += different
        cuts += max(len(parts) - len(stretches), len(different) - 1)
    looked = [look_at(scene) for scene in scenes]
    noise = float(np.mean([noise for _, noise, _ in looked]))
    followed = chosen([each for _, _, some in looked for each in some], noise)
    backgrounds = [background for background, _, _ in looked]
    facts = facts_of(place, footage, followed, backgrounds, noise, cuts)
    return Measurement(facts, tuple(followed), backgrounds[0], footage.scale)


def look_at(scene: Sequence[Stretch]) -> tuple[RGB, float, list[Followed]]:
    """One scene: its background and noise, and all traces of its stretches as `standing`."""
    frames = np.concatenate([stretch.frames for stretch in scene])
    some = frames[np.unique(np.linspace(0, len(frames) - 1, BACKGROUND).astype(int))]
    video = torch.from_numpy(np.ascontiguousarray(some.transpose(0, 3, 1, 2)))
    background = empty_scene(video)
    picture = (255 * background).round().to(torch.uint8).permute(1, 2, 0).numpy()
    noise, followed = follow(scene, background)
    return picture, noise, followed


def follow(
    scene: Sequence[Stretch], background: Float[Tensor, "3 height width"]
) -> tuple[float, list[Followed]]:
    """The noise of a scene, and all traces of its stretches as `standing`."""
    away = [moving.differences(stretch.frames, background) for stretch in scene]
    noise = moving.SIGMA * float(np.median([np.median(np.abs(d)) for d, _ in away]))
    amounts = [moving.magnitude(difference) for difference, _ in away]
    high = moving.threshold(amounts)
    followed = []
    for stretch, (difference, light), amount in zip(scene, away, amounts, strict=True):
        traces, covered = moving.followed(stretch.frames, difference, amount, high)
        followed.append(Followed(stretch, (), tuple(traces), covered, light))
    return noise, followed


def chosen(followed: Sequence[Followed], noise: float) -> list[Followed]:
    """Stretches with only those traces that are objects."""
    moving_ones = [
        moving.joined_traces(moving.travelling(f.standing, len(f.stretch.frames))) for f in followed
    ]
    kept = {id(t) for t in moving.main_ones([t for traces in moving_ones for t in traces])}
    sizes = [b.size for traces in moving_ones for t in traces if id(t) in kept for b in t]
    out = []
    for each, traces in zip(followed, moving_ones, strict=True):
        travelling = tuple(t for t in traces if id(t) in kept)
        length = len(each.stretch.frames)
        others = [t for t in each.standing if moving.stays(t, length) and not moving.travels(t)]
        joined = moving.joined_traces(others)
        limits = tuple(np.quantile(sizes, [0.1, 0.9]).tolist()) if sizes else (0.0, 0.0)
        standing = tuple(t for t in joined if sizes and moving.stands(t, limits, noise))
        doubtful = tuple(t for t in joined if t not in standing)
        out.append(replace(each, travelling=travelling, standing=standing, doubtful=doubtful))
    return out


def presence(traces: Sequence[Trace], frames: int) -> Float[np.ndarray, " time"]:
    """The number of active traces in each frame."""
    count = np.zeros(frames)
    for trace in traces:
        count[trace[0].time : trace[-1].time + 1] += 1
    return count


def facts_of(
    place: Place,
    footage: Sampled,
    followed: Sequence[Followed],
    backgrounds: Sequence[RGB],
    noise: float,
    cuts: int,
) -> VideoFacts:
    """The measurements in numbers."""
    scale, (_, _, width, height) = footage.scale, place.region
    frame = followed[0].stretch.frames.shape[1:3]
    traces = [trace for each in followed for trace in each.travelling]
    blobs = [b for trace in traces for b in trace]
    free = [b for b in blobs if not b.at_border(*frame)] or blobs
    counts = np.concatenate([each.counts for each in followed])
    motion = np.concatenate(
        [presence(each.travelling, len(each.stretch.frames)) for each in followed]
    )
    light = np.concatenate([each.light for each in followed])
    moves = steadiness.shifts([each.stretch for each in followed], footage.stride)
    shifted = moves[moves[:, 0] >= steadiness.LEAST]
    rates = [reel.fps for reel in place.reels if reel.fps is not None]
    return VideoFacts(
        videos=len(place.reels),
        frames=sum(reel.count for reel in place.reels),
        exact=all(reel.exact for reel in place.reels),
        looked=len(counts),
        stride=footage.stride,
        fps=float(np.median(rates)) if rates else None,
        uneven=max(uneven(reel.times) for reel in place.reels),
        width=width,
        height=height,
        heights=Quantiles.of([scale * b.wh[1] for b in free]),
        widths=Quantiles.of([scale * b.wh[0] for b in free]),
        counts=Quantiles.of(counts),
        most=int(counts.max()),
        speeds=Quantiles.of(speeds(traces, frame)) * (scale / footage.stride),
        contrast=float(np.mean([b.contrast for b in free])) if free else 0.0,
        noise=noise,
        moving=float((motion > 0).mean()),
        covered=Quantiles.of(np.concatenate([each.covered for each in followed])),
        light=(float(np.quantile(light, 0.01)), float(np.quantile(light, 0.99))),
        brightest=float(np.mean([np.quantile(b, 0.99) for b in backgrounds])) / 255,
        camera=len(shifted) / max(1, len(moves)),
        shift=scale * float(np.median(shifted[:, 0] / shifted[:, 1])) if len(shifted) else 0.0,
        cuts=cuts,
        centered=float(np.mean([in_middle(b, *frame) for b in blobs])) if blobs else 1.0,
    )


def uneven(times: np.ndarray | None) -> float:
    """Fraction of the intervals that are far from the usual one."""
    if times is None or len(times) < 3:
        return 0.0
    steps = np.diff(times)
    usual = max(float(np.median(steps)), 1e-9)
    return float((np.abs(steps - usual) > usual / 4).mean())


def speeds(traces: Sequence[Trace], frame: tuple[int, ...]) -> list[float]:
    """Pixels per step of moving objects that the frame does not cut off."""
    found: list[float] = []
    every: list[float] = []
    for trace in traces:
        steps = list(zip(trace, trace[1:], trace[2:], strict=False))
        ways = [np.subtract(after.center, before.center) for before, _, after in steps]
        times = [after.time - before.time for before, _, after in steps]
        fast = np.hypot(*np.transpose(ways)) / times
        under_way = fast >= SLOW * np.quantile(fast, 0.9)
        free = [whole_throughout(step, frame) for step in steps]
        every += fast[under_way].tolist()
        found += fast[under_way & np.array(free)].tolist()
    return found or every


def whole_throughout(step: Sequence[Blob], frame: tuple[int, ...]) -> bool:
    """Whether a blob is never cut off, split or merged."""
    areas = [blob.area for blob in step]
    return max(areas) < 1.3 * min(areas) and not any(b.at_border(*frame) for b in step)


def in_middle(blob: Blob, height: int, width: int) -> bool:
    """Whether most of a blob is in the middle square of the frame."""
    side = min(height, width)
    left, top = (width - side) / 2, (height - side) / 2
    across = min(blob.box[2], left + side) - max(blob.box[0], left)
    down = min(blob.box[3], top + side) - max(blob.box[1], top)
    seen = max(0.0, across) * max(0.0, down)
    return seen >= 0.8 * float(np.prod(blob.wh))
