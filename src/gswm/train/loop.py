"""The loop: steps, reports, validation, checkpoints, and every way to end.

It ends at the last step, after `max_minutes`, or on Ctrl-C or SIGTERM: each time with a checkpoint,
from which a later start goes on as if it had never ended.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gswm import weights
from gswm.data.resident import Loader
from gswm.recipes import Recipe, build
from gswm.train import checkpoint as checkpoints
from gswm.train.diagnostics import Diagnostics
from gswm.train.display import Display
from gswm.train.distributed import Processes
from gswm.train.fast import Deferred, plain
from gswm.train.folder import RunFolder
from gswm.train.step import Trainee

Validate = Callable[[Any, Path | None], dict[str, float]]
"""The scores of a model; pictures go to the path, if there is one."""


BEST_BY = "strict_error"
"""The score that decides which weights are the best; the paper's own ignores missed objects."""


@dataclass(frozen=True)
class LoopConfig:
    """What a run does beside training; none of it changes the weights."""

    max_minutes: float | None = None
    """Stop, with a checkpoint, after so many minutes."""
    report_every: int = 100
    save_every: int = 1_000
    """Steps between checkpoints."""
    part_bytes: int | None = None
    """Split checkpoints into files of at most so many bytes."""
    plain: bool = False
    """The plain path: no captured graph, no deferred gradients, no compiler."""
    compiled: bool = False
    """Compile the recurrent methods."""


class Run:
    """A training, from wherever it is to its end."""

    def __init__(
        self,
        folder: RunFolder,
        recipe: Recipe,
        loader: Loader,
        validate: Validate | None,
        cfg: LoopConfig,
        *,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.folder, self.recipe, self.cfg = folder, recipe, cfg
        self.validate, self.processes, self.device = validate, processes, device
        fast = device.type == "cuda" and not cfg.plain
        torch.manual_seed(recipe.seed)
        model = build(recipe).to(device)
        self.trainee = Trainee(
            model,
            loader,
            recipe.train,
            seed=recipe.seed,
            device=device,
            processes=processes,
            backward=Deferred(model, compiled=cfg.compiled) if fast else plain,
            capture=fast and processes.ranks == 1,
        )
        self.display = Display(
            recipe.train.steps, recipe.train.batch, silent=not processes.is_first
        )
        self.diagnostics = Diagnostics(recipe.model.num_objects)
        self.best: dict[str, float] = {}
        self.minutes = 0.0
        self.stopping = False
        self.saved = -1

    def restore(self) -> None:
        """Go on from the newest checkpoint that is whole, if there is one."""
        found = checkpoints.load_newest(self.folder.checkpoints, self.display.tell)
        if found is None:
            return
        self.trainee.loader.load_state_dict(found.state["loader"])
        self.trainee.restore(found.step, found.tensors)
        self.best, self.minutes = found.state["best"], found.state["minutes"]
        self.saved = found.step
        if self.processes.is_first:
            self.folder.forget_metrics_after(found.step)
        self.display.tell(f"going on from step {found.step}")

    def run(self) -> None:
        """Until the end, or until it is told to stop."""
        started = time.perf_counter()
        before, train = self.minutes, self.recipe.train
        with self.display.running(self.trainee.step), stop_signals(self.stop):
            while self.trainee.step < train.steps:
                self.trainee.advance()
                self.minutes = before + (time.perf_counter() - started) / 60
                step = self.trainee.step
                if self.cfg.max_minutes and self.minutes - before >= self.cfg.max_minutes:
                    self.stopping = True
                if step % self.cfg.report_every == 0 or step == train.steps:
                    self.report()
                if step % train.validate_every == 0 or step == train.steps:
                    self.score()
                if step % self.cfg.save_every == 0:
                    self.save()
                if self.processes.any(self.stopping, self.device):
                    break
        self.report()
        self.save()
        if self.processes.is_first and self.trainee.step >= train.steps:
            self.export("last", {})

    def stop(self) -> None:
        """End after this step."""
        self.stopping = True

    def report(self) -> None:
        """Say how it goes, and look whether it goes well."""
        means = self.trainee.means()
        if not means:
            return
        step = self.trainee.step
        values = {"step": float(step), **means}
        self.diagnostics.check_finite(values)
        speed = self.display.report(step, self.trainee.stage.length, means)
        if self.processes.is_first:
            line = {"step": step, "length": self.trainee.stage.length, "minutes": self.minutes}
            self.folder.write_metrics({**line, "frames_per_second": speed, **means})
        for text in self.diagnostics.look(values):
            self.display.tell(f"look out: {text}")

    def score(self) -> None:
        """Validate, and keep the weights if they are the best so far."""
        if self.validate is None or not self.processes.is_first:
            return
        self.trainee.model.eval()
        pictures = self.folder.path / "pictures" / f"{self.trainee.step:08d}"
        scores = self.validate(self.trainee.model, pictures)
        self.trainee.model.train()
        line = {f"validation_{name}": value for name, value in scores.items()}
        self.folder.write_metrics({"step": self.trainee.step, "minutes": self.minutes, **line})
        text = "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
        self.display.tell(f"step {self.trainee.step:>7}  validation  {text}")
        if scores[BEST_BY] < self.best.get(BEST_BY, float("inf")):
            self.best = scores | {"step": float(self.trainee.step)}
            self.export("best", scores)

    def save(self) -> None:
        """Write a checkpoint, if there is anything new."""
        step = self.trainee.step
        if step == self.saved or not self.processes.is_first:
            self.processes.wait()
            return
        self.report()
        loader = {**self.trainee.loader.state_dict(), "step": step}
        state = {"loader": loader, "best": self.best, "minutes": self.minutes}
        found = checkpoints.Checkpoint(step, self.trainee.tensors(), state)
        checkpoints.save(self.folder.checkpoints, found, self.cfg.part_bytes)
        self.saved = step
        self.processes.wait()

    def export(self, name: str, scores: dict[str, float]) -> None:
        """Write the weights alone."""
        about = {"step": self.trainee.step, "seed": self.recipe.seed, "minutes": self.minutes}
        path = self.folder.path / f"{name}.safetensors"
        weights.save(path, self.trainee.model, self.recipe, about=about | {"validation": scores})


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run after the step it is at."""
    which = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(s, lambda *_: stop()) for s in which]
    except ValueError:  # not the main thread, which has no signals to hear
        yield
        return
    try:
        yield
    finally:
        for one, old in zip(which, before, strict=True):
            signal.signal(one, old)
