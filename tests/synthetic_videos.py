"""Videos of a fixed camera, made here, with the truth about them: ten kinds, and five refusals.

Objects are ellipses or rectangles over a ground. All randomness comes from the seed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from scipy import ndimage

from gswm.data.looking.facts import Quantiles, VideoFacts

WIDTH, HEIGHT, FRAMES = 192, 144, 100
FPS = 20


@dataclass(frozen=True)
class Synthetic:
    """A video and what is true of it."""

    video: np.ndarray
    """(time, height, width, 3), uint8."""
    centers: np.ndarray
    """(time, object, 2): x and y, in pixels."""
    sizes: np.ndarray
    """(object, 2): width and height, in pixels."""
    present: np.ndarray
    """(time, object): whether most of the object is in the frame."""
    background: np.ndarray
    """(height, width, 3), from 0 to 1."""

    @property
    def counts(self) -> np.ndarray:
        """Objects in each frame."""
        return self.present.sum(axis=1)

    @property
    def speeds(self) -> np.ndarray:
        """Pixels per frame of all objects that are in two successive frames."""
        steps = np.hypot(*np.moveaxis(np.diff(self.centers, axis=0), -1, 0))
        return steps[self.present[1:] & self.present[:-1]]


def plain(level: float) -> np.ndarray:
    """A ground of one shade of grey."""
    return np.full((HEIGHT, WIDTH, 3), level)


def textured(rng: np.random.Generator, level: float = 0.45, amount: float = 0.12) -> np.ndarray:
    """A ground like gravel."""
    coarse = ndimage.gaussian_filter(rng.normal(size=(HEIGHT, WIDTH, 3)), (3, 3, 0))
    fine = ndimage.gaussian_filter(rng.normal(size=(HEIGHT, WIDTH, 1)), (1, 1, 0))
    return (level + amount * (coarse / coarse.std() + fine / fine.std()) / 2).clip(0.05, 0.95)


def dish() -> np.ndarray:
    """A bright dish on a dark table."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    inside = np.hypot(x - WIDTH / 2, y - HEIGHT / 2) < 68
    ground = plain(0.3)
    ground[inside] = 0.85
    return ndimage.gaussian_filter(ground, (1, 1, 0))


def render(
    ground: np.ndarray,
    centers: np.ndarray,
    sizes: np.ndarray,
    colors: np.ndarray,
    rng: np.random.Generator,
    *,
    square: bool = False,
    noise: float = 0.008,
    light: np.ndarray | None = None,
    before: Callable[[int], np.ndarray] | None = None,
) -> Synthetic:
    """Objects over a ground, under a light for each frame, with noise."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    frames = []
    for time, places in enumerate(centers):
        frame = (ground if before is None else before(time)).copy()
        for (cx, cy), (w, h), color in zip(places, sizes, colors, strict=True):
            across, down = np.abs(x - cx) - w / 2, np.abs(y - cy) - h / 2
            if square:
                alpha = (0.5 - np.maximum(across, down)).clip(0, 1)
            else:
                radius = np.hypot((x - cx) / (w / 2), (y - cy) / (h / 2))
                alpha = (0.5 - (radius - 1) * min(w, h) / 2).clip(0, 1)
            frame += alpha[..., None] * (color - frame)
        frame *= 1 if light is None else light[time]
        frame += rng.normal(scale=noise, size=frame.shape)
        frames.append((255 * frame).round().clip(0, 255).astype(np.uint8))
    inside = (centers > 0) & (centers < [WIDTH, HEIGHT])
    return Synthetic(np.stack(frames), centers, sizes, inside.all(axis=-1), ground)


def wander(rng: np.random.Generator, objects: int, speed: float, room: float) -> np.ndarray:
    """Paths that turn slowly and stay in the middle, within `room` of the frame's half height."""
    at = rng.uniform(-0.6, 0.6, (objects, 2)) * room * HEIGHT / 2
    angle = rng.uniform(0, 2 * np.pi, objects)
    out = []
    for _ in range(FRAMES):
        out.append(at + np.array([WIDTH / 2, HEIGHT / 2]))
        far = np.hypot(*at.T) > 0.8 * room * HEIGHT / 2
        inward = np.arctan2(-at[:, 1], -at[:, 0])
        turn = np.angle(np.exp(1j * (inward - angle)))
        angle = angle + np.where(far, 0.4 * turn, rng.normal(scale=0.15, size=objects))
        at = at + speed * np.stack([np.cos(angle), np.sin(angle)], -1)
    return np.stack(out)


def bounce(
    starts: np.ndarray, steps: np.ndarray, margin: float, frames: int = FRAMES
) -> np.ndarray:
    """Straight paths that bounce off the edges, `margin` pixels from them."""
    room = np.array([WIDTH, HEIGHT]) - 2 * margin
    free = starts + steps * np.arange(frames)[:, None, None] - margin
    return np.abs((free + room) % (2 * room) - room) + margin


