"""SCALOR learns: a ball that drifts, found and drawn without a label.

Images are of 32 pixels, glimpses of 16, and all that encodes or draws is small; the rest is as in
the recipe "scalor-single-ball".
"""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from learning import learn, run_alone, straight, together
from tiny import generator
from torch import Tensor, nn

from gswm.core.networks import GlimpseDecoder
from gswm.core.schedule import Anneal
from gswm.data.worlds.sprites import draw
from gswm.models.registry import recipe
from gswm.models.scalor import rendering
from gswm.models.scalor.discovery import ScalorDiscovery
from gswm.models.scalor.objects import BoxConfig, ScalorSizes
from gswm.models.scalor.scalor import Scalor, ScalorConfig
from gswm.models.scalor.schedule import ScalorSchedule

STEPS, BATCH, LR = 400, 6, 2e-3
SIZE, FRAMES, LENGTH, RADIUS = 32, 6, 2, 4.0


def balls(num: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Videos, and where the ball is in each frame, in pixels."""
    time = torch.arange(FRAMES, dtype=torch.float64)[:, None]
    start = 10 + 12 * torch.rand(num, 1, 2, generator=g, dtype=torch.float64)
    speed = 2 * torch.rand(num, 1, 2, generator=g, dtype=torch.float64) - 1
    at = start + speed * time
    sizes = torch.full((FRAMES, 1), RADIUS, dtype=torch.float64)
    red = torch.tensor([1, 0, 0], dtype=torch.float64).expand(FRAMES, 1, 3)
    return torch.stack([draw(each[:, None], sizes, red, SIZE) for each in at]), at


def small_model() -> Scalor:
    torch.manual_seed(0)
    rendering.GLIMPSE = 16
    chosen = recipe("scalor-single-ball").model
    assert isinstance(chosen, ScalorConfig)
    what = 8
    model = Scalor(
        replace(
            chosen,
            image_size=SIZE,
            num_objects=2,
            boxes=BoxConfig(size_range=0.125),  # in so few steps, wide boxes find more
            sizes=ScalorSizes(what=what, hidden=32, prior=16, encoding=32),
            discovery=ScalorDiscovery(grid=2),
            schedule=ScalorSchedule(
                lengths=((0, LENGTH),),
                detached=100,
                pres_prior=Anneal(0.1, 1e-4, 0, 250),
                tau_steps=STEPS,
            ),
        )
    )

    def convs(*channels: int) -> list[nn.Module]:
        pairs = pairwise(channels)
        return [m for i, o in pairs for m in (nn.Conv2d(i, o, 4, stride=2, padding=1), nn.CELU())]

    model.features.conv = nn.Sequential(*convs(3, 16, 32, 32, 64))
    model.discovery.conv_mask = nn.Sequential(*convs(1, 4, 8, 16, 32))
    seen = (nn.Flatten(), nn.Linear(32 * 4 * 4, 2 * what))
    model.appearance.conv_what = nn.Sequential(*convs(3, 16, 32), *seen)
    model.appearance.deconv_what = GlimpseDecoder(what, 4)
    return model


def train(model: Scalor, videos: Tensor, g: torch.Generator) -> list[float]:
    return learn(
        model, videos, g, straight(LR, STEPS), together(model, 1.0), steps=STEPS, batch=BATCH
    )


def learn_and_check() -> None:
    """On unseen balls: an object in every frame, and clearly less error than an empty picture.

    So few steps draw balls that were seen well, and others off their centers.
    """
    g = generator()
    videos, _ = balls(64, g)
    unseen, _ = balls(8, g)
    model = small_model()
    losses = train(model, videos, g)
    assert sum(losses[-20:]) < sum(losses[:20]) - 20 * 100, (losses[:20], losses[-20:])

    track = model.infer(unseen[:, :LENGTH], discover="first")
    there = (track.pres > 0.5).sum(dim=-1)
    assert (there >= 1).all(), there
    truth = unseen[:, :LENGTH] / 255
    assert track.reconstruction is not None
    error, empty = (track.reconstruction - truth).square().mean(), truth.square().mean()
    assert error < 0.6 * empty, (error, empty)


@pytest.mark.slow
def test_a_ball_is_found_and_drawn() -> None:
    run_alone(__file__)


if __name__ == "__main__":
    torch.set_num_threads(1)
    learn_and_check()
