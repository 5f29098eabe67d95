"""Small objects: a video as several overlapping windows, each in a frame of the model.

A model sees whole pictures in small frames, in which a distant object is only a few pixels large.
So the picture is also placed in a larger frame, of which the model sees square windows of its own
size. Neighbouring windows overlap by `OVERLAP` of their side.

    one window       the whole picture
    n windows        n along the longer side of the picture, and as many rows as it needs

The windows of a video are one batch of the model. `stitching` turns their tracks into those of the
video.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.importing.film import Film
from gswm.data.placement import Placement
from gswm.data.standing import empty_scene
from gswm.models.base import AnyFrame, WorldModel
from gswm.models.track import to_array
from gswm.tracking.backgrounds import BackgroundFrom, background_in, spread

OVERLAP = 0.25
"""Smallest part of a window's side that the next window sees too."""
SMALL = 0.06, 0.05
"""Median size of objects, in sides of a window, below which two windows are used instead of one,
and three instead of two. They are not if a tenth of the objects would be larger than an overlap.
"""
FAST = 0.5
"""Median path of an object in a frame, in its longer sides, above which one window is used: in a
smaller window, objects would move too far.
"""
SAMPLE = 24
"""Number of frames from which the size of objects is measured."""
LARGEST = 8
"""Largest number of windows along the longer side."""


@dataclass(frozen=True)
class WindowedFilm:
    """A film, and the windows in which a model sees it."""

    film: Film
    """Placed in a frame that contains all windows."""
    size: int
    """Side of a window, in pixels of that frame."""
    along: int = 1
    """Number of windows along the longer side of the picture."""

    @staticmethod
    def of(film: Film, along: int) -> "WindowedFilm":
        """Place the windows over a film, which is placed in a single frame of a model."""
        size = film.cut.size
        if along == 1:
            return WindowedFilm(film, size)
        cut = replace(film.cut, size=span(size, along))
        return WindowedFilm(Film(film.path, cut, film.frames), size, along)

    @cached_property
    def corners(self) -> list[tuple[int, int]]:
        """Left and top of each window, in pixels of the film's frame."""
        left, top, across, down = self.film.placement.inside
        columns, rows = starts(left, across, self.size), starts(top, down, self.size)
        return [(x, y) for y in rows for x in columns]

    def __len__(self) -> int:
        return len(self.corners)

    def cut(self, frames: Tensor) -> Tensor:
        """The windows of some frames of the film, along the first dimension."""
        n = self.size
        return torch.cat([frames[..., y : y + n, x : x + n] for x, y in self.corners])

    def placements(self) -> list[Placement]:
        """The place of each window in the picture."""
        whole = self.film.placement
        left, top, across, down = whole.inside
        return [
            replace(whole, size=self.size, inside=(left - x, top - y, across, down))
            for x, y in self.corners
        ]

    def distances(
        self, window: int, centers: Float64[np.ndarray, "box 2"]
    ) -> Float64[np.ndarray, " box"]:
        """Distances of points from the border of a window, in its sides, inside of the picture.

        A border at which no other window continues does not count.
        """
        pixels = (self.placements()[window].to_model(centers, centers)[0] + 1) / 2
        corner, corners = np.array(self.corners[window]), np.array(self.corners)
        before = np.where(corner > corners.min(axis=0), pixels, np.inf)
        after = np.where(corner < corners.max(axis=0), 1 - pixels, np.inf)
        return np.minimum(before, after).min(axis=1)


def span(size: int, along: int) -> int:
    """The length that `along` windows of this size cover, with overlaps."""
    return round(size * (along - (along - 1) * OVERLAP))


