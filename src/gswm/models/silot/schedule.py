"""The training schedule of SILOT, as functions of the step alone.

At first the training wheels are on: only what draws objects learns, not where they are or whether
they are there. The prior of the count is geometric, P(count) ∝ p^count. Its log-odds fall from
almost any count to few objects:

    log(p / (1 - p)) = log(start · 10^(-step / steps) + end)

At last the learned prior may learn alone, from tracks that are inferred once (`observed`).
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
    """Steps in which the odds fall to a tenth."""

    def log_p(self, step: Tensor) -> Float[Tensor, ""]:
        """The logarithm of p; `step` is not brought to the host."""
        odds = self.start * torch.pow(0.1, step / self.steps) + self.end
        return F.logsigmoid(odds.log())

    def check(self) -> None:
        """Refuse odds that are no odds."""
        if not (self.start > 0 and self.end > 0 and self.steps > 0):
            raise UserError(
                "--model.schedule.count.start, .end and .steps must be above 0, not "
                f"{self.start}, {self.end} and {self.steps}"
            )


@dataclass(frozen=True)
class SilotSchedule(Curriculum):
    """Curriculum, training wheels, the prior of the count, and when the prior learns alone."""

    lengths: tuple[tuple[int, int], ...] = ((0, 2), (2_500, 4), (5_000, 10), (8_000, 20))
    """The curriculum: (from which step, T)."""
    wheels: int = 300
    """For so many steps no gradient reaches what decides boxes, depth and presence."""
    count: CountOdds = field(default_factory=CountOdds)
    prior_only: int | None = None
    """The step from which only the learned prior learns, and the learning rate begins anew; None
    for never."""
    prior_windows: int = 8_192
    """Windows whose tracks are kept on the device from then on, and come again and again: about
    1.2 KB for each slot of a frame."""
    prior_batch: int = 128
    """Windows a step from then on, rounded up to a multiple of `--train.batch`."""

    def check(self) -> None:
        """Refuse settings that make no sense."""
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
        """The stage of `step`."""
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
        """0 while the training wheels are on, then 1; `step` is not brought to the host."""
        return (step >= self.wheels).float()

    def steady(self, length: int) -> "SilotSchedule":
        """See `Curriculum`; everything learns."""
        return replace(super().steady(length), wheels=0, prior_only=None)
