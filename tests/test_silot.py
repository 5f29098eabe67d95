"""SILOT as a whole, in addition to the laws of every model (test_world_models)."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny import generator, loss, video
from tiny_silot import build, config, lively
from torch import Tensor

from gswm.core.distributions import Bernoulli
from gswm.core.errors import UserError
from gswm.core.settings import from_dict, to_dict
from gswm.data.batches.batch import Batch
from gswm.fast.operations import FusedMLP, replace_operations
from gswm.fast.selftest import compare, small
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES, recipe
from gswm.models.silot.discovery import SilotDiscovery
from gswm.models.silot.objective import FixedPriors
from gswm.models.silot.objects import AnchorConfig
from gswm.models.silot.schedule import CountOdds, SilotSchedule
from gswm.models.silot.silot import Silot, SilotConfig

OURS = [name for name in RECIPES if name.startswith("silot-")]


# -- laws


def test_objects_feel_those_that_are_near_and_no_others() -> None:
    """One object is moved far away, or close to another."""
    model = lively(num_objects=2, sigma=0.05)
    scene = model.infer(video(1, 2)).state_at(-1)
    a, b = scene.objects.id[0].tolist()
    scene = scene.move(a, (-0.8, -0.8)).move(b, (0.8, 0.8))

    def next_of_a(xy: tuple[float, float]) -> Tensor:
        return model.imagine_from(scene.move(b, xy), 1, sample=False).xy[0, 0, 0, 0]

    torch.testing.assert_close(next_of_a((0.8, 0.8)), next_of_a((0.8, -0.8)))
    assert (next_of_a((-0.79, -0.8)) - next_of_a((0.8, 0.8))).abs().max() > 1e-6


def test_after_training_wheels_nothing_else_changes() -> None:
    """The loss is the same with and without them; only its gradients differ."""
    model, frames = build(schedule=SilotSchedule(lengths=((0, 2),), wheels=5)), video(2, 2)
    stage = model.stage(0)
    noise = model.noise(2, stage, generator())
    losses, places = [], []
    for step in (4, 5):
        model.zero_grad()
        got = model.loss(Batch(frames), noise, torch.tensor(step), stage)
        got.total.backward()
        losses.append(got.terms["nll"].detach())
        places.append(bool(model.discovery.mlp_box[-1].weight.grad[:8].any()))
    assert torch.equal(*losses)
    assert places == [False, True]


# -- the loss


@torch.no_grad()
@pytest.mark.parametrize("slots", [1, 40])
def test_empty_slots_pay_nothing(slots: int) -> None:
    """In the first frame, all slots are empty: only cells pay, for the count."""
    model, frames = build(num_objects=slots), torch.zeros(2, 1, 3, 64, 64)
    terms = loss(model, frames).terms
    assert [float(terms[name]) for name in ("kl_fixed", "kl_prop", "kl_prop_pres")] == [0, 0, 0]
    still = replace(model.stage(0), length=1)
    noise = model.noise(2, still, generator())
    (first,) = model.track(model.nobody(frames), frames, noise)
    there = torch.cat([first.known.now.pres, first.found.there], dim=1)[..., 0] > 0.5
    log_p = model.cfg.schedule.count.log_p(torch.tensor(10_000_000))
    prior = Bernoulli(model.count_prior(there, log_p).logit[:, slots:, None])
    paid = first.found.pres.kl(prior).sum(dim=(1, 2)).mean()
    torch.testing.assert_close(terms["kl_count"], paid)


@pytest.mark.parametrize("slots", [2, 5, 40])
def test_where_the_prior_learns_alone_it_learns_what_it_would(slots: int) -> None:
    """Slots of objects that end are taken by others, of which the prior remembers nothing."""
    model, frames = lively(num_objects=slots), video(2, 6)
    with torch.no_grad():
        model.propagation.post.mlp_pres[-1].bias[0] = 1
    whole = loss(model, frames)
    prior = dict(model.propagation.prior.named_parameters())
    wanted = torch.autograd.grad(whole.total, list(prior.values()))
    at = replace(model.stage(0), length=6, prior_only=True)
    alone = model.loss(Batch(frames), model.noise(2, at, generator()), torch.tensor(10**7), at)
    alone.total.backward()
    learns = {n for n, p in model.named_parameters() if p.grad is not None}
    assert learns == {f"propagation.prior.{name}" for name in prior}
    for gradient, (name, param) in zip(wanted, prior.items(), strict=True):
        torch.testing.assert_close(param.grad, gradient, rtol=1e-3, atol=1e-4, msg=name)
    for name, value in alone.terms.items():
        torch.testing.assert_close(value, whole.terms[name], msg=name)
    tracked = model.track(model.nobody(frames), frames, model.noise(2, at, generator()))
    there = torch.stack([each.objects.o.pres for each in tracked[:-1]]) > 0.5
    torch.testing.assert_close(alone.metrics["objects"], there.sum() / (2 * len(there)))


def test_discovery_is_dropped_in_a_share_of_the_frames_after_the_first() -> None:
    model = build(discovery=SilotDiscovery(dropout=0.3))
    looks = model.noise(400, replace(model.stage(0), length=5), generator()).looks[..., 0, 0]
    assert (looks[:, 0] == 1).all()
    assert float(looks[:, 1:].mean()) == pytest.approx(0.7, abs=0.05)
    assert looks[:, 1:].std(dim=0).min() > 0


def test_every_parameter_learns() -> None:
    torch.manual_seed(0)
    model = Silot(config())
    with torch.no_grad():
        model.propagation.post.mlp_pres[-1].bias[0] = 4
    loss(model, video(2, 4)).total.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not (p.grad != 0).any()]
    assert still == []


def test_no_posterior_depends_on_the_learned_prior() -> None:
    model, frames = lively(), video(2, 4)
    before = model.infer(frames)
    with torch.no_grad():
        for param in model.propagation.prior.parameters():
            param.add_(0.1)
    after = model.infer(frames)
    assert torch.equal(before.xy, after.xy)
    assert torch.equal(before.reconstruction, after.reconstruction)


def test_parts_cover_the_model() -> None:
    model = build()
    named = [p for modules in model.parts().values() for m in modules for p in m.parameters()]
    assert len({id(p) for p in named}) == len(named)
    rest = {n for n, p in model.named_parameters() if id(p) not in {id(q) for q in named}}
    assert rest == {"propagation.h_0"}


# -- the fast path


def test_the_fast_path_gives_the_gradients_of_the_plain_one() -> None:
    found = compare(small(recipe("silot-interaction")), "deferred", torch.device("cpu"))
    assert found.agrees, found


@pytest.mark.slow
def test_kernels_give_the_gradients_of_the_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small frames suffice; kernels are slow in the interpreter."""
    monkeypatch.setattr("gswm.fast.selftest.BATCH", 1)
    monkeypatch.setattr("gswm.fast.selftest.LENGTH", 2)
    chosen = small(recipe("silot-interaction"))
    model = replace(chosen.model, image_size=24, num_objects=2)
    found = compare(replace(chosen, model=model), "kernels", torch.device("cpu"))
    assert found.agrees, found


