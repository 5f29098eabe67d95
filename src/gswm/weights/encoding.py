"""Encodings of tensors in a weights file: 32, 16, 8 or 3 bits.

In b bits, a row (all values with the same first index) is stored as integers q with
|q| ≤ 2^(b-1) - 1 and one scale s; a value becomes q s. The scales of `NAME` are the tensor
`NAME:scale`, in 16 bits if all are within the range of half precision. In 8 bits, s is the smallest
that fits the row, so each value changes by at most s / 2; in 3 bits, it minimizes the squared
error. Integers of 3 bits are packed into bytes, row by row, and `NAME:shape` is the tensor's shape.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from gswm.core.errors import UserError
from gswm.models.base import WorldModel

Encoding = Literal["float32", "float16", "int8", "int3"]
"""The encoding of a file.

"int8" files store coarse tensors in 8 bits, and all others in 16; "int3" files also have tensors
in 3 bits.
"""
COMPACT: tuple[Encoding, ...] = ("int8", "int3")
"""The encodings of compact files."""
ENOUGH = 10_000_000
"""A compact file with more bytes than this has tensors in 3 bits, if the model allows it."""
LARGEST, LARGEST_OF_3 = 127, 3
SUFFIX, SHAPE = ":scale", ":shape"
SHRUNK = tuple(x / 20 for x in range(20, 12, -1))
"""Scales that are tried in 3 bits, as fractions of the one that fits the largest value."""


def encode(
    tensors: dict[str, Tensor],
    how: Encoding,
    coarse: Collection[str] = (),
    coarsest: Collection[str] = (),
) -> dict[str, Tensor]:
    """Encode tensors; in a compact file, `coarse` are stored in 8 bits.

    With "int3", those of `coarse` that are also in `coarsest` are stored in 3 bits.
    """
    if how == "float32":
        return tensors
    encoded = halved(tensors)
    for name in coarse if how in COMPACT else ():
        if how == "int3" and name in coarsest:
            integers, scale = to_rows(tensors[name], LARGEST_OF_3, SHRUNK)
            encoded[name] = packed(integers)
            encoded[f"{name}{SHAPE}"] = torch.tensor(integers.shape)
        else:
            encoded[name], scale = to_rows(tensors[name])
        encoded[f"{name}{SUFFIX}"] = scale
    return encoded


def compacted(
    model: WorldModel[Any], tensors: dict[str, Tensor]
) -> tuple[dict[str, Tensor], Encoding]:
    """Encode the tensors of a model in 16 and 8 bits, and in 3 bits if they are too large."""
    coarse, coarsest = coarse_names(model), names_within(model, model.coarsest())
    encoded = encode(tensors, "int8", coarse)
    if not coarsest or size(encoded) <= ENOUGH:
        return encoded, "int8"
    return encode(tensors, "int3", coarse, coarsest), "int3"


def size(tensors: Mapping[str, Tensor]) -> int:
    """The size of tensors in bytes."""
    return sum(each.numel() * each.element_size() for each in tensors.values())


def decode(tensors: dict[str, Tensor], how: Any) -> dict[str, Tensor]:
    """Invert `encode`: all floats in 32 bits. Older files have no encoding."""
    if how is not None and how not in get_args(Encoding):
        raise UserError(f"this version of gswm does not support its encoding '{how}'")
    if how == "int3":
        tensors = without(SHAPE, tensors, unpacked)
    if how in COMPACT:
        tensors = without(SUFFIX, tensors, scaled)
    return {name: x.float() if x.is_floating_point() else x for name, x in tensors.items()}


def without(
    suffix: str, tensors: dict[str, Tensor], decoded: Callable[[Mapping[str, Tensor], str], Tensor]
) -> dict[str, Tensor]:
    """Decode the tensors that have another one with this suffix, and omit the others."""
    names = [name.removesuffix(suffix) for name in tensors if name.endswith(suffix)]
    tensors = tensors | {name: decoded(tensors, name) for name in names}
    return {name: each for name, each in tensors.items() if not name.endswith(suffix)}


def to_rows(
    tensor: Tensor, largest: int = LARGEST, shrunk: Collection[float] = (1.0,)
) -> tuple[Tensor, Tensor]:
    """Round each row to integers up to `largest`, and return them with the rows' scales.

    Of the scales that are these fractions of the one that fits the largest value, each row takes
    the one with the smallest squared error.
    """
    if not tensor.isfinite().all():
        raise UserError(f"non-finite values cannot be stored in {bits_of(largest)} bits")
    rows = tensor.float().flatten(1)
    fits = rows.abs().amax(dim=1) / largest
    tried = [to_scale(fits * fraction) for fraction in shrunk]
    half = torch.finfo(torch.float16)
    if all(half.tiny <= scale.min() and scale.max() <= half.max for scale in tried):
        tried = [scale.half() for scale in tried]
    found = [(rows / scale.float()[:, None]).round().clamp(-largest, largest) for scale in tried]
    errors = [
        (integers * scale.float()[:, None] - rows).double().square().sum(dim=1)
        for integers, scale in zip(found, tried, strict=True)
    ]
    best = torch.stack(errors).argmin(dim=0)
    row = torch.arange(len(rows))
    integers, scale = torch.stack(found)[best, row], torch.stack(tried)[best, row]
    return integers.to(torch.int8).reshape(tensor.shape), scale


def to_scale(values: Tensor) -> Tensor:
    """Positive scales: 1 for rows of zeros."""
    return values.clamp(min=torch.finfo(torch.float32).tiny).where(values > 0, 1.0)


def bits_of(largest: int) -> int:
    """The number of bits of integers from -largest to largest."""
    return largest.bit_length() + 1


BITS = bits_of(LARGEST_OF_3)


def packed(integers: Tensor) -> Tensor:
    """Pack integers from -3 to 3 into bytes, each row on its own."""
    shifted = (integers.flatten(1) + LARGEST_OF_3).to(torch.uint8).numpy()
    bits = np.unpackbits(shifted[..., None], axis=-1)[..., -BITS:]
    return torch.from_numpy(np.packbits(bits.reshape(len(bits), -1), axis=1))


def unpacked(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """Unpack the integers of a tensor."""
    data, shape = tensors.get(name), tensors[f"{name}{SHAPE}"].tolist()
    if data is None or data.dtype != torch.uint8 or not fits_shape(data, shape):
        raise UserError(f"the shape of {name} does not match its integers")
    bits = np.unpackbits(data.numpy(), axis=1, count=BITS * math.prod(shape[1:]))
    weights = 1 << np.arange(BITS - 1, -1, -1, dtype=np.uint8)
    shifted = bits.reshape(*shape, BITS) @ weights
    return torch.from_numpy(shifted.astype(np.int8) - np.int8(LARGEST_OF_3))


def fits_shape(data: Tensor, shape: Any) -> bool:
    """Whether packed rows are as many and as long as a tensor of this shape needs."""
    if not isinstance(shape, list) or len(shape) < 2:
        return False
    if not all(isinstance(x, int) and x > 0 for x in shape):
        return False
    return list(data.shape) == [shape[0], -(-BITS * math.prod(shape[1:]) // 8)]


def scaled(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """Multiply the integers of a tensor by the scales of its rows."""
    integers, scale = tensors.get(name), tensors[f"{name}{SUFFIX}"]
    if integers is None or integers.dtype != torch.int8 or integers.shape[:1] != scale.shape:
        raise UserError(f"the scales of {name} do not match its integers")
    return integers * scale.float().reshape(-1, *[1] * (integers.dim() - 1))


def coarse_names(model: WorldModel[Any]) -> list[str]:
    """Name the parameters of a model that may be stored in 8 bits: matrices and kernels."""
    return names_within(model, model.coarse())


def names_within(model: WorldModel[Any], networks: Collection[torch.nn.Module]) -> list[str]:
    """Name the matrices and kernels of these networks of a model."""
    within = {id(each) for module in networks for each in module.parameters()}
    named = model.named_parameters()
    return [name for name, each in named if id(each) in within and each.dim() > 1]


def halved(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Floats in half precision, except for tensors with a value that is too large for it."""
    halves = {k: v.half() for k, v in tensors.items() if v.is_floating_point()}
    kept = {k: v for k, v in halves.items() if torch.equal(v.isfinite(), tensors[k].isfinite())}
    return tensors | kept
