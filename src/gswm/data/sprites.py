"""Drawing: anti-aliased disks, one over the other, on a black or a given background (App. C).

Every object of the paper's worlds is one sprite of 17 × 17 pixels, a disk with soft edges,

    α(d) = clip(8.5 - d, 0, 1),    d the distance from the sprite's middle, in its pixels

scaled to the object's radius s. Pixel p of a row takes, between the sprite's pixels and zero
beyond them, the sprite at (p - (x - s)) · 17 / (2s), and so does a column with y. Objects are
drawn in the order of their slots, canvas ← canvas (1 - α) + color α; last, the canvas becomes
8 bit by truncation.
"""

import torch
from einops import einsum
from jaxtyping import Float, Float64, UInt8
from torch import Tensor

SIDE = 17


def draw(
    positions: Float64[Tensor, "frame object 2"],
    sizes: Float64[Tensor, "frame object"],
    colors: Float64[Tensor, "frame object 3"],
    image_size: int,
    background: Float[Tensor, "frame height width 3"] | None = None,
) -> UInt8[Tensor, "frame 3 height width"]:
    """One picture a frame; an object of size 0 is not drawn."""
    frames, objects, _ = positions.shape
    device = positions.device
    index = torch.arange(SIDE, device=device, dtype=torch.float32)
    distance = torch.hypot(index[:, None] - SIDE // 2, index[None, :] - SIDE // 2)
    sprite = (SIDE / 2 - distance).clamp(0, 1)

    pixel = torch.arange(image_size, device=device)
    if background is None:
        canvas = torch.zeros(frames, image_size, image_size, 3, device=device)
    else:
        canvas = background.float()
    for k in range(objects):
        size = sizes[:, k, None, None].clamp_min(1e-6)
        at = (pixel - (positions[:, k, :, None] - size)) * SIDE / (2 * size)
        weight = (1 - (at.float()[..., None] - index).abs()).clamp_min(0)
        alpha = einsum(weight[:, 1], sprite, weight[:, 0], "f y i, i j, f x j -> f y x")
        alpha = (alpha * (sizes[:, k, None, None] > 0))[..., None]
        canvas = canvas * (1 - alpha) + colors[:, k, None, None].float() * alpha
    return (canvas * 255 + 1e-3).to(torch.uint8).permute(0, 3, 1, 2)
