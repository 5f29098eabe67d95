"""Small SILOTs for the tests: all widths differ, and the backbone is a single layer."""

from dataclasses import replace

import torch
from tiny import generator
from torch import Tensor, nn

from gswm.models.objects import Attributes, GRUObjects, ObjectNoise
from gswm.models.silot.networks import CELL, GLIMPSE, grid_of
from gswm.models.silot.objects import SilotSizes
from gswm.models.silot.propagation import SilotSight
from gswm.models.silot.silot import Silot, SilotConfig

SIZES = SilotSizes(what=5, hidden=6, encoding=7, head=9)
WHAT = SIZES.what


class Coarse(nn.Module):
    """Features of a frame, cell by cell."""

    def __init__(self, num_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, num_out, CELL, stride=CELL)

    def forward(self, frames: Tensor) -> Tensor:
        more = CELL * grid_of(frames.shape[-1]) - frames.shape[-1]
        return self.conv(nn.functional.pad(frames, (0, more, 0, more)))


def config(**changes: object) -> SilotConfig:
    return replace(SilotConfig(sizes=SIZES, num_objects=3), **changes)


def build(seed: int = 0, **changes: object) -> Silot:
    """A model whose encoders and decoder are small too."""
    torch.manual_seed(seed)
    model = Silot(config(**changes))
    e = model.cfg.sizes.encoding
    model.backbone = Coarse(e)
    ours = model.propagation
    for encoder in (ours.encode_near, ours.encode, model.discovery.encode):
        encoder.mlp = nn.Linear(3 * GLIMPSE**2, e)
    model.renderer.decoder.mlp = nn.Linear(model.cfg.sizes.what, 4 * GLIMPSE**2)
    return model


def lively(seed: int = 0, **changes: object) -> Silot:
    """A model that finds objects although it is untrained, more in some cells, and keeps them."""
    model = build(seed, **changes)
    with torch.no_grad():
        model.discovery.mlp_pres[-1].bias[0] = 2
        model.discovery.mlp_pres[-1].weight.mul_(8)
        model.propagation.post.mlp_pres[-1].bias[0] = 4
        for layer in (model.propagation.prior, model.propagation.post):
            layer.mlp_box[-1].weight.mul_(4)
    return model


def objects(batch: int = 2, slots: int = 3, seed: int = 0) -> GRUObjects:
    """Objects with ids 0, 1, 2, ..., all there."""
    g = generator(seed)

    def rand(n: int, low: float = -1, high: float = 1) -> Tensor:
        return low + (high - low) * torch.rand(batch, slots, n, generator=g)

    o = Attributes(
        rand(1, 0.8, 1), rand(1, -3, 3), rand(2, 0.2, 0.3), rand(2, -0.7, 0.7), rand(WHAT)
    )
    ids = torch.arange(slots).expand(batch, slots)
    born = torch.full((batch,), slots)
    return GRUObjects(o, rand(SIZES.hidden), rand(SIZES.hidden), ids, born)


def noise(batch: int = 2, num: int = 3, seed: int = 0) -> ObjectNoise:
    g = generator(seed + 10)
    return ObjectNoise(*(torch.randn(batch, num, n, generator=g) for n in (4, 1, WHAT, 1)))


def sight(batch: int = 2, seed: int = 0, size: int = 64) -> SilotSight:
    g, grid = generator(seed + 20), grid_of(size)
    frame = torch.rand(batch, 3, size, size, generator=g)
    features = torch.randn(batch, SIZES.encoding, grid, grid, generator=g)
    ones = torch.ones(batch, 1, 1)
    return SilotSight(frame, features, ones, ones)
