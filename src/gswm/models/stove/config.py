"""Settings of STOVE, and the values that change with the step."""

from dataclasses import dataclass, field
from typing import ClassVar

from gswm.core.errors import UserError
from gswm.core.schedule import Anneal, Curriculum
from gswm.models.base import ModelConfig
from gswm.models.stove.dynamics import DynamicsConfig
from gswm.models.stove.supair import EncoderConfig, ImagesConfig


@dataclass(frozen=True)
class StoveSchedule(Curriculum):
    """Settings that change with the step."""

    lengths: tuple[tuple[int, int], ...] = ((0, 8), (20_000, 20))
    """The curriculum: (from which step, T)."""
    reward_weight: Anneal = field(default=Anneal(0.0, 15_000.0, 0, 20_000))
    """Weight of the rewards' cross entropy beside the bound."""


@dataclass(frozen=True)
class StoveConfig(ModelConfig):
    """All settings of the model."""

    kind: ClassVar[str] = "stove"

    num_objects: int = 3
    """The fixed number of objects."""
    color: bool = False
    """Whether the networks see three color channels, or their sum."""
    match_hue: bool = False
    """Whether objects are matched between frames by their colors too."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    images: ImagesConfig = field(default_factory=ImagesConfig)
    dynamics: DynamicsConfig = field(default_factory=DynamicsConfig)
    schedule: StoveSchedule = field(default_factory=StoveSchedule)

    def check(self) -> None:
        """Raise a UserError for settings that do not fit together."""
        super().check()
        if self.dynamics.width % 2 or self.dynamics.latents < 1:
            raise UserError(f"the width must be even and at least 10, not {self.dynamics.width}")
        if min(length for _, length in self.schedule.lengths) < 3:
            raise UserError("a velocity needs two frames, and a step one more: T must be 3 or more")
        if min(self.images.object.depth, self.images.background.depth) < 1:
            raise UserError("a sum-product network must be at least 1 deep")
