"""Operations of a model, replaced by faster equivalents.

The model's code stays unchanged: in a copy that shares its weights, without gradients for them,
some modules are replaced by a faster class, which may preprocess the weights once per step.
"""

from copy import deepcopy
from typing import Protocol, cast, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gswm.core.networks import MLP, Encoder
from gswm.core.shapes import Frame, Mask
from gswm.fast.kernels.compose import draw
from gswm.fast.kernels.crop import crop
from gswm.fast.kernels.encoder import encode, first_channels, fits, pack
from gswm.fast.kernels.os_rnn import os_rnn
from gswm.fast.kernels.os_rnn_weights import OSRNNWeights
from gswm.fast.kernels.select import select
from gswm.models.gswm.context import Context, ContextState
from gswm.models.gswm.gswm import GSWM
from gswm.models.gswm.propagation import Propagation
from gswm.models.gswm.rendering import Renderer
from gswm.models.gswm.situation import Situation
from gswm.models.layers import Foreground
from gswm.models.objects import Attributes, LSTMState, Objects
from gswm.models.scalor.rendering import EPS, Appearance
from gswm.models.silot.networks import ObjectEncoder

LARGEST = 16
"""Largest image in pixels whose convolutions are faster as matrix products."""
WIDEST = 128
"""Width of the widest hidden layer of an MLP that runs in one kernel."""


def constants(model: nn.Module) -> nn.Module:
    """A copy that shares the model's weights, without gradients for them."""
    copy = deepcopy(model)
    for ours, theirs in zip(copy.modules(), model.modules(), strict=True):
        for name, param in theirs.named_parameters(recurse=False):
            setattr(ours, name, nn.Parameter(param.detach(), requires_grad=False))
        for name, buffer in theirs.named_buffers(recurse=False):
            setattr(ours, name, buffer)
    return copy


def replace_operations(model: nn.Module, copy: nn.Module) -> list["Prepared"]:
    """Replace all supported modules; return those that must be prepared before each step."""
    for module in copy.modules():
        for fast in (
            *(FusedMLP, FusedEncoder, DenseEncoder, FastPropagation, FastContext, FastSituation),
            *(FastGSWM, FastAppearance, FastObjectEncoder),
        ):
            if fast.replaces(module):
                module.__class__ = fast
    for module in model.modules():
        for fast in (FastRenderer, FastAppearance):
            if fast.replaces(module):
                module.__class__ = fast
    return [module for module in copy.modules() if isinstance(module, Prepared)]


@runtime_checkable
class Prepared(Protocol):
    """A module that derives something from its weights before each step."""

    def prepare(self) -> None:
        """Derive it."""
        ...


def keep(module: nn.Module, name: str, value: Tensor) -> None:
    """Store a tensor at the same address as before, so that captured graphs find it."""
    if name in module._buffers:
        module.get_buffer(name).copy_(value)
    else:
        module.register_buffer(name, value, persistent=False)


class FusedMLP(MLP):
    """Two or three layers in one kernel."""

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module: hidden layers of equal width that fit on the chip."""
        if type(module) is not MLP or len(module) not in (3, 5):
            return False
        hidden = {layer.out_features for layer in list(module)[:-1] if isinstance(layer, nn.Linear)}
        return len(hidden) == 1 and max(hidden) <= WIDEST

    def forward(self, input: Tensor) -> Tensor:
        """See `MLP`."""
        from gswm.fast.kernels.mlp import mlp

        layers = [cast(nn.Linear, layer) for layer in list(self)[::2]]
        return mlp(input, [layer.weight for layer in layers], [layer.bias for layer in layers])


class FusedEncoder(Encoder):
    """All layers in one kernel."""

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is Encoder and fits(module)

    @torch.no_grad()
    def prepare(self) -> None:
        """Arrange the weights for the kernel."""
        keep(self, "packed", pack(self))

    def forward(self, input: Tensor) -> Tensor:
        """See `Encoder`."""
        channels = [layer.num_channels for layer in self if isinstance(layer, nn.GroupNorm)]
        last = cast(nn.Linear, self[-1])
        sizes = [first_channels(self), *channels, last.out_features]
        return encode(input, self.get_buffer("packed"), sizes)


class DenseEncoder(Encoder):
    """Convolutions of small images, each as a matrix product."""

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is Encoder and module.size <= LARGEST

    @torch.no_grad()
    def prepare(self) -> None:
        """Compute a convolution's matrix from its response to each pixel."""
        size = self.size
        for i, layer in enumerate(self):
            if isinstance(layer, nn.Conv2d):
                num = layer.in_channels * size**2
                pixels = torch.eye(num, device=layer.weight.device)
                pixels = pixels.view(num, layer.in_channels, size, size)
                made = F.conv2d(pixels, layer.weight, None, layer.stride, layer.padding)
                size = made.shape[-1]
                keep(self, f"matrix_{i}", made.flatten(1))
                keep(self, f"bias_{i}", cast(Tensor, layer.bias).repeat_interleave(size**2))

    def forward(self, input: Tensor) -> Tensor:
        """See `Encoder`."""
        x = input.flatten(1)
        for i, layer in enumerate(self):
            if isinstance(layer, nn.Conv2d):
                x = torch.addmm(self.get_buffer(f"bias_{i}"), x, self.get_buffer(f"matrix_{i}"))
            elif isinstance(layer, nn.GroupNorm):
                x = layer(x.unflatten(1, (layer.num_channels, -1))).flatten(1)
            else:
                x = layer(x)
        return x


