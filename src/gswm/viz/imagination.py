"""Pictures of a video and its imagined futures, with boxes, ids and trails.

Imagined frames have a border; given ones have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw

from gswm.viz import pictures
from gswm.viz.pictures import Clip, DrawnVideo, Frames, Picture, PixelBoxes

GENERATED = (255, 170, 40)
"""The color of the border."""
DIM = 0.3
"""Brightness of frames after the end of a video."""
WAY = 8
"""Length of trails in frames when all futures are superimposed."""
SHOWN = 4
"""Number of futures on a sheet."""
EMPTY = 4.0
"""Cost of an empty cell in the rows of futures, relative to rows of another height."""
NARROW = 100
"""Width in pixels below which a future has no title."""


def dimmed(frames: Frames) -> Frames:
    """Darkened frames."""
    return (DIM * frames).astype(np.uint8)


def generated(frames: Frames) -> Frames:
    """Frames with the border of imagined ones."""
    return pictures.border(frames, GENERATED, max(2, frames.shape[1] // 64))


def renamed(truth: PixelBoxes, boxes: PixelBoxes, time: int) -> PixelBoxes:
    """True boxes with the ids that a model gives to the same objects at `time`, by distance.

    Objects that the model does not have there keep ids that the model does not use.
    """
    from scipy.optimize import linear_sum_assignment

    ours, theirs = np.flatnonzero(truth.present[time]), np.flatnonzero(boxes.present[time])
    between = truth.xy[time, ours, None] - boxes.xy[time, theirs]
    pairs = zip(*linear_sum_assignment(np.linalg.norm(between, axis=-1)), strict=True)
    free = int(boxes.ids.max(initial=0)) + 1
    names = {int(number): free + int(number) for number in np.unique(truth.ids)}
    names |= {int(truth.ids[time, ours[i]]): int(boxes.ids[time, theirs[j]]) for i, j in pairs}
    ids = np.vectorize(names.__getitem__, otypes=[int])(truth.ids)
    return replace(truth, ids=ids)


@dataclass(frozen=True)
class Imagination:
    """One video and its imagined futures."""

    given: Clip
    """The given frames as the model reconstructs them, and the objects that it infers."""
    truth: Clip | None
    """The video itself: given frames and as many more as are known; None if unknown."""
    futures: tuple[Clip, ...]
    """Futures after the given frames, all of the same length."""

    @property
    def length(self) -> int:
        """The number of frames, given and imagined."""
        return len(self.given) + (len(self.futures[0]) if self.futures else 0)

    def true(self, scale: int, trail: int = 8) -> Frames:
        """The ground truth; darkened after its end."""
        return self.true_drawn(scale, trail).whole()

    def true_drawn(self, scale: int, trail: int = 8) -> DrawnVideo:
        """The same as `true`, one frame at a time."""
        assert self.truth is not None
        known = self.truth[: self.length].drawn(scale, trail)

        def draw(time: int) -> Picture:
            return known[time] if time < len(known) else dimmed(known[len(known) - 1][None])[0]

        return DrawnVideo(self.length, draw)

    def seen(self, scale: int, trail: int = 8) -> Frames:
        """The given frames with the inferred objects."""
        assert self.truth is not None
        known = self.truth.frames[: len(self.given)]
        return self.filled(Clip(known, self.given.boxes).draw(scale, trail))

    def filled(self, frames: Frames) -> Frames:
        """Extended to the full length with the last frame, darkened."""
        rest = self.length - len(frames)
        return np.concatenate([frames, *[dimmed(frames[-1:])] * rest])

    def future(self, number: int, scale: int, trail: int = 8) -> Frames:
        """The given frames and one future, if there is any."""
        return self.future_drawn(number, scale, trail).whole()

    def future_drawn(self, number: int, scale: int, trail: int = 8) -> DrawnVideo:
        """The same as `future`, one frame at a time."""
        whole = self.given.then(self.futures[number]) if self.futures else self.given
        frames, given = whole.drawn(scale, trail), len(self.given)

        def draw(time: int) -> Picture:
            return frames[time] if time < given else generated(frames[time][None])[0]

        return DrawnVideo(len(whole), draw)

    def together(self, scale: int) -> Frames:
        """The mean of all futures, with the trail of every object in each of them."""
        mean = np.stack([future.frames for future in self.futures]).mean(axis=0, dtype=np.float32)
        whole = np.concatenate([self.given.frames, mean.round().astype(np.uint8)])
        large, given = pictures.enlarge(whole, scale), len(self.given)
        clips = [self.given.then(future) for future in self.futures]
        corners = [
            [pictures.corners_by_id(clip.boxes, t, scale) for t in range(self.length)]
            for clip in clips
            if clip.boxes is not None
        ]
        out = [*large[:given]]
        for time, frame in enumerate(large[given:], start=given):
            image = Image.fromarray(frame)
            pen = ImageDraw.Draw(image, "RGBA")
            first = max(0, given - 1, time - WAY)
            for each in corners:
                pictures.draw_trails(pen, each[first : time + 1], WAY, max(1, scale // 3))
            out.append(np.asarray(image))
        return self.marked(np.stack(out))

    def marked(self, frames: Frames) -> Frames:
        """Mark imagined frames with a border."""
        given = len(self.given)
        return np.concatenate([frames[:given], generated(frames[given:])])

    def moving(self, scale: int = 2, trail: int = 8) -> Frames:
        """Given frames, ground truth, one future, all superimposed, and each of them below."""
        large, number = 2 * scale, len(self.futures)
        top: dict[str, Frames] = {}
        if self.truth is not None and len(self.given):
            top["given"] = self.seen(large, trail)
        if self.truth is not None:
            top["truth"] = self.true(large, trail)
        top["imagined"] = self.future(0, large, trail)
        if number < 2:
            return pictures.side_by_side(list(top.values()), list(top))
        top[f"{number} futures"] = self.together(large)
        upper = pictures.side_by_side(list(top.values()), list(top))
        small, columns = tiling(len(top), large, number)
        futures = [self.future(i, small, trail) for i in range(number)]
        return with_futures(upper, futures, columns)

    def still(
        self, scale: int = 2, trail: int = 8, title: str = "", *, columns: int = 12
    ) -> Picture:
        """A sheet: ground truth above, several futures below."""
        shown = range(len(self.futures[:SHOWN]))
        rows = {} if self.truth is None else {"truth": self.true(scale, trail)}
        rows |= {f"future {i}": self.future(i, scale, trail) for i in shown}
        if len(self.futures) > 1:
            rows["all futures"] = self.together(scale)
        times = pictures.spread(self.length, columns)
        cells, labels = [row[times] for row in rows.values()], [f"t = {t}" for t in times]
        return pictures.sheet(cells, list(rows), labels, title)


def tiling(panels: int, large: int, number: int) -> tuple[int, int]:
    """Tile `number` futures into rows as wide as some panels: their scale, and the number per row.

    Args:
        panels: Number of panels above the futures.
        large: The scale of the panels.
        number: Number of futures.
    """

    def cost(columns: int) -> float:
        rows = -(-number // columns)
        height = rows * panels * large / columns
        return EMPTY * (1 - number / (rows * columns)) + abs(height - large) / large

    fitting = [c for c in range(1, number + 1) if panels * large % c == 0]
    columns = min(fitting, key=cost)
    return panels * large // columns, columns


def with_futures(upper: Frames, futures: Sequence[Frames], columns: int) -> Frames:
    """All futures in rows, below a video of the same length."""
    narrow = futures[0].shape[2] < NARROW
    labels = [str(i) if narrow else f"future {i}" for i in range(len(futures))]
    videos = [upper, pictures.side_by_side(futures, labels, columns)]
    width = max(video.shape[2] for video in videos)
    paper = pictures.PAPER[0]
    sides = [((0, 0), (0, 0), (0, width - video.shape[2]), (0, 0)) for video in videos]
    wide = [np.pad(v, s, constant_values=paper) for v, s in zip(videos, sides, strict=True)]
    return np.concatenate(wide, axis=1)
