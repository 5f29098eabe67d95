"""LPIPS (Zhang et al., 2018): the distance of two frames in the features of an image network.

With the features f_l of both frames after five stages of AlexNet or VGG-16, normalized at each
position, and weights w_l learned from human judgments of similarity:

    d(x, y) = Σ_l mean over positions of Σ_c w_lc (f_lc(x) - f_lc(y))²

The weights are not part of this package. Their file is the state dict of the `lpips` package's
model as safetensors, `safetensors.torch.save_file(lpips.LPIPS(net="alex").state_dict(), FILE)`. It
contains:

    net.slice*.N.weight, net.slice*.N.bias   convolution N, where N is its index in torchvision's
                                             `features`; features.N.weight is accepted too
    lin0.model.1.weight, ...                 w_l, of shape (1, channels, 1, 1)
"""

import re
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor

from gswm.core.errors import UserError

Frames = Float[Tensor, "*row 3 height width"]

SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
"""Inputs from -1 to 1 are normalized to (value - SHIFT) / SCALE."""
EPS = 1e-10
AT_ONCE = 256
"""Number of frames per forward pass."""


@dataclass(frozen=True)
class Layer:
    """A convolution and a ReLU, after a max pooling if `pool` is its window."""

    place: int
    stride: int = 1
    padding: int = 1
    pool: int = 0
    tap: bool = False
    """Whether its output is one of the five that are compared."""


ALEX = (
    Layer(0, stride=4, padding=2, tap=True),
    Layer(3, padding=2, pool=3, tap=True),
    *(Layer(6, pool=3, tap=True), Layer(8, tap=True), Layer(10, tap=True)),
)
VGG = (
    *(Layer(0), Layer(2, tap=True), Layer(5, pool=2), Layer(7, tap=True)),
    *(Layer(10, pool=2), Layer(12), Layer(14, tap=True)),
    *(Layer(17, pool=2), Layer(19), Layer(21, tap=True)),
    *(Layer(24, pool=2), Layer(26), Layer(28, tap=True)),
)
SMALLEST = 32
"""Smallest side of a frame in pixels; smaller ones vanish in the pooling layers."""


@dataclass(frozen=True)
class Lpips:
    """The network, on its device."""

    layers: tuple[Layer, ...]
    kernels: tuple[Float[Tensor, "_out _in _height _width"], ...]
    biases: tuple[Float[Tensor, " _out"], ...]
    worth: tuple[Float[Tensor, " _channel"], ...]
    """w_l."""

    @torch.no_grad()
    def apart(self, one: Frames, other: Frames) -> Float[Tensor, "*row"]:
        """LPIPS of pairs of frames with values from 0 to 1."""
        if min(one.shape[-2:]) < SMALLEST:
            raise UserError(f"LPIPS needs frames of at least {SMALLEST} pixels per side")
        pairs = zip(*(f.flatten(0, -4).split(AT_ONCE) for f in (one, other)), strict=True)
        return torch.cat([self.few(a, b) for a, b in pairs]).reshape(one.shape[:-3])

    def few(
        self, one: Float[Tensor, "row 3 height width"], other: Float[Tensor, "row 3 height width"]
    ) -> Float[Tensor, " row"]:
        """LPIPS of one batch."""
        total = one.new_zeros(len(one))
        both = zip(self.features(one), self.features(other), self.worth, strict=True)
        for f, g, worth in both:
            apart = (f - g).square() * worth[:, None, None]
            total = total + apart.sum(dim=1).mean(dim=(1, 2))
        return total

    def features(
        self, frames: Float[Tensor, "row 3 height width"]
    ) -> list[Float[Tensor, "row _channel _height _width"]]:
        """Normalized features of the five stages."""
        shift, scale = (frames.new_tensor(x)[:, None, None] for x in (SHIFT, SCALE))
        x = (2 * frames - 1 - shift) / scale
        taps = []
        for layer, kernel, bias in zip(self.layers, self.kernels, self.biases, strict=True):
            if layer.pool:
                x = F.max_pool2d(x, layer.pool, stride=2)
            x = F.conv2d(x, kernel, bias, layer.stride, layer.padding).relu()
            if layer.tap:
                taps.append(x / (x.square().sum(dim=1, keepdim=True).sqrt() + EPS))
        return taps


def read(path: Path, device: str | torch.device = "cpu") -> Lpips:
    """Read AlexNet's or VGG-16's LPIPS from a file of weights."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    tensors = {k: v.to(device).float() for k, v in tensors_of(path).items()}
    convolutions: dict[int, dict[str, Tensor]] = {}
    worth: dict[int, Tensor] = {}
    for name, value in tensors.items():
        if found := re.fullmatch(r"(?:net\.slice\d|features)\.(\d+)\.(weight|bias)", name):
            convolutions.setdefault(int(found[1]), {})[found[2]] = value
        elif found := re.fullmatch(r"lin(\d)\.model\.1\.weight", name):
            worth[int(found[1])] = value.flatten()
    for layers in (ALEX, VGG):
        places = [layer.place for layer in layers]
        whole = all(len(convolution) == 2 for convolution in convolutions.values())
        if whole and sorted(convolutions) == places and sorted(worth) == [0, 1, 2, 3, 4]:
            kernels = tuple(convolutions[place]["weight"] for place in places)
            biases = tuple(convolutions[place]["bias"] for place in places)
            return Lpips(layers, kernels, biases, tuple(worth[i] for i in range(5)))
    raise UserError(
        f"{path} does not contain LPIPS weights for AlexNet or VGG-16: it has convolutions "
        f"{sorted(convolutions)} and {len(worth)} layers lin*.model.1.weight; save "
        "lpips.LPIPS(net='alex').state_dict()"
    )


def tensors_of(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, by name."""
    try:
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{path} is not a safetensors file, or is damaged: write one with "
            "safetensors.torch.save_file(lpips.LPIPS(net='alex').state_dict(), ...)"
        ) from error
