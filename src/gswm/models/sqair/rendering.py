"""Rendering: the sum of all objects.

    μ = Σ_k pres_k ST⁻¹(scale · Decoder(what_k))

A glimpse has no sigmoid and no opacity: overlapping objects add up, and none hides another.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import paste
from gswm.core.networks import MLP
from gswm.core.shapes import Frame
from gswm.models.layers import Foreground
from gswm.models.objects import Attributes
from gswm.models.sqair.objects import SqairSizes

SCALE = 0.25
"""Initial factor on all glimpses."""


class SumRenderer(nn.Module):
    """Draws objects."""

    def __init__(self, sizes: SqairSizes, image_size: int) -> None:
        super().__init__()
        self.image_size, self.glimpse = image_size, sizes.glimpse
        self.decoder = MLP(sizes.what, [sizes.hidden] * 2, 3 * sizes.glimpse**2)
        self.scale = nn.Parameter(torch.tensor(SCALE))

    def forward(self, o: Attributes) -> Foreground:
        """Draw all objects of a frame, in front of a background."""
        mu = self.drawn(o)
        return Foreground(mu, torch.zeros_like(mu[:, :1]))

    def drawn(self, o: Attributes) -> Frame:
        """μ: all objects of a frame, on black."""
        return self.canvases(o).sum(dim=1)

    def canvases(self, o: Attributes) -> Float[Tensor, "batch object 3 height width"]:
        """Each object in its box, on a separate canvas."""
        flat = self.scale * o.pres * self.decoder(o.what).float()
        glimpses = flat.unflatten(-1, (3, self.glimpse, self.glimpse))
        return paste(glimpses, o.xy, o.hw, self.image_size)