def starts(first: int, length: int, size: int) -> list[int]:
    """The first pixels of windows that cover a stretch of pixels evenly; at least one."""
    number = 1
    while span(size, number) < length:
        number += 1
    if number == 1:
        return [first - (size - length) // 2]
    return [first + round(i * (length - size) / (number - 1)) for i in range(number)]


def windows_for(
    model: WorldModel[Any],
    film: Film,
    along: int | None = None,
    source: BackgroundFrom = "auto",
    stored: AnyFrame | None = None,
) -> tuple[WindowedFilm, Tensor | None]:
    """The windows in which a model sees a film, and their backgrounds.

    Args:
        model: Of any kind.
        film: Placed in a frame of the model's size.
        along: Number of windows along the longer side of the picture. Default: by the size of
            objects, for a model that is given the background of any video; 1 for other models.
        source: See `background_in`.
        stored: See `background_in`.
    """
    own = model.saved_background is not None or stored is not None
    if along is not None and along > 1 and own:
        raise UserError(
            "the model was trained on one video, with objects of their usual size: use one window, "
            "or a model for any video"
        )

    first = WindowedFilm.of(film, along or 1)
    chosen = along is not None or source == "stored" or own or bool(model.videos)
    if chosen or not model.cfg.takes_background:
        behind = background_in(model, first.film, source, stored)
        return first, None if behind is None else first.cut(behind)
    return by_size(model, first)


def by_size(model: WorldModel[Any], first: WindowedFilm) -> tuple[WindowedFilm, Tensor]:
    """As many windows as the size of the objects needs, and their backgrounds."""

    def seen_in(windows: WindowedFilm) -> WindowSample:
        frames = spread(windows.film)
        behind = empty_scene(frames[0].to(model.device))[None]
        some = frames[:, :: max(1, frames.shape[1] // SAMPLE)]
        return WindowSample(windows, windows.cut(behind), windows.cut(some))

    whole = now = seen_in(first)
    for small in SMALL:
        sizes = sizes_in(model, now)
        if not len(sizes) and now is not whole:
            return whole.windows, whole.behind
        more = WindowedFilm.of(first.film, now.windows.along + 1)
        if len(sizes):
            usual, large = np.quantile(sizes, (0.5, 0.9))
            finer = more.film.cut.size / now.windows.film.cut.size
            if usual >= small or large * finer > OVERLAP:
                break
        if now is whole and pace_in(model, now) > FAST:
            break
        now = seen_in(more)
    return now.windows, now.behind


@dataclass(frozen=True)
class WindowSample:
    """The background of each window, and some frames from all of the film."""

    windows: WindowedFilm
    behind: Float[Tensor, "window 3 size size"]
    frames: UInt8[Tensor, "window time 3 size size"]


def sizes_in(model: WorldModel[Any], seen: WindowSample) -> Float32[np.ndarray, " object"]:
    """Longer sides of the objects in some frames of a film, in sides of a window."""
    stills = seen.frames.flatten(0, 1)[:, None].to(model.device)
    behind = seen.behind.repeat_interleave(seen.frames.shape[1], dim=0)
    found = model.infer(stills, background=behind, render=False)
    return to_array(found.hw.amax(dim=-1)[found.present])


def pace_in(model: WorldModel[Any], seen: WindowSample) -> float:
    """Median path of an object in a frame, in its longer sides; 0 if nothing is tracked.

    Measured in the first frames of the film.
    """
    first = next(seen.windows.film.chunks(SAMPLE)).batch()
    video = seen.windows.cut(first).to(model.device)
    found = model.infer(video, discover="always", background=seen.behind, render=False)
    stays = found.present[:, 1:] & found.present[:, :-1] & (found.id[:, 1:] == found.id[:, :-1])
    steps = (found.xy[:, 1:] - found.xy[:, :-1]).norm(dim=-1) / 2
    paces = (steps / found.hw[:, 1:].amax(dim=-1))[stays]
    return float(paces.median()) if len(paces) else 0.0


def check_windows(along: int | None) -> None:
    """Raise a UserError for an impossible number of windows."""
    if along is not None and not 1 <= along <= LARGEST:
        raise UserError(f"windows is {along}: it must be from 1 to {LARGEST}")
