"""SILOT learns: two balls that drift, found, drawn and followed without a label.

Images are of 36 pixels and all networks are small; the rest is as in the recipe
"silot-interaction".
"""

from dataclasses import replace
from typing import cast

import pytest
import torch
from learning import by_part, learn, run_alone, straight
from tiny import generator
from torch import Tensor

from gswm.core.networks import MLP
from gswm.data.worlds.sprites import draw
from gswm.models.registry import recipe
from gswm.models.silot.networks import GLIMPSE
from gswm.models.silot.objects import AnchorConfig, SilotSizes
from gswm.models.silot.schedule import CountOdds, SilotSchedule
from gswm.models.silot.silot import Silot, SilotConfig

STEPS, BATCH, LR = 350, 8, 1e-3
SIZE, FRAMES, LENGTH, RADIUS = 36, 6, 2, 5.0
NEAR = 2.5
"""Pixels."""


def balls(num: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Videos, and where the balls are in each frame, in pixels: one above, one below."""
    time = torch.arange(FRAMES, dtype=torch.float64)[:, None, None]
    start = torch.rand(num, 1, 2, 2, generator=g, dtype=torch.float64)
    low, high = torch.tensor([[8.0, 8.0], [8.0, 25.0]]), torch.tensor([[28.0, 11.0], [28.0, 28.0]])
    speed = 2 * torch.rand(num, 1, 2, 2, generator=g, dtype=torch.float64) - 1
    at = low + (high - low) * start + 0.6 * speed * time
    sizes = torch.full((FRAMES, 2), RADIUS, dtype=torch.float64)
    colors = torch.tensor([[1, 0, 0], [0, 0, 1]], dtype=torch.float64).expand(FRAMES, 2, 3)
    return torch.stack([draw(each, sizes, colors, SIZE) for each in at]), at


def small_model() -> Silot:
    torch.manual_seed(0)
    chosen = recipe("silot-interaction").model
    sizes = SilotSizes(what=8, hidden=32, encoding=32, head=32)
    schedule = SilotSchedule(lengths=((0, LENGTH),), wheels=50, count=CountOdds(steps=30))
    changes = {"image_size": SIZE, "num_objects": 4, "sizes": sizes, "schedule": schedule}
    changes |= {"anchors": AnchorConfig(size=0.5)}  # no box holds both balls
    model = Silot(replace(cast(SilotConfig, chosen), **changes))
    ours = model.propagation
    for encoder in (ours.encode_near, ours.encode, model.discovery.encode):
        encoder.mlp = MLP(3 * GLIMPSE**2, [64], sizes.encoding)
    model.renderer.decoder.mlp = MLP(sizes.what, [64], 4 * GLIMPSE**2)
    return model


def train(model: Silot, videos: Tensor, g: torch.Generator) -> list[float]:
    return learn(
        model,
        videos,
        g,
        straight(LR, STEPS),
        by_part(model, recipe("silot-interaction").train),
        steps=STEPS,
        batch=BATCH,
    )


def learn_and_check() -> None:
    """On unseen balls: each is found once and followed."""
    g = generator()
    videos, _ = balls(96, g)
    unseen, truth = balls(16, g)
    model = small_model()
    losses = train(model, videos, g)
    assert sum(losses[-20:]) < 0.3 * sum(losses[:20]), (losses[:20], losses[-20:])

    track = model.infer(unseen, discover="first")
    there = track.pres > 0.5
    assert track.reconstruction is not None
    at = (track.xy + 1) / 2 * SIZE
    away = (at[:, :, :, None] - truth[:, :, None].float()).norm(dim=-1)
    found = (away.masked_fill(~there[..., None], torch.inf).amin(dim=2) < NEAR).float()
    many = there.sum(dim=-1).float().mean()
    error = (track.reconstruction - unseen / 255).square().mean()
    empty = (unseen / 255).square().mean()
    assert found[:, 0].mean() > 0.9, found[:, 0].mean()
    assert found.mean() > 0.8, found.mean()
    assert many < 2.3, many
    assert error < 0.3 * empty, error / empty


@pytest.mark.slow
def test_balls_are_found_drawn_and_followed() -> None:
    run_alone(__file__)


if __name__ == "__main__":
    torch.set_num_threads(1)
    learn_and_check()
