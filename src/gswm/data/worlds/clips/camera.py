"""The camera: projection from the ground to the picture, and its inverse.

The ground is seen from above, or in perspective. A point (X, Y) has the depth d = 1 - Y. With the
scale

    s = 1 / (1 + κ d)

it appears at x = 1/2 + (X - 1/2) s + lean (1 - s), y = 1 - d s, and lengths are s times as large:
s = 1 at the lower edge, and s = 1 - κ (1 - y) everywhere. κ = 0 looks straight down.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

LEAST = 0.05
"""The scale below which no ground is visible."""
LARGEST = 1.25
"""The scale in front of the lower edge of the picture, where perspective ends."""


@dataclass(frozen=True)
class Perspective:
    """The cameras of several episodes."""

    kappa: Float[Tensor, " episode"]
    lean: Float[Tensor, " episode"]
    """Offset of the vanishing point to the right of the middle."""

    def scale(self, y: Float[Tensor, "episode ..."]) -> Float[Tensor, "episode ..."]:
        """The scale at a height in the picture."""
        return 1 - like(self.kappa, y) * (1 - y)

    def seen(
        self, ground: Float[Tensor, "episode ... 2"]
    ) -> tuple[Float[Tensor, "episode ... 2"], Float[Tensor, "episode ..."]]:
        """Project a point on the ground into the picture; also return the scale there."""
        across, along = ground.unbind(-1)
        depth = 1 - along
        kappa, lean = like(self.kappa, depth), like(self.lean, depth)
        scale = 1 / (1 + kappa * depth).clamp_min(1 / LARGEST)
        x = 0.5 + (across - 0.5) * scale + lean * (1 - scale)
        return torch.stack([x, 1 - depth * scale], dim=-1), scale

    def ground(
        self, seen: Float[Tensor, "episode ... 2"]
    ) -> tuple[Float[Tensor, "episode ... 2"], Float[Tensor, "episode ..."]]:
        """The point on the ground at a position in the picture, and the scale there."""
        x, y = seen.unbind(-1)
        scale = self.scale(y).clamp_min(LEAST)
        lean = like(self.lean, x)
        across = 0.5 + (x - 0.5 - lean * (1 - scale)) / scale
        return torch.stack([across, 1 - (1 - y) / scale], dim=-1), scale


def like(values: Float[Tensor, " episode"], other: Tensor) -> Float[Tensor, "episode ..."]:
    """Values of episodes, shaped to broadcast against values with more axes."""
    return values.reshape(-1, *[1] * (other.ndim - 1))