class FastPropagation(Propagation):
    """Both object-state RNNs side by side, and glimpses in one kernel."""

    crop = staticmethod(crop)
    packed: OSRNNWeights

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        if type(module) is not Propagation:
            return False
        return all(
            x >= 16 and not x & (x - 1) for x in (module.sizes.hidden, module.sizes.encoding)
        )

    def prepare(self) -> None:
        """Arrange the weights for the kernel."""
        if hasattr(self, "packed"):
            self.packed.refresh()
        else:
            self.packed = OSRNNWeights(self.rnn_prior, self.rnn_post)

    def remember(self, prev: Objects, e_ctx: Tensor) -> tuple[LSTMState, LSTMState]:
        """See `Propagation`."""
        own = self.rnn_prior.own(prev)  # the posterior's is the same
        h = torch.stack([prev.h_prior.h, prev.h_post.h])
        c = torch.stack([prev.h_prior.c, prev.h_post.c])
        h, c = os_rnn(own, e_ctx, prev.o.pres, h, c, self.packed)
        return LSTMState(h[0], c[0]), LSTMState(h[1], c[1])


class FastGSWM(GSWM):
    """The objects of a frame, chosen in one kernel."""

    select = staticmethod(select)

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is GSWM


class FastContext(Context):
    """Both RNNs in one product."""

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is Context

    @torch.no_grad()
    def prepare(self) -> None:
        """Concatenate the weights of both RNNs, those of z_ctx above those of h."""
        rnns = (self.rnn_prior, self.rnn_post)
        matrices = [torch.cat([rnn.weight_ih, rnn.weight_hh], dim=1).mT for rnn in rnns]
        keep(self, "matrices", torch.stack(matrices))
        keep(self, "biases", torch.stack([rnn.bias_ih + rnn.bias_hh for rnn in rnns])[:, None])

    def remember(self, state: ContextState, z_ctx: Tensor) -> ContextState:
        """See `Context`."""
        h = torch.stack([state.h_prior.h, state.h_post.h])
        c = torch.stack([state.h_prior.c, state.h_post.c])
        x = torch.cat([z_ctx.expand(2, -1, -1), h], dim=-1)
        gates = torch.bmm(x, self.get_buffer("matrices")) + self.get_buffer("biases")
        i, f, new, o = gates.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * new.tanh()
        h = o.sigmoid() * c.tanh()
        return ContextState(LSTMState(h[0], c[0]), LSTMState(h[1], c[1]))


class FastSituation(Situation):
    """Glimpses in one kernel."""

    crop = staticmethod(crop)

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is Situation


class FastRenderer(Renderer):
    """Objects onto one canvas in one kernel."""

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is Renderer

    def place(self, glimpses: Tensor, o: Attributes) -> Foreground:
        """See `Renderer`."""
        return Foreground(*draw(glimpses, o.xy, o.hw, o.depth, self.image_size))


class FastAppearance(Appearance):
    """Glimpses in one kernel, and objects onto one canvas in another."""

    crop = staticmethod(crop)

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is Appearance

    def place(self, glimpses: Tensor, o: Attributes) -> tuple[Frame, Mask]:
        """See `Appearance`."""
        return draw(glimpses, o.xy, o.hw, o.depth, self.image_size, summed=True, eps=EPS)


class FastObjectEncoder(ObjectEncoder):
    """Glimpses in one kernel."""

    crop = staticmethod(crop)

    @staticmethod
    def replaces(module: nn.Module) -> bool:
        """Whether it can replace the module."""
        return type(module) is ObjectEncoder


class HalfConv(nn.Conv2d):
    """A convolution in bfloat16, channels last; inputs and outputs keep their type."""

    def forward(self, input: Tensor) -> Tensor:
        """In bfloat16 if gradients are needed, otherwise in full precision."""
        if not torch.is_grad_enabled():
            return super().forward(input)
        x, weight = (
            tensor.to(torch.bfloat16, memory_format=torch.channels_last)
            for tensor in (input, self.weight)
        )
        bias = None if self.bias is None else self.bias.to(torch.bfloat16)
        return F.conv2d(x, weight, bias, self.stride, self.padding).to(input.dtype)


def halve(module: nn.Module) -> None:
    """Convert all convolutions of a module to bfloat16."""
    for conv in module.modules():
        if type(conv) is nn.Conv2d:
            conv.__class__ = HalfConv
