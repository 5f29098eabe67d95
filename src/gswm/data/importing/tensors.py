"""Frames as tensors; not in `videos`, so that decoding alone does not wait for torch."""

import torch
from jaxtyping import UInt8
from torch import Tensor

from gswm.data.importing.videos import ClipArray


def batch_of(video: ClipArray) -> UInt8[Tensor, "1 time 3 size size"]:
    """Frames as a batch of one video."""
    return torch.from_numpy(video).movedim(-1, 1)[None].contiguous()
