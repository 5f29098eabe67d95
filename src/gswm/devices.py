"""Devices by name."""

import torch

from gswm.errors import UserError


def find_device(name: str) -> torch.device:
    """A device by its name; `auto` is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UserError(f"there is no device '{name}' here: take cpu, cuda or auto") from error
    return device
