"""Every recipe compared with the paper's table of experiments; each builds a working model."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny import build as build_tiny
from tiny import config, loss, video

import gswm
from gswm.core.errors import UserError
from gswm.core.schedule import Anneal
from gswm.core.settings import from_dict, to_dict
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES, recipe

BALLS = {
    "grid": 4, "slots": 10, "what": 64, "hw_mean": -1.5, "proposal": (0.0, 0.2), "hw": 0.1,
    "xy": 0.2, "std": 0.2, "background": "black", "aux": True, "longest": 20, "multimodal": True,
    "situation": "attend", "given": 10,
}  # fmt: skip
SINGLE = BALLS | {"slots": 3, "proposal": (0.2, 0.4), "longest": 9, "given": 5}
MAZE = BALLS | {
    "grid": 8, "slots": 16, "what": 16, "hw_mean": -1.75, "proposal": (0.1, 0.3), "hw": 0.2,
    "xy": 0.5, "std": 1.0, "background": "learned", "aux": False, "longest": 10, "given": 5,
}  # fmt: skip
TABLE = {
    "interaction": BALLS,
    "occlusion": BALLS,
    "two-layer": BALLS,
    "two-layer-dense": BALLS | {"grid": 8, "slots": 24, "hw_mean": -1.75},
    "single-ball": SINGLE,
    "single-ball-d": SINGLE | {"multimodal": False},
    "maze": MAZE,
    "maze-no-mu": MAZE | {"multimodal": False},
    "maze-no-aoe": MAZE | {"situation": "whole"},
    "maze-no-sa": MAZE | {"situation": "off"},
    "obj3d": BALLS
    | {
        "grid": 8, "proposal": (0.1, 0.3), "hw": 0.3, "xy": 0.6, "std": 0.1,
        "background": "learned",
    },
}  # fmt: skip
TABLE["obj3d-128"] = TABLE["obj3d"]

OF_BALLS = ("interaction", "occlusion", "two-layer", "two-layer-dense")
ALONE = ("single-ball", "single-ball-d")
ROLLED_OUT = ("interaction", "two-layer", "maze", *ALONE)
ON_A_CPU = [name for name in RECIPES if name.endswith("-cpu")]
ROLLOUTS = dict.fromkeys(ROLLED_OUT, 3_500) | dict.fromkeys(ALONE, 3_000)
ROLLOUTS |= {"maze": 4_000, "obj3d": 6_000, "obj3d-128": 2_000}
TABLE |= {f"{name}-elbo": TABLE[name] for name in ROLLED_OUT if name != "single-ball-d"}


@pytest.mark.parametrize("name", TABLE)
def test_a_recipe_has_the_experiments_settings(name: str) -> None:
    r = recipe(name)
    m, end = r.model, torch.tensor(10**9)
    assert r.name == name
    assert TABLE[name] == {
        "grid": m.discovery.grid,
        "slots": m.num_objects,
        "what": m.sizes.what,
        "hw_mean": float(m.schedule.hw_prior_mean.at(end)),
        "proposal": m.propagation.proposal_range,
        "hw": m.propagation.update.hw,
        "xy": m.propagation.update.xy,
        "std": round(float(m.schedule.likelihood_std.at(end)), 6),
        "background": m.background,
        "aux": m.aux_pres,
        "longest": m.schedule.longest,
        "multimodal": m.propagation.multimodal,
        "situation": m.propagation.situation,
        "given": r.data.given,
    }
    solid = name.startswith("obj3d")
    assert (m.discovery.hw_std, m.discovery.dropout) == (0.25 if solid else 0.1, 0.5)
    assert m.tight_boxes != name.startswith("maze")
    assert (m.image_size, m.sizes.glimpse) == ((128, 32) if name == "obj3d-128" else (64, 16))
    fall = {"from_step": 2_500, "to_step": 7_000}
    corridors = name in ("maze", "maze-elbo")
    falls = Anneal(0.1, 1e-10, **fall, geometric=True)
    falls = Anneal(0.1, 1e-10, 2_000, 6_000, geometric=True) if corridors else falls
    assert m.schedule.pres_prior == (falls if solid or corridors else Anneal(1e-10, 1e-10))
    assert m.schedule.aux_weight == (Anneal(0.0, 1.0, **fall) if solid else Anneal(1.0, 1.0))
    assert m.discovery.start_at_prior == (solid or corridors)
    assert m.discovery.revival is None
    rejection = (m.discovery.rejection, m.discovery.rival_rejection)
    special = {"obj3d": (0.5, 0.4), "obj3d-128": (0.5, 0.4)}
    special |= {"occlusion": (0.2, 0.6), "two-layer": (0.1, 0.6)}
    assert rejection == special.get(name.removesuffix("-elbo"), (0.4, 0.6))
    behind = (m.discovery.inside, m.discovery.hidden)
    occluded = name.startswith("occlusion")
    assert behind == ((0.8, 0.6) if occluded else (None, None))
    assert m.propagation.twins == (0.8 if occluded else None)
    assert m.propagation.what_limit == (5.5 if occluded else None)
    assert (m.discovery.certainty, m.discovery.correction) == (None, None)
    assert m.discovery.cond_sigma == 0.1
    assert (m.propagation.update.depth, m.propagation.update.what) == (1.0, 0.2)
    assert m.propagation.situation_size == 0.25
    assert m.propagation.position_scale == m.image_size / 2
    balls = name.removesuffix("-elbo") in (*OF_BALLS, *ALONE)
    assert m.propagation.depth_limit == (8 if balls or corridors else None)
    rates = dict.fromkeys(ROLLED_OUT, 0.2) | {"obj3d-128": 1 / 3}
    assert m.schedule.overshoot.rate == rates.get(name, 1)
    assert (r.train.batch, r.train.clip) == (16, 1.0)


STEPS = {
    "interaction": 19_500, "occlusion": 16_000, "two-layer": 19_500, "two-layer-dense": 13_000,
    "interaction-elbo": 16_000, "two-layer-elbo": 16_000, "single-ball-elbo": 10_000,
    "single-ball": 13_000, "single-ball-d": 13_000, "maze": 19_000, "maze-elbo": 15_000,
    "maze-no-mu": 24_000,
    "maze-no-aoe": 24_000, "maze-no-sa": 24_000, "obj3d": 30_000, "obj3d-128": 12_000,
    "clips": 11_000,
    "op3-obj3d": 8_000, "op3-obj3d-two": 12_000,
    "scalor-interaction": 40_000, "scalor-occlusion": 40_000, "scalor-two-layer": 40_000,
    "scalor-two-layer-dense": 40_000, "scalor-single-ball": 10_000,
    "silot-interaction": 19_000, "silot-occlusion": 19_000, "silot-two-layer": 19_000,
    "silot-two-layer-dense": 19_000, "sqair-digits": 20_000, "sqair-interaction": 20_000,
    "sqair-single-ball": 20_000,
    "stove-interaction": 30_000, "stove-occlusion": 30_000, "stove-two-layer": 30_000,
    "stove-two-layer-dense": 30_000, "stove-single-ball": 15_000,
}  # fmt: skip
RATES = dict.fromkeys((*OF_BALLS, *ALONE, "clips"), 4e-4) | {"sqair": 5e-4, "stove": 2e-3}
RATES |= {"maze": 2e-4, "maze-no": 3e-4}
BATCHES = {"sqair": 32, "stove": 128}
CURRICULA: dict[str, Any] = {
    **dict.fromkeys(OF_BALLS, ((0, 2), (1_000, 6), (3_000, 12), (6_500, 20))),
    "single-ball": ((0, 2), (500, 4), (1_000, 6), (1_500, 8), (2_000, 9)),
    "maze": ((0, 1), (1_000, 2), (2_000, 4), (3_000, 6), (4_000, 8), (5_000, 10)),
    "op3-obj3d": ((0, 1), (3_000, 4)),
    "op3-obj3d-two": ((0, 1), (4_500, 4)),
    "scalor": ((0, 4), (2_000, 10), (6_000, 20)),
    "scalor-single-ball": ((0, 4), (1_000, 9)),
    "silot": ((0, 2), (2_500, 4), (5_000, 10), (8_000, 20)),
    "sqair": ((0, 3), (6_000, 5), (15_000, 10)),
    "sqair-single-ball": ((0, 3), (6_000, 5), (15_000, 9)),
    "clips": ((0, 2), (800, 4), (2_200, 8), (5_000, 12)),
    "obj3d": ((0, 2), (1_500, 6), (3_500, 12), (7_000, 20)),
    "stove": ((0, 8), (20_000, 20)),
    "stove-single-ball": ((0, 9),),
}


def longest_match(table: dict[str, Any], name: str, other: Any) -> Any:
    """The entry of a table for the longest known prefix of a name."""
    found = [known for known in table if name.startswith(known)]
    return table[max(found, key=len)] if found else other


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ON_A_CPU])
def test_a_recipe_is_trained_as_departures_say(name: str) -> None:
    r = recipe(name)
    assert r.train.steps == STEPS[name]
    assert r.train.lr == longest_match(RATES, name, 3e-4)
    dynamics = name.removesuffix("-elbo") in (*OF_BALLS, *ALONE, "clips", "maze")
    assert r.train.muon == (("posterior", "prior") if dynamics else ())
    assert r.train.clip_by == ("part" if name.startswith(("clips", "silot", "sqair")) else "all")
    assert (r.train.warmup, r.train.last_lr, r.train.start) == (500, 0.05, None)
    assert (r.train.validate_every, r.train.validation_episodes) == (2_000, 64)
    assert r.train.batch == longest_match(BATCHES, name, 16)
    data = {"obj3d": (2_920, 50), "obj3d-128": (2_920, 50), "clips": (2_048, None)}
    known = data.get(name.removeprefix("op3-").removesuffix("-two"), (10_000, None))
    assert (r.data.episodes, r.data.first_frames) == known
    schedule = r.model.schedule
    assert schedule.lengths == longest_match(CURRICULA, name, None)
    assert schedule.background_only == (500 if name.startswith("maze") else 0)
    alone = 8_000 if name.startswith("silot") else ROLLOUTS.get(name)
    assert schedule.anew == (None if alone is None else STEPS[name] - alone)


def test_what_is_annealed() -> None:
    maze = recipe("maze").model.schedule
    assert maze.likelihood_std == Anneal(0.1, 1.0, 10_000, 12_000)


@pytest.mark.parametrize("name", TABLE)
def test_training_ends_in_the_last_stage_and_after_all_annealing(name: str) -> None:
    r = recipe(name)
    schedule = r.model.schedule
    assert schedule.lengths[0][0] == 0
    assert [start for start, _ in schedule.lengths] == sorted({s for s, _ in schedule.lengths})
    assert schedule.lengths[-1][0] < r.train.steps
    for anneal in (schedule.likelihood_std, schedule.hw_prior_mean):
        assert anneal.from_step < anneal.to_step < r.train.steps


@pytest.mark.parametrize("name", ON_A_CPU)
def test_a_recipe_for_a_cpu_is_the_same_experiment_at_small_sizes(name: str) -> None:
    world = name.removesuffix("-cpu")
    small, full = recipe(name), recipe("interaction-elbo" if world == "interaction" else world)
    assert small.name == name
    assert small.data.world == full.data.world
    assert type(small.model) is type(full.model)
    assert small.model.schedule.longest <= full.model.schedule.longest
    assert small.model.schedule.lengths[-1][0] < small.train.steps < full.train.steps
    numbers = [sum(p.numel() for p in gswm.build(each).parameters()) for each in (small, full)]
    assert 5 * numbers[0] < numbers[1]


def test_balls_propagate_on_a_cpu_as_on_a_gpu() -> None:
    small, full = recipe("interaction-cpu").model, recipe("interaction-elbo").model
    assert isinstance(small, GSWMConfig)
    assert isinstance(full, GSWMConfig)
    assert small.propagation == full.propagation


def test_every_other_recipe_is_a_baselines() -> None:
    others = [name for name in RECIPES if name not in (*TABLE, *ON_A_CPU)]
    assert {name.split("-")[0] for name in others} == {
        "clips",
        "op3",
        "scalor",
        "silot",
        "sqair",
        "stove",
    }


def test_the_maze_begins_with_its_background_alone() -> None:
    schedule = recipe("maze").model.schedule
    assert schedule.anew == 15_000
    assert schedule.stage(499).background_only
    assert not schedule.stage(500).background_only
    assert float(schedule.likelihood_std.at(torch.tensor(0))) == pytest.approx(0.1)


@pytest.mark.parametrize("name", TABLE)
def test_every_parameter_learns_in_every_recipe(name: str) -> None:
    """After one step of three frames, every parameter has a gradient."""
    model = build_tiny(config(name))
    loss(model, video(size=model.image_size)).total.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not (p.grad != 0).any()]
    assert still == []


@pytest.mark.parametrize("name", ["two-layer", "maze"])
def test_a_recipe_builds_its_model(name: str) -> None:
    model = gswm.build(name)
    assert isinstance(model, GSWM)
    assert model.cfg == recipe(name).model


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="there is no recipe 'balls'; choose from interaction, "):
        gswm.build("balls")


def keys(name: str, **changes: object) -> dict[str, torch.Size]:
    model = GSWM(config(name, **changes))
    return {key: value.shape for key, value in model.state_dict().items()}


WIDTHS = {
    "sizes with z_state": {
        "discovery.mlp_cond.0.weight",
        *(f"discovery.mlp_disc.4.{part}" for part in ("weight", "bias")),
        *(
            f"propagation.rnn_{which}.{net}.0.weight"
            for which in ("prior", "post")
            for net in (
                "interaction.mlp_self", "interaction.mlp_rel", "interaction.mlp_weight", "mlp_os"
            )
        ),
    },
    "sizes with e_ctx": {f"propagation.rnn_{which}.mlp_os.0.weight" for which in ("prior", "post")},
}  # fmt: skip


def test_without_mu_z_state_and_its_networks_go() -> None:
    full, without = keys("maze"), keys("maze-no-mu")
    gone = {key for key in full if key not in without}
    new = {key for key in without if key not in full}
    assert {key.split(".")[2] for key in gone} == {"mlp_state_prior", "mlp_state_post", "mlp_att"}
    assert {key.split(".")[2] for key in new} == {"mlp_att_prior", "mlp_att_post"}
    assert {k for k in full if k in without and full[k] != without[k]} == WIDTHS[
        "sizes with z_state"
    ]


def test_without_aoe_only_the_encoder_changes() -> None:
    """16 pixels end in one, by a linear layer; 64 end in 4 × 4, by a convolution."""
    full, without = keys("maze"), keys("maze-no-aoe")
    different = {k for k in full | without if full.get(k) != without.get(k)}
    assert different
    assert all(key.startswith("propagation.situation.conv_ctx_att.") for key in different)


def test_without_sa_the_encoder_goes_and_so_does_its_place_in_the_rnns() -> None:
    full, without = keys("maze"), keys("maze-no-sa")
    assert set(without) < set(full)
    gone = set(full) - set(without)
    assert all(key.startswith("propagation.situation.conv_ctx_att.") for key in gone)
    assert {k for k in without if full[k] != without[k]} == WIDTHS["sizes with e_ctx"]


def test_without_a_background_the_context_and_all_that_sees_it_go() -> None:
    schedule = replace(recipe("maze").model.schedule, background_only=0)
    full = keys("maze", aux_pres=True)
    without = keys("maze", aux_pres=True, background="black", schedule=schedule)
    assert set(without) < set(full)
    gone = set(full) - set(without)
    assert {key.split(".")[0] for key in gone} == {"context", "propagation"}
    assert {k for k in gone if k.startswith("propagation")} == {
        k for k in full if k.startswith("propagation.situation")
    }
    changed = {k for k in without if full[k] != without[k]}
    assert changed == WIDTHS["sizes with e_ctx"] | {"discovery.conv_disc.0.weight"}


def test_obj3d_of_version_0_1_0_is_the_world_with_dark_shadows() -> None:
    now = to_dict(RECIPES["obj3d"]())
    assert from_dict(Recipe, now).data.world == "obj3d"
    before = now | {"data": {k: v for k, v in now["data"].items() if k != "fresh"}}
    assert from_dict(Recipe, before).data.world == "obj3d-shadows"
