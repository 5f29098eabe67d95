"""The paper's experiments, each a function that returns all of its settings (§5, App. B to D).

docs/departures.md lists differences between the paper and the authors' release, and our choices.
"""

from collections.abc import Callable
from dataclasses import replace

from gswm.core.schedule import Anneal
from gswm.models.gswm.discovery import DiscoveryConfig
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.gswm.propagation import PropagationConfig, UpdateScales
from gswm.models.gswm.schedule import Overshooting, Schedule
from gswm.models.objects import Sizes
from gswm.models.recipe import DataConfig, Recipe, TrainConfig
from gswm.models.registry import ModelEntry

PIXELS = 32.0
"""Pixels in one unit of xy, in frames of 64 × 64: half the image size."""
DEPTH_LIMIT = 8.0
"""σ(8) is 0.9997: beyond it, rendering hardly changes."""
DYNAMICS = ("posterior", "prior")
"""The parts of a model that Muon trains."""
OF_BALLS = TrainConfig(steps=16_000, lr=4e-4, muon=DYNAMICS)
"""Training on the ELBO in the worlds of several balls."""
TO_REST = Overshooting(rate=1 / 3, windows=4_096, batch=64, horizon=40)
"""Rollouts in which 3D objects come to rest, and stay at rest."""


def interaction() -> Recipe:
    """3 balls that bounce off each other."""
    return rolled_out(Recipe("interaction", DataConfig("interaction"), balls(), OF_BALLS))


def interaction_cpu() -> Recipe:
    """The same in about five minutes on two CPU cores: a smaller model, trained on the ELBO alone.

    It finds and follows the balls. Its rollouts are much worse than those of `interaction`.
    """
    model = replace(
        balls(),
        num_objects=5,
        sizes=Sizes(what=16, state=32, hidden=64, encoding=64),
        discovery=DiscoveryConfig(width=16, rejection=0.3, rival_rejection=0.3),
        schedule=Schedule(lengths=((0, 2), (800, 4), (1_400, 6))),
    )
    train = TrainConfig(
        steps=1_800, batch=8, lr=1e-3, warmup=100, validate_every=600, validation_episodes=16
    )
    return Recipe("interaction-cpu", DataConfig("interaction", episodes=500), model, train)


def occlusion() -> Recipe:
    """3 balls that pass over each other."""
    # No ball ever enters: a ball discovered later was hidden behind another one.
    found = DiscoveryConfig(rejection=0.2, inside=0.8, hidden=0.6)
    model = balls()
    once = replace(model.propagation, twins=0.8, what_limit=5.5)
    model = replace(model, discovery=found, propagation=once)
    # Without overshooting, which doubles the error over 90 frames.
    return Recipe("occlusion", DataConfig("occlusion"), model, OF_BALLS)


def two_layer() -> Recipe:
    """3 red balls over 3 blue ones: interaction and occlusion at once."""
    model = replace(balls(), discovery=DiscoveryConfig(rejection=0.1))
    return rolled_out(Recipe("two-layer", DataConfig("two-layer"), model, OF_BALLS))


def two_layer_dense() -> Recipe:
    """8 small balls in each of two layers."""
    model = balls()
    model = replace(
        model,
        num_objects=24,
        discovery=DiscoveryConfig(grid=8),
        schedule=replace(model.schedule, hw_prior_mean=Anneal(-1.75, -1.75)),
    )
    # Without overshooting, which diverges: collisions of 16 balls multiply gradients.
    train = replace(OF_BALLS, steps=13_000)
    return Recipe("two-layer-dense", DataConfig("two-layer-dense"), model, train)


def single_ball() -> Recipe:
    """A ball that goes left or right: two modes."""
    model = GSWMConfig(
        num_objects=3,
        tight_boxes=True,
        propagation=PropagationConfig(
            proposal_range=(0.2, 0.4), position_scale=PIXELS, depth_limit=DEPTH_LIMIT
        ),
        schedule=Schedule(lengths=((0, 2), (500, 4), (1_000, 6), (1_500, 8), (2_000, 9))),
    )
    train = replace(OF_BALLS, steps=10_000)
    made = Recipe("single-ball", DataConfig("single-ball", given=5), model, train)
    return overshooting(made, 3_000, Overshooting(rate=0.2, windows=1_024, horizon=4))


