"""Situation awareness (§3.3.2): the background around an object.

Attention on environment (AOE) crops the background around the object and encodes it:

    g_ctx_k = ST(μ_bg, o_xy_k, o_hw_k + s_ctx)    e_ctx_k = Conv_ctx_att(g_ctx_k)

The paper's ablations are two other kinds: "whole" encodes all of the background, the same for
every object (w/o AOE); "off" leaves e_ctx out (w/o SA), as do worlds without a background.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import crop
from gswm.core.networks import Encoder, per_object
from gswm.core.shapes import Video
from gswm.models.objects import Attributes, Sizes

SituationKind = Literal["attend", "whole", "off"]
CHANNELS = (3, 16, 32, 64, 128)

Survey = Float[Tensor, "batch time *seen"]
"""The background of each frame as objects can see it."""


class Situation(nn.Module):
    """e_ctx."""

    crop = staticmethod(crop)
    """`gswm.fast` replaces it by a kernel."""

    def __init__(self, kind: SituationKind, size: float, sizes: Sizes, image_size: int) -> None:
        super().__init__()
        self.kind: SituationKind = kind
        self.size, self.glimpse = size, sizes.glimpse
        self.num_e = 0 if kind == "off" else sizes.encoding
        if kind != "off":
            side = sizes.glimpse if kind == "attend" else image_size
            self.conv_ctx_att = Encoder(side, CHANNELS, self.num_e)

    def survey(self, mu_bg: Video) -> Survey:
        """The part of the computation that does not depend on object positions."""
        if self.kind == "attend":
            return mu_bg
        if self.kind == "whole":
            return per_object(self.conv_ctx_att, mu_bg)
        return mu_bg.new_zeros(*mu_bg.shape[:2], 0)

    def forward(
        self, seen: Float[Tensor, " batch *seen"], o: Attributes
    ) -> Float[Tensor, "batch object e"]:
        """e_ctx of each object, from one frame of the survey."""
        if self.kind == "attend":
            glimpses = self.crop(seen, o.xy, o.hw + self.size, self.glimpse)
            return per_object(self.conv_ctx_att, glimpses)
        return seen[:, None].expand(-1, o.xy.shape[1], -1)
