"""Records: frozen dataclasses of tensors, and of other records."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Record = TypeVar("Record")
CONTIGUOUS = torch.contiguous_format


def map_tensors(fn: Callable[..., Tensor], record: Record, *others: Record) -> Record:
    """A record, or a tuple of records, with `fn` of every tensor of it and of its `others`.

    What is no tensor (None, a number) stays as it is in `record`.
    """

    def mapped(value: Any, *rest: Any) -> Any:
        if isinstance(value, Tensor):
            return fn(value, *rest)
        if is_dataclass(value) and not isinstance(value, type):
            parts = vars(value).items()
            return type(value)(**{n: mapped(v, *(getattr(r, n) for r in rest)) for n, v in parts})
        if isinstance(value, tuple | list):
            return type(value)(
                mapped(v, *together) for v, *together in zip(value, *rest, strict=True)
            )
        return value

    return mapped(record, *others)


def stack(records: Sequence[Record], dim: int) -> Record:
    """Records of equal shapes as one, along a new axis."""
    return map_tensors(lambda *tensors: torch.stack(tensors, dim), *records)


def concatenate(records: Sequence[Record], dim: int = 0) -> Record:
    """Records as one, along an axis they have."""
    return map_tensors(lambda *tensors: torch.cat(tensors, dim), *records)


def repeat(record: Record, times: int) -> Record:
    """Each row so many times, one after the other."""
    return map_tensors(lambda tensor: tensor.repeat_interleave(times, dim=0), record)


def frames(record: Record) -> list[Record]:
    """The records of each frame, of tensors whose second axis is time; each of them contiguous."""
    first = map_tensors(lambda tensor: tensor.movedim(1, 0).clone(memory_format=CONTIGUOUS), record)
    num = len(tensors(first)[0])
    return [map_tensors(lambda tensor, t=t: tensor[t], first) for t in range(num)]


def tensors(record: Any) -> list[Tensor]:
    """Every tensor of a record, in order; one that is in it twice comes twice."""
    return [leaf for leaf in leaves(record) if isinstance(leaf, Tensor)]


def leaves(record: Any) -> list[Any]:
    """All that a record is made of and that is no record itself, in order."""
    found: list[Any] = []

    def walk(values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, Tensor):
                found.append(value)
            elif isinstance(value, tuple | list):
                walk(value)
            elif is_dataclass(value) and not isinstance(value, type):
                walk(vars(value).values())
            else:
                found.append(value)

    walk([record])
    return found
