"""Painting: sprites over backgrounds.

Only a window around each object is sampled. Objects are drawn from front to back: each adds its
color times the transmission of those before it, and finally the background is added with the
remaining transmission. This also gives the visible part of each object.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from gswm.core.records import map_tensors
from gswm.data.worlds.clips.sprites import REACH, SIDE, SMALLEST, Sprites

SHARPEST = 8
"""Side of the smallest window in pixels."""
SOFTER = 4
"""Coarseness of the sprites of shadows."""
TAPS = 3
"""Number of moments that a blurred object averages."""
STILL = 0.7
"""Largest motion in pixels during the exposure without blur."""


@dataclass(frozen=True)
class Placed:
    """Sprites in frames, in sequence, on the CPU."""

    frame: Int64[Tensor, " item"]
    rank: Int64[Tensor, " item"]
    """Depth rank within a frame; 0 is in front."""
    sprite: Int64[Tensor, " item"]
    xy: Float64[Tensor, "item 2"]
    """Center of the sprite, in pixels."""
    turn: Float64[Tensor, "item 2 2"]
    """Matrix from sprite coordinates to pixels."""
    smear: Float64[Tensor, "item 2"]
    """Motion during the exposure, in pixels."""

    def __getitem__(self, which: Tensor) -> "Placed":
        return map_tensors(lambda values: values[which], self)


@dataclass(frozen=True)
class Group:
    """Items with windows of the same size, and their windows."""

    side: int
    items: Int64[Tensor, " item"]
    """On the CPU."""
    corner: Int64[Tensor, "item 2"]
    """The window's first pixel, on the CPU."""
    patch: Float32[Tensor, "item channel side side"]
    """Color times opacity, and minus the opacity."""


def boxes(
    turn: Float64[Tensor, "*item 2 2"], hull: Float64[Tensor, "*item direction 2"]
) -> tuple[Float64[Tensor, "*item 2"], Float64[Tensor, "*item 2"]]:
    """The center of each sprite's box, relative to that of the sprite, and its width and height."""
    points = hull @ turn.mT
    low, high = points.amin(-2), points.amax(-2)
    return (low + high) / 2, high - low


def groups(placed: Placed, sprites: Sprites, side: int, coarser: int = 1) -> Iterator[Group]:
    """Sample the windows of all items in the frame, one group per size.

    Sprites are sampled at the level whose pixels are half to one of the frame's, or at a coarser
    one.
    """
    half = placed.turn.abs().sum(-1) * REACH + placed.smear.abs() / 2 + 1
    first, last = placed.xy - half, placed.xy + half
    inside = ((last > 0) & (first < side)).all(-1)
    need = ((last - first).amax(-1) + 1).clamp(SHARPEST, side)
    window = 2 ** need.log2().ceil().long()
    extent = 2 * REACH * torch.linalg.det(placed.turn).abs().sqrt()
    level = (2 ** extent.clamp(SMALLEST, SIDE).log2().ceil().long()) // coarser
    level = level.clamp_min(SMALLEST)
    taps = torch.where(placed.smear.abs().amax(-1) > STILL, TAPS, 1)
    forms = torch.stack([window.clamp_max(side), level, taps], dim=-1)
    for form in forms[inside].unique(dim=0):
        items = (inside & (forms == form).all(-1)).nonzero()[:, 0]
        size, texels, moments = form.tolist()
        corner = first[items].floor().long().clamp(0, side - size)
        patch = sample(placed[items], corner, sprites.levels[texels], size, moments)
        yield Group(size, items, corner, patch)


def sample(
    placed: Placed,
    corner: Int64[Tensor, "item 2"],
    sprites: Float32[Tensor, "sprite 4 texel texel"],
    side: int,
    taps: int,
) -> Float32[Tensor, "item 4 {side} {side}"]:
    """Content of windows, averaged over `taps` moments while the shutter is open."""
    device = sprites.device
    back = torch.linalg.inv(placed.turn) / REACH
    middle = corner + 0.5 - placed.xy
    axis = torch.arange(side, dtype=torch.float32, device=device)
    pictures = sprites[placed.sprite.to(device)]
    total = None
    for tap in range(taps):
        moved = middle - placed.smear * ((tap + 0.5) / taps - 0.5)
        start = (back @ moved[..., None])[..., 0]
        by_x, by_y, start = (v.float().to(device) for v in (back[..., 0], back[..., 1], start))
        down = start[:, None] + by_y[:, None] * axis[:, None]
        grid = down[:, :, None] + (by_x[:, None] * axis[:, None])[:, None]
        shown = F.grid_sample(pictures, grid, align_corners=False)
        total = shown if total is None else total + shown
    assert total is not None
    patch = total / taps if taps > 1 else total
    patch[:, 3].neg_()
    return patch


