"""Training on a GPU: deferred gradients, kernels, a CUDA graph, and torch's compiler.

`accelerate` enables all of it. A step computes the same as in `gswm.train.step`, up to rounding.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gswm.core.schedule import Stage
from gswm.data.batches.resident import Loader, Resident
from gswm.fast.ahead import Ahead
from gswm.fast.deferred import Deferred
from gswm.fast.replay import replay
from gswm.models.base import Loss, WorldModel
from gswm.models.recipe import TrainConfig
from gswm.train.distributed import Processes
from gswm.train.step import MakeTrainee, Trainee

WARM_UP = 3
"""Number of steps of a stage before it is captured."""


def accelerate(*, compiled: bool = True) -> MakeTrainee:
    """Return a factory of trainees that are fast on a GPU.

    Models that name no `recurrent` methods, and all models on a CPU, take the plain path.

    Args:
        compiled: compile the steps of the last stage in another process.
    """

    def make(
        model: WorldModel[Any],
        loader: Loader,
        cfg: TrainConfig,
        *,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> Trainee:
        how: dict[str, Any] = {"seed": seed, "device": device, "processes": processes}
        if device.type != "cuda" or not model.recurrent():
            return Trainee(model, loader, cfg, **how)
        return FastTrainee(model, loader, cfg, **how, compiled=compiled)

    return make


class FastTrainee(Trainee):
    """A trainee whose step is captured once per stage as a CUDA graph, and replayed."""

    def __init__(
        self,
        model: WorldModel[Any],
        loader: Loader,
        cfg: TrainConfig,
        *,
        seed: int,
        device: torch.device,
        processes: Processes,
        compiled: bool = False,
    ) -> None:
        super().__init__(model, loader, cfg, seed=seed, device=device, processes=processes)
        self.on_gpu = device.type == "cuda"
        self.deferred = Deferred(model, half=self.on_gpu)
        replay(model)  # for validation
        self.capture = self.on_gpu and isinstance(loader, Resident)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.taken = 0
        """Number of steps of this stage, or since its steps were compiled."""
        self.compiled = compiled
        self.to_compile = last_through_frames(model, cfg.steps)
        """The step to compile ahead; -1 for none."""
        self.ahead: Ahead | None = None

    @contextmanager
    def running(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Compile in another process, if requested and useful; release the graph at the end."""
        try:
            if not self.compiled or self.step > self.to_compile:
                yield
                return
            recipe = self.model.recipe
            assert recipe is not None
            rows = self.processes.rows(self.cfg.batch)
            ours = replace(recipe, train=replace(self.cfg, batch=rows.stop - rows.start))
            with Ahead(ours, self.clock.device, tell) as self.ahead:
                yield
        finally:
            self.ahead = None
            self.release()

    def enter(self, stage: Stage) -> None:
        """Enter a stage, which is captured anew."""
        super().enter(stage)
        self.graph, self.taken = None, 0

    def take(self) -> None:
        """Take the step directly at first, then captured, then compiled and captured."""
        if self.ahead is None or self.ahead.has_kernels():
            self.use_kernels()
        self.look_for_compiled()
        if not self.capture:
            super().take()
        elif self.taken < WARM_UP:
            with side_stream():
                super().take()
        else:
            if self.graph is None:
                self.graph = self.captured()
            self.graph.replay()
        self.taken += 1

    def use_kernels(self) -> None:
        """Switch to custom kernels on a GPU, if that has not been done."""
        if self.on_gpu and not self.deferred.has_kernels:
            self.deferred.use_kernels()
            self.graph, self.taken = None, 0

    def look_for_compiled(self) -> None:
        """Switch to compiled steps once they are ready, in their stage."""
        if self.ahead is None:
            return
        if self.step > self.to_compile:
            self.ahead.end()
            self.ahead = None
        elif self.stage == self.model.stage(self.to_compile) and self.ahead.ended():
            if not self.ahead.failed:
                self.deferred.compile()
                self.graph, self.taken = None, 0
            self.ahead = None

    def captured(self) -> torch.cuda.CUDAGraph:
        """Capture the step of this stage as a graph."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        self.model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            super().take()
        return graph

    def backward(self) -> Loss:
        """Compute the loss; the gradients of recurrent weights follow at the end."""
        return self.deferred(self.loss)

    def now(self) -> int | Tensor:
        """The step, on the device if it is captured."""
        return self.clock if self.capture else self.step

    def release(self) -> None:
        """Free the graph: while it exists, NCCL does not let the processes separate."""
        if self.graph is not None:
            torch.cuda.synchronize()
            self.graph.reset()
            self.graph = None


def last_through_frames(model: WorldModel[Any], steps: int) -> int:
    """The last step whose gradients pass through `WorldModel.recurrent`; -1 if there is none."""
    return next((step for step in range(steps)[::-1] if model.stage(step).through_frames), -1)


@contextmanager
def side_stream() -> Iterator[None]:
    """A side stream for a step that is captured later."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)
