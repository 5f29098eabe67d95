"""Records: frozen dataclasses of tensors, and of other records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Record = TypeVar("Record")
CONTIGUOUS = torch.contiguous_format


def map_tensors(fn: Callable[..., Tensor], record: Record, *others: Record) -> Record:
    """Apply `fn` to every tensor in a record, or in a tuple, list or dict of records.

    `fn` also takes the tensors of `others`. Other values (None, numbers) stay unchanged.
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
    """Stack records of equal shapes along a new axis."""
    return map_tensors(lambda *tensors: Stack.apply(dim, *tensors), *records)


class Stack(torch.autograd.Function):
    """`torch.stack` with contiguous gradients."""

    @staticmethod
    def forward(ctx: Any, dim: int, *tensors: Tensor) -> Tensor:
        """As `torch.stack`."""
        ctx.dim = dim
        return torch.stack(tensors, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Make all gradients contiguous in one operation."""
        return None, *grads[0].movedim(ctx.dim, 0).contiguous().unbind()


def concatenate(records: Sequence[Record], dim: int = 0) -> Record:
    """Concatenate records along an existing axis."""
    return map_tensors(lambda *tensors: torch.cat(tensors, dim), *records)


def regroup(
    parts: Iterable[Any], size: int, join: Callable[[list[Any]], Any] = concatenate
) -> Iterator[Any]:
    """Regroup rows into parts of `size` rows (the last may be smaller), merged by `join`."""
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
    """Repeat each row."""
    return map_tensors(lambda tensor: tensor.repeat_interleave(times, dim=0), record)


def cut(record: Record) -> Record:
    """Detach all tensors; they require gradients themselves if gradients are enabled.

    The first frame then looks like all later ones, and one compiled graph serves both.
    """
    wants = torch.is_grad_enabled()
    return map_tensors(
        lambda tensor: tensor.detach().requires_grad_(wants and tensor.is_floating_point()), record
    )


def frames(record: Record) -> list[Record]:
    """Split a record along its second axis, time, into one contiguous record per frame."""
    first = [x.movedim(1, 0).clone(memory_format=CONTIGUOUS).unbind() for x in tensors(record)]
    return [with_tensors(record, each) for each in zip(*first, strict=True)]


def with_tensors(record: Record, others: Iterable[Tensor]) -> Record:
    """Replace the tensors of a record, in order."""
    rest = iter(others)
    return map_tensors(lambda _: next(rest), record)


def tensors(record: Any) -> list[Tensor]:
    """All tensors of a record, in order; shared tensors are repeated."""
    return [leaf for leaf in leaves(record) if isinstance(leaf, Tensor)]


def leaves(record: Any) -> list[Any]:
    """All values of a record that are not records themselves, in order."""
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
    """Copy all tensors, with one kernel per dtype."""
    of_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for source, target in zip(sources, targets, strict=True):
        of, to = of_type.setdefault(target.dtype, ([], []))
        of.append(source.contiguous())
        to.append(target)
    for of, to in of_type.values():
        torch._foreach_copy_(to, of)  # pyright: ignore[reportPrivateImportUsage]


def apart(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors without shared memory, as safetensors requires; tied ones are copied."""
    seen: set[int] = set()
    found = {}
    for name, tensor in named.items():
        place = tensor.untyped_storage().data_ptr()
        found[name] = tensor.clone(memory_format=CONTIGUOUS) if place in seen else tensor
        found[name] = found[name].contiguous()
        seen.add(place)
    return found
