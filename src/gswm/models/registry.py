"""The paper's experiments, each a function that returns all of its settings (§5, App. B to D).

Where paper and authors' release differ, docs/departures.md says what is here, and why.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from gswm.core.errors import UserError
from gswm.core.schedule import Anneal, Schedule
from gswm.models.gswm.discovery import DiscoveryConfig
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.gswm.propagation import PropagationConfig, UpdateScales
from gswm.models.objects import Sizes
from gswm.models.scalor.discovery import ScalorDiscovery
from gswm.models.scalor.objects import BoxConfig
from gswm.models.scalor.scalor import Scalor, ScalorConfig
from gswm.models.scalor.schedule import ScalorSchedule
from gswm.models.stove.config import StoveConfig, StoveSchedule
from gswm.models.stove.stove import Stove
from gswm.models.stove.supair import EncoderConfig


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
    """Largest norm of all gradients together."""
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


ModelConfig = GSWMConfig | ScalorConfig | StoveConfig
"""The settings of any model. Each has `image_size`, `num_objects` and a `schedule` with `lengths`
and `background_only`; no two have the same names, by which a file's are told apart."""
Model = GSWM | Scalor | Stove
MODELS: dict[type, Callable[[Any], Model]] = {
    GSWMConfig: GSWM,
    ScalorConfig: Scalor,
    StoveConfig: Stove,
}
"""The model that belongs to settings."""


