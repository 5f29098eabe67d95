"""A training step in advance, on random videos, to compile or to time it.

`python -m gswm.fast.rehearsal` compiles a step of the recipe that it reads from standard input.
"""

import json
import os
import sys
import threading
import time
from typing import Any

import torch

from gswm.core.devices import tf32
from gswm.core.settings import from_dict
from gswm.data.batches.resident import Resident
from gswm.data.batches.windows import Windows
from gswm.data.storage.stored import StoredEpisodes
from gswm.fast.trainee import FastTrainee
from gswm.models.base import WorldModel
from gswm.models.recipe import Recipe
from gswm.models.registry import build
from gswm.train.distributed import Processes
from gswm.train.step import MakeTrainee, Trainee

NICE = 5
"""Niceness of the compiler process."""
VIDEOS = 32


def rehearsal(
    model: WorldModel[Any], recipe: Recipe, device: torch.device, make: MakeTrainee = Trainee
) -> Trainee:
    """A trainee of the recipe, with a few random videos and every other part of a batch."""
    length, size = recipe.model.schedule.needed(recipe.train.steps), recipe.model.image_size
    shape = (VIDEOS, length, size, size, 3)
    video = torch.randint(256, shape, dtype=torch.uint8, device=device)
    windows = Windows(VIDEOS, length, recipe.train.batch, device=device)
    number = model.num_actions
    actions = torch.rand(VIDEOS, length, number, device=device) if number else None
    rewards = torch.zeros(VIDEOS, length, device=device)
    held = StoredEpisodes(video, actions, rewards, background=video[:, 0])
    loader = Resident(held, windows, length, {})
    how = {"seed": recipe.seed, "device": device, "processes": Processes()}
    return make(model, loader, recipe.train, **how)


def compile_step(recipe: Recipe, device: torch.device) -> None:
    """Take a compiled step of the last stage whose gradients pass through frames.

    On a GPU, one with our kernels precedes it, after which a line is printed.
    """
    if device.index is not None:
        torch.cuda.set_device(device)
    torch.manual_seed(recipe.seed)
    trainee = rehearsal(build(recipe).to(device), recipe, device, FastTrainee)
    assert isinstance(trainee, FastTrainee)
    if trainee.on_gpu:
        advance_at(trainee, trainee.to_compile)
        torch.cuda.synchronize(device)
        print("kernels are compiled", flush=True)
    trainee.deferred.compile()
    advance_at(trainee, trainee.to_compile)


def advance_at(trainee: Trainee, step: int) -> None:
    """Take the given step."""
    trainee.step = step
    trainee.clock.fill_(step)
    trainee.advance()


def main() -> None:
    """Compile a step of the recipe on standard input."""
    os.nice(NICE)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    asked = json.load(sys.stdin)
    try:
        with tf32(True):
            compile_step(from_dict(Recipe, asked["recipe"]), torch.device(asked["device"]))
    except Exception as error:
        first = (str(error).strip() or "it does not say why").splitlines()[0]
        sys.exit(f"{type(error).__name__}: {first}")


def end_with(parent: int) -> None:
    """End together with the training, even if that is killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
