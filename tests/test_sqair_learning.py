"""SQAIR learns: a ball that drifts, or none, is found, counted and followed without a label.

Images are of 32 pixels and all networks are small; the rest is as in the recipe
"sqair-interaction".
"""

from dataclasses import replace
from typing import cast

import pytest
import torch
from learning import by_part, learn, run_alone, straight
from tiny import generator
from torch import Tensor

from gswm.core.schedule import Anneal
from gswm.data.worlds.sprites import draw
from gswm.models.registry import recipe
from gswm.models.sqair.objects import SqairSizes
from gswm.models.sqair.sqair import Sqair, SqairConfig, SqairSchedule

STEPS, BATCH, LR = 750, 8, 2e-3
SIZE, FRAMES, RADIUS = 32, 4, 5.0
NEAR = 2.5
"""Pixels."""


def balls(num: int, g: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Videos, where balls may be in each frame, and which is there: one above, below, or none."""
    time = torch.arange(FRAMES, dtype=torch.float64)[:, None, None]
    start = torch.rand(num, 1, 2, 2, generator=g, dtype=torch.float64)
    low, high = torch.tensor([[7.0, 7.0], [7.0, 22.0]]), torch.tensor([[25.0, 10.0], [25.0, 25.0]])
    speed = 2 * torch.rand(num, 1, 2, 2, generator=g, dtype=torch.float64) - 1
    at = low + (high - low) * start + 0.8 * speed * time
    there = torch.arange(2) == torch.randint(0, 3, (num, 1), generator=g)
    sizes = RADIUS * there[:, None].expand(num, FRAMES, 2).double()
    colors = torch.ones(FRAMES, 2, 3, dtype=torch.float64)
    videos = [draw(a, s, colors, SIZE) for a, s in zip(at, sizes, strict=True)]
    return torch.stack(videos), at, there


def small_model() -> Sqair:
    torch.manual_seed(0)
    chosen = recipe("sqair-interaction").model
    sizes = SqairSizes(what=6, hidden=48, head=32, glimpse=8)
    costs = {"cost": Anneal(80.0, 60.0, 400, 600), "upkeep": Anneal(0.0, 40.0, 350, 500)}
    schedule = SqairSchedule(lengths=((0, 2),), wheels=250, **costs)
    changes = {"image_size": SIZE, "num_objects": 2, "sizes": sizes, "schedule": schedule}
    changes |= {"likelihood_std": 0.6, "first_hw": 0.4}
    return Sqair(replace(cast(SqairConfig, chosen), **changes))


def train(model: Sqair, videos: Tensor, g: torch.Generator) -> list[float]:
    return learn(
        model,
        videos,
        g,
        straight(LR, STEPS, 50),
        by_part(model, recipe("sqair-interaction").train),
        steps=STEPS,
        batch=BATCH,
    )


def learn_and_check() -> None:
    """On unseen balls: each is found once and followed, and the count is right."""
    g = generator()
    videos, *_ = balls(256, g)
    unseen, at, there = balls(64, g)
    model = small_model()
    train(model, videos, g)

    track = model.infer(unseen)
    found = track.pres > 0.5
    assert track.reconstruction is not None
    right = (found.sum(dim=-1) == there.sum(dim=-1)[:, None]).float().mean()
    away = ((track.xy + 1) / 2 * SIZE)[:, :, :, None] - at[:, :, None].float()
    nearest = away.norm(dim=-1).masked_fill(~found[..., None], torch.inf).amin(dim=2)
    seen = (nearest < NEAR).float()[there[:, None].expand_as(nearest)].mean()
    error = (track.reconstruction - unseen / 255).square().mean()
    empty = (unseen / 255).square().mean()
    print(f"count {right:.3f}, found {seen:.3f}, error {error / empty:.3f}")
    assert right > 0.9, right
    assert seen > 0.9, seen
    assert error < 0.4 * empty, error / empty


@pytest.mark.slow
def test_balls_are_counted_found_and_followed() -> None:
    run_alone(__file__)


if __name__ == "__main__":
    torch.set_num_threads(1)
    learn_and_check()
