"""The drawn part of an object's box, from its glimpse."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gswm.core.geometry import centers
from gswm.models.objects import Extents


def drawn_part(alpha: Float[Tensor, "batch object h w"], least: float) -> Extents:
    """The part of each box where α is above `least`; the whole box if it is nowhere.

    The part is at least a pixel of the glimpse wide and high, so that a box can be found from its
    part.
    """
    rows, columns = alpha.amax(dim=-1), alpha.amax(dim=-2)
    ends = [edges(rows, least), edges(columns, least)]
    low, high = (torch.stack(each, dim=-1) for each in zip(*ends, strict=True))
    whole = (high <= low).any(dim=-1, keepdim=True)
    middle, share = (low + high) / 2, (high - low) / 2
    share = torch.where(whole, 1, share.clamp_min(1 / alpha.shape[-1]))
    return Extents(middle.clamp(share - 1, 1 - share), share)


def edges(
    alpha: Float[Tensor, "batch object pixel"], least: float
) -> tuple[Float[Tensor, "batch object"], Float[Tensor, "batch object"]]:
    """The first and last position, from -1 to 1, at which α crosses `least`; else 1 and -1.

    Between the centers of two pixels α is interpolated linearly, and it is 0 outside the glimpse,
    so edges move smoothly and not by whole pixels.
    """

    def first(alpha: Tensor) -> Tensor:
        before = F.pad(alpha[..., :-1], (1, 0))
        crosses = (alpha > least) & (before <= least)
        back = (alpha - least) / torch.where(crosses, alpha - before, 1)
        place = centers(alpha.shape[-1], alpha) - 2 / alpha.shape[-1] * back
        return torch.where(crosses, place, 1.0).amin(dim=-1).clamp_min(-1)

    return first(alpha), -first(alpha.flip(-1))
