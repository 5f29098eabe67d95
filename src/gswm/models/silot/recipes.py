"""SILOT on the ball worlds of the paper's comparison."""

from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import ModelEntry
from gswm.models.silot.silot import Silot, SilotConfig

STEPS = 14_000
CLIP = 10.0


def interaction() -> Recipe:
    """SILOT on balls that bounce off each other."""
    return silot("interaction", num_objects=6)


def occlusion() -> Recipe:
    """SILOT on balls that pass over each other."""
    return silot("occlusion", num_objects=6)


def two_layer() -> Recipe:
    """SILOT on both at once."""
    return silot("two-layer", num_objects=10)


def two_layer_dense() -> Recipe:
    """SILOT on many small balls."""
    return silot("two-layer-dense", num_objects=20)


def silot(world: str, num_objects: int) -> Recipe:
    """SILOT on a world."""
    model, train = SilotConfig(num_objects=num_objects), TrainConfig(steps=STEPS, clip=CLIP)
    return Recipe(f"silot-{world}", DataConfig(world), model, train)


MODEL = ModelEntry(SilotConfig, Silot, (interaction, occlusion, two_layer, two_layer_dense))
