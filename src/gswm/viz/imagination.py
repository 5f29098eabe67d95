"""Pictures of tracks: what a model sees and what it imagines, with boxes, ids and ways.

Frames that a model generated have a border; those that it was given have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from gswm.core.records import concatenate, map_tensors
from gswm.models.track import Track
from gswm.viz import pictures
from gswm.viz.pictures import Boxes, Frames, Picture

GENERATED = (255, 170, 40)
"""The color of the border."""
DIM = 0.3
"""How bright a frame stays where its video has ended."""
WAY = 8
"""Frames for which the way of an object stays where all futures are shown at once."""
SHOWN = 4
"""Futures on a sheet."""
COLUMNS = 8
"""Futures in a row; given frames, truth and others are twice as large, four in a row."""


def one(track: Track, *index: int) -> Track:
    """The track of one video, or of one of its futures."""
    return map_tensors(lambda values: values[index], replace(track, states=(), past=None))


def boxes_of(track: Track, image_size: int) -> Boxes:
    """The boxes of one video's track."""
    there = (track.pres > 0.5) & (track.id >= 0)
    xy, wh = (track.xy + 1) / 2 * image_size, track.hw.flip(-1) * image_size
    xy, wh = xy.double().cpu().numpy(), wh.double().cpu().numpy()
    return Boxes(xy, wh, track.id.cpu().numpy(), there.cpu().numpy())


def frames_of(
    video: Float[Tensor, "time 3 height width"] | UInt8[Tensor, "time 3 height width"],
) -> Frames:
    """One video, as bytes with colors last."""
    if video.dtype != torch.uint8:
        video = (255 * video).round().clamp(0, 255).to(torch.uint8)
    return video.permute(0, 2, 3, 1).cpu().numpy()


def drawn(video: Frames, boxes: Boxes | None, scale: int, trail: int) -> Frames:
    """A video enlarged, with boxes if there are any, and ids where these can be read."""
    large = pictures.enlarge(video, scale)
    return large if boxes is None else pictures.draw_boxes(large, boxes, scale, trail, scale > 1)


def dimmed(frames: Frames) -> Frames:
    """The same, darker."""
    return (DIM * frames).astype(np.uint8)


def renamed(truth: Boxes, boxes: Boxes, time: int) -> Boxes:
    """True boxes with the ids that a model gives to the same objects at `time`, by distance.

    An object that the model does not have there keeps an id that is none of the model's.
    """
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
    """One video, and the futures that a model imagined for it."""

    video: Frames
    """The given frames, and as many more as are known."""
    truth: Boxes | None
    """The true boxes of `video`, where they are known."""
    past: Track
    """What the model saw in the given frames."""
    futures: tuple[Track, ...]
    """Each with its reconstruction, as the past."""

    @staticmethod
    def of(track: Track, episode: int, video: Frames, truth: Boxes | None) -> "Imagination":
        """Of one of the videos for which a model imagined."""
        assert track.past is not None
        past = one(track.past, episode)
        number = track.pres.shape[1]
        futures = tuple(one(track, episode, future) for future in range(number))
        if truth is not None:
            truth = renamed(truth, boxes_of(past, video.shape[1]), len(past.pres) - 1)
        return Imagination(video, truth, past, futures)

    @property
    def given(self) -> int:
        """How many frames the model saw."""
        return len(self.past.pres)

    @property
    def length(self) -> int:
        """How many frames there are, given and imagined."""
        return self.given + len(self.futures[0].pres)

    def true(self, scale: int, trail: int = 8) -> Frames:
        """What happened; dark where that is not known."""
        known = self.video[: self.length]
        video = drawn(known, None if self.truth is None else self.truth[: len(known)], scale, trail)
        return self.filled(video)

    def seen(self, scale: int, trail: int = 8) -> Frames:
        """What the model was given, and the objects that it saw there."""
        boxes = boxes_of(self.past, self.video.shape[1])
        return self.filled(drawn(self.video[: self.given], boxes, scale, trail))

    def filled(self, frames: Frames) -> Frames:
        """Up to the end, with the last frame again, darker."""
        rest = self.length - len(frames)
        return np.concatenate([frames, *[dimmed(frames[-1:])] * rest])

    def future(self, number: int, scale: int, trail: int = 8) -> Frames:
        """The given frames as the model draws them, and one of its futures."""
        whole: Track = concatenate([self.past, self.futures[number]])
        assert whole.reconstruction is not None
        frames = frames_of(whole.reconstruction)
        return self.marked(drawn(frames, boxes_of(whole, frames.shape[1]), scale, trail))

    def together(self, scale: int) -> Frames:
        """The mean of all futures, and the way of every object in each of them."""
        parts = [self.past.reconstruction, *(each.reconstruction for each in self.futures)]
        past, *futures = [part for part in parts if part is not None]
        mean = frames_of(torch.cat([past, torch.stack(futures).mean(dim=0)]))
        large = pictures.enlarge(mean, scale)
        whole = [boxes_of(concatenate([self.past, each]), mean.shape[1]) for each in self.futures]
        times = range(self.given - 1, self.length)
        corners = [[pictures.corners_by_id(each, t, scale) for t in times] for each in whole]
        out = [*large[: self.given]]
        for step, frame in enumerate(large[self.given :], start=1):
            image = Image.fromarray(frame)
            pen = ImageDraw.Draw(image, "RGBA")
            for each in corners:
                ways = each[max(0, step - WAY) : step + 1]
                pictures.draw_trails(pen, ways, WAY, max(1, scale // 3))
            out.append(np.asarray(image))
        return self.marked(np.stack(out))

    def marked(self, frames: Frames) -> Frames:
        """Generated frames in their border."""
        made = pictures.border(frames[self.given :], GENERATED, max(2, frames.shape[1] // 64))
        return np.concatenate([frames[: self.given], made])

    def moving(self, scale: int = 2, trail: int = 8) -> Frames:
        """Given, truth and one future, all futures together, and each below them."""
        large = 2 * scale
        top = {"given": self.seen(large, trail), "truth": self.true(large, trail)}
        top["imagined"] = self.future(0, large, trail)
        number = len(self.futures)
        if number == 1:
            return pictures.side_by_side(list(top.values()), list(top))
        top[f"{number} futures"] = self.together(large)
        upper = pictures.side_by_side(list(top.values()), list(top))
        return with_futures(upper, [self.future(i, scale, trail) for i in range(number)])

    def still(self, scale: int = 2, columns: int = 12, title: str = "") -> Picture:
        """A sheet: the truth above, some futures below."""
        times = np.unique(np.linspace(0, self.length - 1, columns).round().astype(int))
        shown = range(min(SHOWN, len(self.futures)))
        rows = [self.true(scale), *(self.future(i, scale) for i in shown)]
        labels = ["truth", *(f"future {i}" for i in shown)]
        if len(self.futures) > 1:
            rows.append(self.together(scale))
            labels.append("all futures")
        return pictures.sheet(
            [row[times] for row in rows], labels, [f"t = {t}" for t in times], title
        )


def with_futures(upper: Frames, futures: Sequence[Frames]) -> Frames:
    """All futures in rows below a video of the same length."""
    labels = [f"future {i}" for i in range(len(futures))]
    videos = [upper, pictures.side_by_side(futures, labels, COLUMNS)]
    width = max(video.shape[2] for video in videos)
    paper = pictures.PAPER[0]
    sides = [((0, 0), (0, 0), (0, width - video.shape[2]), (0, 0)) for video in videos]
    wide = [np.pad(v, s, constant_values=paper) for v, s in zip(videos, sides, strict=True)]
    return np.concatenate(wide, axis=1)
