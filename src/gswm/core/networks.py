"""Networks that do not depend on the representation of objects (B.2, Tables 3 to 8).

Convolutions are followed by CELU and then by group norm with 16 channels per group; B.2 has the
reverse order. The residual trunk of Conv_disc is that of a ResNet18, with group norm and ReLU.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gswm.core.records import concatenate, cut, frames, map_tensors, tensors

CHUNK, CACHED = 256, 32
"""Number of frames that `in_parts` processes at once, on a GPU and on a CPU."""

Maps = Float[Tensor, "batch time channel rows columns"]
Map = Float[Tensor, "batch channel rows columns"]


class MLP(nn.Sequential):
    """Fully connected layers with CELU in between."""

    def __init__(self, num_in: int, hidden: Sequence[int], num_out: int) -> None:
        layers: list[nn.Module] = []
        for i, o in pairwise([num_in, *hidden, num_out]):
            layers += [nn.Linear(i, o), nn.CELU()]
        super().__init__(*layers[:-1])


class Encoder(nn.Sequential):
    """Conv_prop and Conv_ctx_att (Tables 6 and 7), Conv_ctx (Table 4): encodes an image."""

    def __init__(
        self, size: int, channels: Sequence[int], num_out: int, first_kernel: int = 3
    ) -> None:
        layers: list[nn.Module] = []
        first_size, kernel = size, first_kernel
        for i, o in pairwise(channels):
            size //= 2
            if size == 1:  # a convolution onto one pixel is a linear layer
                layers += [nn.Flatten(), nn.Linear(4 * i, o)]
            else:
                layers += [nn.Conv2d(i, o, kernel, stride=2, padding=kernel // 2)]
            layers += [nn.CELU(), group_norm(o)]
            kernel = 3
        super().__init__(*layers, nn.Flatten(), nn.Linear(channels[-1] * size**2, num_out))
        self.size = first_size


class GlimpseDecoder(nn.Sequential):
    """Deconv_what (Table 8): decodes a vector into a glimpse, before the sigmoid.

    The paper's glimpses have 16 × 16 pixels; each doubling adds a stage.
    """

    def __init__(self, num_in: int, num_out: int, size: int = 16) -> None:
        channels = [64, 32, 16]
        while 2 << len(channels) < size:
            channels.append(16)
        super().__init__(
            nn.Linear(num_in, 128),
            nn.CELU(),
            nn.Linear(128, 256),  # a convolution of one pixel followed by a pixel shuffle
            nn.Unflatten(-1, (64, 2, 2)),
            nn.CELU(),
            group_norm(64),
            *upsampling(channels, num_out),
        )


class FrameDecoder(nn.Sequential):
    """Deconv_ctx (Table 5): decodes a vector into an image, before the sigmoid."""

    def __init__(self, num_in: int, size: int) -> None:
        channels = [128, 64, 32]
        while 4 << len(channels) < size:
            channels.append(16)
        layers = [nn.Linear(num_in, 128 * 4 * 4), nn.Unflatten(-1, (128, 4, 4))]
        super().__init__(*layers, *upsampling(channels, 3))


class Trunk(nn.Sequential):
    """Conv_disc: a ResNet18 up to its third stage, then a convolution onto the grid (B.2).

    `width` is the number of channels of its first stage; ResNet18 has 64.
    """

    STRIDE = 8

    def __init__(self, num_in: int, num_out: int, stride: int, width: int = 64) -> None:
        super().__init__(
            nn.Conv2d(num_in, width, 7, stride=2, padding=3, bias=False),
            group_norm(width),
            nn.ReLU(),
            *(Residual(width, width, 1), Residual(width, width, 1)),
            *(Residual(width, 2 * width, 2), Residual(2 * width, 2 * width, 1)),
            *(Residual(2 * width, 4 * width, 2), Residual(4 * width, 4 * width, 1)),
            nn.Conv2d(4 * width, num_out, 3, stride=stride, padding=1),
        )


class Residual(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(num_in, num_out, 3, stride=stride, padding=1, bias=False)
        self.norm_1 = group_norm(num_out)
        self.conv_2 = nn.Conv2d(num_out, num_out, 3, padding=1, bias=False)
        self.norm_2 = group_norm(num_out)
        self.relu = nn.ReLU()
        self.short = nn.Sequential()
        if stride > 1 or num_in != num_out:
            narrow = nn.Conv2d(num_in, num_out, 1, stride=stride, bias=False)
            self.short = nn.Sequential(narrow, group_norm(num_out))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, after its ReLU."""
        y = self.relu(self.norm_1(self.conv_1(x)))
        return self.relu(self.norm_2(self.conv_2(y)) + self.short(x))


