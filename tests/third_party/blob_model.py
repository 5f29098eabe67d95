"""A world model by somebody else: one bright blob that keeps its velocity."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

import gswm


@dataclass(frozen=True)
class BlobConfig(gswm.ModelConfig):
    kind: ClassVar[str] = "blob"
    num_objects: int = 1
    size: float = 0.2


class Blob(gswm.WorldModel[BlobConfig]):
    def __init__(self, cfg):
        super().__init__(cfg)
        self.color = nn.Parameter(torch.full((3, 1, 1), 0.5))
        self.at = (torch.arange(cfg.image_size) + 0.5) * 2 / cfg.image_size - 1

    def loss(self, batch, noise, step, stage):
        video = gswm.as_float(batch.video)
        error = (video - self.draw(self.look(video))).square().flatten(1).mean(dim=1)
        return gswm.Loss.of({"error": error}, {})

    def perceive(self, video, *, discover, render, actions, background):
        xy = self.look(video)
        return self.as_track(torch.cat([xy, xy.diff(dim=1, prepend=xy[:, :1])], dim=-1), render)

    def rollout(self, state, steps, generator, *, render, actions):
        xy, velocity = state.chunk(2, dim=-1)
        ways = [torch.cat([xy + t * velocity, velocity], dim=-1) for t in range(1, steps + 1)]
        return self.as_track(torch.stack(ways, dim=1), render)

    def look(self, video):
        mass, at = video.sum(dim=2) + 1e-6, self.at.to(video.device)
        x, y = (mass.sum(dim=-2) * at).sum(dim=-1), (mass.sum(dim=-1) * at).sum(dim=-1)
        return torch.stack([x, y], dim=-1) / mass.sum(dim=(-2, -1))[..., None]

    def draw(self, xy):
        at = self.at.to(xy.device)
        x, y = (-((at - c[..., None]) / self.cfg.size).square() for c in xy.unbind(dim=-1))
        return self.color * (y[..., None] + x[..., None, :]).exp()[:, :, None]

    def as_track(self, states, render):
        xy = states[:, :, None, :2]
        one, zero = torch.ones_like(xy[..., 0]), torch.zeros_like(xy[..., 0])
        mu = self.draw(states[..., :2]) if render else None
        behind = None if mu is None else torch.zeros_like(mu)
        size = torch.full_like(xy, self.cfg.size)
        return gswm.Track(xy, size, zero, one, zero.long(), mu, behind, states.unbind(dim=1))


def blob():
    train = gswm.TrainConfig(steps=40, batch=4, lr=0.02, warmup=0)
    model = BlobConfig(schedule=gswm.Curriculum(lengths=((0, 6),)))
    return gswm.Recipe("blob", gswm.DataConfig("single-ball", given=5), model, train)


MODEL = gswm.ModelEntry(BlobConfig, Blob, (blob,))
