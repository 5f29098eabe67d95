"""Recipes: the complete settings of an experiment."""

from dataclasses import dataclass, field
from typing import Any, Literal

from gswm.models.base import ModelConfig


@dataclass(frozen=True)
class TrainConfig:
    """Optimization (B.1)."""

    steps: int = 40_000
    batch: int = 16
    """Videos per step, over all processes."""
    lr: float = 3e-4
    """Adam's learning rate after `warmup` steps; a cosine then lowers it to `last_lr` of it. The
    warm-up is repeated when objects start to learn after the background."""
    optimizer: Literal["adam", "muon"] = "adam"
    """"muon" trains all matrices by orthogonalized momentum (`train.muon`), and other weights by
    Adam."""
    matrix_lr: float = 0.01
    """Muon's learning rate, which follows the same schedule."""
    warmup: int = 500
    last_lr: float = 0.05
    clip: float = 1.0
    """Largest norm of the gradients that are clipped together."""
    clip_by: Literal["all", "part"] = "all"
    """Clip all gradients together, or each part of the model (`WorldModel.parts`) by its own norm,
    so that the part with the largest gradients does not dominate the others."""
    frozen: tuple[str, ...] = ()
    """Parts of the model (`WorldModel.parts`) that keep their initial weights."""
    start: str | None = None
    """Initial weights: a file, a run, or the name of a shipped model. Default: None (new
    weights)."""
    validate_every: int = 2_000
    validation_episodes: int = 64


@dataclass(frozen=True)
class DataConfig:
    """Data for training and validation."""

    world: str
    """A world by name, or an HDF5 file."""
    episodes: int = 10_000
    fresh: bool = False
    """Generate new episodes without end: about this many at a time, each used about 16 times."""
    first_frames: int | None = None
    """Training windows come from the first frames of an episode, this many. Default: None (all)."""
    given: int = 10
    """Number of given frames in validation."""

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
