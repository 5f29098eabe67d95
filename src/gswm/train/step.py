"""One training step: windows, noise, loss, gradients, clipping, and an update of the weights.

A step is a function of the seed, the step number and the weights. Windows and noise follow from the
step number, even if windows repeat, so a checkpoint holds no random state. `gswm.fast` computes the
same on a GPU, faster.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_

from gswm.core.errors import UserError
from gswm.core.records import copy_tensors, map_tensors, tensors
from gswm.core.schedule import Curriculum, Stage
from gswm.data.batches.batch import Batch
from gswm.data.batches.resident import Loader
from gswm.data.batches.windows import mix, signed
from gswm.models.base import Loss, Noise, WorldModel
from gswm.models.recipe import TrainConfig
from gswm.train.distributed import Processes
from gswm.train.muon import Muon, is_matrix

REPORTED = {"loss", "gradient", "step", "length", "minutes", "frames_per_second"}
"""Names in a report besides the terms and metrics of a loss."""


@runtime_checkable
class MakeTrainee(Protocol):
    """A factory of trainees: `Trainee` itself, or `gswm.fast.trainee.accelerate()`."""

    def __call__(
        self,
        model: WorldModel[Any],
        loader: Loader,
        cfg: TrainConfig,
        *,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> "Trainee":
        """Return a trainee at step 0."""
        ...


class Trainee:
    """A model with its optimizer and its current step."""

    def __init__(
        self,
        model: WorldModel[Any],
        loader: Loader,
        cfg: TrainConfig,
        *,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.model = model.train()
        self.loader, self.cfg, self.seed = loader, cfg, seed
        self.processes = processes
        self.params = list(model.parameters())
        if not any(param.requires_grad for param in self.params):
            raise UserError(f"{type(model).__name__} has no parameters to train")
        self.clipped = clip_groups(model, cfg)
        self.frozen = params_of(model, cfg.frozen, "--train.frozen")
        self.lr = torch.zeros((), device=device)
        matrices = [p for p in params_of(model, cfg.muon, "--train.muon") if is_matrix(p)]
        ours = set(matrices)
        self.adam = torch.optim.Adam(
            [p for p in self.params if p not in ours],
            lr=self.lr,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.matrix_lr = torch.zeros((), device=device)
        self.muon = Muon(matrices, self.matrix_lr) if matrices else None
        self.step = 0
        self.clock = torch.zeros((), dtype=torch.int64, device=device)
        """The step, on the device."""
        self.generator = torch.Generator(device)
        self.stage: Stage | None = None
        self.kept: dict[int, Any] = {}
        """The observations for each step whose windows repeat."""
        self.observed: Any = None
        """The observation for the current step, always at the same address."""
        self.sums: dict[str, Tensor] = {}
        self.summed = 0

    def advance(self) -> None:
        """Take one step."""
        if (stage := self.model.stage(self.step)) != self.stage:
            self.enter(stage)
        if stage.repeats:
            self.observe(self.step % stage.repeats)
        else:
            self.loader.prepare(self.step)
        self.generator.manual_seed(noise_seed(self.seed, self.step))
        self.take()
        self.step += 1
        self.summed += 1

    def enter(self, stage: Stage) -> None:
        """Enter a stage, in which the loss has another form."""
        if self.step == self.model.cfg.schedule.anew:
            for _, optimizer in self.optimizers():
                optimizer.state.clear()
        self.stage, self.kept, self.observed = stage, {}, None
        self.sums, self.summed = {}, 0

    def take(self) -> None:
        """Compute the loss and its gradients, and update the weights."""
        cfg = self.cfg
        schedule = self.model.cfg.schedule
        share = rate_share(self.clock, cfg, schedule)
        self.lr.copy_(cfg.lr * share)
        self.matrix_lr.copy_(cfg.matrix_lr * share)
        self.model.zero_grad(set_to_none=True)
        loss = self.backward()
        check_names(loss)
        for param in self.frozen:
            param.grad = None
        self.processes.average(p.grad for p in self.params if p.grad is not None)
        norms = clip_gradients(self.clipped, cfg.clip)
        for _, optimizer in self.optimizers():
            optimizer.step()
        self.clock += 1
        self.add_up({"loss": loss.total, **loss.terms, **loss.metrics, **norms})

    def optimizers(self) -> list[tuple[str, torch.optim.Optimizer]]:
        """The optimizers, by their names in checkpoints."""
        muon = [("muon", self.muon)] if self.muon is not None else []
        return [("adam", self.adam), *muon]

    def backward(self) -> Loss:
        """Compute the loss, and leave the gradients in all parameters."""
        loss = self.loss()
        loss.total.backward()
        return loss

    def loss(self) -> Loss:
        """The loss of the current step."""
        assert self.stage is not None
        if self.stage.repeats:
            return self.model.loss_of(self.observed, self.noise())
        return self.model.loss(self.windows(self.now()), self.noise(), self.clock, self.stage)

    @property
    def gathered(self) -> int:
        """Number of steps whose windows one step combines, for stages with larger batches."""
        assert self.stage is not None
        return max(1, -(-self.stage.batch // self.cfg.batch))

    def noise(self) -> Noise:
        """Draw noise from the generator's current state."""
        assert self.stage is not None
        batch = self.gathered * self.cfg.batch
        noise = self.model.noise(batch, self.stage, self.generator)
        return noise.rows(self.processes.rows(batch))

    def windows(self, step: int | Tensor) -> Batch:
        """The windows of a step."""
        assert self.stage is not None
        batch = self.loader.batch(step, self.stage.length)
        return batch if self.model.num_actions else replace(batch, actions=None)

    def observe(self, index: int) -> None:
        """Let the model observe repeating windows, once."""
        if index not in self.kept:
            self.generator.manual_seed(noise_seed(self.seed, index))
            noise, first = self.noise(), index * self.gathered
            self.loader.prepare(first)
            batches = [self.windows(step) for step in range(first, first + self.gathered)]
            # Row by row instead of step by step, so that each process has the rows of its noise.
            together = map_tensors(lambda *x: torch.stack(x, dim=1).flatten(0, 1), *batches)
            self.kept[index] = self.model.observe(together, noise)
        if self.observed is None:
            self.observed = map_tensors(torch.clone, self.kept[index])
        else:
            copy_tensors(tensors(self.kept[index]), tensors(self.observed))

    def now(self) -> int | Tensor:
        """The step, as the loader takes it."""
        return self.step

    @contextmanager
    def running(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Context of all steps of a run; `tell` reports to the user."""
        yield

    # -- metrics

    def add_up(self, values: dict[str, Tensor]) -> None:
        """Add each value to its sum, on its device."""
        for name, value in values.items():
            if name in self.sums:
                self.sums[name] += value.detach()
            else:
                self.sums[name] = value.detach().float().clone()

    def means(self) -> dict[str, float]:
        """The means over the last steps and all processes; the only wait for the device."""
        if not self.summed:
            return {}
        return {name: value / self.summed for name, value in self.totals().items()}

    def totals(self) -> dict[str, float]:
        """The sums over the last steps, averaged over all processes."""
        self.processes.average(self.sums.values())
        return dict(zip(self.sums, torch.stack(list(self.sums.values())).tolist(), strict=True))

    def forget(self) -> None:
        """Reset the sums."""
        for value in self.sums.values():
            value.zero_()
        self.summed = 0

    def largest(self) -> float:
        """The largest absolute weight; not finite if any weight is not."""
        return torch.stack([param.detach().abs().max() for param in self.params]).max().item()

    # -- saving

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of a checkpoint."""
        named = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for name, param in self.model.named_parameters():
            for owner, optimizer in self.optimizers():
                for key, value in optimizer.state.get(param, {}).items():
                    named[f"{owner}.{key}.{name}"] = value
        return {k: v.detach().cpu() for k, v in named.items()}

    def counts(self) -> dict[str, Any]:
        """The current sums, for checkpoints."""
        return {"sums": self.totals() if self.summed else {}, "summed": self.summed}

    def restore(self, step: int, tensors: dict[str, Tensor], counts: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k[:6] == "model."}
        self.model.load_state_dict(weights)
        device = self.clock.device
        params = dict(self.model.named_parameters())
        for owner, optimizer in self.optimizers():
            for key, value in tensors.items():
                which, part, name = [*key.split(".", 2), "", ""][:3]
                if which == owner and name in params:
                    optimizer.state[params[name]][part] = value.to(device)
        self.step = step
        self.clock.fill_(step)
        self.stage = self.model.stage(step - 1) if step else None
        self.sums = {k: torch.tensor(v, device=device) for k, v in counts["sums"].items()}
        self.summed = counts["summed"]


def clip_groups(model: WorldModel[Any], cfg: TrainConfig) -> dict[str, list[Parameter]]:
    """The parameters whose gradients are clipped together, by name of the group.

    Parameters of no part of the model, or of several, form the group "rest".
    """
    parts = model.parts() if cfg.clip_by == "part" else {}
    owner: dict[Parameter, str] = {}
    for name, modules in parts.items():
        for param in dict.fromkeys(p for module in modules for p in module.parameters()):
            owner[param] = "rest" if param in owner else name
    groups: dict[str, list[Parameter]] = {}
    for param in model.parameters():
        groups.setdefault(owner.get(param, "rest"), []).append(param)
    return groups


def params_of(model: WorldModel[Any], names: tuple[str, ...], flag: str) -> list[Parameter]:
    """The parameters of some parts of the model; `flag` is the option that names them."""
    parts = model.parts()
    for name in names:
        if name not in parts:
            there = ", ".join(parts) or "none"
            raise UserError(f"{flag} names no part '{name}'; there are: {there}")
    found = (p for name in names for module in parts[name] for p in module.parameters())
    return list(dict.fromkeys(found))


def clip_gradients(groups: dict[str, list[Parameter]], most: float) -> dict[str, Tensor]:
    """Clip each group by its own norm; return the norms before, in total and per group."""
    if len(groups) == 1:
        (params,) = groups.values()
        return {"gradient": clip_grad_norm_(params, most, foreach=True)}
    norms = {
        f"gradient_{name}": clip_grad_norm_(params, most, foreach=True)
        for name, params in groups.items()
        if any(param.grad is not None for param in params)
    }
    return {"gradient": torch.stack(list(norms.values())).norm(), **norms}


def check_names(loss: Loss) -> None:
    """Raise a UserError for names of terms and metrics that a report already uses."""
    names = loss.terms.keys() | loss.metrics.keys()
    taken = sorted(n for n in names if n in REPORTED or n.startswith("gradient_"))
    if taken:
        raise UserError(
            f"'{taken[0]}' is a reserved name in reports: rename this term of the model's loss"
        )


def rate_share(step: Tensor, cfg: TrainConfig, schedule: Curriculum) -> Tensor:
    """The share of the full learning rates at a step.

    Linear warm-up over `warmup` steps, then half a cosine down to `last_lr`. The warm-up is
    repeated when objects begin to learn: at the full rate, presence can drop so low at once that no
    gradient restores it. If optimization starts `anew` at a step, so does the schedule.
    """
    begin, anew = schedule.background_only, schedule.anew
    since = torch.where(step < begin, step, step - begin)
    fall, full = step / cfg.steps, 1.0
    if anew is not None and anew < cfg.steps:
        later = step >= anew
        since = torch.where(later, step - anew, since)
        fall = torch.where(later, (step - anew) / (cfg.steps - anew), step / max(1, anew))
        full = torch.where(later, schedule.rate_anew, 1.0)
    rise = ((since + 1) / max(1, cfg.warmup)).clamp(max=1)
    cosine = 0.5 * (1 + torch.cos(math.pi * fall.clamp(max=1)))
    return full * rise * (cfg.last_lr + (1 - cfg.last_lr) * cosine)


def noise_seed(seed: int, step: int) -> int:
    """The seed of the noise of a step."""
    return int(mix(torch.tensor(signed(seed * 0x9E3779B97F4A7C15 + step)))) & (2**63 - 1)
