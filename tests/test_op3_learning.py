"""OP3 learns: two balls on black, drawn far better than the mean image, in slots of their own.

Images are of 16 pixels and all networks are small; the rest is as in the recipe "op3-obj3d-two".
"""

import sys
from dataclasses import replace
from typing import cast

import pytest
import torch
from learning import cosine, learn, run_alone, together
from tiny import generator
from torch import Tensor

from gswm.data.worlds.sprites import draw
from gswm.eval.metrics.reconstruction import reconstruction
from gswm.models.op3.op3 import Op3, Op3Config, Op3Sizes
from gswm.models.op3.schedule import Op3Schedule
from gswm.models.registry import recipe

STEPS, BATCH, LR = 400, 8, 3e-3
SIZE, FRAMES, RADIUS = 16, 3, 3.0
STD = 0.3
"""The same fraction of the balls' contrast as 0.1 is of that of solids on a gray plane."""
COLORS = torch.tensor([[1.0, 0, 0], [0, 0, 1]], dtype=torch.float64)


def balls(num: int, g: torch.Generator) -> Tensor:
    """Videos of two balls that drift: a red one above, a blue one below."""
    time = torch.arange(FRAMES, dtype=torch.float64)[:, None, None]
    start = torch.rand(num, 1, 2, 2, generator=g, dtype=torch.float64)
    low, high = torch.tensor([[3.5, 3.5], [3.5, 11.0]]), torch.tensor([[12.5, 5.0], [12.5, 12.5]])
    speed = torch.rand(num, 1, 2, 2, generator=g, dtype=torch.float64) - 0.5
    at = low + (high - low) * start + speed * time
    sizes = torch.full((FRAMES, 2), RADIUS, dtype=torch.float64)
    return torch.stack([draw(each, sizes, COLORS.expand(FRAMES, 2, 3), SIZE) for each in at])


def small_model() -> Op3:
    torch.manual_seed(0)
    chosen = cast(Op3Config, recipe("op3-obj3d-two").model)
    sizes = Op3Sizes(state=16, hidden=48, effect=8, channels=8)
    schedule = Op3Schedule(lengths=((0, 1), (3 * STEPS // 5, 3)), first=3)
    changes = {"image_size": SIZE, "num_objects": 3, "sizes": sizes, "schedule": schedule}
    changes |= {"std": STD}
    return Op3(replace(chosen, **changes))


def train(model: Op3, videos: Tensor, g: torch.Generator) -> list[float]:
    return learn(
        model, videos, g, cosine(LR, STEPS, 0.05), together(model, 5.0), steps=STEPS, batch=BATCH
    )


def learn_and_check(*, show: bool = False) -> None:
    """On unseen balls: 4 dB above the mean image, and at least one slot is an object."""
    g = generator()
    videos, unseen = balls(256, g), balls(32, g)
    model = small_model()
    losses = train(model, videos, g)
    track = model.infer(unseen)
    assert track.reconstruction is not None
    measured = reconstruction(track.reconstruction, unseen / 255)
    scores = measured.scores()
    if show:
        print(losses[::50], losses[-1], scores, measured.curves(), track)
    assert sum(losses[-20:]) < sum(losses[:20])
    assert scores["reconstruction_gain"] > 4, scores
    assert track.present.sum(dim=-1).float().mean() > 1, track


@pytest.mark.slow
def test_balls_are_drawn_far_better_than_the_mean_image() -> None:
    run_alone(__file__)


if __name__ == "__main__":
    torch.set_num_threads(1)
    learn_and_check(show="--show" in sys.argv)
