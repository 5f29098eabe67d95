"""The inputs of inference in a frame, and the evidence it returns to the objective."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import Gaussian
from gswm.core.shapes import Frame


@dataclass(frozen=True)
class SqairSight:
    """A frame and the settings of its inference."""

    frame: Frame
    looks: Float[Tensor, "batch 1"]
    """1 if discovery runs, else 0."""
    later: Float[Tensor, "batch 1"]
    """0 in the first frame of a video, else 1."""
    learns: Float[Tensor, "batch 1"]
    """0 while the training wheels are on, else 1. With training wheels, the first frame has at most
    one new object, later frames have none, known objects stay, and the presence networks get no
    gradient.
    """
    cost: Float[Tensor, "batch 1"]
    """Nats that a new object must gain."""
    upkeep: Float[Tensor, "batch 1"]
    """Nats that a propagated object must gain."""


@dataclass(frozen=True)
class Ratios:
    """log q - log p of the latents of a frame, summed over objects; absent ones cost nothing."""

    where: Float[Tensor, "*batch"]
    what: Float[Tensor, "*batch"]
    pres: Float[Tensor, "*batch"]
    log_q: Float[Tensor, "*batch"]
    """log q of the presences, which cannot be reparametrized."""


def paid(
    q: Gaussian, p: Gaussian, drawn: Float[Tensor, "batch object n"], pres: Tensor
) -> Float[Tensor, " batch"]:
    """The sum of log q - log p over the present objects."""
    ratio = q.log_density(drawn) - p.log_density(drawn)
    return (pres * ratio).sum(dim=(1, 2))


def stacked(steps: list[Gaussian]) -> Gaussian:
    """The distributions of several steps, one object each."""
    means, stds = [q.mean for q in steps], [q.std for q in steps]
    return Gaussian(torch.stack(means, dim=1), torch.stack(stds, dim=1))
