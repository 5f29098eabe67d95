"""SCALOR on the ball worlds of the paper's comparison."""

from dataclasses import replace

from gswm.models.recipe import DataConfig, Recipe
from gswm.models.registry import ModelEntry
from gswm.models.scalor.discovery import ScalorDiscovery
from gswm.models.scalor.objects import BoxConfig
from gswm.models.scalor.scalor import Scalor, ScalorConfig
from gswm.models.scalor.schedule import ScalorSchedule


def interaction() -> Recipe:
    """SCALOR on balls that bounce off each other."""
    return scalor("interaction")


def occlusion() -> Recipe:
    """SCALOR on balls that pass over each other."""
    return scalor("occlusion")


def two_layer() -> Recipe:
    """SCALOR on both at once."""
    return scalor("two-layer", ScalorConfig(num_objects=8))


def two_layer_dense() -> Recipe:
    """SCALOR on many small balls."""
    boxes = BoxConfig(size=0.156, size_range=0.039)
    model = ScalorConfig(num_objects=20, boxes=boxes, discovery=ScalorDiscovery(grid=8))
    return scalor("two-layer-dense", model)


def single_ball() -> Recipe:
    """SCALOR on a ball that goes left or right."""
    schedule = ScalorSchedule(lengths=((0, 4), (1_000, 9)), detached=500, tau_steps=5_000)
    chosen = scalor("single-ball", ScalorConfig(num_objects=3, schedule=schedule))
    data, train = replace(chosen.data, given=5), replace(chosen.train, steps=10_000)
    return replace(chosen, data=data, train=train)


def scalor(world: str, model: ScalorConfig | None = None) -> Recipe:
    """SCALOR on a world, with boxes of balls 16 pixels wide unless `model` says otherwise."""
    return Recipe(f"scalor-{world}", DataConfig(world), model or ScalorConfig())


MODEL = ModelEntry(
    ScalorConfig, Scalor, (interaction, occlusion, two_layer, two_layer_dense, single_ball)
)