def single_ball_d() -> Recipe:
    """G-SWM-D: no z_state, and so one mode."""
    return ablation(single_ball(), "single-ball-d", multimodal=False)


def maze() -> Recipe:
    """Agents that keep to corridors and turn at random.

    Muon moves networks faster, also to a state without objects: the presence prior must fall
    slowly. Rollouts of 20 frames diverge.
    """
    made = mazes()
    model = made.model
    assert isinstance(model, GSWMConfig)
    model = replace(
        model,
        discovery=replace(model.discovery, start_at_prior=True),
        propagation=replace(model.propagation, depth_limit=DEPTH_LIMIT),
        schedule=replace(
            model.schedule, pres_prior=Anneal(0.1, 1e-10, 2_000, 6_000, geometric=True)
        ),
    )
    train = replace(made.train, steps=15_000, lr=2e-4, muon=DYNAMICS)
    short = Overshooting(rate=0.2, windows=16_384, horizon=6, samples=4)
    return overshooting(replace(made, model=model, train=train), 4_000, short)


def mazes() -> Recipe:
    """Training on the paper's objective, which the ablations share."""
    model = GSWMConfig(
        num_objects=16,
        background="learned",
        aux_pres=False,
        sizes=Sizes(what=16, context=16),
        propagation=PropagationConfig(
            proposal_range=(0.1, 0.3),
            update=UpdateScales(xy=0.5, hw=0.2),
            position_scale=PIXELS,
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
    return ablation(mazes(), "maze-no-mu", multimodal=False)


def maze_no_aoe() -> Recipe:
    """Ablation "w/o AOE": objects see all of the background."""
    return ablation(mazes(), "maze-no-aoe", situation="whole")


def maze_no_sa() -> Recipe:
    """Ablation "w/o SA": objects see none of it."""
    return ablation(mazes(), "maze-no-sa", situation="off")


def obj3d() -> Recipe:
    """Objects on a plane, and a sphere that hits them."""
    return overshooting(solids("obj3d", GSWMConfig(), steps=24_000), 6_000, Overshooting())


def obj3d_128() -> Recipe:
    """The same in frames of 128 × 128, with glimpses twice as large."""
    made = solids("obj3d-128", GSWMConfig(image_size=128, sizes=Sizes(glimpse=32)), steps=10_000)
    return overshooting(made, 2_000, TO_REST)


def clips() -> Recipe:
    """Procedural clips of a fixed camera: a pretrained start for any video.

    Boxes learn from labels alone. Presence is nearly binary, because a product of relaxed samples
    fades over a long video. The grid separates objects that are close together. Muon trains the
    dynamics. Videos are longer than the clips, so appearance and depth have limits, and boxes are
    corrected by discovery in every frame.
    """
    model = any_video(128)
    model = replace(
        model,
        num_objects=12,
        augment=False,  # no two clips are alike
        aux_pres=False,
        boxes_by_label=True,
        motion_threshold=0.06,
        sizes=Sizes(glimpse=32),
        discovery=replace(
            model.discovery,
            grid=16,
            inside=0.8,
            tau=0.3,
            certainty=0.75,
            doubt=0.45,
            correction=0.6,
        ),
        propagation=replace(
            model.propagation,
            proposal_range=(0.15, 0.15),
            update=UpdateScales(xy=1.0, hw=0.5),
            relative=True,
            tau=0.3,
            depth_limit=DEPTH_LIMIT,
            what_limit=3.0,
        ),
        schedule=Schedule(
            lengths=((0, 2), (800, 4), (2_200, 8), (5_000, 12)),
            likelihood_std=Anneal(0.1, 0.1),
            hw_prior_mean=Anneal(-2.0, -2.0),
            pres_prior=Anneal(0.03, 0.005, 3_000, 7_500, geometric=True),
            motion_weight=Anneal(2.0, 0.5, 2_200, 5_000),
            label_weight=Anneal(500.0, 500.0),
        ),
    )
    data = DataConfig("clips", episodes=2_048, fresh=True, given=8)
    train = TrainConfig(steps=11_000, lr=4e-4, clip_by="part", muon=DYNAMICS)
    return Recipe("clips", data, model, train)


def any_video(image_size: int) -> GSWMConfig:
    """Common settings of models for videos of a fixed camera.

    Object sizes are unrestricted, and discovery starts at its prior; see `DiscoveryConfig`.
    """
    return GSWMConfig(
        image_size=image_size,
        background="static",
        augment=True,
        discovery=DiscoveryConfig(
            grid=8,
            hw_std=0.8,
            start_at_prior=True,
            rejection=0.2,
            rival_rejection=0.3,
            revival=0.2,
        ),
        propagation=PropagationConfig(
            proposal_range=(0.05, 0.3),
            update=UpdateScales(xy=0.3, hw=0.1),
            position_scale=image_size / 2,
        ),
    )


def solids(name: str, model: GSWMConfig, steps: int) -> Recipe:
    """Common settings of the recipes for the 3D world.

    Objects are close together: a grid of 8 rarely has two of them in a cell. Their boxes are
    0.17 ± 0.04 of the frame wide, and no two overlap with an IoU above 0.4. In soft light, the
    background can explain them at little cost: with a presence prior that is small from the first
    step on, all objects are lost within 400 steps.
    """
    fall = 2_500, 7_000
    model = replace(
        model,
        background="learned",
        tight_boxes=True,
        discovery=DiscoveryConfig(
            grid=8, hw_std=0.25, start_at_prior=True, rejection=0.5, rival_rejection=0.4
        ),
        propagation=PropagationConfig(
            proposal_range=(0.1, 0.3),
            update=UpdateScales(xy=0.6, hw=0.3),
            position_scale=model.image_size / 2,
        ),
        schedule=replace(
            model.schedule,
            lengths=((0, 2), (1_500, 6), (3_500, 12), (7_000, 20)),
            likelihood_std=Anneal(0.1, 0.1),
            pres_prior=Anneal(0.1, 1e-10, *fall, geometric=True),
            aux_weight=Anneal(0.0, 1.0, *fall),
        ),
    )
    data = DataConfig(name, episodes=2_920, first_frames=50)
    return Recipe(name, data, model, TrainConfig(steps=steps))


def balls() -> GSWMConfig:
    """Common settings for the worlds of several balls."""
    return GSWMConfig(
        tight_boxes=True,
        propagation=PropagationConfig(position_scale=PIXELS, depth_limit=DEPTH_LIMIT),
        schedule=Schedule(lengths=((0, 2), (1_000, 6), (3_000, 12), (6_500, 20))),
    )


def rolled_out(recipe: Recipe) -> Recipe:
    """Append overshooting to the recipe of a world of balls.

    Muon trains the prior, whose matrices then need lower learning rates than on the ELBO.
    """
    return overshooting(recipe, 3_500, Overshooting(rate=0.2, windows=16_384))


def overshooting(recipe: Recipe, steps: int, cfg: Overshooting) -> Recipe:
    """Append `steps` in which the prior learns from its rollouts."""
    start = recipe.train.steps
    made = with_overshooting(recipe, replace(cfg, start=start, given=recipe.data.given))
    return replace(made, train=replace(recipe.train, steps=start + steps))


def elbo(make: Callable[[], Recipe]) -> Callable[[], Recipe]:
    """The recipe without the steps in which the prior learns from its rollouts."""

    def made() -> Recipe:
        recipe = make()
        start = recipe.model.schedule.anew
        assert start is not None
        made = with_overshooting(recipe, Overshooting())
        return replace(made, name=f"{recipe.name}-elbo", train=replace(recipe.train, steps=start))

    return made


def with_overshooting(recipe: Recipe, overshoot: Overshooting) -> Recipe:
    """A recipe with other settings of overshooting."""
    model = recipe.model
    assert isinstance(model, GSWMConfig)
    schedule = replace(model.schedule, overshoot=overshoot)
    return replace(recipe, model=replace(model, schedule=schedule))


def ablation(recipe: Recipe, name: str, **settings: object) -> Recipe:
    """A recipe with other settings of V-Prop."""
    model = recipe.model
    assert isinstance(model, GSWMConfig)
    propagation = replace(model.propagation, **settings)
    return replace(recipe, name=name, model=replace(model, propagation=propagation))


MODEL = ModelEntry(
    GSWMConfig,
    GSWM,
    (
        *(interaction, interaction_cpu, occlusion, two_layer, two_layer_dense),
        *(single_ball, single_ball_d),
        *(maze, maze_no_mu, maze_no_aoe, maze_no_sa, obj3d, obj3d_128, clips),
        *map(elbo, (interaction, two_layer, single_ball, maze)),
    ),
)
