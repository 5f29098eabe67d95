"""Labels: boxes of objects that teach a model, in its own units.

A procedural world knows its objects (`Truth.labels`). Of a video, `looking.teaching` knows those
that move, and leaves open what other differences from the background are: it labels these as
unclear.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float32
from torch import Tensor

NUMBERS = 6
"""Of a box in a file: present, visibility, x, y, height and width."""
UNCLEAR = 0.2
"""The visibility of a box that may hold an object or not."""


@dataclass(frozen=True)
class Labels:
    """The objects of some episodes, each in a slot of its own."""

    present: Bool[Tensor, "episode time object"]
    visibility: Float32[Tensor, "episode time object"]
    """The share of an object that lies in the frame and that nothing hides. Where it is above 0
    and no object is present, the box is unclear, and teaches nothing."""
    xy: Float32[Tensor, "episode time object 2"]
    """Centers; (-1, -1) is the top left corner of the frame, (1, 1) its bottom right."""
    hw: Float32[Tensor, "episode time object 2"]
    """Heights and widths, as shares of the frame."""

    @staticmethod
    def unpacked(values: Float32[Tensor, "episode time object 6"]) -> "Labels":
        """Labels from the numbers that `packed` gave."""
        present, visibility, xy, hw = values.split((1, 1, 2, 2), dim=-1)
        return Labels(present[..., 0] > 0.5, visibility[..., 0], xy, hw)

    def packed(self) -> Float32[Tensor, "episode time object 6"]:
        """All numbers, as files hold them."""
        flags = torch.stack([self.present.float(), self.visibility], dim=-1)
        return torch.cat([flags, self.xy, self.hw], dim=-1)