def same(size: tuple[float, float], number: int) -> np.ndarray:
    return np.tile(np.array(size, float), (number, 1))


def insects(rng: np.random.Generator) -> Synthetic:
    """Four dark insects in a bright dish."""
    colors = np.full((4, 3), 0.12)
    return render(dish(), wander(rng, 4, 1.5, 0.75), same((10, 7), 4), colors, rng)


def discs(rng: np.random.Generator) -> Synthetic:
    """Three bright robots on textured ground."""
    starts = np.array([[40, 30], [100, 110], [150, 60]], float)
    steps = np.array([[1.2, 0.8], [-1.0, 1.1], [0.9, -1.2]])
    colors = np.array([[0.95, 0.95, 0.9], [0.95, 0.85, 0.4], [0.6, 0.9, 0.95]])
    return render(textured(rng), bounce(starts, steps, 10), same((18, 18), 3), colors, rng)


def cars(rng: np.random.Generator) -> Synthetic:
    """Cars in two lanes, under a light that falls to half and comes back."""
    time = np.arange(FRAMES)[:, None]
    right = np.stack([-40 + 3.0 * time + [0, -120], np.full((FRAMES, 2), 50.0)], -1)
    left = np.stack([230 - 3.0 * time + [0, 120], np.full((FRAMES, 2), 95.0)], -1)
    colors = np.array([[0.85, 0.85, 0.88], [0.7, 0.15, 0.12], [0.1, 0.1, 0.14], [0.2, 0.3, 0.75]])
    light = 1 - 0.45 * np.exp(-(((np.arange(FRAMES) - 50) / 15) ** 2))
    ground = textured(rng, 0.42, 0.04)
    centers = np.concatenate([right, left], axis=1)
    return render(ground, centers, same((34, 20), 4), colors, rng, square=True, light=light)


def visitors(rng: np.random.Generator) -> Synthetic:
    """Objects that enter and leave one after the other, on an empty scene at first and last."""
    time = np.arange(FRAMES)[:, None]
    x = -20 + 4.0 * (time - [10, 22, 34])
    centers = np.stack([x, np.broadcast_to([40.0, 75.0, 110.0], x.shape)], -1)
    colors = np.array([[0.9, 0.3, 0.2], [0.2, 0.8, 0.3], [0.2, 0.3, 0.9]])
    return render(plain(0.5), centers, same((16, 22), 3), colors, rng)


