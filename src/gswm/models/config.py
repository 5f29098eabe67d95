"""Settings that all models have, and checks that their own settings share."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from gswm.core.errors import UserError
from gswm.core.schedule import Curriculum
from gswm.core.settings import check_numbers


@dataclass(frozen=True)
class ModelConfig:
    """Settings of a model. A subclass adds its own, and checks them."""

    kind: ClassVar[str] = ""
    """The name under which the model is registered; saved with the settings."""

    image_size: int = 64
    num_objects: int = 10
    """The largest number of objects in a frame."""
    schedule: Curriculum = field(default_factory=Curriculum)

    @property
    def has_background(self) -> bool:
        """Whether the background is learned."""
        return True

    @property
    def takes_background(self) -> bool:
        """Whether the model needs an image of the background; see `WorldModel.infer`."""
        return False

    @property
    def takes_labels(self) -> bool:
        """Whether the loss needs the true boxes of a world's objects."""
        return False

    def resized_from(self, before: "ModelConfig") -> "ModelConfig":
        """Adapt settings that depend on the image size, if only that was changed."""
        return self

    def check(self) -> None:
        """Raise `UserError` if the settings do not fit together."""
        check_numbers(self, "--model")
        if (steps := self.schedule.background_only) > 0 and not self.has_background:
            raise UserError(
                f"--model.schedule.background-only is {steps}, but this model has no background: "
                f"set it to 0, or choose a --model.background"
            )
        if self.num_objects < 1:
            raise UserError(f"there must be at least 1 slot for objects, not {self.num_objects}")

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Upgrade settings saved by an earlier version."""
        return values

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> "type[ModelConfig]":
        """The class of saved settings."""
        from gswm.models.registry import config_class

        return config_class(values)


def check_positive(settings: Any, where: str, *names: str) -> None:
    """Raise a UserError for settings that are not above 0; `where` is the prefix of their flags."""
    for name in names:
        if not (value := getattr(settings, name)) > 0:
            raise UserError(f"{where}.{name.replace('_', '-')} is {value}: it must be above 0")


def check_shares(settings: Any, where: str, *names: str) -> None:
    """Raise a UserError for settings that are not from 0 to 1."""
    for name in names:
        if not 0 <= (value := getattr(settings, name)) <= 1:
            flag = f"{where}.{name.replace('_', '-')}"
            raise UserError(f"{flag} is {value}: it must be from 0 to 1")
