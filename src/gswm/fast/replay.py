"""A frame on a GPU, all of whose kernels are started together.

A frame is a hundred small kernels or more, and to start one from Python takes longer than it
runs. A method that is `replayed` is recorded as a CUDA graph when it is called for the second time
with tensors of the same shapes, and from then on its kernels are started at once. They are the
same kernels, and they read the weights where these are.

On a CPU, where gradients are wanted, where a module has hooks, and in what is itself being
recorded, a method is called as it is.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from threading import RLock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from gswm.core.records import CONTIGUOUS, leaves, map_tensors, tensors, with_tensors

MOST = 8
"""How many recordings of a method are kept, for as many shapes."""

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])
allowed = ContextVar("allowed", default=True)
lock = RLock()
"""A recording has one set of inputs and outputs, and threads may share a model."""


def replayed(method: AnyMethod) -> AnyMethod:
    """The method of a module, a function of its weights and arguments, replayed where it can be."""
    known: WeakKeyDictionary[nn.Module, Recordings] = WeakKeyDictionary()

    @wraps(method)
    def frame(module: nn.Module, *args: Any) -> Any:
        if torch.is_grad_enabled() or not can_be_recorded(values := leaves(args)):
            return method(module, *args)
        with lock:
            if module not in known:
                known[module] = Recordings(list(module.modules()))
            return known[module](partial(method, module), args, values)

    frame.replays = method  # type: ignore[attr-defined]
    return cast(AnyMethod, frame)


def as_written(method: Any) -> Callable[..., Any]:
    """The method of a module without what replays it."""
    written = getattr(method, "replays", None)
    return method if written is None else written.__get__(method.__self__)


@contextmanager
def one_by_one() -> Iterator[None]:
    """Every kernel is started on its own, here and in what is called from here."""
    before = allowed.set(False)
    try:
        yield
    finally:
        allowed.reset(before)


class Recordings:
    """Of one method of one module."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self.weights = [module._parameters for module in modules if module._parameters]
        self.hooks = [module._forward_hooks for module in modules]
        self.hooks += [module._forward_pre_hooks for module in modules]
        self.of: dict[Hashable, Recording | None] = {}
        """None for what was called once."""

    def __call__(self, call: Callable[..., Any], args: tuple[Any, ...], values: list[Any]) -> Any:
        """What `call` gives for `args`, of `values`; recorded anew where weights have moved."""
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
    """What a call did, to be done again with other values."""

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.args = map_tensors(lambda x: x.clone(memory_format=CONTIGUOUS), args)
        self.replay, self.out = record(partial(call, *self.args))
        self.inputs, self.outputs = tensors(self.args), tensors(self.out)

    def __call__(self, values: list[Any]) -> Any:
        """What the call gives for these, in memory of its own."""
        copy(tensors(values), self.inputs)
        self.replay()
        fresh = [torch.empty_like(x) for x in self.outputs]
        copy(self.outputs, fresh)
        return with_tensors(self.out, fresh)


def record(call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """How to do it again, and where the results will be."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        out = call()
    return graph.replay, out


def can_be_recorded(values: list[Any]) -> bool:
    """Whether they are on the GPU in use, and nothing else is being recorded there."""
    first = next(value for value in values if isinstance(value, Tensor))
    return (
        first.is_cuda
        and allowed.get()
        and first.get_device() == torch.cuda.current_device()
        and not torch.cuda.is_current_stream_capturing()
        and not torch.is_autocast_enabled("cuda")
    )


def surroundings() -> Hashable:
    """What else decides which kernels are started, and where."""
    backends: Any = torch.backends
    precision = (backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision)
    return torch.cuda.current_stream().cuda_stream, precision, torch.is_inference_mode_enabled()


def copy(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """All of them, in one kernel for each type of number."""
    of_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for source, target in zip(sources, targets, strict=True):
        of, to = of_type.setdefault(target.dtype, ([], []))
        of.append(source.contiguous())
        to.append(target)
    for of, to in of_type.values():
        torch._foreach_copy_(to, of)  # pyright: ignore[reportPrivateImportUsage]
