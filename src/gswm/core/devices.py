"""Devices by name, and how exactly they multiply."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gswm.core.errors import UserError


def find_device(name: str) -> torch.device:
    """A device by its name; `auto` is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        if name.partition(":")[0] == "cuda" and not torch.cuda.is_available():
            raise UserError("torch sees no GPU here: take cpu (--device cpu)") from error
        raise UserError(f"there is no device '{name}' here: take cpu, cuda or auto") from error
    return device


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """Products on a GPU in TF32, as in training, or in full float32; as before afterwards."""
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = on
        yield
    finally:
        for backend, was in zip(backends, before, strict=True):
            backend.allow_tf32 = was
