"""Labels: boxes of objects for supervision, in the model's units.

Procedural worlds know their objects (`Truth.labels`). In a video, `looking.teaching` knows those
that move; it labels other differences from the background as unclear.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float32
from torch import Tensor

NUMBERS = 6
"""Numbers per box in a file: present, visibility, x, y, height and width."""
UNCLEAR = 0.2
"""The visibility of a box that may or may not contain an object."""
ENTERED = 0.15
"""Share of a whole box that must be in the frame for an object to count as present."""


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

    def cut(self) -> tuple["Labels", Float32[Tensor, "episode time object"]]:
        """Boxes cut at the borders of the frame, and the share of each that is left.

        A box is thus around what a frame shows of an object, and grows while the object enters. An
        object is present only if `ENTERED` of its box is left.
        """
        half = self.hw.flip(-1)
        low, high = (self.xy - half).clamp(-1, 1), (self.xy + half).clamp(-1, 1)
        hw = (high - low).flip(-1) / 2
        share = (hw / self.hw.clamp_min(1e-6)).prod(dim=-1)
        present = self.present & (share >= ENTERED)
        return replace(self, present=present, xy=(low + high) / 2, hw=hw), share

    @staticmethod
    def unpacked(values: Float32[Tensor, "episode time object 6"]) -> "Labels":
        """The inverse of `packed`."""
        present, visibility, xy, hw = values.split((1, 1, 2, 2), dim=-1)
        return Labels(present[..., 0] > 0.5, visibility[..., 0], xy, hw)

    def packed(self) -> Float32[Tensor, "episode time object 6"]:
        """All numbers in one array, as in files."""
        flags = torch.stack([self.present.float(), self.visibility], dim=-1)
        return torch.cat([flags, self.xy, self.hw], dim=-1)
