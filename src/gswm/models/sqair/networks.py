"""Networks of SQAIR that see an object only as a vector."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import crop
from gswm.core.networks import MLP, Encoder
from gswm.core.shapes import Frame, Points
from gswm.models.sqair.objects import WHERE, SqairSizes

STRIDE = 8
"""The image encoder has three layers, each of which halves the frame."""

Mask = Float[Tensor, "batch object pixel"]


class FrameEncoder(Encoder):
    """Encodes a frame as a vector."""

    def __init__(self, size: int, sizes: SqairSizes) -> None:
        channels = 3, -(-sizes.channels // 2), sizes.channels, sizes.channels
        super().__init__(size, channels, sizes.hidden, first_kernel=5)


class GlimpseEncoder(nn.Module):
    """Encodes the content of each box, through an optional mask."""

    crop: Callable[..., Tensor] = staticmethod(crop)

    def __init__(self, sizes: SqairSizes) -> None:
        super().__init__()
        self.size = sizes.glimpse
        self.mlp = MLP(3 * sizes.glimpse**2, [sizes.hidden] * 2, 2 * sizes.what)

    def forward(
        self, frame: Frame, xy: Points, hw: Points, mask: Mask | None = None
    ) -> Float[Tensor, "batch object params"]:
        """Parameters of the Gaussian of `what`."""
        seen = self.crop(frame, xy, hw, self.size).flatten(3)
        if mask is not None:
            seen = seen * mask[:, :, None]
        return self.mlp(seen.flatten(2)).float()


class SetSummary(nn.Module):
    """Σ_k pres_k MLP([what_k, where_k]): a permutation-invariant summary of the objects."""

    def __init__(self, sizes: SqairSizes) -> None:
        super().__init__()
        self.mlp = MLP(sizes.what + WHERE, [sizes.hidden], sizes.hidden)

    def forward(
        self,
        pres: Float[Tensor, "batch object 1"],
        what: Float[Tensor, "batch object what"],
        where: Float[Tensor, "batch object 4"],
    ) -> Float[Tensor, "batch hidden"]:
        """The summary; absent objects contribute nothing."""
        return (pres * self.mlp(torch.cat([what, where], dim=-1)).float()).sum(dim=1)
