"""SQAIR on digits that enter and leave, its own test case, and on balls."""

from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import ModelEntry
from gswm.models.sqair.sqair import Sqair, SqairConfig

TRAIN = TrainConfig(steps=20_000, batch=32, lr=5e-4, clip=10.0, clip_by="part")


def digits() -> Recipe:
    """SQAIR on up to 2 digits that enter and leave."""
    return sqair("digits", SqairConfig())


def interaction() -> Recipe:
    """SQAIR on balls that bounce off each other."""
    return sqair("interaction", SqairConfig(num_objects=4, first_hw=0.25))


def sqair(world: str, model: SqairConfig) -> Recipe:
    """SQAIR on a world."""
    return Recipe(f"sqair-{world}", DataConfig(world), model, TRAIN)


MODEL = ModelEntry(SqairConfig, Sqair, (digits, interaction))
