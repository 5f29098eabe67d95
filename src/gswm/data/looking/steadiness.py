"""Detects camera motion and cuts."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, UInt8

from gswm.data.background import match_light
from gswm.data.looking.footage import Stretch

LAG = 5
"""Distance in frames between two compared frames of a stretch."""
PAIRS = 6
"""Number of compared pairs per stretch."""
LEAST = 0.75
"""Smallest shift in pixels."""
TILES = 6
"""Number of tiles along each side of a picture, which must agree about a shift."""
TEXTURE = 0.1
"""Smallest texture of a tile that counts, relative to the roughest one."""
BETTER = 0.85
"""A shift must reduce differences to at most this fraction."""
MOSTLY = 0.6
"""Fraction of the textured tiles that a shift must explain."""
OTHER = 0.12
"""Difference above which a pixel shows something else, from 0 to 1."""
DARKER = 3.0
"""Gain below which the light hides everything, like a change of the scene."""
MOST_OTHER = 0.4
"""Fraction of such pixels above which a frame belongs to another scene."""
OFTEN = 0.2
"""Fraction of the frames above which such changes are not cuts."""

Grey = Float[np.ndarray, "height width"]


def grey(
    frames: UInt8[np.ndarray, "*time height width 3"],
) -> Float[np.ndarray, "*time height width"]:
    """Frames from 0 to 1 in grayscale."""
    return frames.mean(axis=-1, dtype=np.float32) / 255


def shift(one: Grey, other: Grey) -> tuple[float, float]:
    """The shift from `one` to `other` in pixels (right and down) by phase correlation; else 0."""
    height, width = one.shape
    window = np.hanning(height)[:, None] * np.hanning(width)
    a, b = (np.fft.rfft2((image - image.mean()) * window) for image in (one, other))
    cross = b * a.conj()
    peaks = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-9), s=one.shape)
    top = np.unravel_index(int(peaks.argmax()), peaks.shape)
    down, right = (
        int(at) - size * int(at > size // 2) for at, size in zip(top, (height, width), strict=True)
    )
    if (down, right) == (0, 0) or max(abs(down) / height, abs(right) / width) > 0.4:
        return 0.0, 0.0
    return (float(right), float(down)) if explains(one, other, down, right) else (0.0, 0.0)


def explains(one: Grey, other: Grey, down: int, right: int) -> bool:
    """Whether a shift aligns both pictures wherever there is texture, and not only in places.

    An object, or a tree in the wind, explains only its own tiles; a camera explains all.
    """
    height, width = one.shape
    a = one[max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)]
    b = other[max(0, down) : height - max(0, -down), max(0, right) : width - max(0, -right)]
    before = tiled(np.abs(one - other)[: a.shape[0], : a.shape[1]])
    after = tiled(np.abs(a - b))
    steep = tiled(np.hypot(*np.gradient(a)))
    texture = np.quantile(steep, 0.9, axis=-1)
    rough = texture > TEXTURE * texture.max()
    better = np.median(after, axis=-1) < BETTER * np.median(before, axis=-1)
    return bool(rough.sum() >= TILES and better[rough].mean() >= MOSTLY)


def tiled(picture: Grey) -> Float[np.ndarray, "tile pixel"]:
    """The pixels of `TILES` × `TILES` parts; leftover rows and columns are dropped."""
    height, width = (max(1, size // TILES) for size in picture.shape)
    part = picture[: TILES * height, : TILES * width]
    blocks = part.reshape(TILES, height, TILES, width).swapaxes(1, 2)
    return blocks.reshape(TILES * TILES, height * width)


def shifts(stretches: Sequence[Stretch], stride: int) -> Float[np.ndarray, "pair 2"]:
    """Shift of the whole picture in pixels, and distance in frames, for pairs of nearby frames."""
    found = []
    for stretch in stretches:
        pictures = grey(stretch.frames)
        lag = min(LAG, len(pictures) - 1)
        if lag < 1:
            continue
        starts = np.linspace(0, len(pictures) - 1 - lag, PAIRS).astype(int)
        pairs = {(start, start + lag) for start in starts.tolist()} | {(0, len(pictures) - 1)}
        for i, j in sorted(pairs):
            found.append((float(np.hypot(*shift(pictures[i], pictures[j]))), (j - i) * stride))
    return np.array(found, float).reshape(-1, 2)


def changed(
    one: Float[np.ndarray, "height width 3"], other: Float[np.ndarray, "height width 3"]
) -> float:
    """Fraction of pixels that differ, regardless of the light."""
    a, b = (torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1))) for x in (one, other))
    light = match_light(a, b)
    if not 1 / DARKER < float(light.gain.mean()) < DARKER:
        return 1.0
    away = (light.on(a).clamp(0, 1) - b).abs().amax(dim=0)
    return float((away > OTHER).float().mean())


def coarse(frames: UInt8[np.ndarray, "*time height width 3"]) -> Float[np.ndarray, "*time h w 3"]:
    """Every fourth pixel."""
    return frames[..., ::4, ::4, :].astype(np.float32) / 255


def without_cuts(stretch: Stretch) -> Iterator[Stretch]:
    """A stretch, split at its cuts."""
    small = coarse(stretch.frames)
    # Few frames differ much from the previous one; only these are examined closely.
    cuts = [
        i + 1
        for i, (one, other) in enumerate(pairwise(small))
        if np.abs(one - other).mean() > OTHER / 4 and changed(one, other) > MOST_OTHER
    ]
    if len(cuts) > OFTEN * len(small):  # a flicker, or noise
        cuts = []
    for start, stop in pairwise([0, *cuts, len(small)]):
        yield Stretch(stretch.frames[start:stop], stretch.first, stretch.reel, start)


def scenes(stretches: Sequence[Stretch]) -> list[list[Stretch]]:
    """Stretches of one video, grouped by scene."""
    found: list[tuple[np.ndarray, list[Stretch]]] = []
    for stretch in stretches:
        picture = np.median(coarse(stretch.frames[:: max(1, len(stretch.frames) // 9)]), axis=0)
        for known, held in reversed(found):
            if changed(known, picture) <= MOST_OTHER:
                held.append(stretch)
                break
        else:
            found.append((picture, [stretch]))
    return [held for _, held in found]
