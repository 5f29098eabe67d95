"""It learns: two small balls that go straight, found, told apart and foretold without a label."""

import sys
from dataclasses import replace

import pytest
import torch
from learning import cosine, learn, run_alone, together
from tiny import generator
from torch import Tensor

from gswm.data.worlds.sprites import draw
from gswm.models.stove.config import StoveConfig, StoveSchedule
from gswm.models.stove.stove import Stove
from gswm.models.stove.supair import EncoderConfig

STEPS, BATCH, LR = 160, 10, 8e-3
SIZE, FRAMES, LENGTH, RADIUS = 16, 9, 5, 2.5
SHIFT = 0.5 - RADIUS / 17
"""The distance between a ball's position and the middle of its sprite."""


def balls(num: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Videos, and where the balls are in each frame, in pixels: one goes right, the other left."""
    time = torch.arange(FRAMES, dtype=torch.float64)
    start = 3 + 3 * torch.rand(num, 1, 2, generator=g, dtype=torch.float64)
    way = torch.tensor([[0.6], [-0.6]], dtype=torch.float64) * time
    x = torch.stack([start[..., 0] + way[0], SIZE - start[..., 1] + way[1]], dim=-1)
    y = torch.tensor([4.0, 12.0], dtype=torch.float64) + torch.rand(
        num, 1, 2, generator=g, dtype=torch.float64
    )
    at = torch.stack([x, y.expand_as(x)], dim=-1)
    sizes = torch.full((FRAMES, 2), RADIUS, dtype=torch.float64)
    white = torch.ones(FRAMES, 2, 3, dtype=torch.float64)
    return torch.stack([draw(each, sizes, white, SIZE) for each in at]), at + SHIFT


def model() -> Stove:
    torch.manual_seed(0)
    cfg = StoveConfig(
        image_size=SIZE,
        num_objects=2,
        encoder=EncoderConfig(hidden=64, width=(0.2, 0.5)),
        schedule=StoveSchedule(lengths=((0, LENGTH),)),
    )
    return Stove(replace(cfg, images=replace(cfg.images, patch=6)))


def train(stove: Stove, videos: Tensor, g: torch.Generator) -> list[float]:
    return learn(
        stove, videos, g, cosine(LR, STEPS, 0.05), together(stove, 1.0), steps=STEPS, batch=BATCH
    )


def apart(xy: Tensor, at: Tensor) -> Tensor:
    """Pixels between each ball and its object, the same in all frames, in the better order."""
    pixels = (xy + 1) * (SIZE / 2)
    both = [(pixels[..., order, :] - at).norm(dim=-1) for order in ([0, 1], [1, 0])]
    better = both[0].mean(dim=(1, 2)) < both[1].mean(dim=(1, 2))
    return torch.where(better[:, None, None], *both)


def learn_and_check(*, show: bool = False) -> None:
    """On unseen videos: both balls within a pixel, and within 1.5 pixels 4 frames later."""
    g = generator()
    videos, _ = balls(200, g)
    unseen, at = balls(16, g)
    stove = model()
    losses = train(stove, videos, g)
    found = apart(stove.infer(unseen, render=False).xy, at)
    future = stove.imagine(unseen, FRAMES - 4, 4, sample=False, render=False)
    foretold = apart(future.xy[:, 0], at[:, -4:])
    still = apart(future.past.xy[:, -1:].expand(-1, 4, -1, -1), at[:, -4:])
    if show:
        print(losses[::50], losses[-1], found.mean(), found.max(), foretold.mean(0), still.mean(0))
    assert losses[-1] < losses[0] - 400, losses
    assert found.mean() < 1, found
    assert foretold.mean() < still.mean() / 2, (foretold, still)


@pytest.mark.slow
def test_two_balls_are_found_and_foretold() -> None:
    run_alone(__file__)


if __name__ == "__main__":
    torch.set_num_threads(1)
    learn_and_check(show="--show" in sys.argv)
