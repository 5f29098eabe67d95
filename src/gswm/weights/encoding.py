"""Encodings of tensors in a weights file: 32, 16 or 8 bits.

In 8 bits, a row (all values with the same first index) is stored as integers q from -127 to 127 and
one scale s, so that q s differs from the value by at most s / 2. The scales of `NAME` are the
tensor `NAME:scale`, in 16 bits if all are within the range of half precision.
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from gswm.core.errors import UserError
from gswm.models.base import WorldModel

Encoding = Literal["float32", "float16", "int8"]
"""The encoding of a file; "int8" files store all other tensors in 16 bits."""
LARGEST = 127
SUFFIX = ":scale"


def encode(tensors: dict[str, Tensor], how: Encoding, coarse: Collection[str]) -> dict[str, Tensor]:
    """Encode tensors; with "int8", those named in `coarse` in 8 bits."""
    if how == "float32":
        return tensors
    encoded = halved(tensors)
    for name in coarse if how == "int8" else ():
        encoded[name], encoded[f"{name}{SUFFIX}"] = to_rows(tensors[name])
    return encoded


def decode(tensors: dict[str, Tensor], how: Any) -> dict[str, Tensor]:
    """Invert `encode`: all floats in 32 bits. Older files have no encoding."""
    if how is not None and how not in get_args(Encoding):
        raise UserError(f"this version of gswm does not support its encoding '{how}'")
    if how == "int8":
        tensors = tensors | {
            name.removesuffix(SUFFIX): scaled(tensors, name.removesuffix(SUFFIX))
            for name in tensors
            if name.endswith(SUFFIX)
        }
        tensors = {name: each for name, each in tensors.items() if not name.endswith(SUFFIX)}
    return {name: x.float() if x.is_floating_point() else x for name, x in tensors.items()}


def to_rows(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Round each row to integers, and return them with the rows' scales."""
    if not tensor.isfinite().all():
        raise UserError("non-finite values cannot be stored in 8 bits")
    rows = tensor.float().flatten(1)
    scale = rows.abs().amax(dim=1) / LARGEST
    scale = scale.clamp(min=torch.finfo(torch.float32).tiny).where(scale > 0, 1.0)
    half = torch.finfo(torch.float16)
    if half.tiny <= scale.min() and scale.max() <= half.max:
        scale = scale.half()
    integers = (rows / scale.float()[:, None]).round().clamp(-LARGEST, LARGEST)
    return integers.to(torch.int8).reshape(tensor.shape), scale


def scaled(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """Multiply the integers of a tensor by the scales of its rows."""
    integers, scale = tensors.get(name), tensors[f"{name}{SUFFIX}"]
    if integers is None or integers.dtype != torch.int8 or integers.shape[:1] != scale.shape:
        raise UserError(f"the scales of {name} do not match its integers")
    return integers * scale.float().reshape(-1, *[1] * (integers.dim() - 1))


def coarse_names(model: WorldModel[Any]) -> list[str]:
    """Name the parameters of a model that may be stored in 8 bits: matrices and kernels."""
    within = {id(each) for module in model.coarse() for each in module.parameters()}
    named = model.named_parameters()
    return [name for name, each in named if id(each) in within and each.dim() > 1]


def halved(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Floats in half precision, except for tensors with a value that is too large for it."""
    halves = {k: v.half() for k, v in tensors.items() if v.is_floating_point()}
    kept = {k: v for k, v in halves.items() if torch.equal(v.isfinite(), tensors[k].isfinite())}
    return tensors | kept
