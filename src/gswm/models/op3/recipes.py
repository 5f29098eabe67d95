"""OP3 on the 3D world."""

from typing import Any

from gswm.models.op3.op3 import Op3, Op3Config
from gswm.models.op3.schedule import Op3Schedule
from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import ModelEntry


def obj3d() -> Recipe:
    """OP3 on 3D scenes of 4 to 5 objects."""
    return op3("obj3d", steps=8_000)


def obj3d_two() -> Recipe:
    """OP3 on 3D scenes of 2 objects."""
    return op3("obj3d-two", steps=12_000, num_objects=4)


def op3(world: str, steps: int, **settings: Any) -> Recipe:
    """Settings for a world; all but the slots are the same for each."""
    begin, ahead = 3 * steps // 8, 3 * steps // 4
    schedule = Op3Schedule(lengths=((0, 1), (begin, 4)), ahead=((0, 0), (ahead, 2)))
    model = Op3Config(stride=2, schedule=schedule, **settings)
    data = DataConfig(world, episodes=2_920, first_frames=50)
    return Recipe(f"op3-{world}", data, model, TrainConfig(steps=steps, clip=5.0))


MODEL = ModelEntry(Op3Config, Op3, (obj3d, obj3d_two))
