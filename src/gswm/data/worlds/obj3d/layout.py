"""The file layout of 3D episodes: the keys of balls, with the same meaning, and additional ones.

    boxes       left, top, right and bottom of each whole object, in pixels
    masks       the id of the object at the center of each pixel, or 0
    depth       its distance along the optical axis
    visibility  the visible fraction of the part of an object inside the frame
    poses       x, y, z and the angle about the vertical axis; `motions` is their change per frame
    contacts    the impulse between each pair of objects since the previous frame
    radii, materials

Of the keys of balls, `shapes` and `masses` have values other than 0 and 1.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gswm.data.episode import Episodes, Space

KEYS: dict[str, tuple[str, str]] = {
    "boxes": ("N T O 4", "float32"),
    "masks": ("N T H W", "uint8"),
    "depth": ("N T H W", "float16"),
    "visibility": ("N T O", "float32"),
    **dict.fromkeys(("poses", "motions"), ("N T O 4", "float32")),
    "contacts": ("N T O O", "float32"),
    "radii": ("N O", "float32"),
    "materials": ("N O", "uint8"),
}
SCENES = "gswm scenes 1"
"""Format name of scene files, which have no pictures."""
COMPRESSED = {key: {"compression": 1, "shuffle": True} for key in ("masks", "depth")}
"""Compression of keys that training does not read; most of their pixels show the plane."""


def to_tensors(episodes: Episodes, balls: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays to store, beginning with the keys of balls."""
    truth, space = episodes.truth, episodes.space
    assert truth is not None  # see `storage.layouts.check_parts`
    assert space is not None
    half = truth.boxes_hw().flip(-1) / 2
    time = truth.ids.shape[1]
    own = ("masks", "depth", "visibility", "poses", "motions", "contacts", "radii", "materials")
    return {
        **balls,
        "shapes": space.shapes[:, None].expand(-1, time, -1),
        "masses": space.masses[:, None].expand(-1, time, -1),
        "boxes": torch.cat([truth.positions - half, truth.positions + half], dim=-1),
        **{key: getattr(space, key) for key in own},
    }


def nearness(poses: Float[Tensor, "*frame object pose"]) -> Int[Tensor, "*frame object"]:
    """The depth order of objects, the nearest to the camera last."""
    return (-poses[..., 1]).argsort(dim=-1, stable=True).argsort(dim=-1)


def ids_of(stored: dict[str, Tensor]) -> Int[Tensor, "episode time object"]:
    """The ids of all existing objects; a file has 0 if the frame does not show the object."""
    exists = stored["present"] > 0.5
    return torch.arange(1, exists.shape[-1] + 1) * exists


def hw_of(stored: dict[str, Tensor]) -> Tensor:
    """Heights and widths of the boxes."""
    boxes = stored["boxes"].double()
    return (boxes[..., 2:] - boxes[..., :2]).flip(-1)


def space_of(stored: dict[str, Tensor]) -> Space:
    """The 3D ground truth in a file."""
    own = ("masks", "visibility", "poses", "motions", "contacts")
    return Space(
        **{key: stored[key] for key in own},
        depth=stored["depth"].float(),
        shapes=stored["shapes"][:, 0].long(),
        materials=stored["materials"].long(),
        radii=stored["radii"],
        masses=stored["masses"][:, 0].float(),
    )
