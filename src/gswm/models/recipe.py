"""Recipes: the complete settings of an experiment."""

from dataclasses import dataclass, field
from typing import Any, Literal

from gswm.models.base import ModelConfig


@dataclass(frozen=True)
class TrainConfig:
    """Optimization (B.1)."""

    steps: int = 40_000
    """Number of training steps."""
    batch: int = 16
    """Batch size in videos, over all processes."""
    lr: float = 3e-4
    """Peak learning rate of Adam, reached after `warmup` steps and followed by cosine decay. If the
    background is trained first, the warm-up is repeated when the objects join."""
    muon: tuple[str, ...] = ()
    """Parts of the model (`WorldModel.parts`) whose matrices are trained with orthogonalized
    momentum (`train.muon`) instead of Adam."""
    matrix_lr: float = 0.005
    """Peak learning rate of these matrices, with the same schedule."""
    warmup: int = 500
    """Number of warm-up steps."""
    last_lr: float = 0.05
    """Final learning rate, as a fraction of `lr`."""
    clip: float = 1.0
    """Maximum gradient norm."""
    clip_by: Literal["all", "part"] = "all"
    """Clip the norm of all gradients, or that of each part of the model (`WorldModel.parts`), so
    that the part with the largest gradients does not dominate the others."""
    frozen: tuple[str, ...] = ()
    """Parts of the model (`WorldModel.parts`) that are not trained."""
    start: str | None = None
    """Initial weights: a weights file, a run folder, or the name of a shipped model. Default: None
    (random weights)."""
    validate_every: int = 2_000
    """Steps between validations."""
    validation_episodes: int = 64
    """Number of validation episodes."""


@dataclass(frozen=True)
class DataConfig:
    """Data for training and validation."""

    world: str
    """Name of a world, or an HDF5 file."""
    episodes: int = 10_000
    """Number of training episodes."""
    fresh: bool = False
    """Keep generating new episodes: `episodes` at a time, each used about 16 times."""
    first_frames: int | None = None
    """Train only on the first n frames of each episode. Default: None (all)."""
    given: int = 10
    """Number of given frames in validation."""

    @classmethod
    def upgraded(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Upgrade settings saved by 0.1.0, which lack `fresh`: its obj3d is now obj3d-shadows."""
        if values.get("world") == "obj3d" and "fresh" not in values:
            return values | {"world": "obj3d-shadows"}
        return values


@dataclass(frozen=True)
class Recipe:
    """One experiment: data, model, optimization and seed."""

    name: str
    """Name of the recipe."""
    data: DataConfig
    model: ModelConfig
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 0
    """Random seed."""
