"""Boxes of objects, predicted or true.

They are kept on the CPU in double precision. They are small, and scores then depend on the device
only through the model.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from gswm.core.records import concatenate, map_tensors
from gswm.core.shapes import NOBODY
from gswm.data.episode import Truth
from gswm.models.track import Track


@dataclass(frozen=True)
class Boxes:
    """Objects, frame by frame, in units of the frame's side."""

    xy: Float64[Tensor, "*row time object 2"]
    """Centers, from the top left corner."""
    hw: Float64[Tensor, "*row time object 2"]
    """Heights and widths."""
    id: Int[Tensor, "*row time object"]
    there: Bool[Tensor, "*row time object"]

    @staticmethod
    def of_track(track: Track) -> "Boxes":
        """Boxes of a track; an object is present if its presence is above 0.5."""
        xy, hw = ((values.detach().cpu().double()) for values in (track.xy, track.hw))
        there = track.present
        return Boxes((xy + 1) / 2, hw, track.id.cpu(), there.cpu())

    @staticmethod
    def of_truth(truth: Truth, image_size: int) -> "Boxes":
        """Boxes of the ground truth."""
        hw = truth.boxes_hw() / image_size
        parts = truth.positions / image_size, hw, truth.ids, truth.present
        return Boxes(*(part.cpu() for part in parts))

    def frames(self, start: int, stop: int | None = None) -> "Boxes":
        """A selection of frames."""
        axis = self.id.dim() - 2
        stop = self.id.shape[axis] if stop is None else stop
        return map_tensors(lambda values: values.narrow(axis, start, stop - start), self)

    def each(self, times: int) -> "Boxes":
        """Repeat each row a number of times."""
        return map_tensors(lambda values: values.repeat_interleave(times, dim=0), self)

    def flat(self) -> "Boxes":
        """Futures as rows."""
        return map_tensors(lambda values: values.flatten(0, 1), self)

    def then(self, later: "Boxes") -> "Boxes":
        """Concatenate along time."""
        return concatenate([self, later], dim=self.id.dim() - 2)

    def clipped(self) -> "Boxes":
        """Boxes clipped at the borders of the frame; those outside become absent."""
        half = self.hw.flip(-1).clamp_min(0) / 2
        low, high = (self.xy - half).clamp(0, 1), (self.xy + half).clamp(0, 1)
        there = self.there & (high > low).all(dim=-1)
        return Boxes((low + high) / 2, (high - low).flip(-1), self.id, there)

    def of(self, id: Int[Tensor, "row wanted"]) -> "Boxes":
        """The objects with these ids, in their order, from whichever slots hold them."""
        same = (self.id[:, :, None] == id[:, None, :, None]) & self.there[:, :, None]
        slot = same.to(torch.uint8).argmax(dim=-1)
        there = same.any(dim=-1) & (id != NOBODY)[:, None]
        xy, hw = (v.take_along_dim(slot[..., None], dim=2) for v in (self.xy, self.hw))
        return Boxes(xy, hw, id[:, None].expand_as(there), there)


def distances(
    one: Float64[Tensor, "*row left 2"], other: Float64[Tensor, "*row right 2"]
) -> Float64[Tensor, "*row left right"]:
    """Pairwise distances."""
    apart = one[..., :, None, :] - other[..., None, :, :]
    return torch.hypot(apart[..., 0], apart[..., 1])


def overlaps(one: Boxes, other: Boxes) -> Float64[Tensor, "*row time left right"]:
    """Pairwise intersection over union; 0 if either box is absent."""
    both = intersections(one, other)
    union = areas(one)[..., :, None] + areas(other)[..., None, :] - both
    there = one.there[..., :, None] & other.there[..., None, :]
    return torch.where(there & (union > 0), both / union.clamp_min(1e-300), 0)


def coverage(one: Boxes, other: Boxes) -> Float64[Tensor, "*row time left right"]:
    """Fraction of each box of `one` that each box of `other` covers; 0 if either is absent."""
    area = areas(one)[..., :, None]
    there = one.there[..., :, None] & other.there[..., None, :]
    return torch.where(there & (area > 0), intersections(one, other) / area.clamp_min(1e-300), 0)


def intersections(one: Boxes, other: Boxes) -> Float64[Tensor, "*row time left right"]:
    """Pairwise intersection areas, regardless of presence."""
    low = torch.maximum(*(corner(one, other, -1)))
    high = torch.minimum(*(corner(one, other, 1)))
    return (high - low).clamp_min(0).prod(dim=-1)


def areas(boxes: Boxes) -> Float64[Tensor, "*row time object"]:
    """Height times width."""
    return boxes.hw.clamp_min(0).prod(dim=-1)


def corner(one: Boxes, other: Boxes, sign: int) -> tuple[Tensor, Tensor]:
    """The lower (-1) or upper (1) corners, shaped for pairwise comparison."""
    at, at_other = (b.xy + sign * b.hw.flip(-1).clamp_min(0) / 2 for b in (one, other))
    return at[..., :, None, :], at_other[..., None, :, :]
