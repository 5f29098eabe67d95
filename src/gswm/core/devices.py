"""Devices by name, their precision, and their number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gswm.core.errors import UserError


def find_device(device: str | torch.device) -> torch.device:
    """Return a device by name; `auto` is a GPU if available."""
    name = str(device)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(name)
        torch.zeros(1, device=found).item()  # some devices, such as meta, store no values
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        if name.partition(":")[0] == "cuda" and not torch.cuda.is_available():
            raise UserError(
                'no CUDA device found; use --device cpu (in Python, device="cpu")'
            ) from error
        raise UserError(f"there is no device '{name}' here; use cpu, cuda or auto") from error
    return found


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """Use TF32 or full float32 for matrix products on a GPU; restores the setting on exit."""
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = on
        yield
    finally:
        for backend, was in zip(backends, before, strict=True):
            backend.allow_tf32 = was


@contextmanager
def one_thread(when: bool = True) -> Iterator[None]:
    """Run CPU operations in one thread; restores the number of threads on exit.

    torch synchronizes its threads after each operation. For small operations this costs more than
    the threads save, and many times more if another process occupies a core.
    """
    threads = torch.get_num_threads()
    if not when or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
