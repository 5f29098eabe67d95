"""Whether a training keeps its objects: it is stopped if they vanish, and begins again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gswm.core.errors import UserError

LOST = 0.1
"""Share of the expected objects below which they are lost."""
HEALTHY = 0.3
"""Share from which on they are there."""
PATIENCE = 3
"""Reports in a row without objects."""


class ObjectsLostError(UserError):
    """The model explains the video by its background alone."""


@dataclass
class Watch:
    """Listens to the reports of a training.

    Args:
        expected: Objects per frame, as measured.
        begin: The step from which on there should be objects.
    """

    expected: float
    begin: int
    healthy: int = 0
    """The last report's step at which objects were there."""
    found: list[float] = field(default_factory=list)
    """Objects per frame of each report."""

    def __call__(self, line: Mapping[str, int | float]) -> None:
        """Take note of a report; raise if objects are lost."""
        if "objects" not in line:
            return
        self.found.append(float(line["objects"]))
        if self.found[-1] >= HEALTHY * self.expected:
            self.healthy = int(line["step"])
        recent = self.found[-PATIENCE:]
        lost = len(recent) == PATIENCE and max(recent) < LOST * self.expected
        if lost and line["step"] >= self.begin:
            raise ObjectsLostError(
                f"objects are lost at step {line['step']:.0f}: {recent[-1]:.2f} per frame are "
                f"found, and {self.expected:.2f} are expected"
            )
