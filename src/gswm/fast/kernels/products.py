"""Matrix products in kernels: block sizes and precision."""

import torch


def padded(size: int) -> int:
    """The next size that a tensor core takes: a power of two, and at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def precision() -> str:
    """The precision of `tl.dot`: TF32 if torch's own products may use it, otherwise float32."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
