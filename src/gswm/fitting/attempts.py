"""Train a model on a prepared video for some minutes, in several attempts if objects are lost."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.fitting.episodes import FitData
from gswm.fitting.pace import Pace, measure_pace
from gswm.fitting.recipe import STANDARD, TUNING, Length, Teaching, recipe_for
from gswm.fitting.resuming import attempts_in
from gswm.fitting.watching import ObjectsLostError, Watch
from gswm.models.base import WorldModel
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.recipe import Recipe
from gswm.train.checkpoint import numbered
from gswm.train.folder import RunFolder
from gswm.train.launch import train
from gswm.train.loop import LoopConfig
from gswm.train.signals import Signals, Stopped
from gswm.train.step import MakeTrainee, Trainee
from gswm.weights import files as weights
from gswm.weights.finding import find

ATTEMPTS = 3
RESERVED = 0.12
"""Fraction of the time for validation, and for work before and after the steps."""
CHECKPOINTS = 10
"""Number of checkpoints of a training, to return to one."""
REPORTED = 5
"""Smallest number of steps per report; with fewer windows, they might show no object by chance."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Budget:
    """The time budget of a fit, from its start."""

    minutes: float
    began: float

    @staticmethod
    def of(minutes: float) -> "Budget":
        """A number of minutes from now."""
        if not minutes > 0:
            raise UserError(f"--minutes is {minutes:g}: it must be above 0")
        return Budget(minutes, time.monotonic())

    @property
    def left(self) -> float:
        """Remaining seconds."""
        return 60 * self.minutes - (time.monotonic() - self.began)


class FitStoppedError(UserError):
    """A signal, or the end of the time, came before there was a model to show."""

    def __init__(self, signals: Signals) -> None:
        if signals.exit_code:
            self.code = signals.exit_code
            super().__init__("stopped; run the same command again to resume the fit")
        else:
            super().__init__("the time ended before the first step: give more --minutes")


@dataclass(frozen=True)
class Trained:
    """A trained model, and how it was trained."""

    model: WorldModel[Any]
    recipe: Recipe
    run: Path
    attempts: int
    steps: int
    """Number of steps that were taken."""
    minutes: float
    """The time that they took."""
    start: str | None = None
    """The trained weights from which the first attempt started."""
    prior_alone: bool = False
    """Whether only the prior was trained."""

    @property
    def finished(self) -> bool:
        """Whether all steps were taken."""
        return self.steps >= self.recipe.train.steps


def train_within(
    budget: Budget,
    name: str,
    settings: GSWMConfig,
    prepared: FitData,
    out: Path,
    *,
    expected: float,
    start: str | None = None,
    device_name: str = "auto",
    make: MakeTrainee = Trainee,
    batch: int = 16,
    steps: int | None = None,
    seed: int = 0,
    tell: Tell = print,
) -> Trained:
    """Train for the remaining time; if objects are lost, start again with stronger supervision.

    The last attempt in `out` is resumed, if there is one.

    Args:
        budget: The time budget, of which measuring and importing have used a part.
        name: The name of the recipe.
        settings: The model's settings, as derived from the video.
        prepared: The video.
        out: The folder for one run per attempt.
        expected: Objects per frame, as measured.
        start: Initial weights that fit `settings`; None for new ones.
        device_name: cpu, cuda or auto.
        make: A factory of trainees.
        batch: Windows per step.
        steps: Number of steps, regardless of the time they take.
        seed: Seed of weights, windows and noise.
        tell: Called with each message.
    """
    device = find_device(device_name)

    def planned(number: int, how: Teaching, begin: str | None = None) -> Recipe:
        length = Length(number, batch=batch, longest=prepared.frames)
        return recipe_for(
            *(name, str(prepared.file), settings, length, how),
            labelled=prepared.labelled,
            start=begin,
            seed=seed,
        )

    teaching, begin = STANDARD if start is None else TUNING, start
    pace = measure_pace(planned(10_000, teaching), device, make)
    last = max(attempts_in(out), default=0)
    for attempt in range(1, ATTEMPTS + 1):
        run = out / f"run-{attempt}"
        if attempt < last:
            teaching = teaching.stronger()
            continue
        if attempt == last:
            recipe = RunFolder(run).recipe()
        else:
            number = steps or steps_within(
                budget.left, pace, lambda n, t=teaching: planned(n, t), teaching.least
            )
            recipe = planned(number, teaching, begin)
        number, seconds = recipe.train.steps, pace.total(recipe)
        doing, scope = ("resuming", " in total") if attempt == last else ("training", "")
        tell(
            f"{doing} {number:,} steps on {device.type}: about {seconds / 60:.1f} minutes{scope}, "
            f"at {1000 * seconds / number:.0f} ms per step"
        )
        watch = Watch(expected, begin=round(teaching.taught[0] * number))
        cfg = loop_of(number, None if steps else budget)
        try:
            model, taken, minutes = run_to_end(recipe, run, device_name, cfg, make, watch)
        except ObjectsLostError as error:
            if attempt == ATTEMPTS:
                raise UserError(
                    f"{error}, in {ATTEMPTS} attempts; look at the measured boxes with `gswm data "
                    "look`, and give --threshold, --sigma or --region"
                ) from error
            healthy = healthy_weights(run, watch.healthy, recipe)
            since = f"from step {watch.healthy}" if healthy else f"from {start or 'the beginning'}"
            begin = healthy or start
            tell(f"{error}; another attempt, {since}, with stronger supervision by motion")
            teaching = teaching.stronger()
            continue
        return Trained(model, recipe, run, attempt, taken, minutes, start)
    raise AssertionError("every attempt returns or raises")


