"""Checks that the fast paths and the plain path of training compute the same function.

It compares the loss and every gradient of small models of several recipes, on the same video, with
the same weights and the same noise. These paths are compared with plain autograd:

    deferred    gradients of recurrent weights at once
    kernels     the same, with custom kernels for frames
    captured    the same as kernels, replayed from a CUDA graph
    compiled    the same as kernels, compiled

Everything is in full precision: bfloat16 convolutions and TF32 products, which training uses on a
GPU, differ from float32 by more than a bug might. Discontinuities that amplify rounding errors are
avoided too: edges in the videos, and the ReLUs of the trunk, whose weights' gradients change by up
to 8e-3, by plain autograd, if all weights change by 1e-7.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gswm.core.devices import tf32
from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.core.shapes import Video
from gswm.data.batches.batch import Batch
from gswm.fast.deferred import Deferred, LossFunction
from gswm.fast.trainee import WARM_UP, side_stream
from gswm.models.base import Loss, WorldModel
from gswm.models.recipe import Recipe
from gswm.models.registry import build, recipe

FastPath = Literal["deferred", "kernels", "captured", "compiled"]
COMPARED = (
    *("two-layer", "two-layer-dense", "single-ball", "single-ball-d", "maze", "maze-no-aoe"),
    *("clips", "op3-obj3d-two", "scalor-interaction", "silot-interaction", "sqair-digits"),
    "stove-interaction",
)
SIZES = {"what": 12, "state": 20, "hidden": 16, "prior": 24, "encoding": 32, "context": 8}
BATCH, LENGTH, OBJECTS = 3, 4, 4
SIDE = 5
"""Number of colors along a side of a frame."""
LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-3
"""Largest norm of a difference, relative to the gradient's; float32 sums have another order."""
LEAST = 1e-5
"""Lower bound of a gradient's norm in this comparison, relative to all gradients together."""


@dataclass(frozen=True)
class Comparison:
    """The difference between one path and the plain one, for one recipe."""

    recipe: str
    path: FastPath
    loss: float
    """Relative difference of the losses."""
    gradient: float
    """The largest relative difference of a parameter's gradient."""
    parameter: str
    """The parameter with that difference."""
    missing: tuple[str, ...]
    """Parameters that have a gradient on only one of the paths."""

    @property
    def agrees(self) -> bool:
        """Whether the two agree up to rounding; False for NaN."""
        close = self.loss <= LOSS_TOLERANCE and self.gradient <= GRADIENT_TOLERANCE
        return close and not self.missing


def selftest(
    device: str | torch.device = "cpu",
    names: Iterable[str] = COMPARED,
    paths: Iterable[FastPath] | None = None,
) -> Iterator[Comparison]:
    """Compare all paths of all recipes. Default of `paths`: all that the device supports."""
    device = torch.device(device)
    on_gpu: tuple[FastPath, ...] = ("deferred", "kernels", "captured", "compiled")
    chosen = tuple(paths) if paths else on_gpu if device.type == "cuda" else on_gpu[:1]
    for each in [case for name in names for case in cases(small(recipe(name)))]:
        for path in chosen:
            with tf32(False):
                yield compare(each, path, device)


def small(chosen: Recipe) -> Recipe:
    """The recipe at small sizes."""
    model: Any = chosen.model
    few = min(OBJECTS, model.num_objects)
    changes = {"num_objects": few, "schedule": model.schedule.steady(LENGTH)}
    if is_dataclass(getattr(model, "sizes", None)):
        names = {f.name for f in fields(model.sizes)}
        fewer = {name: size for name, size in SIZES.items() if name in names}
        changes["sizes"] = replace(model.sizes, **fewer)
    return replace(chosen, model=replace(model, **changes))


