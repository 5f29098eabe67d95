"""Conv_prop and Conv_ctx_att (Tables 6 and 7) in one kernel, and their backward pass in another.

The twin of `networks.Encoder` for images of 16 × 16 pixels, with the gradient of the images and
none of its weights.
"""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.networks import Encoder
from gswm.fast.kernels.products import precision

SIZE = 16
"""Height and width of an image."""
DEPTH = 4
"""Number of layers before the last."""
GROUP = 16
"""Channels per group of a norm."""
BLOCK, WARPS = 32, 8

Images = Float[Tensor, "image channel 16 16"]


def fits(encoder: Encoder) -> bool:
    """Whether the kernel can compute an encoder."""
    norms = [layer for layer in encoder if isinstance(layer, nn.GroupNorm)]
    kernels = [layer.kernel_size for layer in encoder if isinstance(layer, nn.Conv2d)]
    channels = [layer.num_channels for layer in norms]
    return (
        encoder.size == SIZE
        and len(norms) == DEPTH
        and all(kernel == (3, 3) for kernel in kernels)
        and all(c % GROUP == 0 and not c & (c - 1) for c in channels)
        and all(layer.num_channels == GROUP * layer.num_groups for layer in norms)
        and first_channels(encoder) <= GROUP
    )


def first_channels(encoder: Encoder) -> int:
    """The number of channels of an image."""
    return cast(nn.Conv2d, encoder[0]).in_channels


def pack(encoder: Encoder) -> Tensor:
    """All parameters, as the kernels read them."""
    parts = []
    for layer in encoder:
        for param in layer.parameters():
            taps = param.permute(2, 3, 1, 0) if param.dim() == 4 else param
            parts.append(taps.flatten())
    return torch.cat(parts)


def encode(images: Images, weights: Tensor, channels: list[int]) -> Float[Tensor, "image e"]:
    """Encode each image.

    Args:
        images: images or glimpses.
        weights: from `pack`.
        channels: those of the images and of each layer, and the width of the output.
    """
    y, _ = torch.ops.gswm.encode(images, weights, channels)
    return y


@torch.library.custom_op("gswm::encode", mutates_args=())
def forward(images: Tensor, weights: Tensor, channels: list[int]) -> tuple[Tensor, Tensor]:
    """The encodings, and each layer before CELU."""
    from gswm.fast.kernels.encoder_triton import encoder_forward

    y, saved = empty_encodings(images, weights, channels)
    launch: Any = encoder_forward[(len(images),)]
    with torch.cuda.device_of(images):
        launch(images.contiguous(), weights, y, saved, **program(channels))
    return y, saved


@forward.register_fake
def empty_encodings(images: Tensor, weights: Tensor, channels: list[int]) -> tuple[Tensor, Tensor]:
    """Uninitialized outputs of `forward`."""
    _, c_1, c_2, c_3, c_4, e = channels
    number = images.shape[0]
    y = images.new_empty(number, e)
    return y, images.new_empty(number, 64 * c_1 + 16 * c_2 + 4 * c_3 + c_4)


@torch.library.custom_op("gswm::encode_backward", mutates_args=())
def backward(d_y: Tensor, weights: Tensor, saved: Tensor, channels: list[int]) -> Tensor:
    """The gradient of the images."""
    from gswm.fast.kernels.encoder_triton import encoder_backward

    d_images = empty_images(d_y, weights, saved, channels)
    launch: Any = encoder_backward[(len(d_y),)]
    with torch.cuda.device_of(d_y):
        launch(
            *(d_y.contiguous(), weights, saved, torch.empty_like(saved), d_images),
            **program(channels),
        )
    return d_images


@backward.register_fake
def empty_images(d_y: Tensor, weights: Tensor, saved: Tensor, channels: list[int]) -> Tensor:
    """Uninitialized outputs of `backward`."""
    return d_y.new_empty(d_y.shape[0], channels[0], SIZE, SIZE)


def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save the inputs of `gradients`."""
    _, weights, ctx.channels = inputs
    ctx.save_for_backward(weights, output[1])


def gradients(ctx: Any, d_y: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    """The gradient of the images only."""
    return backward(d_y, *ctx.saved_tensors, ctx.channels), None, None


forward.register_autograd(gradients, setup_context=keep)


def program(channels: list[int]) -> dict[str, Any]:
    """Launch settings of a program."""
    sizes = dict(zip(("num_in", "c_1", "c_2", "c_3", "c_4", "e"), channels, strict=True))
    return {**sizes, "block": BLOCK, "precision": precision(), "num_warps": WARPS}
