"""Labels: the true boxes of a world's objects, in the units of a model."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float32
from torch import Tensor

from gswm.data.episode import Truth


@dataclass(frozen=True)
class Labels:
    """The objects of some episodes, each in a slot of its own."""

    present: Bool[Tensor, "episode time object"]
    visibility: Float32[Tensor, "episode time object"]
    """The share of an object that lies in the frame and that nothing hides."""
    xy: Float32[Tensor, "episode time object 2"]
    """Centers; (-1, -1) is the top left corner of the frame, (1, 1) its bottom right."""
    hw: Float32[Tensor, "episode time object 2"]
    """Heights and widths, as shares of the frame."""

    @staticmethod
    def of(truth: Truth, image_size: int) -> "Labels":
        """Labels from the ground truth; a world that says nothing of hidden objects hides none."""
        seen = truth.visibility if truth.visibility is not None else torch.ones_like(truth.sizes)
        return Labels(
            present=truth.present,
            visibility=(seen * (truth.ids > 0)).float(),
            xy=(2 * truth.positions / image_size - 1).float(),
            hw=(truth.boxes_hw() / image_size).float(),
        )
