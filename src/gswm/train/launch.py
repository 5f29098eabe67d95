"""Launch a training run from a recipe: data, validation, folder, processes."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from gswm.core.devices import find_device, tf32
from gswm.core.errors import UserError
from gswm.core.limits import STEPS, check_range, check_seed
from gswm.core.records import concatenate
from gswm.core.schedule import Anneal, Curriculum
from gswm.core.waiting import explained, progress_bar
from gswm.data.batches.kept import default_folder
from gswm.data.batches.loader import Pool, open_loader
from gswm.data.batches.resident import Loader, Progress
from gswm.data.episode import Episodes
from gswm.data.importing.videos import known_cut
from gswm.data.storage.hdf5 import is_name_of_file, open_file, world_of
from gswm.data.worlds.registry import world
from gswm.eval.evaluate import actions_of
from gswm.eval.explained import EPISODES, measure
from gswm.eval.protocols import usual
from gswm.eval.validate import SAMPLED, validate
from gswm.models.base import WorldModel
from gswm.models.recipe import Recipe
from gswm.train import distributed, snapshots
from gswm.train.checkpoint import numbered
from gswm.train.distributed import Processes
from gswm.train.folder import Listener, RunFolder, environment
from gswm.train.loop import LoopConfig, Run, Validate
from gswm.train.signals import Signals
from gswm.train.step import MakeTrainee, Trainee
from gswm.train.trackers import tracked
from gswm.weights import files as weights
from gswm.weights.finding import find

HORIZON = 10
"""Frames imagined when validating."""
LEAST = {"steps": 1, "batch": 1, "validate_every": 1}
LEAST |= {"lr": 0, "matrix_lr": 0, "warmup": 0, "last_lr": 0}
"""Minimum values of training settings."""


def train(
    recipe: Recipe,
    out: Path,
    device_name: str,
    cfg: LoopConfig,
    signals: Signals | None = None,
    trainee: MakeTrainee = Trainee,
    watch: Listener | None = None,
) -> Run:
    """Train a recipe in the folder `out`, from its last checkpoint if there is one; return the run.

    The time limit of `cfg` counts from the creation of `signals`. `watch` receives every line of
    metrics, and may raise to end the training.
    """
    signals, folder = signals or Signals(), RunFolder(out)
    folder.listeners += [] if watch is None else [watch]
    device = find_device(device_name)
    processes = distributed.start(device)
    if device.type == "cuda":
        if processes.ranks > 1 or device.index is None:
            device = torch.device("cuda", processes.local_rank)
        torch.cuda.set_device(device)
    try:
        with ExitStack() as at_the_end, signals.heard(cfg.max_minutes):
            if device.type == "cuda":
                at_the_end.enter_context(tf32(True))
            check(recipe, folder, processes)
            if processes.is_first:
                folder.check_free()
                folder.check(recipe, any_code=cfg.any_code)
                if not numbered(folder.checkpoints):
                    folder.check_none_lost()
            making = f"generating training and validation videos of {recipe.data.world}"
            with explained(making, silent=not processes.is_first):
                kept = default_folder() if cfg.keep_episodes else None
                with preparing(recipe, processes) as advance:
                    loader = training_loader(recipe, device, processes, kept, advance)
                at_the_end.callback(loader.close)
                scores, note = validator(recipe, device) if processes.is_first else (None, "")
            common: dict[str, Any] = {"device": device, "processes": processes, "signals": signals}
            common["trainee"] = trainee
            run = Run(folder, recipe, loader, scores, cfg, videos=imported(recipe), **common)
            if processes.is_first:
                folder.begin(recipe, environment(device, processes.ranks, cfg))
            processes.wait()
            if note:
                run.display.tell(note)
            run.restore()
            with tracked(run):
                run.run()
            return run
    finally:
        folder.close()
        distributed.stop()


def check(recipe: Recipe, folder: RunFolder, processes: Processes) -> None:
    """Raise a UserError early for settings that would fail later."""
    train = recipe.train
    check_seed(recipe.seed)
    for name, least in LEAST.items():
        if not (value := getattr(train, name)) >= least:
            flag = name.replace("_", "-")
            raise UserError(f"--train.{flag} is {value}; it must be at least {least}")
    check_range({"--train.steps": train.steps}, 1, STEPS)
    data = recipe.data
    check_range({"--data.episodes": data.episodes, "--data.first-frames": data.first_frames}, 1)
    if not train.clip > 0:
        raise UserError(f"--train.clip is {train.clip}; it must be positive")
    recipe.model.check()
    check_schedule(recipe.model.schedule)
    processes.rows(train.batch)
    begins = processes.is_first and not numbered(folder.checkpoints)
    if train.start is not None and begins:
        weights.read_header(find(train.start))


def check_schedule(schedule: Curriculum) -> None:
    """Raise a UserError for an invalid schedule."""
    lengths, of = schedule.lengths, "--model.schedule"
    starts, frames = [start for start, _ in lengths], [length for _, length in lengths]
    if starts[:1] != [0] or starts != sorted(set(starts)) or min(frames) < 1:
        raise UserError(
            f"{of}.lengths is {lengths}; it must consist of pairs of a first step "
            f"and a number of frames, starting at step 0"
        )
    for name in (field.name for field in fields(schedule)):
        if isinstance(line := getattr(schedule, name), Anneal):
            line.check(f"{of}.{name.replace('_', '-')}")


def preparing(
    recipe: Recipe, processes: Processes
) -> AbstractContextManager[Callable[[int], None] | None]:
    """A progress bar for the training videos, in the first process."""
    data = recipe.data
    total = None if is_name_of_file(data.world) else data.episodes
    bar = progress_bar(f"preparing videos of {data.world}", "episodes", total)
    return bar if processes.is_first else nullcontext()


def training_loader(
    recipe: Recipe,
    device: torch.device,
    processes: Processes,
    kept: Path | None = None,
    progress: Progress | None = None,
) -> Loader:
    """The recipe's windows; on a CPU, episodes of a world are cached in the folder `kept`."""
    data, longest = recipe.data, recipe.model.schedule.needed(recipe.train.steps)
    source, episodes = data.world, data.episodes
    if is_name_of_file(data.world):
        with open_file(data.world) as file:
            there = len(file.of_split("train" if file.splits is not None else None))
            episodes = min(episodes, there)
            frames, size = file.frames, (file.height, file.width)
    else:
        source = world(data.world).resized(recipe.model.image_size)
        source = source.with_workers(os.cpu_count() or 1)
        frames, size = source.num_frames, (source.image_size, source.image_size)
    check_fit(recipe, frames, size)
    loader = open_loader(
        source,
        batch=recipe.train.batch,
        length=longest,
        seed=recipe.seed,
        device=device,
        episodes=episodes,
        first_frames=data.first_frames,
        fresh=Pool.of(episodes) if data.fresh else None,
        rank=processes.rank,
        ranks=processes.ranks,
        labels=recipe.model.takes_labels,
        kept=kept,
        progress=progress,
    )
    loader.prepare(0)
    if recipe.model.takes_background and loader.batch(0).background is None:
        loader.close()
        raise UserError(
            f"{data.world} has no backgrounds, but --model.background static needs one per video: "
            "use `gswm fit VIDEO`, which computes them"
        )
    return loader