def stop_and_go(rng: np.random.Generator) -> Synthetic:
    """Objects that go, stand for a while and go on."""
    pace = np.where((np.arange(FRAMES) // 20) % 2 == 0, 2.0, 0.0)
    way = np.concatenate([[0], np.cumsum(pace)[:-1]])
    x = np.stack([30 + way, 160 - way], -1)
    centers = np.stack([x, np.broadcast_to([45.0, 100.0], x.shape)], -1)
    colors = np.array([[0.9, 0.85, 0.2], [0.1, 0.2, 0.6]])
    return render(textured(rng, 0.5, 0.05), centers, same((16, 16), 2), colors, rng)


def crossing(rng: np.random.Generator) -> Synthetic:
    """Two objects that pass over each other, again and again, and one that does not."""
    starts = np.array([[30, 70], [160, 74], [60, 120]], float)
    steps = np.array([[2.2, 0.0], [-2.2, 0.0], [1.5, 0.0]])
    colors = np.array([[0.85, 0.2, 0.2], [0.2, 0.25, 0.85], [0.9, 0.9, 0.3]])
    return render(plain(0.45), bounce(starts, steps, 12), same((20, 20), 3), colors, rng)


def low_contrast(rng: np.random.Generator) -> Synthetic:
    """Objects only a little darker than the ground."""
    starts = np.array([[40, 40], [120, 90]], float)
    steps = np.array([[1.3, 0.9], [-1.1, 0.8]])
    colors = np.full((2, 3), 0.5 - 0.08)
    return render(plain(0.5), bounce(starts, steps, 12), same((18, 18), 2), colors, rng)


def swaying(rng: np.random.Generator) -> Synthetic:
    """Leaves that sway on the left, and one object that passes on the right."""
    ground = textured(rng, 0.4, 0.03)
    leaves = textured(rng, 0.35, 0.25)
    phase = rng.uniform(0, 2 * np.pi, 2)

    def before(time: int) -> np.ndarray:
        away = 2.0 * np.sin(2 * np.pi * time / np.array([7.0, 11.0]) + phase)
        moved = ndimage.shift(leaves, (away[0], away[1], 0), order=1, mode="reflect")
        frame = ground.copy()
        frame[:90, :60] = moved[:90, :60]
        return frame

    starts, steps = np.array([[90, 40]], float), np.array([[0.9, 1.3]])
    room = bounce(starts - [70, 0], steps, 12)
    centers = np.stack([72 + np.abs((room[..., 0]) % 108), room[..., 1]], -1)
    colors = np.array([[0.9, 0.9, 0.95]])
    return render(ground, centers, same((18, 18), 1), colors, rng, before=before)


def large_slow(rng: np.random.Generator) -> Synthetic:
    """Two objects a third of the frame high, less than a pixel per frame."""
    starts = np.array([[30, 40], [160, 104]], float)
    steps = np.array([[0.7, 0.0], [-0.7, 0.0]])
    colors = np.array([[0.8, 0.5, 0.2], [0.2, 0.5, 0.8]])
    centers = bounce(starts, steps, 24, 160)
    return render(textured(rng, 0.5, 0.05), centers, same((44, 48), 2), colors, rng)


def small_fast(rng: np.random.Generator) -> Synthetic:
    """Six small objects, 7 pixels per frame."""
    starts = rng.uniform(20, 120, (6, 2))
    angle = rng.uniform(0, 2 * np.pi, 6)
    steps = 7 * np.stack([np.cos(angle), np.sin(angle)], -1)
    colors = np.full((6, 3), 0.95)
    return render(plain(0.15), bounce(starts, steps, 6), same((6, 6), 6), colors, rng)


KINDS: dict[str, Callable[[np.random.Generator], Synthetic]] = {
    f.__name__: f
    for f in (
        *(insects, discs, cars, visitors, stop_and_go),
        *(crossing, low_contrast, swaying, large_slow, small_fast),
    )
}


def moving_camera(rng: np.random.Generator) -> np.ndarray:
    """A camera that pans over a textured ground."""
    wide = np.concatenate([textured(rng) for _ in range(2)], axis=1)
    noise = rng.normal(scale=0.008, size=(FRAMES, HEIGHT, WIDTH, 3))
    views = np.stack([wide[:, 1 + t : 1 + t + WIDTH] for t in range(FRAMES)]) + noise
    return (255 * views).round().clip(0, 255).astype(np.uint8)


def one_frame(rng: np.random.Generator) -> np.ndarray:
    return insects(rng).video[:1]


def black(rng: np.random.Generator) -> np.ndarray:
    return np.zeros((FRAMES, HEIGHT, WIDTH, 3), np.uint8)


def still(rng: np.random.Generator) -> np.ndarray:
    """A room in which nothing happens."""
    ground = textured(rng)
    noise = rng.normal(scale=0.008, size=(FRAMES, HEIGHT, WIDTH, 3))
    return (255 * (ground + noise)).round().clip(0, 255).astype(np.uint8)


def static_noise(rng: np.random.Generator) -> np.ndarray:
    """Nothing but noise."""
    return rng.integers(0, 256, (FRAMES, HEIGHT, WIDTH, 3), np.uint8)


REFUSALS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "camera": moving_camera,
    "frames": one_frame,
    "black": black,
    "still": still,
    "noise": static_noise,
}


@cache
def make(kind: str, seed: int = 0) -> Synthetic:
    """One video of a kind, the same object each time."""
    return KINDS[kind](np.random.default_rng(seed))


def refusal(kind: str, seed: int = 0) -> np.ndarray:
    """One video that cannot be learned from."""
    return REFUSALS[kind](np.random.default_rng(seed))


SAME_EACH_TIME = {"qp": "12", "threads": "1"}
"""Options of x264. Rate control and threads would give another file each time."""


def save(path: Path, video: np.ndarray, fps: float = FPS) -> Path:
    """A video file of these frames, hardly compressed."""
    rate = Fraction(fps).limit_denominator(1000)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options=SAME_EACH_TIME)
        stream.width, stream.height = video.shape[2], video.shape[1]
        stream.pix_fmt = "yuv444p"
        for frame in video:
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


SIZES = Quantiles(10.0, 12.0, 14.0, 15.0)
GOOD = VideoFacts(
    videos=1,
    frames=500,
    looked=400,
    stride=1,
    fps=25.0,
    uneven=0.0,
    width=200,
    height=100,
    heights=SIZES,
    widths=SIZES,
    counts=Quantiles(1.0, 2.0, 3.0, 3.0),
    most=3,
    speeds=Quantiles(1.0, 1.0, 2.0, 3.0),
    contrast=0.3,
    noise=0.01,
    moving=0.9,
    covered=Quantiles(0.0, 0.02, 0.03, 0.04),
    light=(1.0, 1.0),
    brightest=0.8,
    camera=0.0,
    shift=0.0,
    cuts=0,
    centered=0.9,
)


def facts_with(**changes: Any) -> VideoFacts:
    """Facts of a video that is good but for some."""
    return replace(GOOD, **changes)
