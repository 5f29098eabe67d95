"""Stops a training that loses its objects, so that it can start again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gswm.core.errors import UserError

LOST = 0.1
"""Fraction of the expected objects below which they count as lost."""
HEALTHY = 0.3
"""Fraction of the expected objects above which training is healthy."""
PATIENCE = 3
"""Number of consecutive reports without objects."""


class ObjectsLostError(UserError):
    """The model explains the video by its background alone."""


@dataclass
class Watch:
    """Watches the reports of a training.

    Args:
        expected: Objects per frame, as measured.
        begin: The step from which objects should be found.
    """

    expected: float
    begin: int
    healthy: int = 0
    """The step of the last healthy report."""
    found: list[float] = field(default_factory=list)
    """Objects per frame in each report."""

    def __call__(self, line: Mapping[str, int | float]) -> None:
        """Record a report; raise if objects are lost."""
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
