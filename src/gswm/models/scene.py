"""A scene that can be edited: the state that a model carries from frame to frame.

Each edit returns a new scene. It applies to every video that has an object of that id, or only to
video number `of`. Positions and sizes are those that a track reports, which may be of the drawn
part of an object's box.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.limits import LARGEST_DEPTH
from gswm.core.records import map_tensors, stack
from gswm.core.shapes import NOBODY, Points, Video
from gswm.core.words import counted
from gswm.models.objects import Attributes, Extents, Slotted
from gswm.models.state import State
from gswm.models.track import Track

Slots = Bool[Tensor, "batch object"]
Taken = TypeVar("Taken")
FARTHEST = 2.0
"""Largest distance from the middle at which an object can be placed, in units of `xy`."""
LARGEST = 2.0
"""Largest height and width of an edited object, in sides of the frame."""


@dataclass(frozen=True, repr=False)
class Scene(State, Generic[Slotted]):
    """The state of a model whose objects are a record of slots."""

    objects: Slotted
    context: Any
    """The recurrent state of the background."""
    seen: Float[Tensor, " batch *seen"]
    """The background as the objects perceive it."""
    drawn: Extents | None = None
    """The part of each box that is reported; None for all of it."""

    def __repr__(self) -> str:
        there = (self.objects.o.pres[..., 0] > 0.5).sum(dim=1).tolist()
        *before, last = there or [0]
        objects = ", ".join([*map(str, before), counted(last, "object")])
        return f"State: {objects} in {counted(len(there), 'video')}"

    @property
    def boxes(self) -> tuple[Points, Points]:
        """The boxes that a track reports, as xy and hw."""
        o = self.objects.o
        return (o.xy, o.hw) if self.drawn is None else self.drawn.of(o.xy, o.hw)

    def move(self, id: int, xy: tuple[float, float], of: int | None = None) -> "Scene[Slotted]":
        """See `State`."""
        return self.edit(self.where(id, of), xy=xy)

    def remove(self, id: int, of: int | None = None) -> "Scene[Slotted]":
        """See `State`."""
        return self.without(self.where(id, of))

    def without(self, where: Slots) -> "Scene[Slotted]":
        """The scene without the objects in the masked slots."""
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
        flat, drawn = taken((objects.flat(), self.drawn), index, target)
        ids = torch.where(target, objects.born[:, None], objects.id)
        born = objects.born + here[:, 0]
        added = replace(objects.with_flat(flat, ids), born=born)
        return replace(self, objects=added, drawn=drawn).edit(target, xy=xy)

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
            index = other.to(torch.uint8).argmax(dim=1, keepdim=True)
            o, boxes = scene.objects.o, scene.boxes
            what, drawn = taken((o.what, scene.drawn), index, where & both)
            objects = replace(scene.objects, o=replace(o, what=what))
            scene = replace(scene, objects=objects, drawn=drawn).reporting(*boxes)
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
        o, boxes = self.objects.o, dict(zip(("xy", "hw"), self.boxes, strict=True))
        for name, value in values.items():
            old = boxes[name] if name in boxes else getattr(o, name)
            new = numbers(name, value, old.shape[-1]).to(old)
            if name == "xy" and not (new.abs() <= FARTHEST).all():
                raise UserError(
                    f"xy is {value}: it goes from -1 (left, top) to 1 (right, bottom) and may be "
                    f"at most {FARTHEST:g}; (0, 0) is the middle of the frame"
                )
            if name == "hw" and not ((new > 0) & (new <= LARGEST)).all():
                raise UserError(
                    f"hw is {value}: height and width are in sides of the frame, above 0 and at "
                    f"most {LARGEST:g}"
                )
            if name == "depth" and not (new.abs() <= LARGEST_DEPTH).all():
                (number,) = value
                raise UserError(
                    f"depth is {number:g}; it must be from -{LARGEST_DEPTH} to {LARGEST_DEPTH}, "
                    "and higher objects are in front"
                )
            new = torch.where(where[..., None], new, old)
            if name in boxes:
                boxes[name] = new
            else:
                o = replace(o, **{name: new})
        return replace(self, objects=replace(self.objects, o=o)).reporting(**boxes)

    def reporting(self, xy: Points, hw: Points) -> "Scene[Slotted]":
        """The scene with these reported boxes; what is reported already does not change."""
        o, (old_xy, old_hw) = self.objects.o, self.boxes
        same = hw == old_hw
        stays = (xy == old_xy) & same.flip(-1)  # the middle of a part moves with the size
        if self.drawn is not None:
            xy, hw = self.drawn.around(xy, hw)
        xy, hw = torch.where(stays, o.xy, xy), torch.where(same, o.hw, hw)
        return replace(self, objects=replace(self.objects, o=replace(o, xy=xy, hw=hw)))


def numbers(name: str, value: Any, count: int) -> Float[Tensor, " count"]:
    """The new value of an attribute; raises a UserError unless it is `count` finite numbers."""
    wanted = f"{count} numbers" if count > 1 else "a number"
    try:
        found = torch.as_tensor(value, dtype=torch.float32)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise UserError(f"{name} must be {wanted}, not {value!r}") from error
    if found.shape != (count,):
        raise UserError(f"{name} must be {wanted}, not {value}")
    if not torch.isfinite(found).all():
        raise UserError(f"{name} must be finite numbers, not {value}")
    return found


def taken(record: Taken, index: Int[Tensor, "batch 1"], where: Slots) -> Taken:
    """A record of slots in which the masked ones are copies of the slot at `index`."""
    mask, source = where[..., None], index[..., None]
    return map_tensors(lambda x: torch.where(mask, x.take_along_dim(source, dim=1), x), record)


def as_track(
    scenes: Sequence[Scene[Any]], reconstruction: Video | None, background: Video | None
) -> Track:
    """The scenes after each frame as a track for users."""
    o: Attributes = stack([scene.objects.o for scene in scenes], dim=1)
    xy, hw = (torch.stack(each, dim=1) for each in zip(*[s.boxes for s in scenes], strict=True))
    ids = torch.stack([scene.objects.id for scene in scenes], dim=1)
    return Track(
        *(xy, hw, o.depth[..., 0], o.pres[..., 0], ids),
        reconstruction=reconstruction,
        background=background,
        states=tuple(scenes),
    )
