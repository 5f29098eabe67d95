"""Small models and random objects for the tests; all widths differ, so none fits by accident."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gswm.core.networks import Trunk
from gswm.data.batches.batch import Batch
from gswm.models.base import Loss
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.gswm.schedule import Overshooting
from gswm.models.objects import Attributes, LSTMState, Objects, Sizes
from gswm.models.registry import RECIPES
from gswm.models.registry import build as build_recipe
from gswm.weights import files as weights

SIZES = Sizes(what=5, state=7, hidden=6, encoding=4, context=3)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def config(recipe: str = "interaction", **changes: object) -> GSWMConfig:
    """A recipe's settings at small sizes, for the ELBO alone; a smaller image limits the grid."""
    model = RECIPES[recipe]().model
    schedule = replace(model.schedule, overshoot=Overshooting())
    small = {"sizes": SIZES, "num_objects": 3, "schedule": schedule}
    model = replace(model, **(small | changes))
    if "discovery" in changes:
        return model
    grid = min(model.discovery.grid, model.image_size // Trunk.STRIDE)
    return replace(model, discovery=replace(model.discovery, grid=grid))


def build(cfg: GSWMConfig, seed: int = 0) -> GSWM:
    """A model with a trunk of two layers, which is most of the work of a full one."""
    torch.manual_seed(seed)
    model = GSWM(cfg)
    trunk, out = model.discovery.conv_disc, model.discovery.conv_disc[-1]
    small = nn.Conv2d(trunk[0].in_channels, 8, 8, stride=8)
    last = nn.Conv2d(8, out.out_channels, 3, stride=out.stride, padding=1)
    model.discovery.conv_disc = nn.Sequential(small, nn.CELU(), last)
    return model


def lively(recipe: str = "maze", **changes: object) -> GSWM:
    """A model that finds objects although it is untrained, and lets them live."""
    model = build(config(recipe, **changes))
    with torch.no_grad():
        model.discovery.mlp_disc[-1].bias[0] = 3
        last = getattr(model.propagation.latent, "mlp_att", None)
        last = model.propagation.latent.mlp_att_post if last is None else last
        last[-1].bias[0] = 6
    return model


def ship(folder: Path, name: str, *, about: dict[str, Any] | None = None) -> Path:
    """Small weights of a recipe that find objects everywhere, with their checksum, in `folder`."""
    small = RECIPES[name]()
    # All cells are equally present, and none of them should reject the others.
    discovery = replace(small.model.discovery, rivals=False)
    small = replace(small, model=replace(small.model, sizes=SIZES, discovery=discovery))
    torch.manual_seed(0)
    untrained = build_recipe(small)
    with torch.no_grad():
        for presence in ("discovery.mlp_disc", "propagation.latent.mlp_att"):
            untrained.get_parameter(f"{presence}.4.bias")[0] = 9.0
    file = folder / f"{name}.safetensors"
    weights.save(file, untrained, small, about=about)
    with (folder / "checksums.txt").open("a") as sums:
        sums.write(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n")
    return file


def video(batch: int = 2, time: int = 3, size: int = 64, seed: int = 0) -> Tensor:
    return torch.rand(batch, time, 3, size, size, generator=generator(seed))


def attributes(batch: int = 2, slots: int = 3, seed: int = 0, sizes: Sizes = SIZES) -> Attributes:
    g = generator(seed)

    def rand(n: int, low: float = 0, high: float = 1) -> Tensor:
        return low + (high - low) * torch.rand(batch, slots, n, generator=g)

    return Attributes(
        pres=rand(1),
        depth=rand(1, -3, 3),
        hw=rand(2, 0.2, 0.5),
        xy=rand(2, -1, 1),
        what=rand(sizes.what, -1, 1),
    )


def objects(batch: int = 2, slots: int = 3, seed: int = 0, sizes: Sizes = SIZES) -> Objects:
    g = generator(seed + 1)

    def randn(n: int) -> Tensor:
        return torch.randn(batch, slots, n, generator=g)

    h, state = sizes.hidden, sizes.state
    return Objects(
        attributes(batch, slots, seed, sizes),
        randn(state),
        LSTMState(randn(h), randn(h)),
        LSTMState(randn(h), randn(h)),
        torch.arange(slots).expand(batch, slots),
        torch.full((batch,), slots),
    )


def slots(record: Objects, which: object) -> Objects:
    """Some slots of each video, in that order."""
    return record.with_flat(record.flat()[:, which], record.id[:, which])


def loss(model: Any, frames: Tensor, seed: int = 0, step: int = 10_000_000) -> Loss:
    """The loss of `frames`, at a step after all that is special about the first ones."""
    stage = replace(model.stage(step), length=frames.shape[1])
    noise = model.noise(len(frames), stage, generator(seed))
    return model.loss(Batch(frames), noise, torch.tensor(step), stage)
