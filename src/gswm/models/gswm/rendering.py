"""Rendering (§2, A.4): objects and a background into a frame.

Each object is decoded into a small glimpse and placed in its box on a separate canvas. The canvases
are combined by depth:

    [y_att, α_att] = σ(Deconv_what(o_what))
    α̂_att = α_att · o_pres        ŷ_att = α̂_att · y_att
    y_k = ST⁻¹(ŷ_att, o_where)    α_k = ST⁻¹(α̂_att, o_where)
    w_k = α_k σ(o_depth_k) / Σ_j α_j σ(o_depth_j)
    μ_fg = Σ_k w_k y_k            α = Σ_k w_k α_k
    μ = μ_fg + (1 - α) μ_bg
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import paste
from gswm.core.networks import GlimpseDecoder, in_parts, per_object
from gswm.core.records import frames, map_tensors
from gswm.core.shapes import Scalars, Video
from gswm.models.extents import drawn_part
from gswm.models.layers import Foreground
from gswm.models.objects import Attributes, Extents

EPS = 1e-5
"""Keeps pixels without objects at 0."""
DRAWN = 0.4
"""α above which a pixel counts as drawn."""


@dataclass(frozen=True)
class DrawnFrames:
    """Several frames as drawn by the model."""

    mu: Video
    alpha: Float[Tensor, "batch time 1 height width"]
    """The mask of all objects."""
    fill: Float[Tensor, "batch time object 1"]
    """The mean of α_att in the box of each object."""


class Renderer(nn.Module):
    """Draws objects."""

    def __init__(self, num_what: int, image_size: int, glimpse: int = 16) -> None:
        super().__init__()
        self.image_size = image_size
        self.deconv_what = GlimpseDecoder(num_what, 4, glimpse)

    def draw(self, o: Attributes, mu_bg: Video) -> Video:
        """μ of every frame, all at once; in chunks if no gradient is needed."""
        return self.paint(o, mu_bg).mu

    def paint(self, o: Attributes, mu_bg: Video) -> DrawnFrames:
        """Draw every frame, and the coverage of its objects."""

        def some(part: tuple[Attributes, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
            objects = self(part[0])
            assert objects.fill is not None
            return objects.over(part[1]), objects.alpha, objects.fill

        flat = map_tensors(lambda x: x.flatten(0, 1), (o, mu_bg))
        painted = in_parts(some, flat)
        return DrawnFrames(*(each.unflatten(0, mu_bg.shape[:2]) for each in painted))

    def forward(self, o: Attributes) -> Foreground:
        """Every object in its box, near ones over far ones."""
        y_att, alpha_att = per_object(self.deconv_what, o.what).sigmoid().split([3, 1], dim=2)

        fill = alpha_att.mean(dim=(-2, -1))
        alpha_att = alpha_att * o.pres[..., None, None]
        y_att = alpha_att * y_att
        return replace(self.place(torch.cat([y_att, alpha_att], dim=2), o), fill=fill)

    def extents(self, what: Float[Tensor, "batch time object what"]) -> list[Extents]:
        """The drawn part of each box in every frame; the whole box if it is empty.

        A box may be larger than its object; see `objective.slack`.
        """

        def some(what: Tensor) -> Extents:
            alpha = per_object(self.deconv_what, what)[:, :, 3].sigmoid()
            return drawn_part(alpha, DRAWN)

        found = in_parts(some, what.flatten(0, 1))
        return frames(map_tensors(lambda x: x.unflatten(0, what.shape[:2]), found))

    def place(self, glimpses: Float[Tensor, "batch object 4 h w"], o: Attributes) -> Foreground:
        """[ŷ_att, α̂_att] of every object, on one canvas."""
        y, alpha = paste(glimpses, o.xy, o.hw, self.image_size).split([3, 1], dim=2)
        return compose(y, alpha, o.depth)


def compose(
    y: Float[Tensor, "batch object 3 height width"],
    alpha: Float[Tensor, "batch object 1 height width"],
    depth: Scalars,
) -> Foreground:
    """Combine layers into one image; objects share a pixel in proportion to α_k σ(depth_k)."""
    w = alpha * depth.sigmoid()[..., None, None]
    w = w / (w.sum(dim=1, keepdim=True) + EPS)  # 0 where there is no object
    return Foreground(mu_fg=(w * y).sum(dim=1), alpha=(w * alpha).sum(dim=1))
