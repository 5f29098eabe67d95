"""The networks of SILOT that do not depend on what an object is.

The backbone sees a frame through a window of 31 × 31 pixels around the middle of each cell of 12 ×
12 pixels. Cells begin at the top left corner, and the last ones reach beyond the frame if its size
is no multiple of 12.
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
"""Pixels of a cell, high and wide."""
WINDOW = 31
"""Pixels that the backbone sees of a frame for one cell, high and wide."""
MARGIN = (WINDOW - CELL) // 2
CHANNELS = 128
GLIMPSE = 14
"""Pixels of an object seen up close, high and wide."""


def grid_of(image_size: int) -> int:
    """Number of cells along a side of an image."""
    return -(-image_size // CELL)


def centers_of_cells(image_size: int, like: Tensor) -> Float[Tensor, "cell 2"]:
    """The xy of the middle of each cell, row by row."""
    grid = grid_of(image_size)
    return (cell_centers(grid, like) + 1) * (grid * CELL / image_size) - 1


class Backbone(nn.Sequential):
    """A frame into features for each cell."""

    def __init__(self, num_out: int) -> None:
        layers: list[nn.Module] = []
        channels = 3
        for kernel, stride in ((4, 3), (4, 2), (4, 2), (1, 1), (1, 1)):
            layers += [nn.Conv2d(channels, CHANNELS, kernel, stride), nn.CELU()]
            channels = CHANNELS
        super().__init__(*layers, nn.Conv2d(CHANNELS, num_out, 1))

    def forward(self, input: Frame) -> Map:
        """The features of each cell, as a map."""
        size = input.shape[-1]
        after = CELL * (grid_of(size) - 1) + WINDOW - MARGIN - size
        return super().forward(F.pad(input, (MARGIN, after, MARGIN, after)))


class ObjectEncoder(nn.Module):
    """Encode the content of each box, through a mask if there is one, as a vector."""

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
        """One vector an object."""
        seen = self.crop(frame, xy, hw, GLIMPSE).flatten(3)
        if mask is not None:
            seen = seen * mask[:, :, None]
        return self.mlp(seen.flatten(2))


class ObjectDecoder(nn.Module):
    """A vector into a glimpse: colors and opacity, before their sigmoid."""

    def __init__(self, num_in: int) -> None:
        super().__init__()
        self.mlp = MLP(num_in, [128, 256], 4 * GLIMPSE**2)

    def forward(
        self, what: Float[Tensor, "batch object what"]
    ) -> Float[Tensor, "batch object 4 h w"]:
        """One glimpse an object."""
        return self.mlp(what).unflatten(-1, (4, GLIMPSE, GLIMPSE))


@torch.no_grad()
def glorot(module: nn.Module) -> None:
    """Initial weights of a layer as Glorot and Bengio have them, and biases of 0."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
