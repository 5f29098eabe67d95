"""From a recipe to a running training: data, validation, folder, processes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from gswm.data.episode import Episodes
from gswm.data.hdf5 import read
from gswm.data.loader import open_loader
from gswm.data.resident import Loader
from gswm.data.worlds import world
from gswm.devices import find_device
from gswm.eval.evaluate import validate
from gswm.recipes import Recipe
from gswm.records import concatenate
from gswm.train import distributed
from gswm.train.distributed import Processes
from gswm.train.folder import RunFolder
from gswm.train.loop import LoopConfig, Run, Validate

HORIZON = 10
"""Frames imagined when validating."""


def train(recipe: Recipe, out: Path, device_name: str, cfg: LoopConfig) -> Run:
    """Train a recipe in the folder `out`, from where it is; the run, when it has ended."""
    device = find_device(device_name)
    processes = distributed.start(device)
    if device.type == "cuda":
        device = torch.device("cuda", processes.local_rank)
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    try:
        if processes.is_first:
            RunFolder.open(out, recipe).note_start(device, processes.ranks)
        processes.wait()
        folder = RunFolder(out)
        loader = training_loader(recipe, device, processes)
        scores = validator(recipe, device) if processes.is_first else None
        run = Run(folder, recipe, loader, scores, cfg, device=device, processes=processes)
        run.restore()
        run.run()
        return run
    finally:
        distributed.stop()


def training_loader(recipe: Recipe, device: torch.device, processes: Processes) -> Loader:
    """The recipe's windows."""
    data, longest = recipe.data, max(length for _, length in recipe.model.schedule.lengths)
    source = data.world if is_file(data.world) else world(data.world)
    return open_loader(
        source,
        batch=recipe.train.batch,
        length=longest,
        seed=recipe.seed,
        device=device,
        episodes=data.episodes,
        first_frames=data.first_frames,
        rank=processes.rank,
        ranks=processes.ranks,
    )


def validator(recipe: Recipe, device: torch.device) -> Validate | None:
    """The recipe's metric, on the first episodes of its validation split."""
    data, number = recipe.data, recipe.train.validation_episodes
    if is_file(data.world):
        episodes = read(data.world, slice(0, number), split="val").to(device)
    else:
        there = world(data.world)
        chunks: Iterator[Episodes] = there.episodes(there.splits["val"].seed, number, device)
        episodes = concatenate(list(chunks))
    if episodes.truth is None or not len(episodes):
        return None
    steps = min(HORIZON, episodes.video.shape[1] - data.given)

    def scores(model: Any, pictures: Path | None) -> dict[str, float]:
        return validate(model, episodes, data.given, steps)

    return scores


def is_file(name: str) -> bool:
    """Whether data are a file, and not a world."""
    return Path(name).suffix in (".hdf5", ".h5")
