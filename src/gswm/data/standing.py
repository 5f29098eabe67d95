"""The empty scene: a background without objects that stand still for long, but move at some time.

A median over time contains objects that stand in most frames, and mixes the positions of one that
stands in several places. But if it leaves for a moment, the video has two views of the same region,
with and without the object. An object has an outline, while empty ground continues across it. So of
two views P of a region R, the emptier one has the smaller jump at its border ∂R:

    jump(P, R) = mean over ∂R of |inside(P) - outside(P)|
    inside(P)  = G * (P · 1_R) / G * 1_R,   G a Gaussian of about two pixels; outside likewise

The local means remove texture, so that a plain object on textured ground has the larger jump too.
On coarse ground, such as gravel, an object of low contrast may have the smaller one, so the jump
must also be unusual for the ground. Time tells more: the ground looks the same again after an
object has left, while an object rarely comes back to the same pixels. The method is:

1. Divide the frames, normalized to one light, into short windows. The median of each is a view of
   the scene; pixels that are not steady in a window, or agree with few frames, are left out.
2. Compare each view with the background: first the regions that differ most, then all.
3. If the view's jump is clearly smaller than the background's, copy the view's region. It is not
   copied if the background comes back after the view, and the view not after the background. If
   time does not tell, it is copied if more views agree with it than with the background, or if
   the background's jump is unusual around there.
4. Repeat until nothing changes. Then each copied pixel becomes the median of all frames that agree
   with it.

An object that is present in all views remains a part of the background.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float32, Int, Shaped
from scipy import ndimage
from torch import Tensor

from gswm.data.background import (
    FRAMES,
    alike,
    as_float,
    components,
    match_light,
    static_background,
)

COARSE = 128
"""Views are compared on pictures averaged down to at least this many rows and columns."""
WINDOWS, SHORTEST = 32, 3
"""Largest number of windows, and smallest number of frames of one."""
STEADY = 0.6
"""Fraction of a window's frames that must agree with its median at a steady pixel."""
SEEN = 0.06
"""Fraction of all frames that must agree with it; a slow object is not a view of the empty scene.
"""
LEVELS = (0.06, 0.12, 0.24)
"""Differences above which pixels form a region, from 0 to 1, the lowest first. Higher ones separate
regions that a shadow joins.
"""
NOISES = 2.0
"""Multiple of the noise that is added to each level."""
LEAST_AREA = 8
REACH = 2.0
"""Standard deviation of the local means on both sides of a border, in pixels."""
MARGIN = 6
"""Margin around an examined region in pixels."""
SOFT = 3
"""Margin in pixels that is copied with a region: an object's soft edges."""
CLEARLY = 1.5
"""Factor by which the jump of the emptier view must be smaller."""
SHARP = 0.2
"""Difference of the jumps relative to that of the views; patches of light have none."""
AGREE = 0.02
"""Largest difference from the view of frames in the median, from 0 to 1."""
ALIKE = 0.9
"""Fraction of a region's pixels in which a view shows the same as another picture."""
UNUSUAL = 5.0
"""Multiple of the usual jump around a region above which that of the background is unusual."""
PLACES = [
    (down / 2, right / 2)
    for down in range(-4, 5)
    for right in range(-4, 5)
    if max(abs(down), abs(right)) >= 2
]
"""Places around a region that are compared with it, as shifts in its heights and widths."""
MANY = 12
"""Number of such places in the picture below which they are ignored."""
ROUNDS = 4
NONE = -1
"""The view of a pixel that keeps its background."""

Picture = Float32[np.ndarray, "3 height width"]
Mask = Bool[np.ndarray, "height width"]


