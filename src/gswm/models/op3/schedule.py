"""The order of inference, and the curriculum.

A clip is a list of steps: R refines on the current frame, P predicts the next one. The first frame
has several R, each later one a P and then R. In a stage with frames `ahead`, the last frames have
only P, so that the model learns several predictions in a row.
"""

from dataclasses import dataclass, replace

from gswm.core.errors import UserError
from gswm.core.schedule import Curriculum, Stage


@dataclass(frozen=True)
class Op3Stage(Stage):
    """A stage with consecutive predictions at the end of each clip."""

    ahead: int = 0
    """Number of last frames that are predicted and not refined."""


@dataclass(frozen=True)
class Op3Schedule(Curriculum):
    """The curriculum, and the number of refinements per frame."""

    lengths: tuple[tuple[int, int], ...] = ((0, 1), (3_000, 4))
    """The curriculum: (from which step, T). A single frame trains IODINE alone."""
    first: int = 4
    """Refinements of the first frame."""
    later: int = 1
    """Refinements of each later frame."""
    ahead: tuple[tuple[int, int], ...] = ((0, 0),)
    """(From which step, number of last frames of a clip that are predicted and not refined.)"""

    def stage(self, step: int) -> Op3Stage:
        """See `Curriculum`."""
        ahead = [number for start, number in self.ahead if start <= step][-1]
        return Op3Stage(self.length_at(step), ahead=ahead)

    def steady(self, length: int) -> "Op3Schedule":
        """See `Curriculum`."""
        return replace(super().steady(length), ahead=((0, 0),))

    def order(self, stage: Op3Stage) -> str:
        """The sequence of R and P for a clip."""
        ahead = min(stage.ahead, stage.length - 1)
        seen = ["R" * self.first, *["P" + "R" * self.later] * (stage.length - 1 - ahead)]
        return "".join(seen) + "P" * ahead

    def check(self) -> None:
        """Raise a UserError for a schedule without refinement."""
        if self.first < 1 or self.later < 1:
            raise UserError(
                "--model.schedule.first and --model.schedule.later must be at least 1, not "
                f"{self.first} and {self.later}"
            )
        if not self.ahead or self.ahead[0][0] != 0:
            raise UserError("--model.schedule.ahead must begin at step 0")
