"""Networks of SCALOR that do not depend on the representation of objects.

A block is a convolution, CELU, and group norm. The image's features are those of a convolutional
network with a lateral connection, run through two ConvLSTMs.
"""

import torch
from torch import nn

from gswm.core.networks import ConvLSTM, Maps, in_parts
from gswm.core.shapes import Video

CHANNELS = 64
"""Channels of the image features."""
GROUPS = {16: 4, 32: 8, 64: 8, 128: 16, 256: 16}
"""Groups of the group norm, by number of channels."""


def block(num_in: int, num_out: int, kernel: int, groups: int | None = None) -> list[nn.Module]:
    """A convolution, CELU and group norm; a kernel of 4 halves the image."""
    stride = 2 if kernel == 4 else 1
    conv = nn.Conv2d(num_in, num_out, kernel, stride=stride, padding=(kernel - 1) // 2)
    return [conv, nn.CELU(), nn.GroupNorm(groups or GROUPS[num_out], num_out)]


def dense(num_in: int, num_out: int) -> list[nn.Module]:
    """A block of one pixel."""
    return [nn.Linear(num_in, num_out), nn.CELU(), nn.GroupNorm(GROUPS[num_out], num_out)]


def shuffled(num_in: int, num_out: int, times: int) -> list[nn.Module]:
    """A block that enlarges the image by pixel shuffle."""
    conv = nn.Conv2d(num_in, num_out * times**2, 1)
    norm = nn.GroupNorm(GROUPS[num_out], num_out)
    return [conv, nn.PixelShuffle(times), nn.CELU(), norm]


class ImageFeatures(nn.Module):
    """Features of each frame and of those before it, for discovery and propagation."""

    def __init__(self, stride: int, grid: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *(*block(3, 16, 4), *block(16, 16, 3), *block(16, 32, 4), *block(32, 32, 3)),
            *(*block(32, 64, 4), *block(64, 64, 3), *(block(64, 64, 4) if stride == 16 else ())),
            *block(64, CHANNELS, 1, groups=16),
        )
        self.lateral = nn.Sequential(*block(CHANNELS, CHANNELS, 3), *block(CHANNELS, CHANNELS, 3))
        self.join = nn.Sequential(*block(2 * CHANNELS, CHANNELS, 3))
        self.first, self.second = ConvLSTM(CHANNELS, grid), ConvLSTM(CHANNELS, grid)

    def forward(self, video: Video) -> Maps:
        """The features of every frame."""
        maps = in_parts(self.conv, video.flatten(0, 1))
        maps = self.join(torch.cat([maps, self.lateral(maps)], dim=1))
        return self.second(self.first(maps.unflatten(0, video.shape[:2])))


def mask_encoder(stride: int) -> nn.Sequential:
    """Encode the already explained part of the image in 32 numbers per cell."""
    return nn.Sequential(
        *(*block(1, 16, 4), *block(16, 32, 4), *block(32, 32, 3), *block(32, 64, 4)),
        *(*block(64, 64, 3), *(block(64, 64, 4) if stride == 16 else ()), *block(64, 32, 1)),
    )


def glimpse_encoder(num_out: int) -> nn.Sequential:
    """Encodes a glimpse of 32 × 32 as a vector."""
    return nn.Sequential(
        *(*block(3, 16, 4), *block(16, 32, 4), *block(32, 64, 4), *block(64, 64, 3)),
        *(nn.Flatten(), *dense(64 * 4 * 4, 128), nn.Linear(128, num_out)),
    )


def glimpse_decoder(num_in: int) -> nn.Sequential:
    """Decodes a vector into colors and mask of a glimpse of 32 × 32, before the sigmoid."""
    return nn.Sequential(
        *(*dense(num_in, 128), nn.Unflatten(-1, (128, 1, 1)), *shuffled(128, 64, 4)),
        *(*shuffled(64, 64, 2), *shuffled(64, 32, 2), *shuffled(32, 16, 2), *block(16, 16, 3)),
        nn.Conv2d(16, 4, 3, padding=1),
    )


def background_encoder(num_out: int, image_size: int) -> nn.Sequential:
    """Encodes a frame and its background mask, with one more block for each doubling of 64."""
    more = [module for _ in range(doublings(image_size)) for module in block(64, 64, 4)]
    return nn.Sequential(
        *(*block(4, 16, 4), *block(16, 32, 4), *block(32, 64, 4), *block(64, 64, 4), *more),
        *(nn.Flatten(), nn.Linear(64 * 4 * 4, num_out)),
    )


def background_decoder(num_in: int, image_size: int) -> nn.Sequential:
    """Decodes a vector into a frame before the sigmoid, with one more block per doubling of 64."""
    more = [module for _ in range(doublings(image_size)) for module in shuffled(16, 16, 2)]
    return nn.Sequential(
        *(*dense(num_in, 256), nn.Unflatten(-1, (256, 1, 1)), *shuffled(256, 128, 4)),
        *(*block(128, 128, 3), *shuffled(128, 64, 4), *block(64, 64, 3), *shuffled(64, 16, 4)),
        *(*more, *block(16, 16, 3), *block(16, 16, 3), nn.Conv2d(16, 3, 3, padding=1)),
    )


def doublings(image_size: int) -> int:
    """Number of times that 64 must double to reach the image size."""
    return image_size.bit_length() - 7
