"""One training step: windows, noise, loss, gradients, clipping, Adam.

On a GPU the whole step is captured once per stage as a CUDA graph, and the host does no more than
replay it. What a step does is a function of the seed, the step number and the weights, but for the
rounding where a `better` way to do it is found meanwhile. Windows and noise follow from these in
every step, also where those of earlier steps come again, so nothing random has to be saved.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from gswm.core.records import map_tensors, tensors
from gswm.data.batches.resident import Loader
from gswm.data.batches.windows import mix, signed
from gswm.fast.deferred import Backward
from gswm.fast.replay import copy
from gswm.models.base import Loss
from gswm.models.registry import TrainConfig
from gswm.train.distributed import Processes

WARM_UP = 3
"""Steps of a stage that are taken before it is captured."""


class Better(Protocol):
    """Where a faster backward pass comes from."""

    def __call__(self) -> Backward | None:
        """It, when there is one."""
        ...

    def end(self) -> None:
        """It is not wanted any more."""
        ...


class Trainee:
    """A model with its optimizer, and the step they are at."""

    def __init__(
        self,
        model: Any,
        loader: Loader,
        cfg: TrainConfig,
        *,
        seed: int,
        device: torch.device,
        processes: Processes,
        backward: Backward,
        capture: bool,
    ) -> None:
        self.model = model
        self.loader, self.cfg, self.seed = loader, cfg, seed
        self.processes, self.backward = processes, backward
        self.capture = capture
        self.better: Better | None = None
        """Gives a backward pass that is faster, when there is one."""
        self.to_compile = last_through_frames(model, cfg.steps)
        """A step of the stage in which `better` is taken; -1 for none."""
        self.compiled_stage = model.stage(self.to_compile) if self.to_compile >= 0 else None
        self.params = list(model.parameters())
        self.lr = torch.zeros((), device=device)
        self.adam = torch.optim.Adam(
            self.params, lr=self.lr, fused=True, capturable=device.type == "cuda"
        )
        self.step = 0
        self.clock = torch.zeros((), dtype=torch.int64, device=device)
        self.generator = torch.Generator(device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stage: Any = None
        self.taken = 0
        self.kept: dict[int, Any] = {}
        """What the model has observed at each step whose windows come again."""
        self.observed: Any = None
        """Of these, what the step learns from: always in the same place."""
        self.sums: dict[str, Tensor] = {}
        self.summed = 0

    def advance(self) -> None:
        """Take one step."""
        if (stage := self.model.stage(self.step)) != self.stage:
            self.stage, self.graph, self.taken, self.sums, self.summed = stage, None, 0, {}, 0
            self.kept, self.observed = {}, None
        if self.better and self.step > self.to_compile:
            self.better.end()
            self.better = None
        if self.better and stage == self.compiled_stage and (found := self.better()):
            self.backward, self.better, self.graph, self.taken = found, None, None, 0
        if stage.repeats:
            self.observe(self.step % stage.repeats)
        else:
            self.generator.manual_seed(noise_seed(self.seed, self.step))
            self.loader.prepare(self.step)
        if not self.capture:
            self.take()
        elif self.taken < WARM_UP:
            with side_stream():
                self.take()
        else:
            if self.graph is None:
                self.record()
            assert self.graph is not None
            self.graph.replay()
        self.step += 1
        self.taken += 1
        self.summed += 1

    def observe(self, step: int) -> None:
        """Have ready what the model observes in the windows of `step`."""
        if step not in self.kept:
            self.generator.manual_seed(noise_seed(self.seed, step))
            self.kept[step] = self.model.observe(*self.drawn(step))
        if self.observed is None:
            self.observed = map_tensors(torch.clone, self.kept[step])
        else:
            copy(tensors(self.kept[step]), tensors(self.observed))

    def drawn(self, step: int | Tensor) -> tuple[Tensor, Any]:
        """The windows of a step, and its noise."""
        stage, batch = self.stage, self.cfg.batch
        noise = self.model.noise(batch, stage, self.generator)
        video = self.loader.batch(step, stage.length).video
        return video, noise.rows(self.processes.rows(batch))

    def loss(self) -> Loss:
        """Of this step."""
        if self.stage.repeats:
            return self.model.loss_of(self.observed)
        video, noise = self.drawn(self.clock if self.capture else self.step)
        return self.model.loss(video, noise, self.clock, self.stage)

    def take(self) -> None:
        """The work of a step."""
        cfg = self.cfg
        background_only = self.model.cfg.schedule.background_only
        self.lr.copy_(learning_rate(self.clock, cfg, background_only))
        self.adam.zero_grad(set_to_none=True)
        loss = self.backward(self.loss)
        self.processes.average(p.grad for p in self.params if p.grad is not None)
        norm = clip_grad_norm_(self.params, cfg.clip, foreach=True)
        self.adam.step()
        self.clock += 1
        self.add_up({"loss": loss.total, **loss.terms, **loss.metrics, "gradient": norm})

    def record(self) -> None:
        """Capture the step of this stage."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        self.adam.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            self.take()
        self.graph = graph

    def release(self) -> None:
        """Give the captured step back: while it is kept, NCCL does not let the processes part."""
        if self.graph is not None:
            torch.cuda.synchronize()
            self.graph.reset()
            self.graph = None

    def add_up(self, values: dict[str, Tensor]) -> None:
        """Keep a sum of each, where it was made."""
        for name, value in values.items():
            if name in self.sums:
                self.sums[name] += value.detach()
            else:
                self.sums[name] = value.detach().float().clone()

    def means(self) -> dict[str, float]:
        """The means of the last steps, over all processes; the one wait for the device."""
        if not self.summed:
            return {}
        return {name: value / self.summed for name, value in self.totals().items()}

    def totals(self) -> dict[str, float]:
        """The sums over the last steps, the mean of those of all processes."""
        self.processes.average(self.sums.values())
        return dict(zip(self.sums, torch.stack(list(self.sums.values())).tolist(), strict=True))

    def forget(self) -> None:
        """Begin new means."""
        for value in self.sums.values():
            value.zero_()
        self.summed = 0

    def largest(self) -> float:
        """The largest weight; not finite if any is not."""
        return torch.stack([param.detach().abs().max() for param in self.params]).max().item()

    # -- saving

    def tensors(self) -> dict[str, Tensor]:
        """All tensors to go on from."""
        named = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for name, param in self.model.named_parameters():
            state = self.adam.state.get(param, {})
            for key in ("exp_avg", "exp_avg_sq", "step"):
                if key in state:
                    named[f"adam.{key}.{name}"] = state[key]
        return {k: v.detach().cpu() for k, v in named.items()}

    def counts(self) -> dict[str, Any]:
        """What else there is to go on from: the sums of which the next means will be made."""
        return {"sums": self.totals() if self.summed else {}, "summed": self.summed}

    def restore(self, step: int, tensors: dict[str, Tensor], counts: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k[:6] == "model."}
        self.model.load_state_dict(weights)
        device = self.clock.device
        for name, param in self.model.named_parameters():
            parts = {k: tensors.get(f"adam.{k}.{name}") for k in ("exp_avg", "exp_avg_sq", "step")}
            if parts["step"] is None:
                continue
            self.adam.state[param] = {k: v.to(device) for k, v in parts.items() if v is not None}
        self.step = step
        self.clock.fill_(step)
        self.stage = self.model.stage(step - 1) if step else None
        self.sums = {k: torch.tensor(v, device=device) for k, v in counts["sums"].items()}
        self.summed = counts["summed"]


def last_through_frames(model: Any, steps: int) -> int:
    """The last step in which gradients go through the methods of frames; -1 if there is none."""
    return next((step for step in range(steps)[::-1] if model.stage(step).through_frames), -1)


def learning_rate(step: Tensor, cfg: TrainConfig, background_only: int) -> Tensor:
    """Up in a line over `warmup` steps, and down along half a cosine to `last_lr`.

    Up again from where objects begin to learn: at the full rate, presence may fall so low at once
    that no gradient brings it back.
    """
    since = torch.where(step < background_only, step, step - background_only)
    rise = ((since + 1) / max(1, cfg.warmup)).clamp(max=1)
    fall = (step / cfg.steps).clamp(max=1)
    share = cfg.last_lr + (1 - cfg.last_lr) * 0.5 * (1 + torch.cos(math.pi * fall))
    return cfg.lr * rise * share


def noise_seed(seed: int, step: int) -> int:
    """What seeds the noise of a step."""
    return int(mix(torch.tensor(signed(seed * 0x9E3779B97F4A7C15 + step)))) & (2**63 - 1)


@contextmanager
def side_stream() -> Iterator[None]:
    """Where a step runs that is to be captured later."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)
