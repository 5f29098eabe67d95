"""The input of a training step."""

from dataclasses import dataclass

from jaxtyping import Float, UInt8
from torch import Tensor

from gswm.data.labels import Labels


@dataclass(frozen=True)
class Batch:
    """Windows of some episodes, from files and worlds to a model's loss."""

    video: UInt8[Tensor, "batch time 3 height width"] | Float[Tensor, "batch time 3 height width"]
    """Bytes, or floats from 0 to 1."""
    actions: Float[Tensor, "batch time action"] | None = None
    """`actions[:, t]` is taken in frame t and influences frame t + 1."""
    rewards: Float[Tensor, "batch time"] | None = None
    """`rewards[:, t]` is received on the transition to frame t."""
    background: (
        UInt8[Tensor, "batch 3 height width"] | Float[Tensor, "batch 3 height width"] | None
    ) = None
    """The background image of each episode, for a fixed camera."""
    labels: Labels | None = None
    """The true boxes, for models with supervision."""
