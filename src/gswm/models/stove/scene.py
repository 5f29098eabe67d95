"""The state after a frame: boxes and hues, velocities and latents."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.shapes import NOBODY
from gswm.models.objects import Attributes, LSTMState, Objects
from gswm.models.scene import Scene, numbers
from gswm.models.stove.dynamics import MOTION, POSITION, SIZE, Bodies


@dataclass(frozen=True, repr=False)
class StoveScene(Scene[Objects]):
    """A scene with editable velocities and room for any number of objects.

    The hue of an object is its `what`; velocity and latents are its `z_state`.
    """

    @property
    def s(self) -> Bodies:
        """The input of the dynamics."""
        return torch.cat([self.objects.o.xy, self.objects.z_state], dim=-1)

    def after(self, s: Bodies) -> "StoveScene":
        """The same objects in new positions; sizes and hues stay."""
        o = replace(self.objects.o, xy=s[..., :POSITION])
        return replace(self, objects=replace(self.objects, o=o, z_state=s[..., POSITION:]))

    def add(self, copy_of: int, xy: tuple[float, float], of: int | None = None) -> Scene[Objects]:
        """Add a copy of an object at `xy`; its id is a new one."""
        objects = self.objects
        if not (objects.o.pres > 0.5).all(dim=1).any():
            return super().add(copy_of, xy, of)
        flat = torch.cat([objects.flat(), torch.zeros_like(objects.flat()[:, :1])], dim=1)
        ids = torch.cat([objects.id, torch.full_like(objects.id[:, :1], NOBODY)], dim=1)
        return replace(self, objects=objects.with_flat(flat, ids)).add(copy_of, xy, of)

    def change(
        self,
        id: int,
        *,
        hw: tuple[float, float] | None = None,
        depth: float | None = None,
        look_of: int | None = None,
        velocity: tuple[float, float] | None = None,
        of: int | None = None,
    ) -> Scene[Objects]:
        """Change an object's size, hue or velocity; the latter in units of `xy` per frame."""
        if depth is not None:
            raise UserError("this model has no depth: an earlier slot covers a later one")
        changed = super().change(id, hw=hw, look_of=look_of, of=of)
        if velocity is None:
            return changed
        z_state = changed.objects.z_state.clone()
        new = numbers("velocity", velocity, MOTION - POSITION).to(z_state)
        z_state[..., : MOTION - POSITION][self.where(id, of)] = new
        return replace(changed, objects=replace(changed.objects, z_state=z_state))


def as_scene(
    z: Float[Tensor, "batch object z"], hue: Float[Tensor, "batch object 3"]
) -> StoveScene:
    """A scene from z = (s_x, q, s): all objects are present, those of earlier slots in front."""
    batch, num, _ = z.shape
    size, s = z.tensor_split([SIZE], dim=-1)
    one, slot = torch.ones_like(z[..., :1]), torch.arange(num, device=z.device)
    o = Attributes(one, -slot[:, None] * one, as_hw(size), s[..., :POSITION], hue)
    none = LSTMState(z[..., :0], z[..., :0])
    ids = slot.expand(batch, num)
    born = torch.full((batch,), num, device=z.device)
    objects = Objects(o, s[..., POSITION:], none, none, ids, born)
    return StoveScene(objects, None, z.new_zeros(batch, 0))


def as_hw(size: Float[Tensor, "*batch 2"]) -> Float[Tensor, "*batch 2"]:
    """Height and width from (s_x, q), the width and the ratio of height to width."""
    width, ratio = size.split(1, dim=-1)
    return torch.cat([width * ratio, width], dim=-1)
