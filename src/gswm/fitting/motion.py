"""Train the prior alone on a prepared video: how its objects move.

The initial weights infer the tracks of some windows of the training part, once. The prior then
learns from its own rollouts (see `models.gswm.overshoot`), and nothing else changes: the model
finds and draws objects as before. Windows and steps are few enough for a CPU.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.waiting import explained
from gswm.fitting.attempts import RESERVED, Budget, Tell, Trained, loop_of, run_to_end
from gswm.fitting.episodes import FitData
from gswm.fitting.pace import step_time
from gswm.fitting.recipe import VALIDATIONS
from gswm.fitting.resuming import attempts_in
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.gswm.recipes import DYNAMICS
from gswm.models.gswm.schedule import Overshooting
from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import build
from gswm.train.distributed import Processes
from gswm.train.folder import RunFolder
from gswm.train.launch import training_loader
from gswm.train.step import MakeTrainee, Trainee
from gswm.weights import files as weights
from gswm.weights.finding import find

WINDOW = 20
"""Largest number of frames of a window."""
GIVEN = 0.4
"""The fraction of a window that is given."""
APART = 3
"""Training frames per window: neighboring windows share most of their frames."""
OBSERVED = 0.4
"""Largest fraction of the time in which tracks are inferred."""
PASSES = 32
"""Largest number of steps for each window."""
LEAST = 20
"""Smallest useful number of steps."""


@dataclass(frozen=True)
class WindowPace:
    """Measured seconds, for one batch of windows."""

    observing: float
    """To infer the tracks."""
    step: float


@dataclass(frozen=True)
class MotionPlan:
    """The length of a training."""

    steps: int
    batches: int
    """Number of batches of windows."""

    def seconds(self, pace: WindowPace) -> float:
        """The time that it takes."""
        return min(self.steps, self.batches) * pace.observing + self.steps * pace.step


def train_motion(
    budget: Budget,
    name: str,
    settings: GSWMConfig,
    data: FitData,
    out: Path,
    start: str,
    *,
    device_name: str = "auto",
    make: MakeTrainee = Trainee,
    batch: int = 16,
    steps: int | None = None,
    seed: int = 0,
    tell: Tell = print,
) -> Trained:
    """Train the prior for the remaining time, or resume its training.

    Args:
        budget: The time budget, of which measuring and importing have used a part.
        name: The name of the recipe.
        settings: The settings of the initial weights.
        data: The video.
        out: The folder for the run.
        start: Initial weights.
        device_name: cpu, cuda or auto.
        make: A factory of trainees.
        batch: Windows per step.
        steps: Number of steps, regardless of the time they take.
        seed: Seed of windows and noise.
        tell: Called with each message.
    """
    device, run = find_device(device_name), out / "run-1"

    def planned(plan: MotionPlan) -> Recipe:
        return recipe_for_motion(name, settings, data, start, plan, batch, seed)

    if attempts_in(out):
        recipe = RunFolder(run).recipe()
        tell(f"resuming {recipe.train.steps:,} steps on {device.type}")
    else:
        enough = max(2, math.ceil(data.splits["train"] * data.frames / APART / batch))
        with explained("timing a step of the training"):
            pace = measure_pace(planned(MotionPlan(2, 1)), start, device, make)
        each = pace.observing / batch / window_of(data.frames)
        tracking = each * sum(data.splits.values()) * data.frames  # of all frames, at the end
        seconds = (1 - RESERVED) * budget.left - tracking
        plan = MotionPlan(steps, min(enough, steps)) if steps else plan_for(seconds, pace, enough)
        recipe = planned(plan)
        tell(
            f"training the prior for {plan.steps:,} steps on {device.type}, on "
            f"{plan.batches * batch:,} windows: about {plan.seconds(pace) / 60:.1f} minutes"
        )
    cfg = loop_of(recipe.train.steps, None if steps else budget)
    model, taken, minutes = run_to_end(recipe, run, device_name, cfg, make)
    return Trained(model, recipe, run, 1, taken, minutes, start, prior_alone=True)


def window_of(frames: int) -> int:
    """The length of a window, in episodes of some length."""
    return min(WINDOW, frames)


def recipe_for_motion(
    name: str,
    settings: GSWMConfig,
    data: FitData,
    start: str,
    plan: MotionPlan,
    batch: int,
    seed: int,
) -> Recipe:
    """The recipe of a training of the prior; its arguments are those of `train_motion`."""
    window = window_of(data.frames)
    given = max(1, round(GIVEN * window))
    overshoot = Overshooting(
        start=0,
        windows=plan.batches * batch,
        batch=batch,
        given=given,
        horizon=window - given,
        discover="always",
    )
    train = TrainConfig(
        steps=plan.steps,
        batch=batch,
        lr=8e-5,
        muon=DYNAMICS,
        matrix_lr=1e-3,
        warmup=max(1, plan.steps // 20),
        clip_by="part",
        start=start,
        validate_every=max(1, plan.steps // VALIDATIONS),
        validation_episodes=16,
    )
    model = replace(settings, schedule=replace(settings.schedule, overshoot=overshoot))
    return Recipe(name, DataConfig(str(data.file), given=given), model, train, seed)


def measure_pace(recipe: Recipe, start: str, device: torch.device, make: MakeTrainee) -> WindowPace:
    """Time a step, which depends on the number of objects that the initial weights find."""
    model, processes = build(recipe), Processes()
    weights.fill(model, find(start))
    loader = training_loader(recipe, device, processes)
    try:
        trainee = make(
            model.to(device),
            loader,
            recipe.train,
            seed=recipe.seed,
            device=device,
            processes=processes,
        )
        if device.type == "cuda":  # compiles kernels
            trainee.advance()
            trainee.stage = None
        observing = step_time(trainee, device)
        step = step_time(trainee, device)
    finally:
        loader.close()
    return WindowPace(max(0.0, observing - step), step)


def plan_for(seconds: float, pace: WindowPace, enough: int) -> MotionPlan:
    """The steps that fit into the time; raises a UserError for too few.

    Args:
        seconds: The time.
        pace: The time of a step.
        enough: The number of batches that show the whole video.
    """
    observing = min(OBSERVED * seconds, seconds - LEAST * pace.step)
    batches = max(1, min(enough, int(observing / max(pace.observing, 1e-9))))
    steps = min(PASSES * batches, int((seconds - batches * pace.observing) / pace.step))
    if steps < LEAST:
        lacks = MotionPlan(LEAST, 1).seconds(pace) - seconds
        raise UserError(
            f"there is time for {max(0, steps)} steps, and learning motion needs {LEAST} or more: "
            f"add {max(0.1, lacks / 60):.1f} minutes to --minutes"
        )
    return MotionPlan(steps, batches)