def loop_of(steps: int, budget: Budget | None) -> LoopConfig:
    """Settings of a loop of some steps: its reports and checkpoints, and the time that is left."""
    return LoopConfig(
        max_minutes=None if budget is None else max(1.0, budget.left / 60),
        save_every=max(1, steps // CHECKPOINTS),
        report_every=max(REPORTED, min(100, steps // 50)),
        compiled=False,
        any_code=True,
    )


def run_to_end(
    recipe: Recipe,
    run: Path,
    device_name: str,
    cfg: LoopConfig,
    make: MakeTrainee,
    watch: Watch | None = None,
) -> tuple[WorldModel[Any], int, float]:
    """Train in a folder, or resume the training there: the model, its steps, and their minutes.

    Raises a FitStoppedError for a signal.
    """
    signals = Signals()
    try:
        ended = train(recipe, run, device_name, cfg, signals, make, watch)
    except Stopped as error:
        raise FitStoppedError(signals) from error
    if signals.exit_code:
        raise FitStoppedError(signals)
    return ended.trainee.model.eval(), ended.trainee.step, ended.minutes


def steps_within(
    seconds: float, pace: Pace, planned: Callable[[int], Recipe], least: int = STANDARD.least
) -> int:
    """The number of steps that fit into the time; raises a UserError for fewer than `least`."""
    thousand = pace.total(planned(1_000)) / 1_000
    number = int((1 - RESERVED) * seconds / thousand)
    if number < least:
        need = least * thousand / (1 - RESERVED) / 60
        raise UserError(
            f"there is time for {max(0, number)} steps, and a fit needs {least} or more: "
            f"add {need:.1f} minutes to --minutes, use a GPU, or give --learn motion"
        )
    return number


def healthy_weights(run: Path, step: int, recipe: Recipe) -> str | None:
    """Save the weights of the last checkpoint with enough objects, in a file beside it."""
    there = [path for path in numbered(run / "checkpoints") if int(path.name) <= step]
    if not there:
        return None
    found = {}
    for part in sorted(there[-1].glob("*.safetensors")):
        found |= safetensors.torch.load_file(part)
    model = weights.build(recipe)
    model.load_state_dict(
        {k.removeprefix("model."): v for k, v in found.items() if k.startswith("model.")}
    )
    path = run / "healthy.safetensors"
    weights.save(path, model, replace(recipe, train=replace(recipe.train, start=None)))
    return str(path)


def initial(trained: Trained) -> WorldModel[Any]:
    """The model before training: its initial weights with the settings of the video."""
    assert trained.start is not None
    model = weights.build(trained.recipe)
    weights.fill(model, find(trained.start))
    return model.to(trained.model.device).eval()


def with_background(model: WorldModel[Any], picture: torch.Tensor | None) -> WorldModel[Any]:
    """Let the model keep the background of its video; None removes that of its initial weights."""
    context: Any = model.get_submodule("context")
    context.picture = None if picture is None else picture.float().to(model.device) / 255
    return model
