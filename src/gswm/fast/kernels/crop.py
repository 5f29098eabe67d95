"""ST (§3.3.2, A.2): what an image shows inside each box.

The twin of `geometry.crop`, forward and backward. It gives the same bits on every run.
"""

from typing import Any

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from gswm.core.geometry import Glimpses, under
from gswm.core.shapes import Points

TILE = 16
"""Rows and columns of a glimpse that a program works on at once."""


def crop(
    image: Float[Tensor, "batch channel height width"], xy: Points, hw: Points, size: int
) -> Glimpses:
    """Crop each box from `image`, resampled to `size` × `size`; 0 beyond its edges."""
    return torch.ops.gswm.crop(image.to(xy.dtype), xy, hw, size)


@torch.library.custom_op("gswm::crop", mutates_args=())
def forward(image: Tensor, xy: Tensor, hw: Tensor, size: int) -> Tensor:
    """The glimpses."""
    from gswm.fast.kernels.crop_triton import crop_forward

    batch, num_objects, _ = xy.shape
    glimpses = empty_glimpses(image, xy, hw, size)
    inputs = [tensor.contiguous() for tensor in (image, xy, hw)]
    launch: Any = crop_forward[batch * num_objects, image.shape[1]]
    with torch.cuda.device_of(image):
        launch(*inputs, glimpses, num_objects, *image.shape[1:], size, TILE)
    return glimpses


@forward.register_fake
def empty_glimpses(image: Tensor, xy: Tensor, hw: Tensor, size: int) -> Tensor:
    """Uninitialized outputs of `forward`."""
    return image.new_empty(*xy.shape[:2], image.shape[1], size, size)


@torch.library.custom_op("gswm::crop_backward", mutates_args=())
def backward(image: Tensor, xy: Tensor, hw: Tensor, d_glimpses: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of xy and hw."""
    from gswm.fast.kernels.crop_triton import crop_backward

    batch, num_objects, _ = xy.shape
    inputs = [tensor.contiguous() for tensor in (image, xy, hw, d_glimpses)]
    gradients = empty_gradients(*inputs)
    size = d_glimpses.shape[-1]
    launch: Any = crop_backward[(batch * num_objects,)]
    with torch.cuda.device_of(image):
        launch(*inputs, *gradients, num_objects, *image.shape[1:], size, TILE)
    return gradients


@backward.register_fake
def empty_gradients(
    image: Tensor, xy: Tensor, hw: Tensor, d_glimpses: Tensor
) -> tuple[Tensor, Tensor]:
    """Uninitialized outputs of `backward`."""
    return xy.new_empty(xy.shape), hw.new_empty(hw.shape)


def scatter(d_glimpses: Tensor, xy: Tensor, hw: Tensor, height: int, width: int) -> Tensor:
    """The gradient of the image: Σ_k Yᵀ d_glimpse X."""
    rows, columns = under(xy, hw, d_glimpses.shape[-1], height, width)
    strips = einsum(d_glimpses, columns, "b k c i j, b k j x -> b k c i x")
    return einsum(rows, strips, "b k i y, b k c i x -> b c y x")


def remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Save the inputs of `backward`."""
    image, xy, hw, _ = inputs
    ctx.save_for_backward(image, xy, hw)


def gradients(ctx: Any, d_glimpses: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of all arguments that need one."""
    image, xy, hw = ctx.saved_tensors
    of_image, of_xy, of_hw, _ = ctx.needs_input_grad
    d_image, d_xy, d_hw = None, None, None
    if of_image:
        d_image = scatter(d_glimpses, xy, hw, *image.shape[-2:])
    if of_xy or of_hw:
        d_xy, d_hw = torch.ops.gswm.crop_backward(image, xy, hw, d_glimpses)
    return d_image, d_xy, d_hw, None


forward.register_autograd(gradients, setup_context=remember)