@torch.no_grad()
def empty_scene(
    video: Shaped[Tensor, "time 3 height width"],
) -> Float[Tensor, "3 height width"]:
    """The background of one video: its median, without the objects that stand in it for long.

    Args:
        video: bytes, or floats from 0 to 1; only `FRAMES` of its frames are used.
    """
    frames = as_float(video[:: -(-len(video) // FRAMES)].cpu())
    return without_standing(static_background(frames), frames).to(video.device)


@torch.no_grad()
def without_standing(
    background: Float[Tensor, "3 height width"], video: Shaped[Tensor, "time 3 height width"]
) -> Float[Tensor, "3 height width"]:
    """A median background without the objects that stand in it, by views of other frames.

    Args:
        background: The result of `static_background`.
        video: The frames that it was computed from.
    """
    frames = as_float(video)
    factor = max(1, min(frames.shape[-2:]) // COARSE)
    windows = torch.tensor_split(
        torch.arange(len(frames)), max(1, min(WINDOWS, len(frames) // SHORTEST))
    )
    coarse = averaged(background[None], factor)[0]
    same = alike(coarse, averaged(frames, factor))
    noise = float((same - coarse).abs().amax(dim=1).median(dim=0).values.median())
    within = LEVELS[0] + NOISES * noise
    views = [View.during(same[window], same, within) for window in windows]
    source = emptiest(coarse.numpy(), views)
    if not (source != NONE).any():
        return background
    fine = enlarged(source, factor, frames)
    return composed(background, frames, fine, windows, AGREE + NOISES * noise)


@torch.no_grad()
def emptier_of(
    background: Float[Tensor, "3 height width"], other: Float[Tensor, "3 height width"]
) -> Float[Tensor, "3 height width"]:
    """A background, with the regions of another one in which that is emptier.

    Args:
        background: Stays as it is wherever the other one is not clearly emptier.
        other: A background of the same scene, in any light.
    """
    lit = match_light(other, background).on(other).clamp(0, 1).to(background)
    factor = max(1, min(background.shape[-2:]) // COARSE)
    mine, theirs = (averaged(each[None].cpu(), factor)[0].numpy() for each in (background, lit))
    where = emptiest(mine, [View.of(theirs)]) != NONE
    return torch.where(enlarged(where, factor, background).to(lit.device), lit, background)


def enlarged(
    coarse: Shaped[np.ndarray, "_rows _columns"],
    factor: int,
    picture: Shaped[Tensor, "*_any height width"],
) -> Shaped[Tensor, "height width"]:
    """Values of an averaged picture at the pixels of the picture itself."""
    fine = torch.from_numpy(coarse.repeat(factor, 0).repeat(factor, 1))
    return fine[: picture.shape[-2], : picture.shape[-1]]


def averaged(
    frames: Float[Tensor, "time 3 _height _width"], factor: int
) -> Float[Tensor, "time 3 _rows _columns"]:
    """Frames averaged down, so that pixels mean the same at any resolution."""
    return F.avg_pool2d(frames, factor, ceil_mode=True) if factor > 1 else frames


@dataclass(frozen=True)
class View:
    """A picture of the scene, from a short window of time or composed of several."""

    picture: Picture
    low: Picture
    """The minimum over each pixel and its eight neighbors."""
    high: Picture
    steady: Mask
    """Pixels at which the picture agrees with most of the frames."""

    @staticmethod
    def of(picture: Picture, steady: Mask | None = None) -> "View":
        """A picture that is steady everywhere, unless `steady` is given."""
        low, high = (
            each(picture, (1, 3, 3)) for each in (ndimage.minimum_filter, ndimage.maximum_filter)
        )
        return View(
            picture, low, high, np.ones(picture.shape[1:], bool) if steady is None else steady
        )

    @staticmethod
    def during(
        frames: Float[Tensor, "_some 3 height width"],
        video: Float[Tensor, "_all 3 height width"],
        within: float,
    ) -> "View":
        """The median of several frames, steady if most of them and enough of all agree with it."""
        median = torch.from_numpy(np.sort(frames.numpy(), axis=0)[len(frames) // 2])
        here, seen = (
            # Frame by frame: these temporaries fit into the cache of a processor.
            torch.stack([(frame - median).abs().amax(dim=0) < within for frame in part])
            .float()
            .mean(dim=0)
            for part in (frames, video)
        )
        return View.of(median.numpy(), ((here >= STEADY) & (seen >= SEEN)).numpy())

    def beyond(self, other: "View") -> Float32[np.ndarray, "height width"]:
        """Distance of each pixel from the range of another view around it."""
        return np.maximum(self.picture - other.high, other.low - self.picture).max(axis=0)


def emptiest(background: Picture, views: list[View]) -> Int[np.ndarray, "height width"]:
    """The best view for each pixel; `NONE` for the background itself."""
    apart = [np.median(np.abs(view.picture - background).max(axis=0)) for view in views]
    noise = float(np.median(apart))
    found = View.of(background.copy())
    source = np.full(background.shape[1:], NONE)
    since = np.ones(source.shape, bool)
    for _ in range(ROUNDS):
        changed = np.zeros_like(since)
        for level in LEVELS:
            for number, view in enumerate(views):
                taken = emptier(view, found, views, level + NOISES * noise, since | changed)
                if taken.any():
                    found = View.of(np.where(taken, view.picture, found.picture))
                    source[taken] = number
                    changed |= taken
        if not changed.any():
            break
        since = changed
    return source


def emptier(view: View, background: View, views: list[View], level: float, where: Mask) -> Mask:
    """The regions in which a view differs from the background and has the smaller jump.

    An edge of the scene that trembles by a pixel forms no region.

    Args:
        view: One of `views`.
        background: It may become emptier.
        views: All, in the order of time.
        level: Difference above which pixels form a region.
        where: Pixels of which a region must contain one.
    """
    differs = (np.abs(view.picture - background.picture).max(axis=0) > level) & view.steady
    surely = (np.maximum(view.beyond(background), background.beyond(view)) > level) & differs
    taken = np.zeros_like(differs)
    if not (surely & where).any():
        return taken
    mask = ndimage.binary_closing(np.pad(differs, 2), iterations=2)[2:-2, 2:-2]
    mask = np.asarray(ndimage.binary_fill_holes(mask))
    labels, _ = components(mask)
    boxes = ndimage.find_objects(labels)
    for label in np.unique(labels[surely & where & mask]).tolist():
        wide = tuple(slice(max(0, s.start - MARGIN), s.stop + MARGIN) for s in boxes[label - 1])
        region = labels[wide] == label
        if np.count_nonzero(region) < LEAST_AREA:
            continue
        here = (slice(None), *wide)
        now, then = (jump(each.picture[here], region) for each in (background, view))
        apart = np.abs(background.picture[here] - view.picture[here])[:, region].mean()
        smaller = then < now / CLEARLY and now - then > SHARP * apart
        if smaller and is_ground(view, background, views, wide, region, level):
            others = mask[wide] & ~region
            taken[wide] |= ndimage.binary_dilation(region, iterations=SOFT) & ~others
    return taken


def is_ground(
    view: View,
    background: View,
    views: list[View],
    wide: tuple[slice, ...],
    region: Bool[np.ndarray, "rows columns"],
    level: float,
) -> bool:
    """Whether the view with the smaller jump is the ground, by the background's jump and by time.

    Args:
        view: One of `views`.
        background: Differs from it in the region.
        views: All, in the order of time.
        wide: The rows and columns of `region`.
        region: Where both differ.
        level: Largest difference of pixels that show the same.
    """
    here = (slice(None), *wide)
    shown = np.stack([each.picture[here][:, region] for each in views])
    object_there, ground_there = (
        np.mean(np.abs(shown - each.picture[here][:, region]).max(axis=1) < level, axis=1) >= ALIKE
        for each in (background, view)
    )
    back = comes_back(object_there, ground_there), comes_back(ground_there, object_there)
    if back[0] != back[1]:
        return back[1]
    if ground_there.sum() > object_there.sum():
        return True
    now = jump(background.picture[here], region)
    return now > UNUSUAL * usual_jump(background.picture, wide, region)


def usual_jump(
    picture: Picture, wide: tuple[slice, ...], region: Bool[np.ndarray, "rows columns"]
) -> float:
    """The median jump of a region in other places around it; 0 if there is no room for many.

    Args:
        picture: The whole picture; places that reach into black bars do not count.
        wide: The rows and columns of `region`.
        region: Of any shape.
    """
    (top, left), (high, across) = (s.start for s in wide), region.shape
    inside = picture.max(axis=0) > 0
    found = list[float]()
    for down, right in PLACES:
        y, x = top + round(down * high), left + round(right * across)
        place = slice(y, y + high), slice(x, x + across)
        fits = min(y, x) >= 0 and inside[place].shape == region.shape
        if fits and inside[place].all():
            found.append(jump(picture[:, *place], region))
    return float(np.median(found)) if len(found) >= MANY else 0.0


def comes_back(one: Bool[np.ndarray, " time"], other: Bool[np.ndarray, " time"]) -> bool:
    """Whether the first is true before and after some time at which the second is."""
    times = np.flatnonzero(one)
    return len(times) > 0 and bool(other[times[0] + 1 : times[-1]].any())


def jump(picture: Picture, region: Mask) -> float:
    """Mean difference between a region and its surroundings, along its border."""
    inner = ndimage.binary_erosion(region, border_value=1)
    border = ndimage.binary_dilation(region) & np.logical_not(inner)
    sides = [local_mean(picture, each) for each in (region, ~region)]
    return float(np.abs(sides[0] - sides[1]).mean(axis=0)[border].mean())


def local_mean(picture: Picture, where: Mask) -> Picture:
    """The mean of the pixels `where`, weighted by distance."""
    weight = where.astype(np.float32)
    total = ndimage.gaussian_filter(picture * weight, (0, REACH, REACH))
    return total / np.maximum(ndimage.gaussian_filter(weight, REACH), 1e-3)


def composed(
    background: Float[Tensor, "3 height width"],
    frames: Float[Tensor, "time 3 height width"],
    source: Int[Tensor, "height width"],
    windows: tuple[Int[Tensor, " _frame"], ...],
    within: float,
) -> Float[Tensor, "3 height width"]:
    """A background with pixels of views: the median of all frames that agree with the view."""
    light = match_light(background, frames)
    where = source != NONE
    pixels = (frames[:, :, where] - light.offset[..., 0]) / light.gain[..., 0]
    shown = torch.empty_like(pixels[0])
    for number in source[where].unique().tolist():
        these = source[where] == number
        shown[:, these] = pixels[windows[number]][:, :, these].median(dim=0).values
    agree = (pixels - shown).abs().amax(dim=1, keepdim=True) < within
    settled = torch.where(agree, pixels, math.nan).nanmedian(dim=0).values
    found = background.clone()
    found[:, where] = torch.where(settled.isnan(), shown, settled).clamp(0, 1)
    return found