def test_only_mlps_that_fit_a_kernel_are_replaced() -> None:
    model: Any = Silot(SilotConfig())
    replace_operations(Silot(SilotConfig()), model)
    fused = {n for n, m in model.named_modules() if isinstance(m, FusedMLP)}
    assert {"propagation.post.mlp_box", "propagation.prior.mlp_what"} <= fused
    wide = {"renderer.decoder.mlp", "discovery.encode.mlp", "discovery.mlp_what"}
    assert not wide & fused


# -- contracts

PARAMETERS = {
    "backbone": 572_096,
    "discovery.condition": 21_184,
    "discovery.fuse": 221_376,
    "discovery.encode": 191_936,
    "discovery.mlp_box": 8_840,
    "discovery.mlp_what": 76_436,
    "discovery.mlp_depth": 51_614,
    "discovery.mlp_pres": 39_204,
    "propagation.post.hear": 46_336,
    "propagation.post.mlp_box": 23_808,
    "propagation.post.mlp_what": 55_920,
    "propagation.post.mlp_seen": 29_528,
    "propagation.post.mlp_depth": 30_202,
    "propagation.post.mlp_pres": 30_201,
    "propagation.post.rnn": 77_568,
    "propagation.mlp_glimpse": 56_596,
    "propagation.encode_near": 191_936,
    "propagation.encode": 191_936,
    "propagation.prior": 231_971,
    "propagation.h_0": 128,
    "renderer": 242_832,
}


