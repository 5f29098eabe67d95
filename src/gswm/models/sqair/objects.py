"""Objects in SQAIR: their attributes and boxes.

    where = [z_hw, z_xy]        h, w = σ(z_hw)        xy = REACH · tanh(z_xy)

Presence is 0 or 1, and absent objects do not return. There is no depth: objects add up.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.settings import check_sizes
from gswm.core.shapes import Points
from gswm.models.objects import Attributes

REACH = 1.5
"""Largest distance of a center from the middle; the frame ends at 1."""
LEAST = 1e-4
"""Smallest distance of a box from the end of its range when `where` is computed from it."""
LEAST_STD = 1e-2
WHERE = 4

Where = Float[Tensor, "*batch 4"]


@dataclass(frozen=True)
class SqairSizes:
    """Sizes of the vectors."""

    what: int = 50
    hidden: int = 256
    """Width of all recurrent networks and hidden layers."""
    head: int = 128
    """Hidden width of the smaller networks."""
    glimpse: int = 20
    """Height and width of a glimpse in pixels."""
    channels: int = 64
    """Channels of the image encoder. Its first layer has half as many, rounded up."""

    def __post_init__(self) -> None:
        check_sizes(self, "--model.sizes")


def box(where: Where) -> tuple[Points, Points]:
    """Center and size of the box."""
    z_hw, z_xy = where.split(2, dim=-1)
    return REACH * z_xy.tanh(), z_hw.sigmoid()


def where_of(o: Attributes) -> Where:
    """The inverse of `box`."""
    z_hw = o.hw.clamp(LEAST, 1 - LEAST).logit()
    return torch.cat([z_hw, (o.xy / REACH).clamp(LEAST - 1, 1 - LEAST).atanh()], dim=-1)


def spread(params: Float[Tensor, "*batch params"], offset: float = 0.0) -> Gaussian:
    """A Gaussian from the output of a network; `offset` is added to the std before its softplus."""
    mean, std = params.float().chunk(2, dim=-1)
    return Gaussian(mean, F.softplus(std + offset) + LEAST_STD)


def choose(q: Bernoulli, noise: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """A hard sample from logistic noise; without noise, the more likely of 0 and 1."""
    return (q.logit + noise > 0).to(q.logit.dtype)


def log_probability(q: Bernoulli, drawn: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The log-probability of a hard sample."""
    return drawn * F.logsigmoid(q.logit) + (1 - drawn) * F.logsigmoid(-q.logit)


def thinned(p: Bernoulli, cost: Float[Tensor, "*#shape"]) -> Bernoulli:
    """1 with probability ρ exp(-cost): each 1 costs at least `cost` nats, for any ρ."""
    return Bernoulli(-cost - torch.logaddexp(-p.logit, (-torch.expm1(-cost)).log()))


def assembled(
    pres: Float[Tensor, "batch object 1"],
    where: Float[Tensor, "batch object 4"],
    what: Float[Tensor, "batch object what"],
) -> Attributes:
    """The sampled latents of an object."""
    xy, hw = box(where)
    return Attributes(pres, torch.zeros_like(pres), hw, xy, what)
