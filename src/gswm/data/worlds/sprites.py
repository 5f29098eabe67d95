"""Draws anti-aliased disks over each other, on a black or a given background (App. C).

Every object of the paper's worlds is one sprite of 17 × 17 pixels, a disk with soft edges,

    α(d) = clip(8.5 - d, 0, 1),    d the distance from the sprite's middle, in its pixels

scaled to the object's radius s. Pixel p of a row samples the sprite, which is zero outside, at
(p - (x - s)) · 17 / (2s), and columns do the same with y. Objects are drawn in the order of their
slots, canvas ← canvas (1 - α) + color α, truncated to 1/128 of a gray level; finally, the canvas is
truncated to 8 bits.

Only the window of pixels that an object touches is read and written. Its α depends only on the
object's position within a pixel, and is linear between the few positions (knots) at which a pixel
coincides with a pixel of the sprite: α of a window is a weighted sum of four stamps.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64, Int64, UInt8
from torch import Tensor

from gswm.data.worlds.arrays import blank, every_window, new_bytes, put, shift, take
from gswm.data.worlds.base import MEMORY
from gswm.data.worlds.threads import in_threads, shares

SIDE = 17
BITS = 7
"""Number of fractional bits of a gray level on a 16-bit canvas."""
FULL = 255.001 * (1 << BITS)
"""The value of 1 on a canvas: large enough that a rounded 1 still truncates to 255."""
APART = 4.0
"""Offset between the knots of two sizes."""
GROUP = 1024
"""Number of frames that a CPU core paints at a time: many, since two threads that often launch
operations mostly wait for each other.
"""


def draw(
    positions: Float64[Tensor, "frame object 2"],
    sizes: Float64[Tensor, "frame object"],
    colors: Float64[Tensor, "frame object 3"],
    image_size: int,
    background: Float[Tensor, "frame height width 3"] | None = None,
    memory: int = MEMORY,
) -> UInt8[Tensor, "frame 3 height width"]:
    """One picture per frame; an object of size 0 is not drawn.

    Intended for few different sizes, since each needs its own stamps. The pictures are (frame,
    height, width, 3) in memory. On a GPU, drawing takes about `memory` bytes besides them.
    """
    frames, objects, _ = positions.shape
    out = new_bytes((frames, image_size, image_size, 3), positions.device)
    if frames and objects:
        stamps = make_stamps(tuple(sizes.unique().tolist()), sizes.device)
        # In bytes: a canvas and its shifted copy; a window read, blended and written; the rest.
        canvas = 3 * (image_size + 2 * stamps.width) ** 2
        each = 6 * (canvas + 3 * stamps.table.shape[1]) + objects * (12 * stamps.width + 256)
        on_cpu = positions.device.type == "cpu"
        group = shares(frames, GROUP) if on_cpu else max(1, memory // each)

        def paint(start: int) -> None:
            part = slice(start, start + group)
            ground = None if background is None else background[part]
            where, size, color = (a[part].transpose(0, 1) for a in (positions, sizes, colors))
            footprints = stamps.footprints(where.contiguous(), size.contiguous())
            blend(footprints, stamps, color, ground, out[part])

        in_threads(paint, range(0, frames, group), positions.device)
    else:
        out[:] = 0 if background is None else background * (FULL / (1 << BITS))
    return out.permute(0, 3, 1, 2)


@dataclass(frozen=True)
class Footprints:
    """The pixels that each object touches."""

    corner: Int64[Tensor, "object frame 2"]
    """The first pixel, x and y."""
    stamps: Int64[Tensor, "object frame 4"]
    """The stamps that make up α."""
    weights: Float32[Tensor, "object frame 4"]
    """The weight of each stamp."""


@dataclass(frozen=True)
class Stamps:
    """α at the knots, for every size."""

    width: int
    """Side of a window in pixels."""
    sizes: Float64[Tensor, " size"]
    knots: Float64[Tensor, "size knot"]
    """Distance of the window's first pixel from the sprite's edge, from 0 to 1, then padded; plus a
    multiple of APART, so that knots increase from size to size.
    """
    table: Float32[Tensor, "stamp value"]
    """One row per size, knot in y and knot in x; α is repeated per channel."""

    def footprints(
        self,
        positions: Float64[Tensor, "object frame 2"],
        sizes: Float64[Tensor, "object frame"],
    ) -> Footprints:
        """Positions and stamps of the objects."""
        edge = positions - (sizes * (1 + 2 / SIDE))[..., None]
        corner = edge.floor() + 1
        size = torch.searchsorted(self.sizes, sizes)[..., None]
        past = corner - edge + APART * size
        knots, per_size = self.knots.flatten(), self.knots.shape[1]
        right = torch.searchsorted(knots, past, right=True)
        left = right - 1
        low, high = knots[left], knots[right]
        part = (past - low) / (high - low)
        weight = torch.stack([1 - part, part], -1) * (sizes > 0)[..., None, None]
        weight = weight[:, :, 1, :, None] * weight[:, :, 0, None, :]
        knot = torch.stack([left, right], -1)
        x, y = knot[:, :, 0] - per_size * size, knot[:, :, 1] * per_size
        stamp = y[..., None] + x[..., None, :]
        return Footprints(corner.long(), stamp.flatten(2), weight.flatten(2).float())


@lru_cache(maxsize=8)
def make_stamps(sizes: tuple[float, ...], device: torch.device) -> Stamps:
    """The stamps of all `sizes`, which are increasing."""
    different = torch.tensor(sizes, dtype=torch.float64)
    pixel = (2 / SIDE) * different.clamp_min(1e-6)
    index = torch.arange(SIDE + 2, dtype=torch.float64)
    meets = [((p * index) % 1).round(decimals=12).tolist() for p in pixel]
    places = [sorted({0.0, 1.0, *row}) for row in meets]
    longest = max(map(len, places)) + 1
    filled = [row + (longest - len(row)) * [2.0] for row in places]
    knots = torch.tensor(filled, dtype=torch.float64)

    middle = index[:SIDE] - SIDE // 2
    sprite = (SIDE / 2 - torch.hypot(middle[:, None], middle)).clamp(0, 1)
    width = int(((SIDE + 1) * pixel.max()).ceil())
    at = (knots[..., None] + torch.arange(width)) / pixel[:, None, None] - 1
    weight = (1 - (at[..., None] - index[:SIDE]).abs()).clamp_min(0)
    alpha = torch.einsum("skyi,ij,slxj->sklyx", weight, sprite, weight)
    table = alpha.flatten(0, 2).flatten(1).repeat_interleave(3, 1).float()
    knots += APART * torch.arange(len(knots))[:, None]
    return Stamps(width, different.to(device), knots.to(device), table.to(device))


def blend(
    footprints: Footprints,
    stamps: Stamps,
    colors: Float64[Tensor, "object frame 3"],
    background: Float[Tensor, "frame height width 3"] | None,
    out: UInt8[Tensor, "frame height width 3"],
) -> None:
    """Paint the objects over the background into `out`, in the order of their slots."""
    frames, width, image_size = len(out), stamps.width, out.shape[1]
    corner = footprints.corner.clamp(-width, image_size)
    margin = int(torch.maximum(-corner, corner + width - image_size).amax().clamp_min(0))
    side = image_size + 2 * margin
    inner = slice(margin, margin + image_size)
    x, y = (corner + margin).unbind(-1)
    at = (torch.arange(frames, device=out.device) * side + y) * side + x
    paint = (colors.float() * FULL).repeat(1, 1, width)[:, :, None]
    canvas = blank((frames, side, side, 3), out.device)
    every, picture = every_window(canvas, width), canvas[:, inner, inner]
    if background is not None:
        picture[:] = background * FULL
    first_stamp = torch.arange(0, 4 * frames, 4, device=out.device)
    black = torch.zeros((), device=out.device)
    for i, (where, color) in enumerate(zip(at, paint, strict=True)):
        stamp, weight = footprints.stamps[i].reshape(-1), footprints.weights[i].reshape(-1)
        alpha = F.embedding_bag(
            stamp, stamps.table, first_stamp, mode="sum", per_sample_weights=weight
        ).view(frames, width, 3 * width)
        below = take(every, where).float() if i or background is not None else black
        put(every, where, torch.lerp(below, color, alpha, out=alpha).to(torch.int16))
    shift(picture, BITS, out)
