"""Matrix products in kernels: block sizes and precision."""

import torch


def padded(size: int) -> int:
    """The next size that a tensor core takes: a power of two, and at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def precision() -> str:
    """Of `tl.dot`: TF32 where torch's own products may be, float32 else."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
