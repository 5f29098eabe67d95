"""Draws mazes fast, since agents have few possible positions.

The pictures equal those of `sprites.draw`, on black corridors between white blocks. In every frame
an agent is in the middle of a cell or halfway between two, so the coverage α of all such positions
is computed once, as stamps, and blending one reads and writes only its pixels. The canvas counts
1/128 of a gray level, in 16 bits.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float32, Float64, Int, Int64, UInt8
from torch import Tensor

from gswm.data.worlds.arrays import every_window, new_bytes, put, shift, take
from gswm.data.worlds.sprites import BITS, SIDE
from gswm.data.worlds.threads import in_threads

FULL = (255 << BITS) + 1
"""White; a 1 with a rounding error still truncates to 255."""
GROUP = 8
"""Number of episodes that a thread draws in a row."""


@dataclass(frozen=True)
class CellStamps:
    """Coverage by an agent at each possible position, in x or in y."""

    corner: Int64[Tensor, " place"]
    """The stamp's first pixel."""
    alpha: Float32[Tensor, "stamp width row"]
    """One stamp per position, in reading order, and one without an agent; α is repeated per
    channel.
    """


def make_stamps(cells: int, image_size: int, device: torch.device) -> CellStamps:
    """The stamps of a maze of cells × cells."""
    radius = image_size / cells / 2
    middle = radius * torch.arange(1, 2 * cells, dtype=torch.float64)
    pixel = 2 * radius / SIDE
    width = min(image_size, int((SIDE + 1) * pixel) + 1)
    corner = (middle - radius - pixel).ceil().clamp(0, image_size - width).long()

    index = torch.arange(SIDE, dtype=torch.float64)
    sprite = (SIDE / 2 - torch.hypot(index[:, None] - SIDE // 2, index - SIDE // 2)).clamp(0, 1)
    at = (corner[:, None] + torch.arange(width) - (middle - radius)[:, None]) / pixel
    weight = (1 - (at[..., None] - index).abs()).clamp_min(0)
    alpha = torch.einsum("ayi,ij,bxj->abyx", weight, sprite, weight)
    alpha = alpha.flatten(0, 1).repeat_interleave(3, dim=-1)
    alpha = torch.cat([alpha, torch.zeros_like(alpha[:1])])
    return CellStamps(corner.to(device), alpha.float().to(device))


def draw_mazes(
    grid: Int[Tensor, "episode row column"],
    cells: Int[Tensor, "episode step agent 2"],
    colors: Float64[Tensor, "episode agent 3"],
    present: Bool[Tensor, "episode agent"],
    image_size: int,
) -> UInt8[Tensor, "episode 2*step-1 3 {image_size} {image_size}"]:
    """The frames of every step, and of the midpoint of every two steps."""
    n, side, device = len(grid), grid.shape[1], grid.device
    stamps = make_stamps(side, image_size, device)
    frames = 2 * cells.shape[1] - 1
    place = torch.stack([2 * cells[:, :-1], cells[:, :-1] + cells[:, 1:]], dim=2).flatten(1, 2)
    y, x = torch.cat([place, 2 * cells[:, -1:]], dim=1).unbind(dim=-1)
    stamp = torch.where(present[:, None], y * (2 * side - 1) + x, len(stamps.alpha) - 1)
    corner = stamps.corner[y] * image_size + stamps.corner[x]

    cell = ((torch.arange(image_size, device=device) + 0.5) * side / image_size).long()
    ground = ((1 - grid[:, cell][:, :, cell]) * FULL).to(torch.int16)
    ground = ground[..., None].repeat(1, 1, 1, 3)
    width = stamps.alpha.shape[1]
    paint = (colors * FULL).float().repeat(1, 1, width)

    out = new_bytes((n, frames, *ground.shape[1:]), device)

    def draw(part: slice) -> None:
        canvas = ground[part, None].expand(-1, frames, -1, -1, -1).contiguous().flatten(0, 1)
        windows = every_window(canvas, width)
        first = torch.arange(len(canvas), device=device) * image_size**2
        for agent in range(cells.shape[2]):
            at = first + corner[part, :, agent].flatten()
            below = take(windows, at).float()
            alpha = stamps.alpha.index_select(0, stamp[part, :, agent].flatten())
            over = paint[part, agent].repeat_interleave(frames, dim=0)[:, None]
            put(windows, at, torch.lerp(below, over, alpha).to(torch.int16))
        shift(canvas, BITS, out[part].flatten(0, 1))

    # On a CPU, an episode at a time stays in a core's cache.
    at_once, group = (1, GROUP) if device.type == "cpu" else (n, n)

    def draw_group(start: int) -> None:
        for first in range(start, min(start + group, n), at_once):
            draw(slice(first, first + at_once))

    in_threads(draw_group, range(0, n, group), device)
    return out.permute(0, 1, 4, 2, 3)
