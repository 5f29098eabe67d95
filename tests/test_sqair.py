"""SQAIR as a whole, in addition to the laws of every model (test_world_models)."""

from dataclasses import replace

import pytest
import tiny
import torch
from tiny import generator, loss, video
from tiny_sqair import SIZES, build, config, lively
from torch import nn

from gswm.core.errors import UserError
from gswm.core.schedule import Anneal
from gswm.core.settings import from_dict, to_dict
from gswm.fast.selftest import compare, small
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES, recipe
from gswm.models.sqair.objects import SqairSizes
from gswm.models.sqair.rendering import SCALE
from gswm.models.sqair.sqair import Sqair, SqairConfig, SqairSchedule

OURS = [name for name in RECIPES if name.startswith("sqair-")]
FEW = Anneal(60.0, 40.0, 1_000, 2_500), Anneal(0.0, 10.0, 700, 1_700)
ON_A_CPU = {
    "sqair-digits-cpu": (
        *(2, 8_000, (5_000, 6)),
        *(Anneal(70.0, 30.0, 1_000, 4_500), Anneal(0.0, 29.0, 700, 1_700)),
    ),
    "sqair-interaction-cpu": (4, 7_500, (6_000, 10), *FEW),
    "sqair-single-ball-cpu": (2, 4_000, (2_500, 9), *FEW),
}
"""Slots, steps, the last stage of the curriculum, cost and upkeep."""


# -- laws


def test_presence_is_0_or_1_and_does_not_come_back() -> None:
    model, frames = lively(), video(3, 6)
    with torch.no_grad():
        model.propagation.mlp_pres[-1].bias[0] = 0
    track = model.infer(frames, generator=generator(3))
    assert set(track.pres.unique().tolist()) == {0, 1}
    same = track.id[:, 1:] == track.id[:, :-1]
    back = same & (track.pres[:, 1:] > track.pres[:, :-1])
    assert not back.any()
    assert (same & (track.pres[:, 1:] < track.pres[:, :-1])).any()


def test_there_are_never_more_objects_than_slots_and_each_is_drawn() -> None:
    """Discovery adds at most as many objects as there are free slots."""
    model, frames = lively(num_objects=2), video(4, 4)
    with torch.no_grad():
        model.discovery.mlp_pres[-1].bias[0] = 50
        model.propagation.mlp_pres[-1].bias[0] = 0
    noise = model.drawn((4, 4), generator(1))
    tracked = model.track(None, frames, noise, torch.ones(4))
    kept = None
    for each in tracked:
        assert (each.objects.o.pres.sum(dim=1) == 2).all()
        new = each.objects.born - (0 if kept is None else kept)
        assert (new >= 0).all()
        kept = each.objects.born
    assert kept is not None
    assert kept.max() > 2


def test_samples_of_a_video_are_rows_of_their_own() -> None:
    """The loss is a mean over videos, each with its samples."""
    model, frames = lively(), video(3, 2)
    stage = replace(model.stage(0), length=2)
    noise = model.noise(3, stage, generator())
    step = torch.tensor(10**6)

    def part(which: slice) -> torch.Tensor:
        return model.loss(tiny.Batch(frames[which]), noise.rows(which), step, stage).total

    parts = torch.stack([part(slice(i, i + 1)) for i in range(3)])
    torch.testing.assert_close(part(slice(0, 3)), parts.mean(), rtol=1e-5, atol=1e-3)


# -- reported boxes


class Disk(nn.Module):
    """Draws each object as a disk in one channel, off the middle of its glimpse."""

    def forward(self, what: torch.Tensor) -> torch.Tensor:
        at = (torch.arange(6) + 0.5) / 3 - 1
        far = torch.hypot(at - 0.2, at[:, None] + 0.3)
        disk = (2 * (0.8 - far)).clamp(0, 1) / SCALE
        return torch.stack([0 * disk, disk, 0.5 * disk]).flatten().expand(*what.shape[:-1], -1)


def drawing(tight: bool) -> Sqair:
    model = lively(tight_boxes=tight)
    model.renderer.decoder = Disk()
    model.renderer.scale.data.fill_(SCALE)
    return model


@torch.no_grad()
def test_reported_boxes_are_around_what_is_drawn() -> None:
    """The brightness of one channel suffices; here it falls below `DRAWN` 0.7 from the middle."""
    tight, whole = (drawing(each).infer(video(2, 3)) for each in (True, False))
    assert torch.equal(tight.pres, whole.pres)
    assert torch.equal(tight.reconstruction, whole.reconstruction)
    there = tight.pres > 0.5
    assert there.any()
    height, width = (tight.hw / whole.hw)[there].unbind(dim=-1)
    x, y = ((tight.xy - whole.xy) / whole.hw.flip(-1))[there].unbind(dim=-1)
    # Edges are interpolated between 6 pixels, and the box ends at 1.
    for found, true in ((height, 0.7), (width, 0.7), (x, 0.2), (y, -0.3)):
        torch.testing.assert_close(found, torch.full_like(found, true), rtol=0, atol=0.07)


@torch.no_grad()
def test_an_object_is_reported_where_an_edit_puts_it() -> None:
    model = drawing(tight=True)
    state = model.infer(video(1, 3)).state_at(-1)
    which = int(state.objects.id[state.objects.id >= 0][0])
    moved = state.move(which, (0.25, -0.125))
    xy, _ = moved.boxes
    there = moved.objects.id == which
    torch.testing.assert_close(xy[there], torch.tensor([[0.25, -0.125]]))


