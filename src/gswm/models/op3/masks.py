"""Objects and boxes from masks.

OP3 infers no boxes and no presence. The region of a slot consists of the pixels with a mask above
0.5, of which the connected component around the densest place is used. A slot is an object if the
size of that component is within bounds: an empty slot has none, and the background is larger. Its
box is the component's bounding box.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.core.errors import UserError

Masks = Float[Tensor, "batch object height width"]
Parts = Bool[Tensor, "batch object height width"]
CROWD = 5
"""Side of the window in which the density of a region is measured, in pixels."""
AT_ONCE = 8
"""Growth steps between two checks for convergence."""


@dataclass(frozen=True)
class MaskConfig:
    """Settings that decide which slots are objects."""

    threshold: float = 0.5
    """Smallest mask value of a pixel that belongs to a slot."""
    smallest: float = 0.002
    """Size of the smallest object, as a fraction of the frame."""
    largest: float = 0.2
    """Size of the largest object; a slot that covers more is background."""

    def check(self) -> None:
        """Raise a UserError for bounds that do not rise."""
        if not 0 <= self.smallest < self.largest <= 1:
            raise UserError(
                f"--model.masks.smallest is {self.smallest} and --model.masks.largest "
                f"{self.largest}: they must rise, from 0 to 1"
            )
        if not 0 < self.threshold < 1:
            raise UserError(f"--model.masks.threshold is {self.threshold}: it must be in (0, 1)")


@dataclass(frozen=True)
class Found:
    """Regions and boxes of each slot, from its mask."""

    xy: Float[Tensor, "batch object 2"]
    hw: Float[Tensor, "batch object 2"]
    """0 for a slot without a region."""
    share: Float[Tensor, "batch object"]
    """Fraction of the frame that the region covers."""


def find(masks: Masks, threshold: float) -> Found:
    """The main part of each region, and its box."""
    part = main_part(masks > threshold)
    (y, h), (x, w) = extent(part.any(dim=-1)), extent(part.any(dim=-2))
    share = part.float().mean(dim=(-2, -1))
    return Found(torch.stack([x, y], dim=-1), torch.stack([h, w], dim=-1), share)


def main_part(region: Parts) -> Parts:
    """The pixels connected, also diagonally, to the densest place of a region."""
    flat = region.flatten(0, 1).float()[:, None]
    crowd = F.avg_pool2d(flat, CROWD, stride=1, padding=CROWD // 2) * flat
    first = crowd.flatten(1).argmax(dim=1, keepdim=True)
    part = torch.zeros_like(flat).flatten(1).scatter(1, first, 1.0).view_as(flat) * flat
    while True:
        before = part
        for _ in range(AT_ONCE):
            part = F.max_pool2d(part, 3, stride=1, padding=1) * flat
        if torch.equal(part, before):
            return part.bool().view_as(region)


def extent(
    there: Bool[Tensor, "batch object size"],
) -> tuple[Float[Tensor, "batch object"], Float[Tensor, "batch object"]]:
    """Center, from -1 to 1, and length, as a fraction, of the span from first to last."""
    size = there.shape[-1]
    at = torch.arange(size, device=there.device).expand_as(there)
    first = torch.where(there, at, size).amin(dim=-1)
    last = torch.where(there, at + 1, 0).amax(dim=-1)
    some = there.any(dim=-1)
    return ((first + last) / size - 1) * some, (last - first) / size * some
