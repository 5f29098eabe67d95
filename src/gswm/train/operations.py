"""Operations of a model, replaced by faster ones that compute the same.

The model's code stays as it is: in a copy of it that shares its weights and asks for no gradients
of them, some modules become modules of a faster class. What such a class wants to know of the
weights, it prepares once a step.
"""

from copy import deepcopy
from typing import Protocol, cast, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gswm.networks import MLP, Encoder

LARGEST = 16
"""Pixels of the largest image whose convolutions are faster as matrices."""


def constants(model: nn.Module) -> nn.Module:
    """A copy that shares the model's weights, and asks for no gradients of them."""
    copy = deepcopy(model)
    for ours, theirs in zip(copy.modules(), model.modules(), strict=True):
        for name, param in theirs.named_parameters(recurse=False):
            setattr(ours, name, nn.Parameter(param.detach(), requires_grad=False))
        for name, buffer in theirs.named_buffers(recurse=False):
            setattr(ours, name, buffer)
    return copy


def replace_operations(copy: nn.Module) -> list["Prepared"]:
    """Replace what can be; gives those that want to be prepared before each step."""
    for module in list(copy.modules()):
        for fast in (FusedMLP, DenseEncoder):
            if fast.replaces(module):
                module.__class__ = fast
    return [module for module in copy.modules() if isinstance(module, Prepared)]


@runtime_checkable
class Prepared(Protocol):
    """A module that makes something of its weights before each step."""

    def prepare(self) -> None:
        """Do so."""
        ...


class FusedMLP(MLP):
    """Three layers in one kernel."""

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can do the module's work."""
        return type(module) is MLP and len(module) == 5

    def forward(self, input: Tensor) -> Tensor:
        """The same."""
        from gswm.kernels.mlp import mlp

        layers = [cast(nn.Linear, self[i]) for i in (0, 2, 4)]
        return mlp(input, [layer.weight for layer in layers], [layer.bias for layer in layers])


class DenseEncoder(Encoder):
    """Convolutions of small images, each as the matrix that it is."""

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can do the module's work."""
        return type(module) is Encoder and module.size <= LARGEST

    @torch.no_grad()
    def prepare(self) -> None:
        """A convolution's matrix is what it makes of each pixel alone."""
        size = self.size
        for i, layer in enumerate(self):
            if isinstance(layer, nn.Conv2d):
                num = layer.in_channels * size**2
                pixels = torch.eye(num, device=layer.weight.device)
                pixels = pixels.view(num, layer.in_channels, size, size)
                made = F.conv2d(pixels, layer.weight, None, layer.stride, layer.padding)
                size = made.shape[-1]
                self.keep(f"matrix_{i}", made.flatten(1))
                self.keep(f"bias_{i}", cast(Tensor, layer.bias).repeat_interleave(size**2))

    def keep(self, name: str, value: Tensor) -> None:
        """Where it was before, so that what is captured finds it."""
        if name in self._buffers:
            self.get_buffer(name).copy_(value)
        else:
            self.register_buffer(name, value, persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """The same."""
        x = input.flatten(1)
        for i, layer in enumerate(self):
            if isinstance(layer, nn.Conv2d):
                x = torch.addmm(self.get_buffer(f"bias_{i}"), x, self.get_buffer(f"matrix_{i}"))
            elif isinstance(layer, nn.GroupNorm):
                x = layer(x.unflatten(1, (layer.num_channels, -1))).flatten(1)
            else:
                x = layer(x)
        return x


class HalfConv(nn.Conv2d):
    """A convolution in bfloat16, channels last; what it takes and gives is as before."""

    def forward(self, input: Tensor) -> Tensor:
        """The same, less exactly; exactly where no gradient is wanted."""
        if not torch.is_grad_enabled():
            return super().forward(input)
        x, weight = (
            tensor.to(torch.bfloat16, memory_format=torch.channels_last)
            for tensor in (input, self.weight)
        )
        bias = None if self.bias is None else self.bias.to(torch.bfloat16)
        return F.conv2d(x, weight, bias, self.stride, self.padding).to(input.dtype)


def halve(module: nn.Module) -> None:
    """Let all convolutions of a module be in bfloat16."""
    for conv in module.modules():
        if type(conv) is nn.Conv2d:
            conv.__class__ = HalfConv
