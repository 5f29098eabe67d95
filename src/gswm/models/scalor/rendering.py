"""Appearance of objects, and their composition into a frame.

    [y_k, α_k] = σ(Deconv_what(what_k))      α̂_k = α_k · pres_k
    I_k = ST⁻¹(α̂_k) σ(depth_k)               w_k = I_k / (Σ_j I_j + ε)
    μ_fg = Σ_k w_k ST⁻¹(α̂_k y_k)             α = Σ_k ST⁻¹(α̂_k), at most 1
    μ = μ_fg + (1 - α) μ_bg

All K objects of a frame are drawn, propagated and newly discovered ones.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.distributions import Gaussian
from gswm.core.geometry import crop, paste
from gswm.core.networks import per_object
from gswm.core.shapes import Frame, Mask, Points, Scalars
from gswm.models.layers import Foreground
from gswm.models.objects import Attributes
from gswm.models.scalor.networks import glimpse_decoder, glimpse_encoder

GLIMPSE = 32
EPS = 1e-15


class Appearance(nn.Module):
    """Encodes and decodes the content of a box; shared by discovery and propagation."""

    crop = staticmethod(crop)
    """`gswm.fast` replaces it by a kernel."""

    def __init__(self, num_what: int, image_size: int) -> None:
        super().__init__()
        self.image_size = image_size
        self.conv_what = glimpse_encoder(2 * num_what)
        self.deconv_what = glimpse_decoder(num_what)

    def look(self, frame: Frame, xy: Points, hw: Points) -> Gaussian:
        """Infer the appearance in each box of a frame."""
        return Gaussian.of(per_object(self.conv_what, self.crop(frame, xy, hw, GLIMPSE)))

    @torch.no_grad()
    def masks(self, o: Attributes) -> Float[Tensor, "batch object 1 height width"]:
        """α of each object in its box, as if present."""
        alpha = per_object(self.deconv_what, o.what)[:, :, 3:].sigmoid()
        return paste(alpha, o.xy, o.hw, self.image_size)

    def forward(self, o: Attributes) -> Foreground:
        """Every object in its box, near ones over far ones."""
        y, alpha = per_object(self.deconv_what, o.what).sigmoid().split([3, 1], dim=2)
        alpha = alpha * o.pres[..., None, None]
        mu_fg, covered = self.place(torch.cat([alpha * y, alpha], dim=2), o)
        covered = covered + (covered.clamp(max=1) - covered).detach()  # a gradient beyond 1 too
        return Foreground(mu_fg, covered)

    def place(
        self, glimpses: Float[Tensor, "batch object 4 h w"], o: Attributes
    ) -> tuple[Frame, Mask]:
        """[α̂ y, α̂] of every object, on one canvas."""
        y, alpha = paste(glimpses, o.xy, o.hw, self.image_size).split([3, 1], dim=2)
        return compose(y, alpha, o.depth)


def compose(
    y: Float[Tensor, "batch object 3 height width"],
    alpha: Float[Tensor, "batch object 1 height width"],
    depth: Scalars,
) -> tuple[Frame, Mask]:
    """Combine layers into μ_fg and Σ_k α_k; a pixel is shared in proportion to α_k σ(depth_k)."""
    importance = alpha * depth.sigmoid()[..., None, None]
    w = importance / (importance.sum(dim=1, keepdim=True) + EPS)
    return (w * y).sum(dim=1), alpha.sum(dim=1)
