"""Small SQAIRs for the tests: all widths differ."""

from dataclasses import replace

import torch
from tiny import generator
from torch import Tensor, nn

from gswm.models.objects import Attributes, GRUObjects, ObjectNoise
from gswm.models.sqair.objects import SqairSizes
from gswm.models.sqair.sight import SqairSight
from gswm.models.sqair.sqair import Sqair, SqairConfig

SIZES = SqairSizes(what=5, hidden=8, head=7, glimpse=6)
WHAT = SIZES.what


class Coarse(nn.Module):
    """A frame into a vector, by a single layer."""

    def __init__(self, size: int, num_out: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 4, 8, stride=8), nn.Flatten(), nn.Linear(4 * (size // 8) ** 2, num_out)
        )

    def forward(self, frames: Tensor) -> Tensor:
        return self.net(frames)


def config(**changes: object) -> SqairConfig:
    return replace(SqairConfig(sizes=SIZES, num_objects=3, samples=3), **changes)


def build(seed: int = 0, **changes: object) -> Sqair:
    """A model whose image encoder is small too."""
    torch.manual_seed(seed)
    model = Sqair(config(**changes))
    model.encoder = Coarse(model.cfg.image_size, model.cfg.sizes.hidden)
    return model


def lively(seed: int = 0, **changes: object) -> Sqair:
    """A model that finds objects although it is untrained, and whose parts all matter."""
    model = build(seed, **changes)
    with torch.no_grad():
        for part in (model.discovery, model.propagation):
            part.mlp_where[-1].weight.mul_(3)
        model.propagation.prior.readout.weight.mul_(5)
        model.renderer.scale.fill_(1)
        model.discovery.mlp_pres[-1].bias[0] = 3
        model.propagation.mlp_pres[-1].bias[0] = 6
    return model


def objects(batch: int = 2, slots: int = 3, seed: int = 0) -> GRUObjects:
    """Objects with ids 0, 1, 2, ..., the second of which is absent."""
    g = generator(seed)

    def rand(n: int, low: float = -1, high: float = 1) -> Tensor:
        return low + (high - low) * torch.rand(batch, slots, n, generator=g)

    pres = torch.ones(batch, slots, 1)
    pres[:, 1:2] = 0
    o = Attributes(pres, torch.zeros_like(pres), rand(2, 0.2, 0.4), rand(2, -0.7, 0.7), rand(WHAT))
    ids, born = torch.arange(slots).expand(batch, slots), torch.full((batch,), slots)
    return GRUObjects(o, rand(SIZES.hidden), rand(SIZES.hidden), ids, born)


def noise(batch: int = 2, num: int = 3, seed: int = 0) -> ObjectNoise:
    g = generator(seed + 10)
    return ObjectNoise(*(torch.randn(batch, num, n, generator=g) for n in (4, 1, WHAT, 1)))


def sight(batch: int = 2, seed: int = 0, size: int = 64, later: float = 1.0) -> SqairSight:
    g = generator(seed + 20)
    frame = torch.rand(batch, 3, size, size, generator=g)
    one = torch.ones(batch, 1)
    return SqairSight(frame, one, later * one, one, 0.3 * one, 0.2 * one)
