"""Inferred tracks, for the stage in which only the prior of propagation learns.

KL_prop is the only term of the objective that depends on this prior, and the posterior does not
depend on it. So it is enough to infer tracks once, and to learn from them repeatedly:

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
    """Whether the same object was in the slot one frame before."""
    known: PropagationEvidence
    """The evidence without h, which depends on the learning weights."""
    number: Float[Tensor, ""]
    """Objects per frame."""

    @staticmethod
    def of(
        tracked: Sequence[ScalorObjects], known: PropagationEvidence, number: Float[Tensor, ""]
    ) -> "Observed":
        """Build from the objects of every frame and the posterior's evidence."""
        ids = torch.stack([objects.id for objects in tracked], dim=1)
        before = F.pad(ids, (0, 0, 1, 0), value=NOBODY)[:, :-1]
        told = torch.stack([objects.told_prior for objects in tracked], dim=1)
        known = replace(known, h_prior=known.h_prior[..., :0])
        return Observed(told, ids == before, known, number)

    def terms(self, propagation: Propagation) -> dict[str, PerVideo]:
        """KL_prop, as a function of the prior alone."""
        h_prior = propagation.recall(self.told, self.stays)
        return propagation_terms(self.known, *propagation.prior(h_prior))
