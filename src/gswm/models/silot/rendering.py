"""Rendering: every object on the background, then their mean weighted by importance.

    [y_k, α_k] = σ(Decoder(what_k))      the logits of α_k begin at 3
    I_k = pres_k · max(α_k σ(depth_k) / 0.25, 0.01)    within the box
    v_k = ST⁻¹(pres_k α_k y_k) + (1 - ST⁻¹(pres_k α_k)) μ_bg
    μ = Σ_k w_k v_k                      w_k = ST⁻¹(I_k) / Σ_j ST⁻¹(I_j)

Objects with a larger depth have more weight, and no object hides another completely.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import paste
from gswm.core.shapes import Scalars
from gswm.models.layers import Foreground
from gswm.models.objects import Attributes
from gswm.models.silot.networks import ObjectDecoder

OPAQUE = 3.0
"""Added to the logits of α."""
TEMPERATURE, LEAST = 0.25, 0.01
"""Temperature of importance, and its minimum within a box."""
EPS = 1e-9
"""Keeps pixels without objects at 0."""


class SpriteRenderer(nn.Module):
    """Draws objects."""

    def __init__(self, num_what: int, image_size: int) -> None:
        super().__init__()
        self.image_size = image_size
        self.decoder = ObjectDecoder(num_what)

    def forward(self, o: Attributes) -> Foreground:
        """All objects of a frame."""
        y, alpha, importance = self.canvases(o)
        w = importance / (importance.sum(dim=1, keepdim=True) + EPS)
        return Foreground((w * y).sum(dim=1), (w * alpha).sum(dim=1))

    def canvases(self, o: Attributes) -> tuple[Tensor, Tensor, Tensor]:
        """Each object in its box, on a separate canvas: α y, α and I, all times presence."""
        sprites = sprites_of(self.decoder(o.what), o.pres, o.depth)
        placed = paste(sprites, o.xy, o.hw, self.image_size)
        y, alpha, importance = placed.split([3, 1, 1], dim=2)
        return y, alpha, importance


def sprites_of(
    logits: Float[Tensor, "batch object 4 h w"], pres: Scalars, depth: Scalars
) -> Float[Tensor, "batch object 5 h w"]:
    """α y, α and I of each object, in the pixels of its glimpse."""
    y, alpha = logits[:, :, :3].sigmoid(), (logits[:, :, 3:] + OPAQUE).sigmoid()
    near = depth.sigmoid()[..., None, None]
    importance = (alpha * near / TEMPERATURE).clamp_min(LEAST)
    return torch.cat([alpha * y, alpha, importance], dim=2) * pres[..., None, None]
