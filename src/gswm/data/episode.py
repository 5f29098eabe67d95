"""Episodes: videos with the ground truth of their objects.

All worlds and files use this record. Positions are in pixels from the top left corner of the frame,
x then y, with pixel i covering [i, i + 1). Times are frames. An empty slot has id 0 and is not
present.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Float32, Float64, Int, UInt8
from torch import Tensor

from gswm.core.devices import find_device
from gswm.core.records import map_tensors
from gswm.core.words import counted
from gswm.data.labels import Labels


@dataclass(frozen=True, eq=False)
class Truth:
    """Ground truth of every frame; an object keeps its slot throughout an episode."""

    positions: Float64[Tensor, "episode time object 2"]
    """Centers (x, y), in pixels."""
    velocities: Float64[Tensor, "episode time object 2"]
    """Pixels per frame."""
    sizes: Float64[Tensor, "episode time object"]
    """Radii in pixels: a box is twice as wide."""
    layers: Int[Tensor, "episode time object"]
    """Layer; objects of the same layer collide if the world has collisions."""
    order: Int[Tensor, "episode time object"]
    """Depth order: objects with larger numbers are in front."""
    colors: Float64[Tensor, "episode time object 3"]
    """Red, green and blue, from 0 to 1."""
    ids: Int[Tensor, "episode time object"]
    """1, 2, ...: the same number for the same object in every frame; 0 for empty slots."""
    present: Bool[Tensor, "episode time object"]
    """Whether the frame contains the object, even behind another."""
    hw: Float64[Tensor, "episode time object 2"] | None = None
    """Heights and widths of boxes in pixels, if they are not squares of twice the size."""
    visibility: Float64[Tensor, "episode time object"] | None = None
    """The visible fraction of an object, if known."""

    def boxes_hw(self) -> Float64[Tensor, "episode time object 2"]:
        """Heights and widths of all boxes, in pixels."""
        if self.hw is not None:
            return self.hw
        return 2 * self.sizes[..., None].expand(*self.sizes.shape, 2)

    def labels(self, image_size: int) -> Labels:
        """Boxes for supervision, cut at the borders of the frame.

        Visibility is that of the part in the frame; a world without it treats all objects as
        visible.
        """
        seen = self.visibility if self.visibility is not None else torch.ones_like(self.sizes)
        whole = Labels(
            present=self.ids > 0,
            visibility=(seen * (self.ids > 0)).float(),
            xy=(2 * self.positions / image_size - 1).float(),
            hw=(self.boxes_hw() / image_size).float(),
        )
        cut, share = whole.cut()
        in_frame = (whole.visibility / share).clamp(max=1)
        return replace(cut, visibility=torch.where(cut.present, in_frame, whole.visibility))


@dataclass(frozen=True)
class Corridors:
    """The maze of each episode, and the position of each agent."""

    grid: Int[Tensor, "episode row column"]
    """1 for corridor cells, 0 for walls."""
    cells: Int[Tensor, "episode step object 2"]
    """(row, column) of each agent; frame 2s shows step s, frame 2s + 1 is halfway to the next."""


@dataclass(frozen=True)
class Space:
    """3D ground truth: poses and contacts of objects, and the content of each pixel."""

    masks: UInt8[Tensor, "episode time height width"]
    """The id of the object at the center of the pixel; 0 for none."""
    depth: Float[Tensor, "episode time height width"]
    """Depth of that point along the optical axis."""
    visibility: Float[Tensor, "episode time object"]
    """The visible fraction of the part of an object inside the frame."""
    poses: Float[Tensor, "episode time object 4"]
    """The center (x, y, z), and the rotation about the vertical axis."""
    motions: Float[Tensor, "episode time object 4"]
    """The change of the pose per frame."""
    contacts: Float[Tensor, "episode time object object"]
    """The impulse between each pair of objects since the previous frame; 0 without contact."""
    shapes: Int[Tensor, "episode object"]
    """0 for none, 1 for a sphere, 2 for a cylinder, 3 for a cube."""
    materials: Int[Tensor, "episode object"]
    """0 for rubber, 1 for metal."""
    radii: Float[Tensor, "episode object"]
    masses: Float[Tensor, "episode object"]


@dataclass(frozen=True, repr=False, eq=False)
class Episodes:
    """Several episodes of equal length."""

    video: UInt8[Tensor, "episode time 3 height width"]
    truth: Truth | None = None
    """None for videos without ground truth."""
    corridors: Corridors | None = None
    """Mazes only."""
    space: Space | None = None
    """3D worlds only."""
    actions: Float32[Tensor, "episode time action"] | None = None
    """Actions: `actions[:, t]` influences frame t + 1."""
    rewards: Float32[Tensor, "episode time"] | None = None
    """`rewards[:, t]` is received on the transition to frame t."""
    background: UInt8[Tensor, "episode 3 height width"] | None = None
    """The scene without its objects, for a fixed camera."""
    labels: Labels | None = None
    """Boxes for supervision from a file; worlds derive theirs from the ground truth."""

    def __repr__(self) -> str:
        number, time, _, height, width = self.video.shape
        shape = f"{counted(number, 'episode')} × {counted(time, 'frame')}, {width} × {height} px"
        if self.truth is None:
            return f"Episodes: {shape}, no ground truth"
        there = (self.truth.ids > 0).sum(dim=-1)
        most = int(there.max()) if there.numel() else 0
        return f"Episodes: {shape}, up to {counted(most, 'object')}"

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, which: slice | Tensor) -> "Episodes":
        return map_tensors(lambda tensor: tensor[which], self)

    def to(self, device: str | torch.device) -> "Episodes":
        """The same episodes on `device`."""
        there = find_device(device)
        return map_tensors(lambda tensor: tensor.to(there), self)
