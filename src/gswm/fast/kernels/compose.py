"""Objects into one image (A.4), without a canvas for each of them.

The twin of `geometry.paste` and then `models.gswm.rendering.compose`, forward and backward, or of
SCALOR's `compose`, whose α is a sum. It gives the same bits on every run.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.geometry import SMALLEST
from gswm.core.shapes import Frame, Mask, Points, Scalars
from gswm.fast.kernels.products import padded
from gswm.models.gswm.rendering import EPS

TILE = (16, 16)
"""Rows and columns of an image that a program works on at once."""
WARPS = 8
"""Warps per program of the backward pass; with fewer, registers run out."""
PRECISION = "ieee"
"""Precision of the small products of a glimpse's gradient; "tf32" would be off by 5e-4."""


def draw(
    glimpses: Float[Tensor, "batch object 4 glimpse glimpse"],
    xy: Points,
    hw: Points,
    depth: Scalars,
    size: int,
    *,
    summed: bool = False,
    eps: float = EPS,
) -> tuple[Frame, Mask]:
    """μ_fg and α of the glimpses [ŷ_att, α̂_att], each in its box, the near over the far.

    Where α is `summed`, it is Σ_k α_k, and else Σ_k w_k α_k.
    """
    image, _ = torch.ops.gswm.draw(glimpses.to(xy.dtype), xy, hw, depth, size, summed, eps)
    mu_fg, alpha = image.split([3, 1], dim=1)
    return mu_fg, alpha


@torch.library.custom_op("gswm::draw", mutates_args=())
def forward(
    glimpses: Tensor, xy: Tensor, hw: Tensor, depth: Tensor, size: int, summed: bool, eps: float
) -> tuple[Tensor, Tensor]:
    """[μ_fg, α], and Σ_k α_k σ(depth_k) of each pixel."""
    from gswm.fast.kernels.compose_triton import draw_forward

    image, total = empty_image(glimpses, xy, hw, depth, size, summed, eps)
    batch, num_objects, _, glimpse, _ = glimpses.shape
    rows, columns = TILE
    launch: Any = draw_forward[batch, -(-size // rows), -(-size // columns)]
    with torch.cuda.device_of(glimpses):
        launch(
            *(tensor.contiguous() for tensor in (glimpses, xy, hw, depth)),
            *(image, total),
            num_objects=num_objects,
            size=size,
            glimpse=glimpse,
            smallest=SMALLEST,
            summed=summed,
            eps=eps,
            rows=rows,
            columns=columns,
        )
    return image, total


@forward.register_fake
def empty_image(
    glimpses: Tensor, xy: Tensor, hw: Tensor, depth: Tensor, size: int, summed: bool, eps: float
) -> tuple[Tensor, Tensor]:
    """Uninitialized outputs of `forward`."""
    batch = glimpses.shape[0]
    return glimpses.new_empty(batch, 4, size, size), glimpses.new_empty(batch, size, size)


@torch.library.custom_op("gswm::draw_backward", mutates_args=())
def backward(
    glimpses: Tensor,
    xy: Tensor,
    hw: Tensor,
    depth: Tensor,
    image: Tensor,
    total: Tensor,
    d_image: Tensor,
    summed: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of glimpses, xy, hw and depth."""
    from gswm.fast.kernels.compose_triton import draw_backward

    inputs = [t.contiguous() for t in (glimpses, xy, hw, depth, image, total, d_image)]
    gradients = empty_gradients(*inputs, summed)
    batch, num_objects, _, glimpse, _ = glimpses.shape
    rows, columns = TILE
    launch: Any = draw_backward[(batch * num_objects,)]
    with torch.cuda.device_of(glimpses):
        launch(
            *inputs,
            *gradients,
            num_objects=num_objects,
            size=image.shape[-1],
            glimpse=glimpse,
            smallest=SMALLEST,
            summed=summed,
            rows=rows,
            columns=columns,
            padded=padded(glimpse),
            precision=PRECISION,
            num_warps=WARPS,
        )
    return gradients


@backward.register_fake
def empty_gradients(
    glimpses: Tensor,
    xy: Tensor,
    hw: Tensor,
    depth: Tensor,
    image: Tensor,
    total: Tensor,
    d_image: Tensor,
    summed: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Uninitialized outputs of `backward`."""
    d_glimpses, d_xy, d_hw, d_depth = (t.new_empty(t.shape) for t in (glimpses, xy, hw, depth))
    return d_glimpses, d_xy, d_hw, d_depth


def remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save the inputs of `backward`."""
    glimpses, xy, hw, depth, _, ctx.summed, _ = inputs
    image, total = output
    ctx.mark_non_differentiable(total)
    ctx.save_for_backward(glimpses, xy, hw, depth, image, total)


def gradients(ctx: Any, d_image: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of all arguments."""
    made = torch.ops.gswm.draw_backward(*ctx.saved_tensors, d_image, ctx.summed)
    return *made, None, None, None


forward.register_autograd(gradients, setup_context=remember)
