"""What an experiment consists of."""

from dataclasses import dataclass, field
from typing import Any, Literal

from gswm.models.base import ModelConfig


@dataclass(frozen=True)
class TrainConfig:
    """Optimization (B.1)."""

    steps: int = 40_000
    batch: int = 16
    """Videos a step, over all processes."""
    lr: float = 3e-4
    """Adam's, after `warmup` steps, and as many again where objects begin to learn after the
    background; half a cosine then brings it down to `last_lr` of it."""
    warmup: int = 500
    last_lr: float = 0.05
    clip: float = 1.0
    """Largest norm of the gradients that are clipped together."""
    clip_by: Literal["all", "part"] = "all"
    """Clip all gradients together, or each part of the model (`WorldModel.parts`) by its own
    norm, so that the part with the largest gradients does not decide how far the others move."""
    frozen: tuple[str, ...] = ()
    """Parts of the model (`WorldModel.parts`) that keep the weights they begin with."""
    start: str | None = None
    """Weights to begin with, of a file, of a run, or by a name that ships; None for new ones."""
    validate_every: int = 2_000
    validation_episodes: int = 64


@dataclass(frozen=True)
class DataConfig:
    """What to train and validate on."""

    world: str
    """A world by its name, or an HDF5 file."""
    episodes: int = 10_000
    fresh: bool = False
    """Of a world, new episodes without end: about so many at a time, each used 16 times or so."""
    first_frames: int | None = None
    """Training windows are taken from so many first frames; None for all."""
    given: int = 10
    """Frames given when validating."""

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Settings saved by 0.1.0, which knew no `fresh`: its obj3d is today's obj3d-shadows."""
        if values.get("world") == "obj3d" and "fresh" not in values:
            return values | {"world": "obj3d-shadows"}
        return values


@dataclass(frozen=True)
class Recipe:
    """One experiment: data, model, optimization and seed."""

    name: str
    data: DataConfig
    model: ModelConfig
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 0
