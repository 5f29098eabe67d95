"""The gradients of recurrent weights, computed at once for all frames.

A recurrent network's weights are the same in every frame, so the gradient of a layer is one product
over all frames, dW = Σ_t dy_tᵀ x_t. Plain autograd computes a small product for every frame and
adds them up. `Deferred` computes one product, for any model whose recurrent methods are functions
of their arguments:

    forward     frame by frame, with weights that need no gradient; arguments are stored
    backward    frame by frame, through arguments only; this gives the gradient of every output
    at the end  the method once more, on the arguments of all frames as one batch, and backward
                from there with those gradients: one product per layer

The forward pass is computed twice, to save most of the many small kernels of the backward pass,
which dominate the time on a GPU. The same code runs on a CPU, where a test compares it with plain
autograd. Frames go through a copy of the model that shares its weights; some of its operations can
be replaced by single kernels, and it can be compiled.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch import config as aot_config

from gswm.core.records import concatenate, map_tensors, tensors
from gswm.fast.operations import Prepared, constants, halve, replace_operations
from gswm.fast.replay import as_written
from gswm.models.base import Loss, WorldModel

LossFunction = Callable[[], Loss]


class Deferred:
    """Computes the gradients of recurrent weights at once, at the end.

    Args:
        model: the model to train; its `recurrent` methods are replaced.
        kernels: whether to use custom kernels for frames.
        half: whether convolutions over all frames at once are in bfloat16.
    """

    def __init__(
        self, model: WorldModel[Any], *, kernels: bool = False, half: bool = False
    ) -> None:
        self.model = model
        self.frames: Any = constants(model)
        self.prepared: list[Prepared] = []
        self.has_kernels = False
        self.methods = [
            DeferredMethod(module, name, getattr(twin, name))
            for (module, name), (twin, _) in zip(
                model.recurrent(), self.frames.recurrent(), strict=True
            )
        ]
        if kernels:
            self.use_kernels()
        if half:
            for module in model.halves():
                halve(module)

    def use_kernels(self) -> None:
        """Use custom kernels for frames from now on."""
        self.prepared = replace_operations(self.model, self.frames)
        self.has_kernels = True

    def compile(self) -> "Deferred":
        """Compile the recurrent and the batched methods with torch, once per length.

        Compiling the latter for any length takes two thirds longer, so call this when the length
        will not change any more.
        """
        # Gradients of a frame's outputs are contiguous, even if the outputs are not.
        aot_config.guess_tangent_strides_as_outputs = False
        for method in self.methods:
            method.compile()
        for module, name in self.model.batched():
            setattr(module, name, where_learning(getattr(module, name)))
        return self

    def __call__(self, loss: LossFunction) -> Loss:
        """Compute the loss, and leave the gradients in all parameters."""
        for module in self.prepared:
            module.prepare()
        for method in self.methods:
            method.calls.clear()  # of a loss that was not finished, or not ours
        value = loss()
        value.total.backward()
        for method in self.methods:
            method.finish()
        return value


class DeferredMethod:
    """A recurrent method that replaces a module's own."""

    def __init__(self, module: nn.Module, name: str, frame: Callable[..., Any]) -> None:
        self.own: Callable[..., Any] = getattr(module, name)
        self.frame, self.whole = frame, self.own
        self.calls: list[tuple[Any, Gradients]] = []
        setattr(module, name, self)

    def __call__(self, *args: Any) -> Any:
        """Call the module's own method."""
        if not torch.is_grad_enabled():
            return self.own(*args)
        out = map_tensors(reached, self.frame(*args))
        self.calls.append((map_tensors(Tensor.detach, args), Gradients(tensors(out))))
        return out

    def compile(self) -> None:
        """Compile it for the sizes of its arguments."""
        self.frame = torch.compile(as_written(self.frame), dynamic=False)
        self.whole = torch.compile(as_written(self.own), dynamic=False)

    def finish(self) -> None:
        """Add the weights' gradients of all calls."""
        calls, self.calls = self.calls, []
        if not calls:
            return
        args = concatenate([args for args, _ in calls])
        pairs = []
        for i, whole in enumerate(tensors(self.whole(*args))):
            if whole.requires_grad and any(i in gradients.of for _, gradients in calls):
                pairs.append((whole, torch.cat([gradients[i] for _, gradients in calls])))
        if pairs:
            wholes, gradients = zip(*pairs, strict=True)
            torch.autograd.backward(wholes, gradients)


def reached(tensor: Tensor) -> Tensor:
    """A view of an output, with the gradient that comes from outside the frame.

    Frames pass gradients only to their arguments. An output whose arguments need none, such as that
    of the first frame, may still depend on weights, so it becomes a leaf.
    """
    if tensor.is_floating_point() and not tensor.requires_grad:
        tensor = tensor.detach().requires_grad_()
    return tensor.view_as(tensor)


class Gradients:
    """Gradients that reach several tensors in the backward pass."""

    def __init__(self, outputs: list[Tensor]) -> None:
        self.outputs = [tensor.detach() for tensor in outputs]
        self.of: dict[int, Tensor] = {}
        for i, tensor in enumerate(outputs):
            if tensor.requires_grad:
                tensor.register_hook(partial(self.of.__setitem__, i))

    def __getitem__(self, i: int) -> Tensor:
        return self.of[i] if i in self.of else torch.zeros_like(self.outputs[i])


def where_learning(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, compiled if gradients are needed."""
    compiled = torch.compile(method, dynamic=False)

    def either(*args: Any) -> Any:
        return compiled(*args) if torch.is_grad_enabled() else method(*args)

    return either
