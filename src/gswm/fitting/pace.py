"""Time a few steps of each length, and derive how many fit into the available time."""

import time
from dataclasses import dataclass, replace

import torch

from gswm.fast.rehearsal import rehearsal
from gswm.models.recipe import Recipe
from gswm.models.registry import build
from gswm.train.step import MakeTrainee, Trainee

WARM, TIMED = 5, 5
"""Steps before and during the measurement; one of each on a CPU."""


@dataclass(frozen=True)
class Pace:
    """Seconds per step at each length T of the curriculum."""

    seconds: dict[int, float]

    def total(self, recipe: Recipe) -> float:
        """Seconds of all steps of a recipe."""
        lengths = recipe.model.schedule.lengths
        ends = [start for start, _ in lengths[1:]] + [recipe.train.steps]
        stages = zip(lengths, ends, strict=True)
        return sum((end - start) * self.seconds[length] for (start, length), end in stages)


def measure_pace(recipe: Recipe, device: torch.device, make: MakeTrainee) -> Pace:
    """Take some steps at each length of the curriculum, on random videos."""
    warm, timed = (WARM, TIMED) if device.type == "cuda" else (1, 1)
    found = {}
    for length in dict.fromkeys(length for _, length in recipe.model.schedule.lengths):
        steady = replace(recipe.model, schedule=recipe.model.schedule.steady(length))
        alike = replace(recipe, model=steady)
        trainee = rehearsal(build(alike).to(device), alike, device, make)
        for _ in range(warm):
            trainee.advance()
        found[length] = step_time(trainee, device, timed)
    return Pace(found)


def step_time(trainee: Trainee, device: torch.device, steps: int = 1) -> float:
    """Mean seconds of the next steps."""
    wait(device)
    began = time.perf_counter()
    for _ in range(steps):
        trainee.advance()
    wait(device)
    return (time.perf_counter() - began) / steps


def wait(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
