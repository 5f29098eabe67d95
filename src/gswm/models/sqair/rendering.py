"""Rendering: the sum of all objects.

    μ = Σ_k pres_k ST⁻¹(scale · Decoder(what_k))

A glimpse has no sigmoid and no opacity: overlapping objects add up, and none hides another.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import paste
from gswm.core.networks import MLP, in_parts
from gswm.core.records import frames, map_tensors
from gswm.core.shapes import Frame
from gswm.models.extents import drawn_part
from gswm.models.layers import Foreground
from gswm.models.objects import Attributes, Extents
from gswm.models.sqair.objects import SqairSizes

SCALE = 0.25
"""Initial factor on all glimpses."""
DRAWN = 0.2
"""Brightness above which a pixel counts as drawn."""


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
        glimpses = o.pres[..., None, None] * self.glimpses(o.what)
        return paste(glimpses, o.xy, o.hw, self.image_size)

    def glimpses(
        self, what: Float[Tensor, "batch object what"]
    ) -> Float[Tensor, "batch object 3 size size"]:
        """Each object, in all of its box."""
        flat = self.scale * self.decoder(what).float()
        return flat.unflatten(-1, (3, self.glimpse, self.glimpse))

    def extents(self, what: Float[Tensor, "batch time object what"]) -> list[Extents]:
        """The drawn part of each box in every frame, by the brightest channel."""

        def some(what: Tensor) -> Extents:
            return drawn_part(self.glimpses(what).amax(dim=2), DRAWN)

        found = in_parts(some, what.flatten(0, 1))
        return frames(map_tensors(lambda x: x.unflatten(0, what.shape[:2]), found))
