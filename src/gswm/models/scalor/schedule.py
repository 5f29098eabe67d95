"""The training schedule, as functions of the step alone.

At first, no gradient passes from one frame back to the one before. The temperature of presence
decreases from 1, τ = τ_end^(step / τ_steps), and the prior ρ of a cell's presence decreases too.

The last stage may train the prior alone. No posterior depends on it, so its gradients equal those
of the whole objective at the final temperature (clipped by their own norm), and each window needs
to be inferred only once.
"""

from dataclasses import dataclass, field, replace

from jaxtyping import Float
from torch import Tensor

from gswm.core.schedule import Anneal, Curriculum, PriorStage


@dataclass(frozen=True)
class ScalorStage(PriorStage):
    """Settings that change only a few times during training."""

    detached: bool = False
    """Whether gradients stay within a frame."""


@dataclass(frozen=True)
class ScalorSchedule(Curriculum):
    """Settings that change with the step."""

    lengths: tuple[tuple[int, int], ...] = ((0, 4), (2_000, 10), (6_000, 20))
    """The curriculum: (from which step, T)."""
    detached: int = 2_000
    """Number of initial steps in which gradients stay within a frame."""
    prior_only: int | None = None
    """The step from which only the prior of propagation learns. Default: None (never)."""
    prior_repeats: int = 0
    """Number of steps after which windows repeat in the prior's stage; 0 for new windows in each
    step. Inferred tracks are kept on the model's device: 860 bytes per slot and frame.
    """
    likelihood_std: Anneal = field(default=Anneal(0.2, 0.2))
    """σ of the pixels."""
    pres_prior: Anneal = field(default=Anneal(0.1, 1e-4, 0, 500))
    """ρ."""
    tau_end: float = 0.5
    tau_steps: int = 10_000

    def stage(self, step: int) -> ScalorStage:
        """The stage of `step`."""
        length = self.length_at(step)
        if self.prior_only is not None and step >= self.prior_only:
            return ScalorStage(length, prior_only=True, repeats=self.prior_repeats)
        return ScalorStage(length, step < self.background_only, detached=step < self.detached)

    def tau(self, step: Tensor) -> Float[Tensor, ""]:
        """τ; `step` stays on its device."""
        return self.tau_end ** (step / self.tau_steps).clamp(max=1)

    def steady(self, length: int) -> "ScalorSchedule":
        """See `Curriculum`; gradients pass between frames, and the posterior learns."""
        usual = {"detached": 0, "prior_only": None, "prior_repeats": 0}
        return replace(super().steady(length), **usual)
