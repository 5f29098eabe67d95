"""Small OP3s for the tests; all widths differ."""

from dataclasses import replace

import torch
from tiny import generator

from gswm.models.objects import LSTMState
from gswm.models.op3.masks import MaskConfig
from gswm.models.op3.op3 import Op3, Op3Config, Op3Sizes
from gswm.models.op3.schedule import Op3Schedule
from gswm.models.op3.slots import Slots

SIZE = 16
SIZES = Op3Sizes(state=6, hidden=7, effect=5, channels=4)
SMALL = Op3Config(
    image_size=SIZE,
    num_objects=3,
    stride=2,
    sizes=SIZES,
    masks=MaskConfig(threshold=0.4, largest=0.9),
    schedule=Op3Schedule(lengths=((0, 3),), first=2),
)


def build(seed: int = 0, **changes: object) -> Op3:
    torch.manual_seed(seed)
    return Op3(replace(SMALL, **changes))


def lively(seed: int = 0, **changes: object) -> Op3:
    """A model whose weights are so large that masks differ, and change with frame and noise."""
    model = build(seed, **changes)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if "convs" in name:
                param.mul_(1.8)
            if "head" in name or "next" in name:
                param.normal_(generator=generator(1)).mul_(0.5)
    return model


def slots(batch: int = 2, num: int = 3, seed: int = 0, sizes: Op3Sizes = SIZES) -> Slots:
    g = generator(seed)

    def rand(n: int) -> torch.Tensor:
        return torch.randn(batch, num, n, generator=g)

    s, h = sizes.state, sizes.hidden
    return Slots(rand(s), rand(2 * s), rand(2 * s), rand(s), LSTMState(rand(h), rand(h)))
