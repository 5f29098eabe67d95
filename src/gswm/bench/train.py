"""Speed of training steps on random videos, compared with the authors' release.

Steps are those of `gswm train`: the same windows, noise, loss, gradients, clipping and Adam.
"""

import gc
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from gswm.bench.data import host_bytes
from gswm.core.devices import tf32
from gswm.core.errors import UserError
from gswm.core.waiting import tell
from gswm.fast.rehearsal import rehearsal
from gswm.fast.trainee import WARM_UP, FastTrainee
from gswm.models.recipe import Recipe
from gswm.models.registry import build, recipe
from gswm.train.step import Trainee

AUTHORS = {
    ("two-layer", 2): {"ms": 55, "bytes": 0.7e9},
    ("two-layer", 10): {"ms": 411, "bytes": 2.3e9},
    ("two-layer", 20): {"ms": 971, "bytes": 4.8e9, "kernels": 43_390, "cpu_ms": 10_900},
    ("two-layer-dense", 20): {"ms": 1_019, "bytes": 21.4e9},
    ("obj3d", 20): {"ms": 1_109, "bytes": 5.1e9},
    ("maze", 10): {"ms": 502, "bytes": 11.1e9},
}
"""The authors' release at batch 16 on one H200, by recipe and T; `cpu_ms` on two CPU cores."""
AUTHORS_BATCH = 16


@dataclass(frozen=True)
class Case:
    """A case to measure."""

    recipe: str
    length: int
    """T: frames per video."""
    batch: int
    objects: int
    """K: slots for objects."""
    path: str
    """plain, fast, or compiled (fast, with torch's compiler)."""


@dataclass(frozen=True)
class Figures:
    """The cost of a case."""

    ms: float
    """Median milliseconds per step."""
    ms_best: float
    frames_per_second: float
    seconds_to_first_step: float
    """Seconds from the recipe to the end of the first step."""
    seconds_to_full_speed: float
    """Seconds to the first step at full speed."""
    kernels: int | None
    """Number of kernel launches per step; None on a CPU."""
    peak_bytes: int | None
    """Peak GPU memory, including the videos; None on a CPU."""


def bench_train(
    names: str | Sequence[str] = "two-layer",
    device: str | torch.device = "cpu",
    *,
    batches: Sequence[int] = (),
    lengths: Sequence[int] = (),
    objects: Sequence[int] = (),
    both: bool = False,
    compiled: bool = True,
    steps: int = 20,
    change: Callable[[Recipe], Recipe] = lambda chosen: chosen,
    after: Callable[[dict[str, Any]], None] = lambda figures: None,
) -> dict[str, Any]:
    """Measure, and return JSON data.

    Args:
        names: one or several recipes.
        device: cpu or cuda.
        batches: videos per step. Default: the recipe's. Each is measured at the longest T.
        lengths: values of T. Default: the recipe's longest.
        objects: values of K. Default: the recipe's. Each is measured at the longest T.
        both: measure the fast and the plain path, instead of only the one that training uses. A
            model without a fast path is measured on the plain one.
        compiled: compile the fast path with torch on a GPU.
        steps: number of timed steps.
        change: modifies the recipe.
        after: called with all figures so far after each case.
    """
    if min([steps, *batches, *lengths, *objects]) < 1:
        raise UserError("steps, batches, lengths and objects must be at least 1")
    device = torch.device(device)
    several = [change(recipe(name)) for name in ([names] if isinstance(names, str) else names)]
    if not several:
        raise UserError("name at least one recipe")
    title = ", ".join(chosen.name for chosen in several)
    figures: dict[str, Any] = {"recipe": title, "machine": machine(device), "steps": []}
    cuda = device.type == "cuda"
    fast = "compiled" if cuda and compiled else "fast"
    usual = fast if cuda else "plain"
    for chosen in several:
        paths = (fast, "plain") if both else (usual,)
        if not build(chosen).recurrent():
            paths = ("plain",)
        for case in cases(chosen, batches, lengths, objects, paths):
            found = bench_case(adapted(chosen, case), case, device, steps)
            figures["steps"].append(asdict(case) | asdict(found) | beside(case, found, device))
            figures["machine"] = machine(device)
            after(figures)
    return figures