class ConvLSTM(nn.Module):
    """A recurrent layer whose state is a map, with peepholes.

    i = σ(W_xi x + W_hi h + w_ci c)    f = σ(W_xf x + W_hf h + w_cf c)
    c ← f c + i tanh(W_xc x + W_hc h)
    o = σ(W_xo x + W_ho h + w_co c)    h ← o tanh(c)
    """

    def __init__(self, num: int, grid: int) -> None:
        super().__init__()
        self.conv_x = nn.Conv2d(num, 4 * num, 3, padding=1)
        self.conv_h = nn.Conv2d(num, 4 * num, 3, padding=1, bias=False)
        self.peephole = nn.Parameter(torch.zeros(3, num, grid, grid))

    def forward(self, x: Maps) -> Maps:
        """The state h after each frame."""
        gates = frames(self.conv_x(x.flatten(0, 1)).unflatten(0, x.shape[:2]))
        h, c = (cut(torch.zeros_like(x[:, 0])) for _ in range(2))
        out = []
        for each in gates:
            h, c = self.step(each, h, c)
            out.append(h)
        return torch.stack(out, dim=1)

    def step(self, gates: Tensor, h: Map, c: Map) -> tuple[Map, Map]:
        """Process one frame, given its contribution to the gates."""
        i, f, new, o = (gates + self.conv_h(h)).chunk(4, dim=1)
        w_ci, w_cf, w_co = self.peephole
        c = (f + w_cf * c).sigmoid() * c + (i + w_ci * c).sigmoid() * new.tanh()
        return (o + w_co * c).sigmoid() * c.tanh(), c


def upsampling(channels: Sequence[int], num_out: int) -> list[nn.Module]:
    """Sub-pixel convolutions; each doubles the size."""
    layers: list[nn.Module] = []
    for i, o in pairwise([*channels, num_out]):
        layers += [nn.Conv2d(i, 4 * o, 3, padding=1), nn.PixelShuffle(2), nn.CELU(), group_norm(o)]
    return layers[:-2]


def group_norm(num_channels: int) -> nn.GroupNorm:
    """Group norm as in B.2: 16 channels per group."""
    return nn.GroupNorm(max(1, num_channels // 16), num_channels)


def per_object(net: nn.Module, x: Tensor) -> Tensor:
    """Apply `net` to every object of every batch element."""
    return net(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def recomputed(net: nn.Module, x: Tensor) -> Tensor:
    """Apply a deterministic network, and store only its input for the backward pass."""
    if not torch.is_grad_enabled():
        return net(x)
    return checkpoint(net, x, use_reentrant=False, preserve_rng_state=False)


def in_parts(net: Callable[[Any], Any], x: Any) -> Any:
    """Apply `net` to a record of many frames in chunks, or at once if a GPU needs gradients."""
    first = tensors(x)[0]
    size = CACHED if first.device.type == "cpu" else CHUNK
    if len(first) <= size or (first.is_cuda and torch.is_grad_enabled()):
        return net(x)
    starts = range(0, len(first), size)
    return concatenate([net(map_tensors(lambda v, i=i: v[i : i + size], x)) for i in starts])
