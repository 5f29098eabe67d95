"""Records: frozen dataclasses of tensors, and of other records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Record = TypeVar("Record")
CONTIGUOUS = torch.contiguous_format


def map_tensors(fn: Callable[..., Tensor], record: Record, *others: Record) -> Record:
    """A record, or a tuple, list or dict of records, with `fn` of every tensor of it.

    `fn` also takes the tensors of `others`. What is no tensor (None, a number) stays as it is.
    """
    if isinstance(record, Tensor):
        return fn(record, *others)
    if is_dataclass(record) and not isinstance(record, type):
        parts = vars(record).items()
        mapped = {n: map_tensors(fn, v, *(getattr(o, n) for o in others)) for n, v in parts}
        return type(record)(**mapped)
    if isinstance(record, dict):
        beside: tuple[Any, ...] = others
        named = {k: map_tensors(fn, v, *(o[k] for o in beside)) for k, v in record.items()}
        return type(record)(named)
    if isinstance(record, tuple | list):
        mapped = [map_tensors(fn, *each) for each in zip(record, *others, strict=True)]
        return type(record)(*mapped) if hasattr(record, "_fields") else type(record)(mapped)
    return record


def stack(records: Sequence[Record], dim: int) -> Record:
    """Records of equal shapes as one, along a new axis."""
    return map_tensors(lambda *tensors: Stack.apply(dim, *tensors), *records)


class Stack(torch.autograd.Function):
    """Tensors along a new axis; the gradient of each of them is contiguous."""

    @staticmethod
    def forward(ctx: Any, dim: int, *tensors: Tensor) -> Tensor:
        """As `torch.stack`."""
        ctx.dim = dim
        return torch.stack(tensors, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """All gradients are moved at once, and not one by one by those who get them."""
        return None, *grads[0].movedim(ctx.dim, 0).contiguous().unbind()


def concatenate(records: Sequence[Record], dim: int = 0) -> Record:
    """Records as one, along an axis they have."""
    return map_tensors(lambda *tensors: torch.cat(tensors, dim), *records)


def regroup(
    parts: Iterable[Any], size: int, join: Callable[[list[Any]], Any] = concatenate
) -> Iterator[Any]:
    """The same rows, `size` at a time, the last fewer; `join` makes one of several parts."""
    held: list[Any] = []

    def together() -> Any:
        return held[0] if len(held) == 1 else join(held)

    for part in parts:
        held.append(part)
        if sum(map(len, held)) < size:
            continue
        joined = together()
        full = len(joined) - len(joined) % size
        yield from (joined[start : start + size] for start in range(0, full, size))
        held = [joined[full:]] if full < len(joined) else []
    if held:
        yield together()


def repeat(record: Record, times: int) -> Record:
    """Each row so many times, one after the other."""
    return map_tensors(lambda tensor: tensor.repeat_interleave(times, dim=0), record)


def cut(record: Record) -> Record:
    """The same values, through which no gradient passes, though one reaches them.

    So the first frame has the form of the later ones, and is compiled once for both.
    """
    wants = torch.is_grad_enabled()
    return map_tensors(
        lambda tensor: tensor.detach().requires_grad_(wants and tensor.is_floating_point()), record
    )


def frames(record: Record) -> list[Record]:
    """The records of each frame, of tensors whose second axis is time; each of them contiguous."""
    first = [x.movedim(1, 0).clone(memory_format=CONTIGUOUS).unbind() for x in tensors(record)]
    return [with_tensors(record, each) for each in zip(*first, strict=True)]


def with_tensors(record: Record, others: Iterable[Tensor]) -> Record:
    """The record with other tensors in place of its own, in order."""
    rest = iter(others)
    return map_tensors(lambda _: next(rest), record)


def tensors(record: Any) -> list[Tensor]:
    """Every tensor of a record, in order; one that is in it twice comes twice."""
    return [leaf for leaf in leaves(record) if isinstance(leaf, Tensor)]


def leaves(record: Any) -> list[Any]:
    """All that a record is made of and that is no record itself, in order."""
    if isinstance(record, tuple | list):
        parts = record
    elif isinstance(record, dict):
        parts = record.values()
    elif is_dataclass(record) and not isinstance(record, type):
        parts = vars(record).values()
    else:
        return [record]
    return [leaf for part in parts for leaf in leaves(part)]


def copy_tensors(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """Copy all of them, in one kernel per dtype."""
    of_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for source, target in zip(sources, targets, strict=True):
        of, to = of_type.setdefault(target.dtype, ([], []))
        of.append(source.contiguous())
        to.append(target)
    for of, to in of_type.values():
        torch._foreach_copy_(to, of)  # pyright: ignore[reportPrivateImportUsage]


def apart(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors that share no memory, as safetensors wants them; tied ones are copied."""
    seen: set[int] = set()
    found = {}
    for name, tensor in named.items():
        place = tensor.untyped_storage().data_ptr()
        found[name] = tensor.clone(memory_format=CONTIGUOUS) if place in seen else tensor
        found[name] = found[name].contiguous()
        seen.add(place)
    return found
