"""One process per GPU, as started by torchrun; a single process otherwise."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gswm.core.errors import UserError

GONE = (
    "closed by peer",
    "reset by peer",
    "Broken pipe",
    "Connection was likely closed",
    "remote process exit",
)
"""Fragments of the RuntimeErrors of gloo, NCCL and torch's store when another process has ended."""


class LeftError(UserError):
    """Another process has ended, so that this one cannot continue."""

    code = 1


@dataclass(frozen=True)
class Processes:
    """The rank of this process, and the number of processes."""

    rank: int = 0
    ranks: int = 1
    local_rank: int = 0
    joined: bool = False
    """Whether torchrun started the processes, even if only one."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def rows(self, batch: int) -> slice:
        """This process's part of a global batch."""
        if batch % self.ranks:
            raise UserError(
                f"a batch of {batch} does not divide among {self.ranks} processes; "
                f"set --train.batch to a multiple of {self.ranks}"
            )
        share = batch // self.ranks
        return slice(self.rank * share, (self.rank + 1) * share)

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over all processes, in one message."""
        if not self.joined:
            return
        tensors = list(tensors)
        flat = torch.cat([t.flatten() for t in tensors])
        with others():
            dist.all_reduce(flat)
        flat /= self.ranks
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether a condition holds in any process.

        Every process waits for the answer. A step waits for its gradients anyway, so asking after
        each step costs a message of one number and, on a GPU, a synchronization.
        """
        if not self.joined:
            return flag
        value = torch.tensor(float(flag), device=device)
        with others():
            dist.all_reduce(value, op=dist.ReduceOp.MAX)
            return bool(value)

    def share(
        self, state: Any, tensors: dict[str, Tensor], device: torch.device
    ) -> tuple[Any, dict[str, Tensor]]:
        """Broadcast the first process's values to all processes."""
        if not self.joined:
            return state, tensors
        about = [state, {name: (t.shape, t.dtype) for name, t in tensors.items()}]
        shared: dict[str, Tensor] = {}
        with others():
            dist.broadcast_object_list(about, src=0)
            for name, (shape, dtype) in about[1].items():
                mine = tensors[name] if self.is_first else torch.empty(shape, dtype=dtype)
                shared[name] = mine.to(device).contiguous()
                dist.broadcast(shared[name], src=0)
        return about[0], shared

    def wait(self) -> None:
        """Wait for all processes."""
        if self.joined:
            with others():
                dist.barrier()


@contextmanager
def others() -> Iterator[None]:
    """Report in one line that another process has ended while this one waits for it.

    NCCL's watchdog may notice first; it aborts the process with a long message.
    """
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error) for words in GONE):
            raise
        text = "another process of this run has exited: see its output"
        raise LeftError(text) from error


def start(device: torch.device) -> Processes:
    """Join the processes that torchrun started, if any."""
    if "RANK" not in os.environ or "LOCAL_RANK" not in os.environ:
        return Processes()
    rank, ranks, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    here = Processes(rank, ranks, local, joined=True)
    if device.type == "cuda":
        torch.cuda.set_device(here.local_rank)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return here


def stop() -> None:
    """Leave the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()
