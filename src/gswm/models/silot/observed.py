"""The tracks from which the prior learns in its own stage.

No posterior depends on the learned prior, and KL_prop is the only term of the objective that does.
So it is enough to infer tracks once, and to learn from them repeatedly.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.records import frames, map_tensors
from gswm.models.silot.propagation import Propagation, PropagationEvidence


@dataclass(frozen=True)
class SilotTracks:
    """Tracks of some videos."""

    known: PropagationEvidence
    """The evidence without h_prior, which depends on the learning weights."""
    stays: Bool[Tensor, "batch time object"]
    """Whether the object of a slot was there one frame before."""

    @staticmethod
    def of(known: PropagationEvidence) -> "SilotTracks":
        """Build from the posterior's evidence."""
        same = (known.was.xy[:, 1:] == known.now.xy[:, :-1]).all(dim=-1)
        return SilotTracks(
            replace(known, h_prior=known.h_prior[..., :0]), F.pad(same, (0, 0, 1, 0))
        )

    def recall(self, propagation: Propagation) -> PropagationEvidence:
        """Compute the prior's state in each frame, with its current weights."""
        known, prior, h_0 = self.known, propagation.prior, propagation.h_0.detach()
        batch, _, slots, _ = known.shift.shape
        h = torch.zeros(batch, slots, len(h_0), device=h_0.device)
        remembered = []
        for now, shift, same in frames((known.now, known.shift, self.stays[..., None])):
            if remembered:
                h = torch.where(same, h, h_0)
            remembered.append(h)
            h = prior.remember(now, shift, h)
        return replace(known, h_prior=torch.stack(remembered, dim=1))


def expected(propagation: Propagation, known: PropagationEvidence) -> tuple[Gaussian, Bernoulli]:
    """Outputs of the learned prior for the objects of all frames at once."""
    shape = known.shift.shape[:2]
    told = (known.was, known.h_prior, known.now, known.shift)
    said = propagation.expect(*map_tensors(lambda x: x.flatten(0, 1), told))
    return map_tensors(lambda x: x.unflatten(0, shape), said)