# -- the loss


@torch.no_grad()
def test_empty_slots_pay_nothing() -> None:
    """If all slots stay empty, the only cost is that of presence."""
    model, frames = build(schedule=SqairSchedule().steady(2)), video(2, 2)
    model.discovery.mlp_pres[-1].bias[0] = -60
    terms = loss(model, frames).terms
    assert [float(terms[name]) for name in ("kl_where", "kl_what")] == [0, 0]
    assert float(terms["kl_pres"]) > 0
    assert float(terms["samples"]) == pytest.approx(0, abs=1e-5)


def test_every_parameter_learns() -> None:
    torch.manual_seed(0)
    model = Sqair(config(image_size=16))
    with torch.no_grad():
        model.discovery.mlp_pres[-1].bias[0] = 1
    loss(model, video(4, 3, 16)).total.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not (p.grad != 0).any()]
    assert still == []


def test_parts_cover_the_model() -> None:
    model = build()
    named = [p for modules in model.parts().values() for m in modules for p in m.parameters()]
    assert len({id(p) for p in named}) == len(named) == len(list(model.parameters()))


def test_no_posterior_depends_on_a_prior() -> None:
    model, frames = lively(), video(2, 3)
    before = model.infer(frames)
    with torch.no_grad():
        for prior in (model.propagation.prior, model.discovery.prior):
            for param in prior.parameters():
                param.add_(0.1)
    after = model.infer(frames)
    assert torch.equal(before.xy, after.xy)
    assert torch.equal(before.reconstruction, after.reconstruction)


# -- the fast path


def test_the_fast_path_gives_the_gradients_of_the_plain_one() -> None:
    found = compare(small(recipe("sqair-interaction")), "deferred", torch.device("cpu"))
    assert found.agrees, found


# -- contracts

PARAMETERS = {
    "encoder": 1_107_008,
    "glimpse": 398_948,
    "propagation": 1_205_252,
    "discovery": 513_604,
    "renderer": 387_249,
}


def test_it_has_the_parameters_that_departures_list() -> None:
    model = Sqair(SqairConfig())
    found = {
        name: sum(p.numel() for p in part.parameters()) for name, part in model.named_children()
    }
    assert {name: n for name, n in found.items() if n} == PARAMETERS


@pytest.mark.parametrize(("channels", "first"), [(24, 12), (5, 3), (1, 1)])
def test_the_image_encoder_has_half_as_many_channels_in_its_first_layer(
    channels: int, first: int
) -> None:
    model = Sqair(config(sizes=replace(SIZES, channels=channels)))
    layers = [each for each in model.encoder if isinstance(each, nn.Conv2d)]
    assert [each.out_channels for each in layers] == [first, channels, channels]
    assert model.encoder(video(1, 2)[0] / 255).shape == (2, SIZES.hidden)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_size": 8}, "at least 16"),
        ({"image_size": 20}, "multiple of 8"),
        ({"num_objects": 0}, "at least 1 slot"),
        ({"samples": 1}, "--model.samples is 1"),
        ({"likelihood_std": 0.0}, "--model.likelihood-std is 0"),
        ({"first_hw": 1.0}, "--model.first-hw is 1"),
        ({"schedule": SqairSchedule(wheels=-1)}, "schedule.wheels is -1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Sqair(config(**changes))


def test_sizes_of_0_are_refused() -> None:
    with pytest.raises(UserError, match=r"--model.sizes.what is 0"):
        SqairSizes(what=0)


# -- recipes and files


@pytest.mark.parametrize("name", sorted(set(OURS) - ON_A_CPU.keys()))
def test_a_recipe_has_its_settings(name: str) -> None:
    chosen = recipe(name)
    model = chosen.model
    assert isinstance(model, SqairConfig)
    slots = {
        "sqair-digits": (3, 0.4, 10),
        "sqair-interaction": (4, 0.25, 10),
        "sqair-single-ball": (2, 0.25, 5),
    }
    assert (model.num_objects, model.first_hw, chosen.data.given) == slots[name]
    assert (model.samples, model.likelihood_std, model.schedule.wheels) == (5, 0.6, 3_000)
    assert f"sqair-{chosen.data.world}" == name
    assert model.schedule.wheels < model.schedule.lengths[1][0]
    assert model.schedule.cost == Anneal(80.0, 50.0, 5_000, 8_000)
    assert model.schedule.upkeep == Anneal(0.0, 30.0, 4_000, 7_000)
    assert from_dict(Recipe, to_dict(chosen)) == chosen


@pytest.mark.parametrize("name", ON_A_CPU)
def test_a_recipe_for_a_cpu_releases_presence_before_objects_must_pay(name: str) -> None:
    chosen, (slots, steps, last, cost, upkeep) = recipe(name), ON_A_CPU[name]
    model = chosen.model
    assert isinstance(model, SqairConfig)
    schedule = model.schedule
    assert schedule.wheels < schedule.upkeep.from_step < schedule.upkeep.to_step
    assert (schedule.cost, schedule.upkeep) == (cost, upkeep)
    assert schedule.lengths == ((0, 2), (300, 3), (1_300, 5), last)
    assert (chosen.train.steps, chosen.train.batch, model.samples) == (steps, 16, 4)
    assert (model.image_size, model.num_objects, model.likelihood_std) == (32, slots, 0.35)
    assert sum(p.numel() for p in Sqair(model).parameters()) == 672_439
    assert from_dict(Recipe, to_dict(chosen)) == chosen
