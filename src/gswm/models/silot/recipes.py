"""SILOT on the ball worlds of the paper's comparison."""

from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import ModelEntry
from gswm.models.silot.discovery import SilotDiscovery
from gswm.models.silot.schedule import SilotSchedule
from gswm.models.silot.silot import Silot, SilotConfig

JOINT = 11_000
"""Steps in which everything learns; only the prior learns after them."""
TRAIN = TrainConfig(steps=19_000, clip=10.0, clip_by="part")


def interaction() -> Recipe:
    """SILOT on balls that bounce off each other."""
    return silot("interaction", num_objects=6)


def occlusion() -> Recipe:
    """SILOT on balls that pass over each other."""
    return silot("occlusion", num_objects=6, rejection=0.2)


def two_layer() -> Recipe:
    """SILOT on both at once."""
    return silot("two-layer", num_objects=10)


def two_layer_dense() -> Recipe:
    """SILOT on many small balls."""
    return silot("two-layer-dense", num_objects=20)


def silot(world: str, num_objects: int, rejection: float = 0.4) -> Recipe:
    """SILOT on a world."""
    model = SilotConfig(
        num_objects=num_objects,
        discovery=SilotDiscovery(rejection=rejection),
        schedule=SilotSchedule(prior_only=JOINT),
    )
    return Recipe(f"silot-{world}", DataConfig(world), model, TRAIN)


MODEL = ModelEntry(SilotConfig, Silot, (interaction, occlusion, two_layer, two_layer_dense))
