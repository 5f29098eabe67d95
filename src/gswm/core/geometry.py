"""Boxes and spatial transformers: ST and ST⁻¹ of §3.3.2, A.2 and A.4, and the grid of A.3.

A box has a center xy, in [-1, 1], and a size hw, as fractions of the image. The image is 2 wide in
the units of xy, so hw is also half the box's size in those units.

Boxes are axis-aligned, so bilinear sampling is separable: with weight matrices for rows and
columns, a glimpse is two matrix products,

    crop  = Y image Xᵀ,    Y[i, y] = max(0, 1 - |row of the image under sample i - y|)

which is bitwise deterministic: its gradient needs no scatter operations.
"""

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.core.shapes import Points

Glimpses = Float[Tensor, "batch object channel h w"]
Canvases = Float[Tensor, "batch object channel height width"]
SMALLEST = 0.02
"""Smallest size at which a box is drawn; sizes are sums of updates, and may become negative."""


def crop(
    image: Float[Tensor, "batch channel height width"], xy: Points, hw: Points, size: int
) -> Glimpses:
    """ST: the content of `image` in each box, resampled to `size` × `size`; 0 outside the image."""
    rows, columns = under(xy, hw, size, *image.shape[-2:])
    strips = einsum(rows, image.to(rows.dtype), "b k i y, b c y x -> b k c i x")
    return einsum(strips, columns, "b k c i x, b k j x -> b k c i j")


def under(
    xy: Points, hw: Points, size: int, height: int, width: int
) -> tuple[Float[Tensor, "batch object size height"], Float[Tensor, "batch object size width"]]:
    """Y and X: the bilinear weights of an image's rows and columns for the samples of each box."""
    at = centers(size, xy)
    x, y = xy.unbind(-1)
    h, w = hw.unbind(-1)
    rows = bilinear(y[..., None] + h[..., None] * at, height)
    return rows, bilinear(x[..., None] + w[..., None] * at, width)


def paste(glimpses: Glimpses, xy: Points, hw: Points, size: int) -> Canvases:
    """ST⁻¹: each glimpse in its box, on a separate empty canvas."""
    height, width = glimpses.shape[-2:]
    at = centers(size, xy)
    x, y = xy.unbind(-1)
    h, w = hw.clamp_min(SMALLEST).unbind(-1)
    rows = bilinear((at - y[..., None]) / h[..., None], height)
    columns = bilinear((at - x[..., None]) / w[..., None], width)
    strips = einsum(rows, glimpses.to(rows.dtype), "b k y i, b k c i j -> b k c y j")
    return einsum(strips, columns, "b k c y j, b k x j -> b k c y x")


def centers(size: int, like: Tensor) -> Float[Tensor, " size"]:
    """The centers of `size` pixels that fill [-1, 1]."""
    return (torch.arange(size, device=like.device, dtype=like.dtype) + 0.5) * (2 / size) - 1


def bilinear(at: Float[Tensor, "*batch sample"], size: int) -> Float[Tensor, "*batch sample size"]:
    """Bilinear weights of `size` pixels that fill [-1, 1], for a sample at `at`."""
    index = (at + 1) * (size / 2) - 0.5
    pixel = torch.arange(size, device=at.device, dtype=at.dtype)
    return (1 - (index[..., None] - pixel).abs()).clamp_min(0)


def cell_centers(grid: int, like: Tensor) -> Float[Tensor, "cell 2"]:
    """The c of A.3: the center of each of grid × grid cells, row by row."""
    at = centers(grid, like)
    return rearrange(torch.stack(torch.meshgrid(at, at, indexing="xy"), -1), "i j xy -> (i j) xy")


def cell_of(xy: Float[Tensor, "*batch 2"], grid: int) -> Int[Tensor, " *batch"]:
    """The cell in which a point is, or the nearest one if it is outside of all."""
    place = ((xy.clamp(-0.999, 0.999) + 1) * (grid / 2)).floor().long()
    return place[..., 1] * grid + place[..., 0]


def gaussian_kernel(offset: Float[Tensor, "*batch 2"], sigma: float) -> Float[Tensor, " *batch"]:
    """G of A.3: the density of a 2-D Gaussian."""
    return torch.exp(-offset.square().sum(-1) / (2 * sigma**2)) / (2 * torch.pi * sigma**2)


def overlap(
    xy_a: Float[Tensor, "batch a 2"],
    hw_a: Float[Tensor, "batch a 2"],
    xy_b: Float[Tensor, "batch b 2"],
    hw_b: Float[Tensor, "batch b 2"],
) -> Float[Tensor, "batch a b"]:
    """Pairwise intersection over union; 0 if a box has a negative size."""
    shared = intersection(xy_a, hw_a, xy_b, hw_b)
    union = 4 * hw_a.prod(-1)[:, :, None] + 4 * hw_b.prod(-1)[:, None] - shared
    return shared / union.clamp_min(1e-9)


def coverage(
    xy_a: Float[Tensor, "batch a 2"],
    hw_a: Float[Tensor, "batch a 2"],
    xy_b: Float[Tensor, "batch b 2"],
    hw_b: Float[Tensor, "batch b 2"],
) -> Float[Tensor, "batch a b"]:
    """Fraction of each box a that is inside each box b; 0 if a box has a negative size."""
    shared = intersection(xy_a, hw_a, xy_b, hw_b)
    return shared / (4 * hw_a.prod(-1)[:, :, None]).clamp_min(1e-9)


def intersection(
    xy_a: Float[Tensor, "batch a 2"],
    hw_a: Float[Tensor, "batch a 2"],
    xy_b: Float[Tensor, "batch b 2"],
    hw_b: Float[Tensor, "batch b 2"],
) -> Float[Tensor, "batch a b"]:
    """Area shared by each pair of boxes; 0 if a box has a negative size."""
    half_a, half_b = hw_a.flip(-1), hw_b.flip(-1)
    low = torch.maximum((xy_a - half_a)[:, :, None], (xy_b - half_b)[:, None])
    high = torch.minimum((xy_a + half_a)[:, :, None], (xy_b + half_b)[:, None])
    shared = (high - low).clamp_min(0).prod(-1)
    real: Bool[Tensor, "batch a b"] = (hw_a > 0).all(-1)[:, :, None] & (hw_b > 0).all(-1)[:, None]
    return torch.where(real, shared, 0)
