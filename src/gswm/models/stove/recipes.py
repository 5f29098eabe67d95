"""STOVE on the ball worlds of the paper's comparison."""

from dataclasses import replace
from typing import Any

from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import ModelEntry
from gswm.models.stove.config import StoveConfig, StoveSchedule
from gswm.models.stove.stove import Stove
from gswm.models.stove.supair import EncoderConfig


def interaction() -> Recipe:
    """STOVE on 3 balls that bounce off each other."""
    return stove("interaction")


def occlusion() -> Recipe:
    """STOVE on 3 balls that pass over each other."""
    return stove("occlusion")


def two_layer() -> Recipe:
    """STOVE on 3 red balls over 3 blue ones, where it fails."""
    return stove("two-layer", num_objects=6)


def two_layer_dense() -> Recipe:
    """STOVE on 8 small balls in each of two layers, where it fails."""
    encoder = EncoderConfig(width=(0.1, 0.3))
    return stove("two-layer-dense", num_objects=16, encoder=encoder)


def single_ball() -> Recipe:
    """STOVE on a ball that goes left or right: it has one mode."""
    one = stove("single-ball", num_objects=1, schedule=StoveSchedule(lengths=((0, 9),)))
    train = replace(one.train, steps=15_000)
    return replace(one, data=replace(one.data, given=5), train=train)


def stove(world: str, **settings: Any) -> Recipe:
    """STOVE's settings, for a world."""
    train = TrainConfig(steps=30_000, batch=128, lr=2e-3)
    return Recipe(f"stove-{world}", DataConfig(world), StoveConfig(**settings), train)


MODEL = ModelEntry(
    StoveConfig, Stove, (interaction, occlusion, two_layer, two_layer_dense, single_ball)
)