def cases(chosen: Recipe) -> list[Recipe]:
    """The recipe, and its stage in which only the prior learns, if it has one."""
    schedule: Any = chosen.model.schedule
    if hasattr(schedule, "prior_only"):
        alone = replace(schedule, prior_only=0)
    elif hasattr(schedule, "overshoot"):
        frames = {"given": LENGTH // 2, "horizon": LENGTH - LENGTH // 2}
        alone = replace(schedule, overshoot=replace(schedule.overshoot, start=0, **frames))
    else:
        return [chosen]
    changes: dict[str, Any] = {"schedule": alone}
    discovery: Any = getattr(chosen.model, "discovery", None)
    if hasattr(discovery, "certainty"):
        # Tracks are inferred: an untrained model is not certain of any object.
        changes["discovery"] = replace(discovery, certainty=None, doubt=None)
    model = replace(chosen.model, **changes)
    return [chosen, replace(chosen, name=f"{chosen.name}, prior", model=model)]


def compare(chosen: Recipe, path: FastPath, device: torch.device) -> Comparison:
    """Compare one path with the plain one."""
    model: Any = example(chosen).to(device)
    if not model.recurrent():
        raise UserError(f"{chosen.name} has no fast path: its model names no recurrent methods")
    batch = map_tensors(lambda part: part.to(device), example_batch(model))
    stage = model.stage(0)
    noise = model.noise(BATCH, stage, torch.Generator(device).manual_seed(0))
    clock = torch.zeros((), dtype=torch.int64, device=device)

    def run(backward: Callable[[LossFunction], Loss], of: Any) -> Loss:
        of.zero_grad(set_to_none=True)
        return backward(lambda: of.loss(batch, noise, clock, stage))

    other = deepcopy(model)
    want = result(model, run(plain, model))
    deferred = Deferred(other, kernels=path != "deferred")
    deferred = deferred.compile() if path == "compiled" else deferred
    got = captured(partial(run, deferred, other)) if path == "captured" else run(deferred, other)
    return difference(chosen.name, path, want, result(other, got))


def plain(loss: LossFunction) -> Loss:
    """Loss and gradients by plain autograd."""
    value = loss()
    value.total.backward()
    return value


def example(chosen: Recipe) -> WorldModel[Any]:
    """The recipe's model, with a smooth activation instead of each ReLU."""
    torch.manual_seed(0)
    model = build(chosen)
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, nn.CELU())
    return model


def example_batch(model: WorldModel[Any]) -> Batch:
    """A batch with all parts; with actions if the model takes them."""
    video, number = smooth(model.image_size), model.num_actions
    generator = torch.Generator().manual_seed(0)
    actions = torch.rand(BATCH, LENGTH, number, generator=generator) if number else None
    return Batch(video, actions, torch.zeros(BATCH, LENGTH), video[:, 0])


def smooth(size: int) -> Video:
    """Random colors without edges."""
    generator = torch.Generator().manual_seed(0)
    few = torch.rand((BATCH * LENGTH, 3, SIDE, SIDE), generator=generator)
    video = F.interpolate(few, size=(size, size), mode="bicubic").clamp(0, 1)
    return video.unflatten(0, (BATCH, LENGTH))


def captured(step: Callable[[], Loss]) -> Loss:
    """The loss of a replayed step, which leaves its gradients in place."""
    for _ in range(WARM_UP):
        with side_stream():
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    torch.cuda.synchronize()
    return loss


def result(model: Any, loss: Loss) -> dict[str, Tensor]:
    """The loss and all gradients, by name."""
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    values = {"": loss.total, **gradients}
    return {name: value.detach().double().cpu() for name, value in values.items()}


def difference(
    name: str, path: FastPath, want: dict[str, Tensor], got: dict[str, Tensor]
) -> Comparison:
    """Compare `got` with the result of the plain path."""
    both = [key for key in want if key and key in got]
    least = LEAST * float(torch.stack([want[key].norm() for key in both]).norm())
    far = {
        key: float((got[key] - want[key]).norm() / want[key].norm().clamp_min(least))
        for key in both
    }
    worst = max(far, key=lambda key: (far[key] != far[key], far[key]))
    loss = abs(float((got[""] - want[""]) / want[""]))
    return Comparison(name, path, loss, far[worst], worst, tuple(sorted(want.keys() ^ got.keys())))
