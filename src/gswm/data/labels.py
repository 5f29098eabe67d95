"""Labels: boxes of objects for supervision, in the model's units.

Procedural worlds know their objects (`Truth.labels`). In a video, `looking.teaching` knows those
that move; it labels other differences from the background as unclear.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float32
from torch import Tensor

NUMBERS = 6
"""Numbers per box in a file: present, visibility, x, y, height and width."""
UNCLEAR = 0.2
"""The visibility of a box that may or may not contain an object."""


@dataclass(frozen=True)
class Labels:
    """The objects of several episodes, each in its own slot."""

    present: Bool[Tensor, "episode time object"]
    visibility: Float32[Tensor, "episode time object"]
    """The fraction of an object that is in the frame and not hidden. A box with a visibility above
    0 and no present object is unclear, and is ignored in training.
    """
    xy: Float32[Tensor, "episode time object 2"]
    """Centers; (-1, -1) is the top left corner of the frame, (1, 1) its bottom right."""
    hw: Float32[Tensor, "episode time object 2"]
    """Heights and widths, as fractions of the frame."""

    @staticmethod
    def unpacked(values: Float32[Tensor, "episode time object 6"]) -> "Labels":
        """The inverse of `packed`."""
        present, visibility, xy, hw = values.split((1, 1, 2, 2), dim=-1)
        return Labels(present[..., 0] > 0.5, visibility[..., 0], xy, hw)

    def packed(self) -> Float32[Tensor, "episode time object 6"]:
        """All numbers in one array, as in files."""
        flags = torch.stack([self.present.float(), self.visibility], dim=-1)
        return torch.cat([flags, self.xy, self.hw], dim=-1)
