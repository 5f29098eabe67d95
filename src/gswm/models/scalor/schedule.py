"""The training schedule, as functions of the step alone.

At first nothing that goes from one frame to the next passes a gradient back. The temperature of
presence goes down from 1, τ = τ_end^(step / τ_steps), and the prior ρ of a cell's presence with it.

At last the prior may learn alone. No posterior depends on it, so its gradients are those of the
whole at the last temperature (they are clipped by their own norm), and what the posterior infers of
a window stays what it is: it need not be inferred twice.
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
    """For so many steps gradients stay within a frame."""
    prior_only: int | None = None
    """From this step on only the prior of propagation learns; None for never."""
    prior_repeats: int = 0
    """From then on the windows of so many steps come again and again; 0 for new ones. What is
    inferred of them is kept where the model is: 860 bytes for each slot of a frame."""
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
        """τ; `step` is not brought to the host."""
        return self.tau_end ** (step / self.tau_steps).clamp(max=1)

    def steady(self, length: int) -> "ScalorSchedule":
        """See `Curriculum`; gradients pass between frames, and the posterior learns too."""
        usual = {"detached": 0, "prior_only": None, "prior_repeats": 0}
        return replace(super().steady(length), **usual)
