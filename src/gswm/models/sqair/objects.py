"""What an object is in SQAIR, and how its box is made.

    where = [z_hw, z_xy]        h, w = σ(z_hw)        xy = REACH · tanh(z_xy)

Presence is 0 or 1, and what has gone does not come back. There is no depth: objects add up.
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
"""The farthest that a center is from the middle; the frame ends at 1."""
LEAST = 1e-4
"""How near to the end of its range a box is taken to be at most, where `where` is recovered."""
LEAST_STD = 1e-2
WHERE = 4

Where = Float[Tensor, "*batch 4"]


@dataclass(frozen=True)
class SqairSizes:
    """How many numbers each vector has."""

    what: int = 50
    hidden: int = 256
    """Of all recurrent networks, and hidden layers."""
    head: int = 128
    """Hidden layers of smaller networks."""
    glimpse: int = 20
    """Pixels of an object seen up close, high and wide."""

    def __post_init__(self) -> None:
        check_sizes(self, "--model.sizes")


def box(where: Where) -> tuple[Points, Points]:
    """Center and size."""
    z_hw, z_xy = where.split(2, dim=-1)
    return REACH * z_xy.tanh(), z_hw.sigmoid()


def where_of(o: Attributes) -> Where:
    """The inverse of `box`."""
    z_hw = o.hw.clamp(LEAST, 1 - LEAST).logit()
    return torch.cat([z_hw, (o.xy / REACH).clamp(LEAST - 1, 1 - LEAST).atanh()], dim=-1)


def spread(params: Float[Tensor, "*batch params"], offset: float = 0.0) -> Gaussian:
    """A Gaussian of what a network puts out; `offset` is added to the std before its softplus."""
    mean, std = params.float().chunk(2, dim=-1)
    return Gaussian(mean, F.softplus(std + offset) + LEAST_STD)


def choose(q: Bernoulli, noise: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """A hard sample, for logistic noise; without noise the likelier of 0 and 1."""
    return (q.logit + noise > 0).to(q.logit.dtype)


def log_probability(q: Bernoulli, drawn: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Of a hard sample."""
    return drawn * F.logsigmoid(q.logit) + (1 - drawn) * F.logsigmoid(-q.logit)


def thinned(p: Bernoulli, cost: Float[Tensor, "*#shape"]) -> Bernoulli:
    """One with probability ρ exp(-cost): each one costs at least `cost` nats, whatever ρ is."""
    return Bernoulli(-cost - torch.logaddexp(-p.logit, (-torch.expm1(-cost)).log()))


def assembled(
    pres: Float[Tensor, "batch object 1"],
    where: Float[Tensor, "batch object 4"],
    what: Float[Tensor, "batch object what"],
) -> Attributes:
    """All that is drawn of an object."""
    xy, hw = box(where)
    return Attributes(pres, torch.zeros_like(pres), hw, xy, what)
