"""Inferred tracks from which the prior of propagation learns alone.

Of the objective only KL_prop depends on it, and what the posterior infers does not. So tracks that
were inferred once are enough to learn from, again and again:

    KL_prop = Σ_k held_k KL(pres_k) + pres_k KL(b_k, depth_k, what_k)    h from what was tracked
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.core.shapes import NOBODY
from gswm.models.elbo import PerVideo
from gswm.models.scalor.objective import propagation_terms
from gswm.models.scalor.objects import ScalorObjects
from gswm.models.scalor.propagation import Propagation, PropagationEvidence


@dataclass(frozen=True)
class Observed:
    """Tracks of some videos."""

    told: Float[Tensor, "batch time object n"]
    """Inputs of the prior in every frame."""
    stays: Bool[Tensor, "batch time object"]
    """Whether the same object was there in the frame before."""
    known: PropagationEvidence
    """Without h, which is what learns."""
    number: Float[Tensor, ""]
    """Objects in a frame."""

    @staticmethod
    def of(
        tracked: Sequence[ScalorObjects], known: PropagationEvidence, number: Float[Tensor, ""]
    ) -> "Observed":
        """The objects of every frame, and what the posterior says of those that it knew."""
        ids = torch.stack([objects.id for objects in tracked], dim=1)
        before = F.pad(ids, (0, 0, 1, 0), value=NOBODY)[:, :-1]
        told = torch.stack([objects.told_prior for objects in tracked], dim=1)
        known = replace(known, h_prior=known.h_prior[..., :0])
        return Observed(told, ids == before, known, number)

    def terms(self, propagation: Propagation) -> dict[str, PerVideo]:
        """KL_prop, as a function of the prior alone."""
        h_prior = propagation.recall(self.told, self.stays)
        return propagation_terms(self.known, *propagation.prior(h_prior))