def imported(recipe: Recipe) -> dict[str, Any]:
    """Import settings of the recipe's videos: `fps`, unless every frame was imported, and `fit`."""
    if not is_name_of_file(recipe.data.world):
        return {}
    with open_file(recipe.data.world) as file:
        said = file.attributes if "gswm" in file.attributes else {}  # not those of other programs
        return known_cut(said, recipe.data.world)


def check_fit(recipe: Recipe, frames: int, size: tuple[int, int]) -> None:
    """Raise a UserError for data that the recipe's model cannot use."""
    data, model = recipe.data, recipe.model
    if size != (model.image_size, model.image_size):
        raise UserError(
            f"{data.world} has frames of {size[1]} × {size[0]} pixels, but the model expects "
            f"{model.image_size} × {model.image_size}: import the videos at that size, or set "
            "--model.image-size"
        )
    frames = min(frames, data.first_frames or frames)
    longest = model.schedule.longest
    if longest > frames:
        raise UserError(
            f"{data.world} has {frames} frames per video, but training uses up to {longest}: "
            "shorten --model.schedule.lengths, which has pairs of a first step and a number of "
            "frames"
        )
    if (needed := model.schedule.needed(recipe.train.steps)) > frames:
        raise UserError(
            f"{data.world} has {frames} frames per video, but overshooting needs {needed}: lower "
            "--model.schedule.overshoot.horizon, or turn it off with "
            "--model.schedule.overshoot.start None"
        )


def validator(recipe: Recipe, device: torch.device) -> tuple[Validate | None, str]:
    """The validation on the first episodes of the recipe's validation split, and a note.

    The note says why there is no validation, or why it is by pixels.
    """
    data, number, unused = recipe.data, recipe.train.validation_episodes, None
    if number < 1:
        return None, "validation is turned off"
    if is_name_of_file(data.world):
        with open_file(data.world) as file:
            if file.splits is None or "val" not in file.splits:
                lack = f"no validation: {data.world} has no validation videos"
                return None, f"{lack}; {file.remedy('val')}"
            episodes = file.read(file.of_split("val")[:number].tolist()).to(device)
            unused = file.ignored
    else:
        there = world(data.world).resized(recipe.model.image_size)
        if data.given >= 1:
            there = there.shortened(data.given + HORIZON)
        chunks: Iterator[Episodes] = there.episodes(there.splits["val"].seed, number, device)
        episodes = concatenate(list(chunks))
    frames, note = episodes.video.shape[1], ""
    if episodes.truth is None:
        note = f"validation uses pixel errors: {data.world} has no ground truth for objects"
        note += f" ({unused})" if unused else ""
    if not 1 <= data.given < frames:
        lack = (
            f"validation needs more than {data.given} given frames, but {data.world} has "
            f"{frames}: set --data.given to 1 to {frames - 1}"
        )
        if note:  # training on your own videos continues without it
            return None, f"no validation: {lack}"
        raise UserError(lack)
    steps = min(HORIZON, frames - data.given)
    rules = usual(world_of(data.world))
    futures = SAMPLED if rules.sample else 1

    def scores(model: WorldModel[Any], place: Callable[[], Path] | None) -> dict[str, float]:
        if place is not None:
            draw(place, model, episodes, data.given, steps)
        found = validate(model, episodes, data.given, steps, futures, rules.discover)
        some = episodes[:EPISODES]
        known = {"actions": actions_of(model, some), "background": some.background}
        share = measure(model, some.video, **known)
        return found if share is None else found | {"unexplained": share}

    return scores, note


def draw(
    place: Callable[[], Path],
    model: WorldModel[Any],
    episodes: Episodes,
    given: int,
    steps: int,
) -> None:
    """Write the pictures of a validation; a full disk does not end the training."""
    try:
        snapshots.write(place, model, episodes, given, steps)
    except (OSError, UserError) as error:
        print(f"no pictures of this validation: {error}", file=sys.stderr)
