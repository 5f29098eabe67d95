"""Conditioning: messages from objects to cells and to each other, weighted by a Gaussian kernel.

Object j is described by f_j = [o_j, h_j], and sends a message to a place r:

    to a cell       e_r = Σ_j pres_j G(xy_j - r) MLP([f_j, xy_j - r])
    to an object    e_i = u_i + Σ_j pres_j G(xy_j - xy_i) MLP([f_j, xy_j - xy_i, u_i])
                    u_i = MLP_own(f_i)

G is the density of a Gaussian, not normalized over j, and offsets are in anchors. An object also
sends a message to itself. Absent objects send none.
"""

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import gaussian_kernel
from gswm.core.networks import MLP
from gswm.core.shapes import Scalars
from gswm.models.objects import Attributes
from gswm.models.silot.objects import AnchorConfig, Hidden, SilotSizes

Offsets = Float[Tensor, "batch place object 2"]
Messages = Float[Tensor, "batch place e"]


class KernelSum(nn.Module):
    """Σ_j pres_j G(offset to j) MLP([f_j, offset to j, features of the place])."""

    def __init__(self, sizes: SilotSizes, sigma: float, num_known: int = 0) -> None:
        super().__init__()
        self.sigma, e = sigma, sizes.encoding
        num_f = 6 + sizes.what + sizes.hidden
        self.mlp = MLP(num_f + 2 + num_known, [e, e], e)

    def forward(
        self,
        f: Float[Tensor, "batch object f"],
        pres: Scalars,
        offset: Offsets,
        known: Float[Tensor, "batch place known"] | None = None,
    ) -> Messages:
        """Messages from all objects to each place."""
        shape = offset.shape[:3]
        told = [f[:, None].expand(*shape, -1), offset]
        if known is not None:
            told.append(known[:, :, None].expand(*shape, -1))
        near = gaussian_kernel(offset, self.sigma) * pres.mT
        return einsum(near, self.mlp(torch.cat(told, dim=-1)).float(), "b r j, b r j e -> b r e")


class CellConditioning(nn.Module):
    """Messages from propagated objects to the cells of a grid."""

    def __init__(self, sizes: SilotSizes, anchors: AnchorConfig, sigma: float) -> None:
        super().__init__()
        self.anchors = anchors
        self.speak = KernelSum(sizes, sigma)

    def forward(self, o: Attributes, h: Hidden, center: Float[Tensor, "cell 2"]) -> Messages:
        """Return e of each cell."""
        offset = self.anchors.offset(o.xy[:, None] - center[:, None])
        return self.speak(torch.cat([o.cat(), h], dim=-1), o.pres, offset)


class ObjectConditioning(nn.Module):
    """Messages between objects."""

    def __init__(self, sizes: SilotSizes, anchors: AnchorConfig, sigma: float) -> None:
        super().__init__()
        self.anchors, e = anchors, sizes.encoding
        self.mlp_own = MLP(6 + sizes.what + sizes.hidden, [e, e], e)
        self.speak = KernelSum(sizes, sigma, num_known=e)

    def forward(self, o: Attributes, h: Hidden) -> Messages:
        """Return e of each object."""
        f = torch.cat([o.cat(), h], dim=-1)
        own = self.mlp_own(f).float()
        offset = self.anchors.offset(o.xy[:, None] - o.xy[:, :, None])
        return own + self.speak(f, o.pres, offset, own)
