"""What changes while G-SWM trains (§3.4.2, B.1)."""

from dataclasses import dataclass, field

from gswm.core.schedule import Anneal, Curriculum


@dataclass(frozen=True)
class Schedule(Curriculum):
    """Curriculum, and what is annealed."""

    lengths: tuple[tuple[int, int], ...] = ((0, 2), (1_500, 6), (4_000, 12), (9_000, 20))
    """The curriculum: (from which step, T)."""
    likelihood_std: Anneal = field(default=Anneal(0.2, 0.2))
    """σ of the pixels. The paper's table calls 0.2 a variance; it is used as a deviation."""
    pres_prior: Anneal = field(default=Anneal(1e-10, 1e-10))
    """Prior probability of an object in a cell."""
    aux_weight: Anneal = field(default=Anneal(1.0, 1.0))
    """Factor on the auxiliary loss of presence."""
    motion_weight: Anneal = field(default=Anneal(0.0, 0.0))
    """How much each pixel of the motion loss counts; 0 for none. It needs a static background."""
    hw_prior_mean: Anneal = field(default=Anneal(-1.5, -1.5))
    """Mean of the prior of z̄_hw, before its sigmoid."""