def windows(
    canvas: Float32[Tensor, "frame channel height width"], side: int
) -> Float32[Tensor, "place channel {side} {side}"]:
    """A view of the windows of every pixel, counted through the values of all frames."""
    frames, channels, height, width = canvas.shape
    last = ((frames - 1) * channels * height + height - side) * width + width - side
    return canvas.as_strided((last + 1, channels, side, side), (1, height * width, width, 1))


def take(view: Tensor, at: Int64[Tensor, " item"]) -> Tensor:
    """Copy some windows; numpy is faster on a CPU."""
    if view.device.type == "cpu":
        return torch.from_numpy(view.numpy()[at.numpy()])
    return view.index_select(0, at.to(view.device))


def put(view: Tensor, at: Int64[Tensor, " item"], values: Tensor) -> None:
    """Write windows that do not overlap."""
    if view.device.type == "cpu":
        view.numpy()[at.numpy()] = values.numpy()
    else:
        view.index_copy_(0, at.to(view.device), values)


@dataclass(frozen=True)
class Painted:
    """Objects without their background."""

    color: Float32[Tensor, "frame 3 side side"]
    through: Float32[Tensor, "frame side side"]
    """Visible fraction of the background."""
    shown: Float64[Tensor, " item"]
    """Area of each item in its frame in pixels, hidden or not."""
    seen: Float64[Tensor, " item"]
    """Visible part of that area."""


def paint(
    placed: Placed,
    sprites: Sprites,
    frames: int,
    side: int,
    through: Float32[Tensor, "frame side side"] | None = None,
) -> Painted:
    """Paint all items; `through` is the transmission of things in front of them."""
    device = sprites.levels[SIDE].device
    canvas = torch.zeros(frames, 4, side, side, device=device)
    canvas[:, 3] = 1 if through is None else through
    shown, seen = (torch.zeros(len(placed.frame), device=device) for _ in range(2))
    found = list(groups(placed, sprites, side))
    ranks = int(placed.rank.amax()) + 1 if len(placed.rank) else 0
    for group in found:
        shown[group.items.to(device)] = -group.patch[:, 3].sum((1, 2))
    for rank in range(ranks):
        for group in found:
            which = (placed.rank[group.items] == rank).nonzero()[:, 0]
            if not len(which):
                continue
            x, y = group.corner[which].unbind(-1)
            at = (placed.frame[group.items[which]] * 4 * side + y) * side + x
            view = windows(canvas, group.side)
            below = take(view, at)
            added = group.patch[which.to(device)] * below[:, 3:]
            seen[group.items[which].to(device)] = -added[:, 3].sum((1, 2))
            put(view, at, below + added)
    color, left = canvas[:, :3], canvas[:, 3]
    return Painted(color, left, shown.double().cpu(), seen.double().cpu())


def cast(
    placed: Placed,
    strength: Float[Tensor, " item"],
    sprites: Sprites,
    frames: int,
    side: int,
) -> Float32[Tensor, "frame side side"]:
    """Light on the ground after the soft shadows of all items."""
    device = sprites.levels[SIDE].device
    canvas = torch.ones(frames, 1, side, side, device=device)
    for group in groups(placed, sprites, side, SOFTER):
        dark = strength[group.items].float().to(device)[:, None, None, None]
        for rank in placed.rank[group.items].unique().tolist():
            which = (placed.rank[group.items] == rank).nonzero()[:, 0]
            x, y = group.corner[which].unbind(-1)
            at = (placed.frame[group.items[which]] * side + y) * side + x
            view, here = windows(canvas, group.side), which.to(device)
            put(view, at, take(view, at) * (1 + dark[here] * group.patch[here, 3:]))
    return canvas[:, 0]


def place(
    sprite: Int64[Tensor, "*item"],
    sprites: Sprites,
    size: Float64[Tensor, "*item"],
    angle: Float64[Tensor, "*item"],
    flip: Float64[Tensor, "*item"],
) -> Float64[Tensor, "*item 2 2"]:
    """The matrix of each sprite with a length of `size` pixels before rotation."""
    low, high = sprites.hull.amin(1), sprites.hull.amax(1)
    scale = size / (high - low).amax(-1)[sprite]
    cos, sin = angle.cos() * scale, angle.sin() * scale
    return torch.stack([cos * flip, -sin, sin * flip, cos], dim=-1).unflatten(-1, (2, 2))
