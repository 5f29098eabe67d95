"""A scene that can be edited: the state that a model carries from frame to frame.

Each edit returns a new scene. It applies to every video that has an object of that id, or only to
video number `of`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.records import stack
from gswm.core.shapes import NOBODY, Video
from gswm.models.objects import Attributes, Slotted
from gswm.models.state import State
from gswm.models.track import Track

Slots = Bool[Tensor, "batch object"]
FARTHEST = 2.0
"""Largest distance from the middle at which an object can be placed, in units of `xy`."""


@dataclass(frozen=True, repr=False)
class Scene(State, Generic[Slotted]):
    """The state of a model whose objects are a record of slots."""

    objects: Slotted
    context: Any
    """The recurrent state of the background."""
    seen: Float[Tensor, " batch *seen"]
    """The background as the objects perceive it."""

    def __repr__(self) -> str:
        there = (self.objects.o.pres[..., 0] > 0.5).sum(dim=1).tolist()
        return f"{type(self).__name__}: {', '.join(map(str, there))} objects in {len(there)} videos"

    def move(self, id: int, xy: tuple[float, float], of: int | None = None) -> "Scene[Slotted]":
        """See `State`."""
        return self.edit(self.where(id, of), xy=xy)

    def remove(self, id: int, of: int | None = None) -> "Scene[Slotted]":
        """See `State`."""
        where = self.where(id, of)
        gone = self.edit(where, pres=(0.0,))
        ids = torch.where(where, NOBODY, gone.objects.id)
        return replace(gone, objects=replace(gone.objects, id=ids))

    def add(self, copy_of: int, xy: tuple[float, float], of: int | None = None) -> "Scene[Slotted]":
        """Add a copy of an object at `xy`, in the emptiest slot; its id is a new one."""
        objects, source = self.objects, self.where(copy_of, of)
        here = source.any(dim=1, keepdim=True)
        free = objects.o.pres[..., 0].argmin(dim=1, keepdim=True)
        if (here & (objects.o.pres[..., 0].gather(1, free) > 0.5)).any():
            raise UserError("every slot holds an object: delete one first")
        target = torch.zeros_like(source).scatter(1, free, True) & here
        index = source.to(torch.uint8).argmax(dim=1, keepdim=True)
        copied = objects.flat().take_along_dim(index[..., None], dim=1)
        flat = torch.where(target[..., None], copied, objects.flat())
        ids = torch.where(target, objects.born[:, None], objects.id)
        born = objects.born + here[:, 0]
        added = replace(self, objects=replace(objects.with_flat(flat, ids), born=born))
        return added.edit(target, xy=xy)

    def change(
        self,
        id: int,
        *,
        hw: tuple[float, float] | None = None,
        depth: float | None = None,
        look_of: int | None = None,
        velocity: tuple[float, float] | None = None,
        of: int | None = None,
    ) -> "Scene[Slotted]":
        """Change an object's size, depth or appearance; the appearance may be another object's."""
        if velocity is not None:
            raise UserError(
                "this model keeps velocity in its hidden state: edit earlier frames, and infer "
                "them again"
            )
        where, scene = self.where(id, of), self
        if hw is not None:
            scene = scene.edit(where, hw=hw)
        if depth is not None:
            scene = scene.edit(where, depth=(depth,))
        if look_of is not None:
            other = self.where(look_of, of)
            both = where.any(dim=1, keepdim=True) & other.any(dim=1, keepdim=True)
            if not both.any():
                raise UserError(
                    f"no video has both object {id} and object {look_of}: choose two of the same "
                    "video"
                )
            index = other.to(torch.uint8).argmax(dim=1, keepdim=True)[..., None]
            o = scene.objects.o
            look = torch.where((where & both)[..., None], o.what.take_along_dim(index, 1), o.what)
            scene = replace(scene, objects=replace(scene.objects, o=replace(o, what=look)))
        return scene

    def where(self, id: int, of: int | None) -> Slots:
        """Mask of the slots that hold that object."""
        found = (self.objects.id == id) & (self.objects.o.pres[..., 0] > 0.5)
        if of is not None:
            if not 0 <= of < len(found):
                raise UserError(f"there is no video {of}; this state has {len(found)}")
            found &= torch.arange(len(found), device=found.device)[:, None] == of
        if id == NOBODY or not found.any():
            there = self.objects.id[self.objects.o.pres[..., 0] > 0.5].unique().tolist()
            raise UserError(f"there is no object {id}; there are {there}")
        return found

    def edit(self, where: Slots, **values: tuple[float, ...]) -> "Scene[Slotted]":
        """Set attributes to `values` in the masked slots."""
        o = self.objects.o
        for name, value in values.items():
            old = getattr(o, name)
            new = torch.tensor(value, device=old.device, dtype=old.dtype)
            if new.shape != old.shape[-1:]:
                raise UserError(f"{name} must be {old.shape[-1]} numbers, not {value}")
            if not torch.isfinite(new).all():
                raise UserError(f"{name} must be finite numbers, not {value}")
            if name == "xy" and not (new.abs() <= FARTHEST).all():
                raise UserError(
                    f"xy is {value}: it goes from -1 (left, top) to 1 (right, bottom) and may be "
                    f"at most {FARTHEST:g}; (0, 0) is the middle of the frame"
                )
            if name == "hw" and not (new > 0).all():
                raise UserError(f"hw must be positive, in fractions of the image, not {value}")
            o = replace(o, **{name: torch.where(where[..., None], new, old)})
        return replace(self, objects=replace(self.objects, o=o))


def as_track(
    scenes: Sequence[Scene[Any]], reconstruction: Video | None, background: Video | None
) -> Track:
    """The scenes after each frame as a track for users."""
    o: Attributes = stack([scene.objects.o for scene in scenes], dim=1)
    ids = torch.stack([scene.objects.id for scene in scenes], dim=1)
    return Track(
        *(o.xy, o.hw, o.depth[..., 0], o.pres[..., 0], ids),
        reconstruction=reconstruction,
        background=background,
        states=tuple(scenes),
    )
