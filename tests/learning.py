"""Short trainings of small models on random windows."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gswm.data.batches.batch import Batch
from gswm.models.base import WorldModel
from gswm.models.recipe import TrainConfig
from gswm.train.step import clip_gradients, clip_groups

Clip = Callable[[], object]
Rate = Callable[[int], float]
"""The learning rate of a step."""


def cosine(lr: float, steps: int, least: float) -> Rate:
    """Warm-up, then half a cosine, down to a share of the rate."""

    def rate(step: int) -> float:
        share = (1 + math.cos(math.pi * step / steps)) / 2
        return lr * min(1, (step + 1) / 20) * (least + (1 - least) * share)

    return rate


def straight(lr: float, steps: int, warm_up: int = 20) -> Rate:
    """Warm-up, then straight down to a tenth."""
    return lambda step: lr * min(1, (step + 1) / warm_up) * (1 - 0.9 * step / steps)


def together(model: nn.Module, norm: float) -> Clip:
    """All gradients are clipped by one norm."""
    return lambda: nn.utils.clip_grad_norm_(model.parameters(), norm)


def by_part(model: WorldModel[Any], cfg: TrainConfig) -> Clip:
    """Gradients are clipped as in a training by these settings."""
    groups = clip_groups(model, cfg)
    return lambda: clip_gradients(groups, cfg.clip)


def learn(
    model: WorldModel[Any],
    videos: Tensor,
    g: torch.Generator,
    rate: Rate,
    clip: Clip,
    *,
    steps: int,
    batch: int,
) -> list[float]:
    """Train a model by Adam, and return the loss of every step."""
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=rate(0)), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        stage = model.stage(step)
        which = torch.randint(0, len(videos), (batch,), generator=g)
        start = torch.randint(0, videos.shape[1] - stage.length + 1, (batch,), generator=g)
        windows = videos[which[:, None], start[:, None] + torch.arange(stage.length)]
        loss = model.loss(Batch(windows), model.noise(batch, stage, g), torch.tensor(step), stage)
        optimizer.zero_grad()
        loss.total.backward()
        clip()
        optimizer.step()
        losses.append(loss.total.item())
    return losses


def run_alone(file: str) -> None:
    """Run a test file in a process without shape checks, which would double the time."""
    run = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
