"""Object counts of a model against the ground truth."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from gswm.eval.metrics.boxes import Boxes


@dataclass(frozen=True)
class Counts:
    """Number of objects in each frame."""

    predicted: Int[Tensor, "row time"]
    true: Int[Tensor, "row time"]

    def scores(self) -> dict[str, float]:
        """Mean numbers, and the fraction of frames with the right one."""
        return {
            "objects": self.predicted.double().mean().item(),
            "true_objects": self.true.double().mean().item(),
            "count_right": (self.predicted == self.true).double().mean().item(),
        }

    def curves(self) -> dict[str, list[float]]:
        """Mean numbers at each frame."""
        return {"objects": self.predicted.double().mean(dim=0).tolist()}


def counts(predicted: Boxes, true: Boxes) -> Counts:
    """Count the objects of the same frames."""
    return Counts(predicted.there.sum(dim=-1), true.there.sum(dim=-1))
