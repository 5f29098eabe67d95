"""Speed of rollouts, with CUDA graphs and without.

Each figure is the median of several calls of `imagine`, including drawing; the first call, which
records the graphs, is reported separately.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from gswm.bench.train import collect, machine, wait
from gswm.core.devices import tf32
from gswm.core.errors import UserError
from gswm.fast.replay import one_by_one, replay
from gswm.models.recipe import Recipe
from gswm.models.registry import build, recipe

AUTHORS = {("two-layer", 10, 90, 16): 541}
"""Best milliseconds of the authors' release on one H200, by recipe, given, steps and batch."""


def bench_imagine(
    name: str = "two-layer",
    device: str | torch.device = "cpu",
    *,
    given: int = 10,
    steps: int = 90,
    batch: int = 16,
    repeats: int = 5,
    change: Callable[[Recipe], Recipe] = lambda chosen: chosen,
) -> dict[str, Any]:
    """Measure, and return JSON data."""
    if min(given, steps, batch, repeats) < 1:
        raise UserError("given, steps, batch and repeats must be at least 1")
    device, chosen = torch.device(device), change(recipe(name))
    collect(device)
    torch.manual_seed(chosen.seed)
    model = replay(build(chosen).to(device).eval())
    size = chosen.model.image_size
    video = torch.randint(256, (batch, given, 3, size, size), dtype=torch.uint8).to(device)
    number, moments = model.num_actions, given + steps - 1
    actions = torch.rand(batch, moments, number, device=device) if number else None

    def call() -> float:
        begin = time.perf_counter()
        model.imagine(video, given, steps, actions=actions)
        wait(device)
        return 1e3 * (time.perf_counter() - begin)

    rows = []
    with tf32(True):
        for path, way in (("plain", one_by_one), ("fast", nullcontext)):
            with way():
                first = call()
                ms = sorted(call() for _ in range(repeats))
            middle = {"ms": ms[repeats // 2], "ms_best": ms[0]}
            rows.append({"path": path, **middle, "ms_first": first})
    theirs = AUTHORS.get((name, given, steps, batch)) if device.type == "cuda" else None
    shape = {"recipe": name, "given": given, "steps": steps, "batch": batch}
    return shape | {"machine": machine(device), "paths": rows, "authors_ms": theirs}
