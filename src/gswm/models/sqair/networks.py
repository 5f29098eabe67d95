"""The networks of SQAIR that know an object by its vector alone."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import crop
from gswm.core.networks import MLP, Encoder
from gswm.core.shapes import Frame, Points
from gswm.models.sqair.objects import WHERE, SqairSizes

CHANNELS = (3, 32, 64, 64)
"""Of the image encoder, each layer of which halves the frame."""
STRIDE = 2 ** (len(CHANNELS) - 1)

Mask = Float[Tensor, "batch object pixel"]


class FrameEncoder(Encoder):
    """A frame into a vector."""

    def __init__(self, size: int, num_out: int) -> None:
        super().__init__(size, CHANNELS, num_out, first_kernel=5)


class GlimpseEncoder(nn.Module):
    """What a frame shows in each box, through a mask if there is one, into a vector."""

    crop: Callable[..., Tensor] = staticmethod(crop)

    def __init__(self, sizes: SqairSizes) -> None:
        super().__init__()
        self.size = sizes.glimpse
        self.mlp = MLP(3 * sizes.glimpse**2, [sizes.hidden] * 2, 2 * sizes.what)

    def forward(
        self, frame: Frame, xy: Points, hw: Points, mask: Mask | None = None
    ) -> Float[Tensor, "batch object params"]:
        """The parameters of a Gaussian of `what`."""
        seen = self.crop(frame, xy, hw, self.size).flatten(3)
        if mask is not None:
            seen = seen * mask[:, :, None]
        return self.mlp(seen.flatten(2)).float()


class SetSummary(nn.Module):
    """Σ_k pres_k MLP([what_k, where_k]): all objects as one vector, in any order."""

    def __init__(self, sizes: SqairSizes) -> None:
        super().__init__()
        self.mlp = MLP(sizes.what + WHERE, [sizes.hidden], sizes.hidden)

    def forward(
        self,
        pres: Float[Tensor, "batch object 1"],
        what: Float[Tensor, "batch object what"],
        where: Float[Tensor, "batch object 4"],
    ) -> Float[Tensor, "batch hidden"]:
        """Absent objects add nothing."""
        return (pres * self.mlp(torch.cat([what, where], dim=-1)).float()).sum(dim=1)
