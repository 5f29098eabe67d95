"""Networks of SILOT that do not depend on the representation of objects.

The backbone has a receptive field of 31 × 31 pixels around the center of each cell of 12 × 12
pixels. Cells start at the top left corner, and the last ones extend beyond the frame if its size is
not a multiple of 12.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gswm.core.geometry import cell_centers, crop
from gswm.core.networks import MLP, Map
from gswm.core.shapes import Frame, Points

CELL = 12
"""Side of a cell in pixels."""
WINDOW = 31
"""Side of the backbone's receptive field for one cell, in pixels."""
MARGIN = (WINDOW - CELL) // 2
CHANNELS = 128
GLIMPSE = 14
"""Side of a glimpse in pixels."""


def grid_of(image_size: int) -> int:
    """Number of cells along a side of an image."""
    return -(-image_size // CELL)


def centers_of_cells(image_size: int, like: Tensor) -> Float[Tensor, "cell 2"]:
    """The xy of the center of each cell, row by row."""
    grid = grid_of(image_size)
    return (cell_centers(grid, like) + 1) * (grid * CELL / image_size) - 1


class Backbone(nn.Sequential):
    """Encodes a frame as features for each cell."""

    def __init__(self, num_out: int) -> None:
        layers: list[nn.Module] = []
        channels = 3
        for kernel, stride in ((4, 3), (4, 2), (4, 2), (1, 1), (1, 1)):
            layers += [nn.Conv2d(channels, CHANNELS, kernel, stride), nn.CELU()]
            channels = CHANNELS
        super().__init__(*layers, nn.Conv2d(CHANNELS, num_out, 1))

    def forward(self, input: Frame) -> Map:
        """The features of the cells, as a map."""
        size = input.shape[-1]
        after = CELL * (grid_of(size) - 1) + WINDOW - MARGIN - size
        return super().forward(F.pad(input, (MARGIN, after, MARGIN, after)))


class ObjectEncoder(nn.Module):
    """Encodes the content of each box, through an optional mask."""

    crop: Callable[..., Tensor] = staticmethod(crop)
    """`gswm.fast` replaces it by a kernel."""

    def __init__(self, num_out: int) -> None:
        super().__init__()
        self.mlp = MLP(3 * GLIMPSE**2, [256, 128], num_out)

    def forward(
        self,
        frame: Frame,
        xy: Points,
        hw: Points,
        mask: Float[Tensor, "batch object pixel"] | None = None,
    ) -> Float[Tensor, "batch object e"]:
        """One vector per object."""
        seen = self.crop(frame, xy, hw, GLIMPSE).flatten(3)
        if mask is not None:
            seen = seen * mask[:, :, None]
        return self.mlp(seen.flatten(2))


class ObjectDecoder(nn.Module):
    """Decodes a vector into a glimpse: colors and opacity before the sigmoid."""

    def __init__(self, num_in: int) -> None:
        super().__init__()
        self.mlp = MLP(num_in, [128, 256], 4 * GLIMPSE**2)

    def forward(
        self, what: Float[Tensor, "batch object what"]
    ) -> Float[Tensor, "batch object 4 h w"]:
        """One glimpse per object."""
        return self.mlp(what).unflatten(-1, (4, GLIMPSE, GLIMPSE))


@torch.no_grad()
def glorot(module: nn.Module) -> None:
    """Glorot initialization of a layer's weights, with biases of 0."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