def cases(
    chosen: Recipe,
    batches: Sequence[int],
    lengths: Sequence[int],
    objects: Sequence[int],
    paths: Sequence[str] = ("fast",),
) -> list[Case]:
    """Vary one setting at a time, around the recipe's own values."""
    model, train = chosen.model, chosen.train
    lengths = sorted(lengths) or [model.schedule.longest]
    batches, objects = batches or [train.batch], objects or [model.num_objects]
    base = batches[0] if train.batch not in batches else train.batch
    slots = objects[0] if model.num_objects not in objects else model.num_objects
    points = [(length, base, slots) for length in lengths]
    points += [(lengths[-1], batch, slots) for batch in batches]
    points += [(lengths[-1], base, number) for number in objects]
    return [Case(chosen.name, *at, path) for at in dict.fromkeys(points) for path in paths]


def adapted(chosen: Recipe, case: Case) -> Recipe:
    """The recipe with a constant T."""
    schedule = chosen.model.schedule.steady(case.length)
    model = replace(chosen.model, num_objects=case.objects, schedule=schedule)
    return replace(chosen, model=model, train=replace(chosen.train, batch=case.batch))


def bench_case(chosen: Recipe, case: Case, device: torch.device, steps: int) -> Figures:
    """Take steps as `gswm train` does, and time them."""
    cuda = device.type == "cuda"
    collect(device)
    make = partial(FastTrainee, compiled=case.path == "compiled")
    with tf32(True), ExitStack() as at_the_end:
        begin = time.perf_counter()
        torch.manual_seed(chosen.seed)
        model = build(chosen).to(device)
        trainee = rehearsal(model, chosen, device, Trainee if case.path == "plain" else make)
        at_the_end.enter_context(trainee.running(tell))
        timed_step(trainee, device)
        first = time.perf_counter() - begin
        if isinstance(trainee, FastTrainee):
            finish_compiling(trainee, device, first)
        full = time.perf_counter() - begin
        seconds = sorted(timed_step(trainee, device) for _ in range(steps))
        kernels = count_kernels(trainee) if cuda else None
    median = seconds[len(seconds) // 2]
    return Figures(
        ms=1e3 * median,
        ms_best=1e3 * seconds[0],
        frames_per_second=case.batch * case.length / median,
        seconds_to_first_step=first,
        seconds_to_full_speed=full,
        kernels=kernels,
        peak_bytes=torch.cuda.max_memory_allocated(device) if cuda else None,
    )


def finish_compiling(trainee: FastTrainee, device: torch.device, first: float) -> None:
    """Take steps until they are at full speed."""
    if (ahead := trainee.ahead) is not None:
        tell(f"first step after {first:.1f} s; compiling")
        while trainee.ahead is not None:
            timed_step(trainee, device)
        if ahead.failed:
            raise UserError("compilation failed: use --no-compiled")
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
    for _ in range(WARM_UP if trainee.capture else 0):
        timed_step(trainee, device)


def timed_step(trainee: Trainee, device: torch.device) -> float:
    """Seconds that one step takes, including work on the device."""
    begin = time.perf_counter()
    trainee.advance()
    wait(device)
    return time.perf_counter() - begin


def count_kernels(trainee: Trainee) -> int:
    """Number of kernels that one step launches on the GPU."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        trainee.advance()
        torch.cuda.synchronize()
    events = profiler.events() or []
    return sum(event.device_type.name == "CUDA" for event in events)


def beside(case: Case, figures: Figures, device: torch.device) -> dict[str, Any]:
    """The authors' figures for the same case, if any, and our speedup."""
    same = case.batch == AUTHORS_BATCH and case.objects == recipe(case.recipe).model.num_objects
    theirs = AUTHORS.get((case.recipe, case.length), {}) if same else {}
    ms = theirs.get("ms" if device.type == "cuda" else "cpu_ms")
    ratio = None if ms is None else ms / figures.ms
    gpu = theirs if device.type == "cuda" else {}
    return {
        "authors_ms": ms,
        "authors_peak_bytes": gpu.get("bytes"),
        "authors_kernels": gpu.get("kernels"),
        "times_as_fast": ratio,
    }


def machine(device: torch.device) -> dict[str, Any]:
    """A description of the machine."""
    cuda = device.type == "cuda"
    return {
        "platform": platform.platform(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if cuda else "cpu",
        "host_bytes": host_bytes(),
    }


def collect(device: torch.device) -> None:
    """Free the memory of the previous case."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def wait(device: torch.device) -> None:
    """Wait until the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
