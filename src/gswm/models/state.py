"""The state of a model between two frames, and its edits."""

from gswm.core.errors import UserError

NOT_EDITABLE = "this model's objects cannot be edited"


class State:
    """The state of a model between two frames, for every video of a batch.

    An edit returns a new state. It applies to every video that has an object of that id, or to
    video number `of` alone. Positions and sizes are those that a track reports. Subclasses override
    the edits that they can do. A model whose objects cannot be edited may use any record as its
    state.
    """

    def __repr__(self) -> str:
        return "State"

    def move(self, id: int, xy: tuple[float, float], of: int | None = None) -> "State":
        """Move an object, so that the center of its reported box is `xy`."""
        raise UserError(NOT_EDITABLE)

    def remove(self, id: int, of: int | None = None) -> "State":
        """Remove an object."""
        raise UserError(NOT_EDITABLE)

    def add(self, copy_of: int, xy: tuple[float, float], of: int | None = None) -> "State":
        """Add a copy of an object at `xy`; its id is the next free one."""
        raise UserError(NOT_EDITABLE)

    def change(
        self,
        id: int,
        *,
        hw: tuple[float, float] | None = None,
        depth: float | None = None,
        look_of: int | None = None,
        velocity: tuple[float, float] | None = None,
        of: int | None = None,
    ) -> "State":
        """Change an object's size, depth, appearance or velocity."""
        raise UserError(NOT_EDITABLE)
