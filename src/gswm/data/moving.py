"""Moving values between arrays, by whatever is fastest where they are: numpy on a CPU.

There, torch needs two to four times as long to copy windows of a picture or to make floats bytes,
and to touch new memory, since numpy asks for large pages. The values are the same.
"""

from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

Array: TypeAlias = Tensor | np.ndarray


def new_bytes(shape: tuple[int, ...], device: torch.device) -> UInt8[Tensor, "..."]:
    """Memory that holds anything."""
    if device.type == "cpu":
        return torch.from_numpy(np.empty(shape, np.uint8))
    return torch.empty(shape, dtype=torch.uint8, device=device)


def native(tensor: Shaped[Tensor, "..."]) -> Shaped[Array, "..."]:
    """What moves and computes fastest where the tensor is: on a CPU, an array."""
    tensor = tensor.contiguous()
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def every_window(
    canvas: Shaped[Tensor, "frame height width channel"], side: int
) -> Shaped[Array, "pixel {side} row"]:
    """A view: of each pixel the `side` × `side` pixels that it is the first of, row by row.

    Pixels are counted through all frames, up to the last that has a whole window.
    """
    frames, height, width, channels = canvas.shape
    count = frames * height * width - (side - 1) * (width + 1)
    every = canvas.as_strided((count, side, channels * side), (channels, channels * width, 1))
    return every.numpy() if canvas.device.type == "cpu" else every


def take(
    windows: Shaped[Array, "pixel side row"], at: Int64[Array, " window"]
) -> Shaped[Tensor, "window side row"]:
    """The windows of some pixels."""
    if isinstance(windows, np.ndarray):
        return torch.from_numpy(windows[at])
    return windows.index_select(0, at)


def put(
    windows: Shaped[Array, "pixel side row"],
    at: Int64[Array, " window"],
    values: Shaped[Tensor, "window side row"],
) -> None:
    """Write windows, of which no two overlap."""
    if isinstance(windows, np.ndarray):
        windows[at] = values.numpy()
    else:
        windows.index_copy_(0, at, values)


def truncate(values: Shaped[Tensor, "*shape"], out: UInt8[Tensor, "*shape"]) -> None:
    """Write values from 0 to below 256 as bytes."""
    if values.device.type == "cpu":
        np.copyto(out.numpy(), values.numpy(), casting="unsafe")
    else:
        out.copy_(values)
