"""The training loop: steps, reports, validation, checkpoints, and all ways to end.

It ends at the last step, after `max_minutes`, or on Ctrl-C or SIGTERM, and always with a checkpoint
from which a later start resumes exactly.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gswm.core.errors import UserError
from gswm.core.limits import MINUTES, check_range
from gswm.core.settings import differing, from_dict, to_dict
from gswm.core.words import counted
from gswm.data.batches.resident import Loader
from gswm.data.storage.hdf5 import is_name_of_file
from gswm.models.base import WorldModel
from gswm.models.recipe import Recipe
from gswm.models.registry import build
from gswm.train import checkpoint as checkpoints
from gswm.train.checkpoint import num_bytes
from gswm.train.diagnostics import Diagnostics
from gswm.train.display import Display
from gswm.train.distributed import Processes
from gswm.train.folder import RunFolder
from gswm.train.signals import Signals, Stopped
from gswm.train.step import MakeTrainee, Trainee
from gswm.weights import files as weights
from gswm.weights.finding import find

Validate = Callable[[WorldModel[Any], Callable[[], Path] | None], dict[str, float]]
"""Returns the scores of a model. Pictures go to the folder that the second argument returns."""


BEST_BY = "error"
"""The score by which the best weights are chosen."""


@dataclass(frozen=True)
class LoopConfig:
    """Settings of a run beside the recipe. They change the weights by rounding at most."""

    max_minutes: float | None = None
    """Save a checkpoint and stop after this many minutes. Default: None (no limit)."""
    report_every: int = 100
    """Steps between progress reports."""
    save_every: int = 1_000
    """Steps between checkpoints."""
    checkpoint_parts: str | None = None
    """Split checkpoints into files of at most this size, such as 15M. Default: None (one file)."""
    plain: bool = False
    """Use the plain path, without CUDA graphs, deferred gradients or the compiler."""
    compiled: bool = True
    """On a GPU, compile the fast path in a second process, and switch to it when it is ready, after
    some minutes. Until then, compilation needs as much GPU memory as training. The time of the
    switch varies between runs, and so does the rounding of the weights."""
    wandb: str | None = None
    """Log metrics to this Weights & Biases project."""
    keep_episodes: bool = True
    """On a CPU, cache generated episodes in ~/.cache/gswm/episodes (at most 20 GB) if generating
    them takes longer than 15 seconds."""
    any_code: bool = False
    """Resume a run of another commit of gswm. The results may differ from an uninterrupted run."""

    def __post_init__(self) -> None:
        for name in ("report_every", "save_every"):
            if getattr(self, name) < 1:
                flag = name.replace("_", "-")
                raise UserError(f"--{flag} is {getattr(self, name)}; it must be at least 1")
        check_range({"--max-minutes": self.max_minutes}, *MINUTES)
        if self.part_bytes is not None and self.part_bytes < 1_000_000:
            raise UserError(
                f"--checkpoint-parts is {self.checkpoint_parts}; it must be at least 1M"
            )

    @property
    def part_bytes(self) -> int | None:
        """The largest size of a checkpoint file."""
        return None if self.checkpoint_parts is None else num_bytes(self.checkpoint_parts)


class Run:
    """A training, from its current state to its end."""

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
        signals: Signals | None = None,
        videos: dict[str, Any] | None = None,
        trainee: MakeTrainee = Trainee,
    ) -> None:
        """`videos` are the import settings of the user's videos, saved with the weights."""
        self.folder, self.recipe, self.cfg = folder, recipe, cfg
        self.validate, self.processes, self.device = validate, processes, device
        self.signals, self.videos = signals or Signals(), videos or {}
        torch.manual_seed(recipe.seed)
        model = build(recipe).to(device)
        if model.num_actions:
            model.check_actions(loader.batch(0, 1).actions, 1)
        began = begin(model, recipe, folder) if processes.is_first else {}
        self.began, first = processes.share(began, model.state_dict(), device)
        model.load_state_dict(first)
        self.display = Display(
            recipe.train.steps, recipe.train.batch, silent=not processes.is_first
        )
        self.trainee = trainee(
            model, loader, recipe.train, seed=recipe.seed, device=device, processes=processes
        )
        settled = recipe.model.schedule.background_only + 1_000
        self.diagnostics = Diagnostics(recipe.model.num_objects, settled, recipe.model)
        self.best: dict[str, float] = {}
        self.minutes = 0.0
        self.saved = 0
        self.scored = 0
        checkpoints.split(dict(model.named_parameters()), cfg.part_bytes)

    def restore(self) -> None:
        """Resume from the last checkpoint, if any, and remove results that came after it."""
        found = self.newest()
        if found is not None:
            state = found.state
            self.check_recipe(state.get("recipe"), found.step)
            self.trainee.loader.load_state_dict(state["loader"])
            try:
                self.trainee.restore(found.step, found.tensors, state["counts"])
            except RuntimeError as error:
                raise UserError(
                    f"the checkpoint of step {found.step} in {self.folder.path} does not fit the "
                    "run's model: restore the original checkpoint, or start a new run with "
                    "another --out"
                ) from error
            self.best, self.minutes, self.scored = state["best"], state["minutes"], state["scored"]
            self.began = state["began"]
            self.saved = found.step
            self.display.tell(f"resuming from step {found.step}")
        if self.processes.is_first:
            self.check_threads()
            self.check_best()
            self.folder.forget_metrics_after(self.saved, self.scored)
            for line in self.folder.read_metrics():
                self.diagnostics.remember(line)

    def check_recipe(self, saved: Any, step: int) -> None:
        """Raise a UserError for a checkpoint of another recipe, which might fit by chance."""
        if saved is None:  # of version 0.1
            return
        where = f"{self.folder.path}: the recipe in the checkpoint of step {step}"
        theirs = from_dict(Recipe, saved, where)
        ours, theirs = (to_dict(without_places(each)) for each in (self.recipe, theirs))
        if found := differing(ours, theirs):
            name, (run, other) = next(iter(found.items()))
            raise UserError(
                f"the checkpoint of step {step} in {self.folder.path} belongs to another recipe: "
                f"its {name} is {other!r}, but that of the run is {run!r}. Restore the original "
                "checkpoint, or start a new run with another --out"
            )

    def check_threads(self) -> None:
        """Warn if earlier steps ran with another number of threads, which changes sums."""
        starts, now = self.folder.starts(), torch.get_num_threads()
        before = starts[-2].get("threads", now) if len(starts) > 1 else now
        if self.saved and before != now and self.device.type == "cpu":
            self.display.tell(
                f"warning: torch uses {counted(now, 'thread')} instead of {before} as before, so "
                f"the weights will differ by rounding; set OMP_NUM_THREADS={before} to avoid this"
            )

    def check_best(self) -> None:
        """Warn if the best weights so far are lost; those from now on will replace them."""
        if not self.best:
            return
        path, step = self.folder.path / "best.safetensors", int(self.best["step"])
        try:
            weights.check_file(path)
        except UserError as error:
            self.best = {}
            self.display.tell(
                f"warning: the best weights so far, from step {step}, are lost ({error}); the "
                f"best weights from now on will be kept"
            )

    def newest(self) -> checkpoints.Checkpoint | None:
        """The last checkpoint, read by the first process and shared with the others."""
        folder, first = self.folder.checkpoints, self.processes.is_first
        found = checkpoints.load_newest(folder, self.display.tell) if first else None
        about, tensors = (None, {}) if found is None else ((found.step, found.state), found.tensors)
        about, tensors = self.processes.share(about, tensors, self.device)
        return None if about is None else checkpoints.Checkpoint(about[0], tensors, about[1])

    def run(self) -> None:
        """Train to the end, or until asked to stop; then save."""
        with self.display.running(self.trainee.step), self.signals.waiting(at_once=False):
            with self.trainee.running(self.display.tell):
                self.take_steps()
            self.save()
            if self.processes.is_first:
                self.export("last", {})

    def take_steps(self) -> None:
        """Take steps, with the work that is due after each."""
        started = time.perf_counter()
        before, train = self.minutes, self.recipe.train
        with self.display.aside():
            self.score()  # which a signal may have interrupted
        while self.trainee.step < train.steps:
            self.trainee.advance()
            self.minutes = before + (time.perf_counter() - started) / 60
            step = self.trainee.step
            self.display.advance(step)
            if step % self.cfg.report_every == 0 or step == train.steps:
                self.report()
            with self.display.aside():
                self.score()
                if step % self.cfg.save_every == 0:
                    self.save()
            if self.processes.any(self.signals.asked or self.late(), self.device):
                break

    def late(self) -> bool:
        """Whether the time limit is reached; generating data counts too."""
        limit = self.cfg.max_minutes
        return limit is not None and time.perf_counter() - self.signals.since >= 60 * limit

    def means(self) -> dict[str, float]:
        """The means over the last steps; raises if training cannot continue."""
        means = self.trainee.means()
        self.diagnostics.check_finite(means, self.trainee.step, self.saved)
        return means

    def report(self) -> None:
        """Report the progress, and check it for problems."""
        step, means = self.trainee.step, self.means()
        self.trainee.forget()
        stage = self.trainee.model.stage(step - 1)
        length = stage.length
        speed = self.display.report(step, length, means, stage.batch)
        if self.processes.is_first:
            line = {"step": step, "length": length, "minutes": self.minutes}
            self.folder.write_metrics({**line, "frames_per_second": speed, **means})
        self.warn({"step": float(step), **means})

    def warn(self, line: dict[str, float]) -> None:
        """Print warnings about problems, if any."""
        for text in self.diagnostics.look(line):
            self.display.tell(f"warning: {text}")

    def score(self) -> None:
        """Validate if due, and save the weights if they are the best so far."""
        step, train = self.trainee.step, self.recipe.train
        due = step and (step % train.validate_every == 0 or step == train.steps)
        if not due or step == self.scored:
            return
        self.means()  # refuses a loss that is not finite; all processes take part
        if self.validate is None:
            return
        self.trainee.model.eval()
        try:
            with self.signals.waiting(at_once=True):
                scores = self.validate(
                    self.trainee.model, lambda: self.folder.path / "pictures" / f"{step:08d}"
                )
        except Stopped:  # the next start repeats it
            return
        finally:
            self.trainee.model.train()
        self.scored = step
        if not scores:
            return
        line = {f"validation_{name}": value for name, value in scores.items()}
        self.folder.write_metrics({"step": step, "minutes": self.minutes, **line})
        text = "  ".join(f"{name} {value:.4f}" for name, value in scores.items())
        self.display.tell(f"step {step:>7}  validation  {text}")
        self.warn({"step": float(step), **line})
        infinity = float("inf")
        if scores.get(BEST_BY, infinity) < self.best.get(BEST_BY, infinity):
            self.best = scores | {"step": float(step)}
            self.export("best", scores)

    def save(self) -> None:
        """Write a checkpoint if there is anything new; all processes call this together."""
        step = self.trainee.step
        if step == self.saved:
            return
        self.means()
        self.diagnostics.check_finite({"a weight": self.trainee.largest()}, step, self.saved)
        counts = self.trainee.counts()
        if self.processes.is_first:
            loader = {**self.trainee.loader.state_dict(), "step": step}
            state = {"loader": loader, "counts": counts, "best": self.best}
            state |= {"minutes": self.minutes, "scored": self.scored, "began": self.began}
            state |= {"recipe": to_dict(self.recipe)}
            found = checkpoints.Checkpoint(step, self.trainee.tensors(), state)
            self.folder.flush_metrics()
            checkpoints.save(self.folder.checkpoints, found, self.cfg.part_bytes)
        self.saved = step
        self.processes.wait()

    def export(self, name: str, scores: dict[str, float]) -> None:
        """Write the weights, with all the training that led to them."""
        steps, minutes = self.began.get("step", 0), self.began.get("minutes", 0.0)
        began = {"step": steps, "minutes": minutes, "runs": self.began.get("runs", [])}
        later = [(s + steps, m + minutes, e) for s, m, e in self.folder.curve(BEST_BY)]
        about = {
            "step": self.trainee.step + steps,
            "minutes": self.minutes + minutes,
            "seed": self.recipe.seed,
            "began": began,
            "validation": scores,
            "curve": [*self.began.get("curve", []), *later],
            "videos": self.videos,
        }
        for start in self.folder.starts()[-1:]:
            about |= {name: start.get(name) for name in ("commit", "device")}
        weight = {"a weight": self.trainee.largest()}
        self.diagnostics.check_finite(weight, self.trainee.step, self.saved)
        path = self.folder.path / f"{name}.safetensors"
        weights.save(path, self.trainee.model, self.recipe, about=about)


def without_places(recipe: Recipe) -> Recipe:
    """A recipe without file locations, which differ between machines."""
    data = recipe.data
    if is_name_of_file(data.world):
        data = replace(data, world="file")
    return replace(recipe, data=data, train=replace(recipe.train, start=None))


def begin(model: WorldModel[Any], recipe: Recipe, folder: RunFolder) -> dict[str, Any]:
    """Load the initial weights of a new run, if any; return the training that they contain."""
    if recipe.train.start is None or checkpoints.numbered(folder.checkpoints):
        return {}
    path = find(recipe.train.start)
    header = weights.read_header(path)
    about = header["about"] | {"runs": weights.trained_before(header)}
    weights.fill(model, path)
    return {name: about[name] for name in ("step", "minutes", "curve", "runs") if name in about}
