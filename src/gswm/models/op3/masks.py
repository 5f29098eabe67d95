"""Objects and boxes from masks.

OP3 infers no boxes and no presence. A slot's region is where its mask is above a half; of it, the
connected part around the most crowded place counts. A slot is an object if the size of that part
is within bounds: an empty slot has none, and one that shows background covers more. Its box is the
smallest around that part.
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
"""Pixels along a side of the window in which a place is crowded."""
AT_ONCE = 8
"""Steps of growth between two looks at whether anything grew."""


@dataclass(frozen=True)
class MaskConfig:
    """Settings of what is an object."""

    threshold: float = 0.5
    """The least mask of a pixel that belongs to a slot."""
    smallest: float = 0.002
    """The smallest object, as a share of the frame."""
    largest: float = 0.2
    """The largest; whatever covers more is background."""

    def check(self) -> None:
        """Refuse bounds between which nothing lies."""
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
    """0 where there is no region."""
    share: Float[Tensor, "batch object"]
    """Share of the frame that the region covers."""


def find(masks: Masks, threshold: float) -> Found:
    """The main part of each region, and its box."""
    part = main_part(masks > threshold)
    (y, h), (x, w) = extent(part.any(dim=-1)), extent(part.any(dim=-2))
    share = part.float().mean(dim=(-2, -1))
    return Found(torch.stack([x, y], dim=-1), torch.stack([h, w], dim=-1), share)


def main_part(region: Parts) -> Parts:
    """The pixels that are connected, diagonally too, with the most crowded place of a region."""
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
    """The middle, from -1 to 1, and the length, as a share, from the first to the last."""
    size = there.shape[-1]
    at = torch.arange(size, device=there.device).expand_as(there)
    first = torch.where(there, at, size).amin(dim=-1)
    last = torch.where(there, at + 1, 0).amax(dim=-1)
    some = there.any(dim=-1)
    return ((first + last) / size - 1) * some, (last - first) / size * some
