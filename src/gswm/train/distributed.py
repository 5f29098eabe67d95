"""One process per GPU, as torchrun starts them; alone where it did not."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from gswm.errors import UserError


@dataclass(frozen=True)
class Processes:
    """Which process this is, of how many."""

    rank: int = 0
    ranks: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def rows(self, batch: int) -> slice:
        """The part of a global batch that is this process's."""
        if batch % self.ranks:
            raise UserError(
                f"a batch of {batch} does not divide among {self.ranks} processes: "
                f"set --train.batch to a multiple of {self.ranks}"
            )
        share = batch // self.ranks
        return slice(self.rank * share, (self.rank + 1) * share)

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over all processes, in one message."""
        if self.ranks == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([t.flatten() for t in tensors])
        dist.all_reduce(flat)
        flat /= self.ranks
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether it holds in any process.

        Every process waits for the answer. A step does so anyway, for its gradients, so asking
        after each step costs a message of one number, and on a GPU the end of its queue.
        """
        if self.ranks == 1:
            return flag
        value = torch.tensor(float(flag), device=device)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return bool(value)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.ranks > 1:
            dist.barrier()


def start(device: torch.device) -> Processes:
    """Join the other processes that torchrun started, if it did."""
    if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Processes()
    here = Processes(
        int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
    )
    if device.type == "cuda":
        torch.cuda.set_device(here.local_rank)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return here


def stop() -> None:
    """Leave the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()
