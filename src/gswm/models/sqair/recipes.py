"""SQAIR on digits that enter and leave, its own test case, and on balls."""

from dataclasses import replace

from gswm.core.schedule import Anneal
from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import ModelEntry
from gswm.models.sqair.objects import SqairSizes
from gswm.models.sqair.sqair import Sqair, SqairConfig, SqairSchedule

TRAIN = TrainConfig(steps=20_000, batch=32, lr=5e-4, clip=10.0, clip_by="part")
ON_CPU = replace(TRAIN, steps=8_000, batch=16, lr=1e-3, warmup=100, validate_every=1_000)


def digits() -> Recipe:
    """SQAIR on up to 2 digits that enter and leave."""
    return sqair("digits", SqairConfig())


def digits_cpu() -> Recipe:
    """The same in frames of 32 pixels, with smaller networks, on a CPU in about an hour."""
    model = replace(small(), num_objects=2)
    return Recipe("sqair-digits-cpu", DataConfig("digits", episodes=2_000), model, ON_CPU)


def interaction_cpu() -> Recipe:
    """SQAIR on balls that bounce off each other, in the same way."""
    return balls_cpu("interaction", num_objects=4, steps=7_500, last=(6_000, 10))


def single_ball_cpu() -> Recipe:
    """SQAIR on a ball that goes left or right."""
    made = balls_cpu("single-ball", num_objects=2, steps=4_000, last=(2_500, 9))
    return replace(made, data=replace(made.data, given=5))


def balls_cpu(world: str, num_objects: int, steps: int, last: tuple[int, int]) -> Recipe:
    """SQAIR on balls, which neither enter nor leave: they need to gain less than digits do.

    `last` is the last stage of the curriculum: rollouts of a prior that has seen only 6 frames move
    balls twice as far as they should after 10 given frames.
    """
    model = replace(small(), num_objects=num_objects, first_hw=0.25)
    schedule = replace(
        model.schedule,
        lengths=((0, 2), (300, 3), (1_300, 5), last),
        cost=Anneal(60.0, 40.0, 1_000, 2_500),
        upkeep=replace(model.schedule.upkeep, end=10.0),
    )
    data, train = DataConfig(world, episodes=1_500), replace(ON_CPU, steps=steps)
    return Recipe(f"sqair-{world}-cpu", data, replace(model, schedule=schedule), train)


def small() -> SqairConfig:
    """Small networks for frames of 32 pixels."""
    return SqairConfig(
        image_size=32,
        samples=4,
        likelihood_std=0.35,
        sizes=SqairSizes(what=20, hidden=128, head=64, glimpse=14, channels=24),
        schedule=SqairSchedule(
            lengths=((0, 2), (300, 3), (1_300, 5), (5_000, 6)),
            wheels=500,
            cost=Anneal(70.0, 30.0, 1_000, 4_500),
            upkeep=Anneal(0.0, 29.0, 700, 1_700),
        ),
    )


def interaction() -> Recipe:
    """SQAIR on balls that bounce off each other."""
    return sqair("interaction", SqairConfig(num_objects=4, first_hw=0.25))


def single_ball() -> Recipe:
    """SQAIR on a ball that goes left or right."""
    schedule = SqairSchedule(lengths=((0, 3), (6_000, 5), (15_000, 9)))
    made = sqair("single-ball", SqairConfig(num_objects=2, first_hw=0.25, schedule=schedule))
    return replace(made, data=replace(made.data, given=5))


def sqair(world: str, model: SqairConfig) -> Recipe:
    """SQAIR on a world."""
    return Recipe(f"sqair-{world}", DataConfig(world), model, TRAIN)


MODEL = ModelEntry(
    SqairConfig,
    Sqair,
    (digits, digits_cpu, interaction, interaction_cpu, single_ball, single_ball_cpu),
)
