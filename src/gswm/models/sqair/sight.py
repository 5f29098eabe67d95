"""What inference sees of a frame, and what it tells the objective."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import Gaussian
from gswm.core.shapes import Frame


@dataclass(frozen=True)
class SqairSight:
    """A frame, and how to look at it."""

    frame: Frame
    looks: Float[Tensor, "batch 1"]
    """1 where there is discovery, else 0."""
    later: Float[Tensor, "batch 1"]
    """0 in the first frame of a video, else 1."""
    learns: Float[Tensor, "batch 1"]
    """0 while the training wheels are on: the first frame has one new object at the most, later
    frames have none, known objects stay, and no gradient reaches the presence networks. Else 1."""
    cost: Float[Tensor, "batch 1"]
    """Nats that a new object must gain."""
    upkeep: Float[Tensor, "batch 1"]
    """Nats that a propagated object must gain."""


@dataclass(frozen=True)
class Ratios:
    """log q - log p of what was drawn in a frame, summed over objects; absent ones pay nothing."""

    where: Float[Tensor, "*batch"]
    what: Float[Tensor, "*batch"]
    pres: Float[Tensor, "*batch"]
    log_q: Float[Tensor, "*batch"]
    """log q alone, of the presences: the choices that cannot be reparametrized."""


def paid(
    q: Gaussian, p: Gaussian, drawn: Float[Tensor, "batch object n"], pres: Tensor
) -> Float[Tensor, " batch"]:
    """What the objects that are there pay: log q - log p."""
    ratio = q.log_density(drawn) - p.log_density(drawn)
    return (pres * ratio).sum(dim=(1, 2))


def stacked(steps: list[Gaussian]) -> Gaussian:
    """The distributions of some steps, an object each."""
    means, stds = [q.mean for q in steps], [q.std for q in steps]
    return Gaussian(torch.stack(means, dim=1), torch.stack(stds, dim=1))
