"""The decoder: spatial broadcast, shared by all slots.

    [μ, l] = Conv(ELU(Conv(... Conv([z at every pixel, coordinates]))))

μ are colors without bounds, l is the mask logit. The latents are the same at every pixel, so the
first convolution needs no image of them: each tap of its kernel is one product with z, and a pixel
sums the taps that lie inside the frame. The result is that of the convolution.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import centers

KERNEL = 5
PAD = KERNEL // 2
LAYERS = 5


@dataclass(frozen=True)
class SlotPictures:
    """The colors and the mask logits of each slot."""

    mu: Float[Tensor, "batch object 3 height width"]
    logit: Float[Tensor, "batch object 1 height width"]


class BroadcastDecoder(nn.Module):
    """Decodes the latents of each slot into a picture."""

    def __init__(self, num_in: int, channels: int, image_size: int) -> None:
        super().__init__()
        widths = [num_in + 2, *[channels] * (LAYERS - 1), 4]
        self.convs = nn.ModuleList(
            nn.Conv2d(i, o, KERNEL, padding=PAD) for i, o in pairwise(widths)
        )
        for conv in self.convs:
            nn.init.xavier_uniform_(cast(nn.Conv2d, conv).weight)
            nn.init.zeros_(cast(Tensor, conv.bias))
        self.coordinates: Tensor
        self.register_buffer("coordinates", coordinates(image_size), persistent=False)
        row, tap = torch.arange(image_size)[:, None], torch.arange(KERNEL)
        inside = (row + tap >= PAD) & (row + tap < image_size + PAD)
        self.inside: Tensor
        self.register_buffer("inside", inside.float(), persistent=False)

    def forward(self, z: Float[Tensor, "batch object z"]) -> SlotPictures:
        """One picture per slot."""
        mu, logit = self.decode(z.flatten(0, 1)).unflatten(0, z.shape[:2]).split([3, 1], dim=2)
        return SlotPictures(mu, logit)

    def decode(self, z: Float[Tensor, "n z"]) -> Float[Tensor, "n 4 height width"]:
        """Colors and mask logits."""
        x = self.broadcast(z)
        for conv in list(self.convs)[1:]:
            x = conv(F.celu(x))
        return x

    def broadcast(self, z: Float[Tensor, "n z"]) -> Float[Tensor, "n c height width"]:
        """The first convolution, without building its input."""
        first = cast(nn.Conv2d, self.convs[0])
        weight, place = first.weight.split([z.shape[1], 2], dim=1)
        taps = einsum(z, weight, "n i, c i a b -> n c a b")
        rows = einsum(self.inside, taps, "y a, n c a b -> n c y b")
        of_z = einsum(rows, self.inside, "n c y b, x b -> n c y x")
        return of_z + F.conv2d(self.coordinates, place, first.bias, padding=PAD)


def coordinates(size: int) -> Float[Tensor, "1 2 size size"]:
    """The x and y of the center of each pixel, from -1 to 1."""
    at = centers(size, torch.zeros(()))
    return torch.stack(torch.meshgrid(at, at, indexing="xy"))[None]