def test_it_has_the_parameters_that_departures_list() -> None:
    model = Silot(SilotConfig())
    for name, number in PARAMETERS.items():
        part: Any = model
        for each in name.split("."):
            part = getattr(part, each)
        found = (
            part.numel() if isinstance(part, Tensor) else sum(p.numel() for p in part.parameters())
        )
        assert found == number, name
    assert sum(p.numel() for p in model.parameters()) == sum(PARAMETERS.values())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_size": 12}, "image size must be at least 24"),
        ({"num_objects": 0}, "at least 1 slot"),
        ({"image_size": 192}, "256 cells are 259 variables"),
        ({"sigma": 0.0}, "--model.sigma is 0"),
        ({"anchors": AnchorConfig(size=0.0)}, "--model.anchors.size is 0"),
        ({"discovery": SilotDiscovery(rival_rejection=1.5)}, "discovery.rival-rejection is 1.5"),
        ({"priors": FixedPriors(hw_std=0.0)}, "--model.priors.hw-std is 0"),
        ({"schedule": SilotSchedule(prior_only=-1)}, "schedule.prior-only is -1"),
        ({"schedule": SilotSchedule(lengths=((0, 1),), prior_only=0)}, "2 frames or more"),
        ({"schedule": SilotSchedule(prior_windows=9)}, "schedule.prior-windows is 9"),
        ({"schedule": SilotSchedule(count=CountOdds(end=0.0))}, "schedule.count.start, .end"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Silot(config(**changes))


# -- recipes and files

SLOTS = {
    "silot-interaction": 6,
    "silot-occlusion": 6,
    "silot-two-layer": 10,
    "silot-two-layer-dense": 20,
}


@pytest.mark.parametrize("name", OURS)
def test_a_recipe_has_its_settings(name: str) -> None:
    chosen = recipe(name)
    model, schedule = chosen.model, chosen.model.schedule
    assert isinstance(model, SilotConfig)
    assert model.num_objects == SLOTS[name]
    assert (model.sigma, model.discovery.dropout, model.cells) == (0.15, 0.5, 36)
    rejection = 0.2 if name == "silot-occlusion" else 0.4
    assert (model.discovery.rejection, model.discovery.rival_rejection) == (rejection, 0.6)
    assert (model.anchors.size, model.anchors.step) == (0.75, 0.25)
    assert (model.priors.hw_mean, model.priors.hw_std) == (-2.2, 0.5)
    assert (model.priors.shift_std, model.priors.what_std, model.priors.depth_std) == (0.3, 0.4, 1)
    assert (schedule.stage(10**9).length, chosen.data.given) == (20, 10)
    assert f"silot-{chosen.data.world}" == name
    assert schedule.lengths[-1][0] < schedule.prior_only == 11_000 < chosen.train.steps
    assert (schedule.prior_windows, schedule.prior_batch, schedule.wheels) == (8_192, 128, 300)
    assert (chosen.train.clip, chosen.train.clip_by) == (10, "part")
    odds = schedule.count.log_p(torch.tensor(schedule.lengths[-1][0])).exp()
    assert float(odds / (1 - odds)) == pytest.approx(0.0125, rel=1e-2)
    assert from_dict(Recipe, to_dict(chosen)) == chosen
