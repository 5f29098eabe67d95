"""How exactly kernels multiply: as torch does."""

import torch


def precision() -> str:
    """Of `tl.dot`: TF32 where torch's own products may be, float32 else."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
