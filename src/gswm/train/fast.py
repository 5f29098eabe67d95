"""The backward pass, plain or fast.

A recurrent network's weights are the same in every frame, so the gradient of a layer is one
product over all frames, dW = Σ_t dy_tᵀ x_t. Plain autograd makes a small product for every frame
and adds them up. `Deferred` does it at once, for any model whose recurrent methods are functions
of their arguments:

    forward     frame by frame, with weights that want no gradient; arguments are remembered
    backward    frame by frame, through arguments only; this gives the gradient of every output
    at the end  the method once more, on the arguments of all frames as one batch, and backward
                from there with those gradients: one product a layer

It does the forward work twice to save most of the backward's many small kernels, which are what
a GPU waits for here. The same code runs on a CPU, where a test compares it with plain autograd.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gswm.records import concatenate, map_tensors, tensors
from gswm.world_model import Loss

LossFunction = Callable[[], Loss]
Backward = Callable[[LossFunction], Loss]
"""Evaluates a loss, and leaves the gradients of all parameters."""


def plain(loss: LossFunction) -> Loss:
    """By autograd as it is."""
    value = loss()
    value.total.backward()
    return value


class Deferred:
    """With the gradients of recurrent weights in one go at the end."""

    def __init__(self, model: Any, *, compiled: bool = False) -> None:
        self.methods = [Method(module, name, compiled) for module, name in model.recurrent()]

    def __call__(self, loss: LossFunction) -> Loss:
        """The loss; the gradients of all parameters are left behind."""
        for method in self.methods:
            method.calls.clear()  # of a loss that was not finished, or not ours
        value = loss()
        value.total.backward()
        for method in self.methods:
            method.finish()
        return value


class Method:
    """A recurrent method in place of a module's own."""

    def __init__(self, module: nn.Module, name: str, compiled: bool) -> None:
        self.whole: Callable[..., Any] = getattr(module, name)
        self.frame = torch.compile(self.whole, dynamic=False) if compiled else self.whole
        self.module = module
        self.calls: list[tuple[Any, list[Tensor]]] = []
        setattr(module, name, self)

    def __call__(self, *args: Any) -> Any:
        """What the module's own method gives."""
        if not torch.is_grad_enabled():
            return self.whole(*args)
        with frozen(self.module):
            out = self.frame(*args)
        # A view has a gradient of its own: what comes from outside, and not from other outputs.
        out = map_tensors(lambda tensor: tensor.view_as(tensor), out)
        outputs = tensors(out)
        for tensor in outputs:
            if tensor.requires_grad:
                tensor.retain_grad()
        self.calls.append((map_tensors(Tensor.detach, args), outputs))
        return out

    def finish(self) -> None:
        """Add the weights' gradients of all calls."""
        calls, self.calls = self.calls, []
        if not calls:
            return
        outputs = tensors(self.whole(*concatenate([args for args, _ in calls])))
        pairs = []
        for i, whole in enumerate(outputs):
            parts = [of_frame[i] for _, of_frame in calls]
            if whole.requires_grad and any(p.grad is not None for p in parts):
                pairs.append((whole, torch.cat([gradient(p) for p in parts])))
        if pairs:
            wholes, gradients = zip(*pairs, strict=True)
            torch.autograd.backward(wholes, gradients)


def gradient(tensor: Tensor) -> Tensor:
    """What reached a tensor in the backward pass."""
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """A module's parameters as constants."""
    params = [param for param in module.parameters() if param.requires_grad]
    for param in params:
        param.requires_grad_(False)
    try:
        yield
    finally:
        for param in params:
            param.requires_grad_(True)
