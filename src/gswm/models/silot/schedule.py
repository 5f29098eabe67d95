"""The training schedule of SILOT, as functions of the step alone.

At first the training wheels are on: the appearance of objects is learned, but not their boxes and
presences. The prior of the count is geometric, P(count) ∝ p^count. Its log-odds decrease, from
allowing almost any count to favoring few objects:

    log(p / (1 - p)) = log(start · 10^(-step / steps) + end)

The last stage may train the learned prior alone, on tracks that are inferred once (`observed`).
"""

from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.schedule import Curriculum, PriorStage


@dataclass(frozen=True)
class CountOdds:
    """The odds p / (1 - p) of one more object."""

    start: float = 1e6
    end: float = 0.0125
    steps: int = 300
    """Number of steps in which the odds fall to a tenth."""

    def log_p(self, step: Tensor) -> Float[Tensor, ""]:
        """The logarithm of p; `step` stays on its device."""
        odds = self.start * torch.pow(0.1, step / self.steps) + self.end
        return F.logsigmoid(odds.log())

    def check(self) -> None:
        """Raise a UserError for invalid odds."""
        if not (self.start > 0 and self.end > 0 and self.steps > 0):
            raise UserError(
                "--model.schedule.count.start, .end and .steps must be above 0, not "
                f"{self.start}, {self.end} and {self.steps}"
            )


@dataclass(frozen=True)
class SilotSchedule(Curriculum):
    """The curriculum, the training wheels, the count prior, and the stage of the learned prior."""

    lengths: tuple[tuple[int, int], ...] = ((0, 2), (2_500, 4), (5_000, 10), (8_000, 20))
    """The curriculum: (from which step, T)."""
    wheels: int = 300
    """Number of steps with training wheels, in which boxes, depth and presence get no gradient."""
    count: CountOdds = field(default_factory=CountOdds)
    prior_only: int | None = None
    """The step from which only the learned prior learns, with a new learning-rate schedule.
    Default: None (never).
    """
    prior_windows: int = 8_192
    """Number of windows whose tracks are then kept on the device and reused: about 1.2 KB per slot
    and frame.
    """
    prior_batch: int = 128
    """Windows per step in that stage, rounded up to a multiple of `--train.batch`."""

    def check(self) -> None:
        """Raise a UserError for invalid settings."""
        self.count.check()
        least = {"prior_only": 0, "prior_batch": 1, "prior_windows": self.prior_batch}
        for name, value in least.items():
            ours = getattr(self, name)
            if ours is not None and ours < value:
                flag = f"--model.schedule.{name.replace('_', '-')}"
                raise UserError(f"{flag} is {ours}: it must be at least {value}")
        if self.prior_only is not None and self.length_at(self.prior_only) < 2:
            raise UserError(
                "--model.schedule.prior-only: the learned prior needs videos of 2 frames or more, "
                "so raise the last of --model.schedule.lengths"
            )

    def stage(self, step: int) -> PriorStage:
        """See `Curriculum`."""
        length = self.length_at(step)
        if self.prior_only is None or step < self.prior_only:
            return PriorStage(length)
        repeats = self.prior_windows // self.prior_batch
        return PriorStage(length, prior_only=True, repeats=repeats, batch=self.prior_batch)

    @property
    def anew(self) -> int | None:
        """See `Curriculum`."""
        return self.prior_only

    def learns(self, step: Tensor) -> Float[Tensor, ""]:
        """0 while the training wheels are on, then 1; `step` stays on its device."""
        return (step >= self.wheels).float()

    def steady(self, length: int) -> "SilotSchedule":
        """See `Curriculum`; everything learns."""
        return replace(super().steady(length), wheels=0, prior_only=None)