@dataclass(frozen=True)
class Recipe:
    """One experiment."""

    name: str
    data: DataConfig
    model: ModelConfig = field(default_factory=GSWMConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 0


def interaction() -> Recipe:
    """3 balls that bounce off each other."""
    return Recipe("interaction", DataConfig("interaction"), train=TrainConfig(steps=28_000))


def occlusion() -> Recipe:
    """3 balls that pass over each other."""
    # None ever enters: what is found beside a track is a ball that comes out from behind another.
    model = GSWMConfig(discovery=DiscoveryConfig(rejection=0.2))
    return Recipe("occlusion", DataConfig("occlusion"), model, TrainConfig(steps=20_000))


def two_layer() -> Recipe:
    """3 red balls over 3 blue ones: interaction and occlusion at once."""
    return Recipe("two-layer", DataConfig("two-layer"))


def two_layer_dense() -> Recipe:
    """8 small balls in each of two layers."""
    model = GSWMConfig(
        num_objects=24,
        discovery=DiscoveryConfig(grid=8),
        schedule=Schedule(hw_prior_mean=Anneal(-1.75, -1.75)),
    )
    train = TrainConfig(steps=24_000)
    return Recipe("two-layer-dense", DataConfig("two-layer-dense"), model, train)


def single_ball() -> Recipe:
    """A ball that goes left or right: two modes."""
    model = GSWMConfig(
        num_objects=3,
        propagation=PropagationConfig(proposal_range=(0.2, 0.4)),
        schedule=Schedule(lengths=((0, 2), (500, 4), (1_000, 6), (1_500, 8), (2_000, 9))),
    )
    train = TrainConfig(steps=12_000)
    return Recipe("single-ball", DataConfig("single-ball", given=5), model, train)


def single_ball_d() -> Recipe:
    """G-SWM-D: no z_state, and so one mode."""
    return ablation(single_ball(), "single-ball-d", multimodal=False)


def maze() -> Recipe:
    """Agents that keep to corridors and turn at random."""
    model = GSWMConfig(
        num_objects=16,
        background=True,
        aux_pres=False,
        sizes=Sizes(what=16, context=16),
        propagation=PropagationConfig(
            proposal_range=(0.1, 0.3), update=UpdateScales(xy=0.5, hw=0.2)
        ),
        discovery=DiscoveryConfig(grid=8),
        schedule=Schedule(
            lengths=((0, 1), (1_000, 2), (2_000, 4), (3_000, 6), (4_000, 8), (5_000, 10)),
            background_only=500,
            likelihood_std=Anneal(0.1, 1.0, 10_000, 12_000),
            hw_prior_mean=Anneal(-1.75, -1.75),
        ),
    )
    train = TrainConfig(steps=24_000)
    return Recipe("maze", DataConfig("maze", given=5), model, train)


def maze_no_mu() -> Recipe:
    """Ablation "w/o MU": no z_state."""
    return ablation(maze(), "maze-no-mu", multimodal=False)


def maze_no_aoe() -> Recipe:
    """Ablation "w/o AOE": objects see all of the background."""
    return ablation(maze(), "maze-no-aoe", situation="whole")


def maze_no_sa() -> Recipe:
    """Ablation "w/o SA": objects see none of it."""
    return ablation(maze(), "maze-no-sa", situation="off")


def obj3d() -> Recipe:
    """Objects on a plane, and a sphere that knocks them about."""
    model = GSWMConfig(
        background=True,
        discovery=DiscoveryConfig(rejection=0.2, rival_rejection=0.3),
        propagation=PropagationConfig(
            proposal_range=(0.1, 0.3), update=UpdateScales(xy=0.6, hw=0.3)
        ),
        schedule=Schedule(
            likelihood_std=Anneal(0.1, 0.1), hw_prior_mean=Anneal(-1.5, -1.75, 0, 10_000)
        ),
    )
    data = DataConfig("obj3d", episodes=2_920, first_frames=30)
    return Recipe("obj3d", data, model, TrainConfig(steps=100_000, lr=1e-4))


def stove_interaction() -> Recipe:
    """STOVE on 3 balls that bounce off each other."""
    return stove("interaction")


def stove_occlusion() -> Recipe:
    """STOVE on 3 balls that pass over each other."""
    return stove("occlusion")


def stove_two_layer() -> Recipe:
    """STOVE on 3 red balls over 3 blue ones, where it fails."""
    return stove("two-layer", num_objects=6)


def stove_two_layer_dense() -> Recipe:
    """STOVE on 8 small balls in each of two layers, where it fails."""
    encoder = EncoderConfig(width=(0.1, 0.3))
    return stove("two-layer-dense", num_objects=16, encoder=encoder)


def stove_single_ball() -> Recipe:
    """STOVE on a ball that goes left or right: it has one mode."""
    one = stove("single-ball", num_objects=1, schedule=StoveSchedule(lengths=((0, 9),)))
    train = replace(one.train, steps=15_000)
    return replace(one, data=replace(one.data, given=5), train=train)


def stove(world: str, **settings: Any) -> Recipe:
    """STOVE's settings, for a world."""
    train = TrainConfig(steps=30_000, batch=128, lr=2e-3)
    return Recipe(f"stove-{world}", DataConfig(world), StoveConfig(**settings), train)


def ablation(recipe: Recipe, name: str, **settings: object) -> Recipe:
    """A recipe with other settings of V-Prop."""
    model = recipe.model
    assert isinstance(model, GSWMConfig)
    propagation = replace(model.propagation, **settings)
    return replace(recipe, name=name, model=replace(model, propagation=propagation))


def scalor_interaction() -> Recipe:
    """SCALOR on balls that bounce off each other."""
    return scalor("interaction")


def scalor_occlusion() -> Recipe:
    """SCALOR on balls that pass over each other."""
    return scalor("occlusion")


def scalor_two_layer() -> Recipe:
    """SCALOR on both at once."""
    return scalor("two-layer", ScalorConfig(num_objects=8))


def scalor_two_layer_dense() -> Recipe:
    """SCALOR on many small balls."""
    boxes = BoxConfig(size=0.156, size_range=0.039)
    model = ScalorConfig(num_objects=20, boxes=boxes, discovery=ScalorDiscovery(grid=8))
    return scalor("two-layer-dense", model)


def scalor_single_ball() -> Recipe:
    """SCALOR on a ball that goes left or right."""
    schedule = ScalorSchedule(lengths=((0, 4), (1_000, 9)), detached=500, tau_steps=5_000)
    chosen = scalor("single-ball", ScalorConfig(num_objects=3, schedule=schedule))
    data, train = replace(chosen.data, given=5), replace(chosen.train, steps=10_000)
    return replace(chosen, data=data, train=train)


def scalor(world: str, model: ScalorConfig | None = None) -> Recipe:
    """SCALOR on a world, with boxes of balls 16 pixels wide unless `model` says otherwise."""
    return Recipe(f"scalor-{world}", DataConfig(world), model or ScalorConfig())


RECIPES: dict[str, Callable[[], Recipe]] = {
    make().name: make
    for make in (
        *(interaction, occlusion, two_layer, two_layer_dense, single_ball, single_ball_d),
        *(maze, maze_no_mu, maze_no_aoe, maze_no_sa, obj3d),
        *(scalor_interaction, scalor_occlusion, scalor_two_layer, scalor_two_layer_dense),
        scalor_single_ball,
        *(stove_interaction, stove_occlusion, stove_two_layer, stove_two_layer_dense),
        stove_single_ball,
    )
}


def recipe(name: str) -> Recipe:
    """A recipe by its name."""
    if name not in RECIPES:
        raise UserError(f"there is no recipe '{name}'; there are {', '.join(RECIPES)}")
    return RECIPES[name]()


def build(what: str | Recipe) -> Model:
    """A recipe's model, untrained; it keeps the recipe."""
    chosen = recipe(what) if isinstance(what, str) else what
    model = MODELS[type(chosen.model)](chosen.model)
    model.recipe = chosen
    return model
