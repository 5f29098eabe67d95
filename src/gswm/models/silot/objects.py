"""Objects in SILOT: their attributes and boxes.

The unit of length is the anchor: the side of the largest box.

    h, w = anchor · σ(z_hw)
    discovered in cell c    xy = c + cell · tanh(z_xy / 2)
    propagated              xy ← xy + anchor · step · tanh(shift)

Presence is relaxed, and only falls: pres ← pres · d_pres. `depth` is the logit of the paper's z.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gswm.core.distributions import SMALLEST_STD, Gaussian
from gswm.core.shapes import Points

LARGEST_LOGIT = 10.0
"""Bound on the log-odds of presence, and on standard deviations before their sigmoid."""
LARGEST_STD = 2.0
SMALLEST_SHARE = 1e-4
"""Lower bound of a size, relative to the anchor, when its logit is computed."""

Hidden = Float[Tensor, "batch object hidden"]


@dataclass(frozen=True)
class SilotSizes:
    """Sizes of the vectors of an object."""

    what: int = 64
    hidden: int = 128
    """Width of the GRUs."""
    encoding: int = 64
    """Width of every e: image features, glimpses, and messages between objects."""
    head: int = 100
    """Width of the hidden layers of propagation."""


@dataclass(frozen=True)
class AnchorConfig:
    """The anchor, and the scale of motion."""

    size: float = 0.75
    """The anchor, as a fraction of the image: the largest height and width of an object."""
    step: float = 0.25
    """Largest step of an object per frame, in anchors."""

    def hw(self, z: Points) -> Points:
        """Height and width."""
        return self.size * z.sigmoid()

    def z_hw(self, hw: Points) -> Points:
        """The inverse of `hw`."""
        return (hw / self.size).clamp(SMALLEST_SHARE, 1 - SMALLEST_SHARE).logit()

    def moved(self, xy: Points, shift: Points) -> Points:
        """The center, one frame later."""
        return xy + 2 * self.size * self.step * shift.tanh()  # an image is 2 wide

    def offset(self, difference: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 2"]:
        """The difference of two centers, in anchors."""
        return difference / (2 * self.size)


def bounded(params: Float[Tensor, "*batch params"]) -> Gaussian:
    """A Gaussian from the output of a network, with a standard deviation of at most 2."""
    mean, std = params.float().chunk(2, dim=-1)
    return Gaussian(mean, bounded_std(std))


def bounded_std(params: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch n"]:
    """A standard deviation of at most 2."""
    return LARGEST_STD * params.clamp(-LARGEST_LOGIT, LARGEST_LOGIT).sigmoid() + SMALLEST_STD
