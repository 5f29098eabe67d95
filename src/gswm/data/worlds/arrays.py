"""Moves values between arrays with the fastest library for the device: numpy on a CPU.

On a CPU, torch takes two to four times as long to copy windows of a picture, to convert numbers to
bytes, and to touch new memory, since numpy requests large pages. The values are the same.
"""

import numpy as np
import torch
from jaxtyping import Int16, Int64, Shaped, UInt8
from torch import Tensor


def new_bytes(shape: tuple[int, ...], device: torch.device) -> UInt8[Tensor, "..."]:
    """Uninitialized memory."""
    if device.type == "cpu":
        return torch.from_numpy(np.empty(shape, np.uint8))
    return torch.empty(shape, dtype=torch.uint8, device=device)


def blank(shape: tuple[int, ...], device: torch.device) -> Int16[Tensor, "..."]:
    """A canvas of zeros."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, np.int16))
    return torch.zeros(shape, dtype=torch.int16, device=device)


def every_window(
    canvas: Shaped[Tensor, "frame height width channel"], side: int
) -> Shaped[Tensor, "pixel {side} row"]:
    """A view of the `side` × `side` window that starts at each pixel, row by row.

    Pixels are counted through all frames, up to the last that has a whole window.
    """
    frames, height, width, channels = canvas.shape
    count = frames * height * width - (side - 1) * (width + 1)
    return canvas.as_strided((count, side, channels * side), (channels, channels * width, 1))


def take(
    windows: Shaped[Tensor, "pixel side row"], at: Int64[Tensor, " window"]
) -> Shaped[Tensor, "window side row"]:
    """Copy the windows of some pixels."""
    if windows.device.type == "cpu":
        return torch.from_numpy(windows.numpy()[at.numpy()])
    return windows.index_select(0, at)


def put(
    windows: Shaped[Tensor, "pixel side row"],
    at: Int64[Tensor, " window"],
    values: Shaped[Tensor, "window side row"],
) -> None:
    """Write windows that do not overlap."""
    if windows.device.type == "cpu":
        windows.numpy()[at.numpy()] = values.numpy()
    else:
        windows.index_copy_(0, at, values)


def shift(values: Int16[Tensor, "*shape"], bits: int, out: UInt8[Tensor, "*shape"]) -> None:
    """Write values as bytes, after dropping their last bits, which leaves 0 to 255."""
    if values.device.type == "cpu":
        numbers = np.dtype(np.int16)
        np.right_shift(values.numpy(), bits, out.numpy(), dtype=numbers, casting="unsafe")
    else:
        out.copy_(values >> bits)
