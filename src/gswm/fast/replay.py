"""Inference on a GPU that launches all kernels of a frame together.

A frame consists of a hundred small kernels or more, and launching one from Python takes longer than
running it. `replay` wraps the methods that a model names in `WorldModel.replayable`: each is
recorded as a CUDA graph at its second call with tensors of the same shapes, and replayed from then
on. The kernels are the same, and read the weights in place.

A method is called directly on a CPU, if gradients are needed, if a module has hooks, and while
something else is being recorded.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from functools import partial
from threading import RLock
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gswm.core.records import (
    CONTIGUOUS,
    copy_tensors,
    leaves,
    map_tensors,
    tensors,
    with_tensors,
)
from gswm.models.base import WorldModel

MOST = 8
"""Number of recordings kept per method, one for each combination of shapes."""

AnyModel = TypeVar("AnyModel", bound=WorldModel[Any])
allowed = ContextVar("allowed", default=True)
lock = RLock()
"""Lock of all recordings, whose inputs and outputs are shared, since threads may share a model."""


def replay(model: AnyModel) -> AnyModel:
    """Replay the model's methods from now on, wherever possible; returns the model."""
    for module, name in model.replayable():
        if not isinstance(getattr(module, name), Replayed):
            setattr(module, name, Replayed(module, getattr(module, name)))
    return model


@contextmanager
def one_by_one() -> Iterator[None]:
    """Launch every kernel separately, in this context and everything called from it."""
    before = allowed.set(False)
    try:
        yield
    finally:
        allowed.reset(before)


class Replayed:
    """A replayed method; copies of its module make their own recordings."""

    def __init__(self, module: nn.Module, method: Callable[..., Any]) -> None:
        self.module, self.method = module, method
        self.recordings: Recordings | None = None

    def __call__(self, *args: Any) -> Any:
        """Call the method, replayed if possible."""
        if torch.is_grad_enabled() or not can_be_recorded(values := leaves(args)):
            return self.method(*args)
        with lock:
            if self.recordings is None:
                self.recordings = Recordings(list(self.module.modules()))
            return self.recordings(self.method, args, values)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Replayed":
        return Replayed(deepcopy(self.module, memo), deepcopy(self.method, memo))

    def __getstate__(self) -> dict[str, Any]:
        return {"module": self.module, "method": self.method, "recordings": None}


def as_written(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method itself."""
    return method.method if isinstance(method, Replayed) else method


class Recordings:
    """The recordings of one method of one module."""

    def __init__(self, modules: list[nn.Module]) -> None:
        held = [of for each in modules for of in (each._parameters, each._buffers)]
        self.weights = [each for each in held if each]
        self.hooks = [module._forward_hooks for module in modules]
        self.hooks += [module._forward_pre_hooks for module in modules]
        self.of: dict[Hashable, Recording | None] = {}
        """Recordings by shapes; None after a single call."""

    def __call__(self, call: Callable[..., Any], args: tuple[Any, ...], values: list[Any]) -> Any:
        """Call `call` with `args`, replayed with `values`; records again if weights have moved."""
        if any(self.hooks):
            return call(*args)
        shapes = tuple((x.shape, x.dtype) if isinstance(x, Tensor) else x for x in values)
        places = tuple(
            p.data_ptr() for some in self.weights for p in some.values() if p is not None
        )
        key = (shapes, places, surroundings())
        if key not in self.of:
            while len(self.of) >= MOST:
                del self.of[next(iter(self.of))]
            self.of[key] = None
            return call(*args)
        found = self.of[key] = self.of.pop(key) or Recording(call, args)
        return found(values)


class Recording:
    """A recorded call that can be replayed with other values."""

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.args = map_tensors(lambda x: x.clone(memory_format=CONTIGUOUS), args)
        self.replay, self.out = record(partial(call, *self.args))
        self.inputs, self.outputs = tensors(self.args), tensors(self.out)

    def __call__(self, values: list[Any]) -> Any:
        """Replay the call with these values; the result has its own memory."""
        copy_tensors(tensors(values), self.inputs)
        self.replay()
        fresh = [torch.empty_like(x) for x in self.outputs]
        copy_tensors(self.outputs, fresh)
        return with_tensors(self.out, fresh)


def record(call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Record a call: return a function that replays it, and its results."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        out = call()
    return graph.replay, out


def can_be_recorded(values: list[Any]) -> bool:
    """Whether all tensors are on the current GPU, and nothing else is being recorded there."""
    first = next(value for value in values if isinstance(value, Tensor))
    return (
        first.is_cuda
        and allowed.get()
        and first.get_device() == torch.cuda.current_device()
        and not torch.cuda.is_current_stream_capturing()
        and not torch.is_autocast_enabled("cuda")
    )


def surroundings() -> Hashable:
    """Global settings that affect which kernels run, and where."""
    backends: Any = torch.backends
    precision = (backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision)
    return torch.cuda.current_stream().cuda_stream, precision, torch.is_inference_mode_enabled()
