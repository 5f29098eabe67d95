"""Small SCALORs for the tests: all widths differ, and drawing and encoding are cheap."""

from dataclasses import replace

import torch
from tiny import generator
from torch import Tensor, nn

from gswm.models.objects import Attributes, LSTMState, ObjectNoise
from gswm.models.scalor.objects import ScalorObjects, ScalorSizes
from gswm.models.scalor.propagation import Sight
from gswm.models.scalor.scalor import Scalor, ScalorConfig

SIZES = ScalorSizes(what=5, hidden=6, prior=7, encoding=8, context=3)
WHAT = SIZES.what


def config(**changes: object) -> ScalorConfig:
    return replace(ScalorConfig(sizes=SIZES, num_objects=3), **changes)


def build(seed: int = 0, **changes: object) -> Scalor:
    """A model whose encoders and decoder are a layer or two."""
    torch.manual_seed(seed)
    cfg = config(**changes)
    model, stride = Scalor(cfg), cfg.image_size // cfg.discovery.grid
    model.features.conv = nn.Sequential(nn.Conv2d(3, 64, stride, stride=stride), nn.CELU())
    model.discovery.conv_mask = nn.Sequential(nn.Conv2d(1, 32, stride, stride=stride))
    what = cfg.sizes.what
    model.appearance.conv_what = nn.Sequential(
        nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 2 * what)
    )
    large = nn.Upsample(scale_factor=8, mode="bilinear")
    model.appearance.deconv_what = nn.Sequential(
        nn.Linear(what, 64), nn.Unflatten(-1, (4, 4, 4)), large
    )
    return model


def lively(seed: int = 0, **changes: object) -> Scalor:
    """A model that finds objects although it is untrained: most of them in some cells."""
    model = build(seed, **changes)
    last = model.discovery.conv_disc[-1]
    assert isinstance(last, nn.Conv2d)
    assert last.bias is not None
    with torch.no_grad():
        last.bias[0] = 0.3
        last.weight[0] *= 8
        last.weight[1:9] *= 4
    return model


def objects(batch: int = 2, slots: int = 3, seed: int = 0) -> ScalorObjects:
    """Objects with ids 0, 1, 2, ..., all there."""
    g = generator(seed)

    def rand(n: int, low: float = -1, high: float = 1) -> Tensor:
        return low + (high - low) * torch.rand(batch, slots, n, generator=g)

    hw = rand(2, 0.2, 0.3)
    o = Attributes(rand(1, 0.8, 1), rand(1, -3, 3), hw, rand(2, -0.7, 0.7), rand(WHAT))
    state = LSTMState(rand(SIZES.prior), rand(SIZES.prior))
    ids = torch.arange(slots).expand(batch, slots)
    born = torch.full((batch,), slots)
    return ScalorObjects(o, rand(4), rand(1, 0, 0.1), state, rand(SIZES.hidden), ids, born)


def noise(batch: int = 2, slots: int = 3, seed: int = 0) -> ObjectNoise:
    g = generator(seed + 10)
    return ObjectNoise(*(torch.randn(batch, slots, n, generator=g) for n in (4, 1, WHAT, 1)))


def sight(batch: int = 2, grid: int = 4, tau: float = 0.7, seed: int = 0) -> Sight:
    g = generator(seed + 20)
    frame = torch.rand(batch, 3, 64, 64, generator=g)
    features = torch.randn(batch, 64, grid, grid, generator=g)
    ones = torch.ones(batch, 1, 1)
    return Sight(frame, features, tau * ones, ones)
