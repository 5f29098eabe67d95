"""Frames as tensors; separate from `videos`, so that decoding does not import torch."""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor


def batch_of(video: UInt8[np.ndarray, "time size size 3"]) -> UInt8[Tensor, "1 time 3 size size"]:
    """Frames as a batch of one video."""
    return torch.from_numpy(video).movedim(-1, 1)[None].contiguous()
