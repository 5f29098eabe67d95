"""SCALOR as a whole, in addition to the laws of every model (test_world_models)."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import generator, loss, video
from tiny_scalor import SIZES, build, config, lively

from gswm.commands.train import TrainCommand
from gswm.core.errors import UserError
from gswm.core.records import tensors
from gswm.core.settings import from_dict, to_dict
from gswm.data.batches.batch import Batch
from gswm.fast.rehearsal import rehearsal
from gswm.fast.selftest import compare, small
from gswm.fast.trainee import FastTrainee
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES, recipe
from gswm.models.scalor.discovery import ScalorDiscovery
from gswm.models.scalor.objects import BoxConfig, ScalorSizes
from gswm.models.scalor.scalor import Scalor, ScalorConfig
from gswm.models.scalor.schedule import ScalorSchedule
from gswm.train.step import Trainee

OURS = [name for name in RECIPES if name.startswith("scalor-")]


# -- laws


def test_no_object_feels_another() -> None:
    """One is moved; the others go on as they did."""
    model = lively()
    scene = model.infer(video(1, 2)).state_at(-1)
    who = int(scene.objects.id.max())
    slot = scene.objects.id[0].tolist().index(who)
    others = [k for k in range(3) if k != slot]
    a = model.imagine_from(scene, 4, sample=False)
    b = model.imagine_from(scene.move(who, (0.9, 0.9)), 4, sample=False)
    assert torch.equal(a.xy[..., others, :], b.xy[..., others, :])
    assert not torch.equal(a.xy[..., slot, :], b.xy[..., slot, :])


# -- the loss


def test_the_loss_is_a_mean_over_time() -> None:
    """If no object is found or propagated, the loss of twice as many frames is the same."""
    model, frames = build(), video(1, 1)
    last = model.discovery.conv_disc[-1]
    with torch.no_grad():
        last.weight[0], last.bias[0] = 0, -3
    for cell in (model.features.first, model.features.second):
        torch.nn.init.zeros_(cell.conv_x.weight)
        torch.nn.init.zeros_(cell.conv_x.bias)
    short, long = (loss(model, frames.expand(-1, t, -1, -1, -1)) for t in (1, 2))
    for name in ("nll", "kl_disc_pres"):
        torch.testing.assert_close(short.terms[name], long.terms[name], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("detached", [False, True])
def test_detached_steps_pass_no_gradient_from_frame_to_frame(
    detached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, carried = lively(), []
    step = model.step

    def watched(objects, *rest):
        carried.append([x.grad_fn is None for x in tensors(objects) if x.is_floating_point()])
        return step(objects, *rest)

    monkeypatch.setattr(model, "step", watched)
    loss(model, video(1, 3), step=0 if detached else 10_000_000)
    assert [all(each) for each in carried] == [True, detached, detached]


def test_at_first_only_the_background_learns() -> None:
    model = build(background=True)
    at = replace(model.stage(0), length=2, background_only=True)
    noise = model.noise(2, at, generator())
    got = model.loss(Batch(video(2, 2)), noise, torch.tensor(0), at)
    assert set(got.terms) == {"nll", "kl_context"}
    got.total.backward()
    learns = {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None}
    assert learns == {"background"}


@pytest.mark.parametrize("slots", [2, 5])
def test_where_the_prior_learns_alone_it_learns_what_it_would(slots: int) -> None:
    """Slots of objects that end are taken by others, so that the prior's memory begins anew."""
    model, frames = lively(num_objects=slots), video(2, 6)
    torch.nn.init.constant_(model.propagation.mlp_pres[-1].bias, -2.1)
    whole = loss(model, frames)
    prior = {n: p for n, p in model.named_parameters() if "_prior" in n}
    wanted = torch.autograd.grad(whole.total, list(prior.values()))
    at = replace(model.stage(10**9), length=6, prior_only=True)
    alone = model.loss(Batch(frames), model.noise(2, at, generator()), torch.tensor(10**7), at)
    alone.total.backward()
    assert {n for n, p in model.named_parameters() if p.grad is not None} == set(prior)
    for gradient, (name, param) in zip(wanted, prior.items(), strict=True):
        torch.testing.assert_close(param.grad, gradient, msg=name)
    for name, value in alone.terms.items():
        torch.testing.assert_close(value, whole.terms[name], msg=name)
    with torch.no_grad():
        noise = model.noise(2, at, generator())
        tracked = model.track(frames, noise, torch.tensor(0.5), torch.ones(2, 6))
    assert max(int(each.objects.born.max()) for each in tracked) > slots


@pytest.mark.parametrize("background", [False, True])
def test_every_parameter_learns(background: bool) -> None:
    torch.manual_seed(0)
    model = Scalor(config(background=background))
    loss(model, video(1, 3)).total.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not (p.grad != 0).any()]
    assert still == []


@pytest.mark.parametrize("changes", [{"background": True}, {}])
def test_the_fast_path_gives_the_gradients_of_the_plain_one(changes: dict) -> None:
    chosen = small(recipe("scalor-interaction"))
    schedule = chosen.model.schedule
    assert not schedule.stage(0).detached
    if not changes:
        schedule = replace(schedule, detached=9)
    model = replace(chosen.model, schedule=schedule, **changes)
    found = compare(replace(chosen, model=model), "deferred", torch.device("cpu"))
    assert found.agrees, found


@pytest.mark.slow
def test_kernels_give_the_gradients_of_the_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small frames suffice; kernels are slow in the interpreter."""
    monkeypatch.setattr("gswm.fast.selftest.BATCH", 1)
    monkeypatch.setattr("gswm.fast.selftest.LENGTH", 2)
    chosen = small(recipe("scalor-interaction"))
    model = replace(chosen.model, image_size=32, discovery=ScalorDiscovery(grid=2), num_objects=1)
    found = compare(replace(chosen, model=model), "kernels", torch.device("cpu"))
    assert found.agrees, found


# -- contracts


@pytest.mark.parametrize(
    ("background", "grid", "what", "release"),
    [
        (True, 4, 64, 2_833_826),
        (True, 8, 64, 2_819_106),
        (False, 4, 64, 1_831_543),
        (False, 4, 8, 1_763_111),
    ],
)
def test_it_has_the_releases_parameters(
    background: bool, grid: int, what: int, release: int
) -> None:
    sizes, discovery = ScalorSizes(what=what), ScalorDiscovery(grid=grid)
    model = Scalor(ScalorConfig(background=background, sizes=sizes, discovery=discovery))
    assert sum(p.numel() for p in model.parameters()) == release


def test_its_networks_have_the_releases_parameters() -> None:
    model = Scalor(ScalorConfig())
    f, prior = model.features, ("linear_prior", "rnn_prior", "head_prior")
    parts = {
        "image encoder": (308_832, [f.conv, f.lateral, f.join]),
        "ConvLSTM": (596_480, [f.first, f.second]),
        "mask encoder": (155_792, [model.discovery.conv_mask]),
        "glimpse encoder": (227_088, [model.appearance.conv_what]),
        "glimpse decoder": (171_028, [model.appearance.deconv_what]),
        "tracker": (99_072, [model.propagation.rnn_post]),
        "prior": (68_299, [getattr(model.propagation, name) for name in prior]),
    }
    for name, (release, nets) in parts.items():
        assert sum(p.numel() for net in nets for p in net.parameters()) == release, name


def test_a_state_can_be_edited() -> None:
    model = lively(num_objects=6)
    scene = model.infer(video(1, 2)).state_at(-1)
    there = [i for i in scene.objects.id[0].tolist() if i >= 0][:2]
    edited = scene.move(there[0], (0.3, -0.2)).change(there[0], hw=(0.2, 0.3), depth=5.0)
    edited = edited.change(there[1], look_of=there[0])
    slot, other = (edited.objects.id[0].tolist().index(i) for i in there)
    o = edited.objects.o
    assert [*o.xy[0, slot].tolist(), *o.hw[0, slot].tolist()] == pytest.approx(
        [0.3, -0.2, 0.2, 0.3]
    )
    assert torch.equal(o.what[0, slot], o.what[0, other])
    gone = edited.remove(there[1])
    assert there[1] not in gone.objects.id[0].tolist()
    future = model.imagine_from(gone, 2, futures=2)
    assert (future.pres[..., other] == 0).all()
    new = gone.add(there[0], (-0.5, 0.5))
    assert int(new.objects.id.max()) == int(scene.objects.born[0])
    assert model.imagine_from(new, 2).id.amax() == new.objects.id.max()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"discovery": ScalorDiscovery(grid=5)}, "a grid of 5 does not fit images of 64"),
        ({"num_objects": 0}, "at least 1 slot"),
        ({"boxes": BoxConfig(size=0.06)}, "a box may have no size"),
        ({"schedule": ScalorSchedule(prior_only=1, prior_repeats=-1)}, "prior-repeats is -1"),
        ({"schedule": ScalorSchedule(prior_repeats=2)}, "prior-repeats is 2"),
        (
            {"image_size": 96, "discovery": ScalorDiscovery(grid=6), "background": True},
            "must be 64, 128 or a larger power of 2, not 96",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Scalor(config(**changes))


@pytest.mark.parametrize("size", [64, 128])
def test_a_background_has_the_size_of_the_frames(size: int) -> None:
    model = build(image_size=size, discovery=ScalorDiscovery(grid=size // 16), background=True)
    seen = model.infer(torch.rand(1, 2, 3, size, size))
    assert seen.background is not None
    assert seen.background.shape == (1, 2, 3, size, size)
    made = model.imagine(torch.rand(1, 2, 3, size, size), 2, 2).reconstruction
    assert made is not None
    assert made.shape[-2:] == (size, size)


# -- recipes, files and commands

TABLE = {
    "scalor-interaction": (5, 4, 0.25, 0.0625, 20, 10),
    "scalor-occlusion": (5, 4, 0.25, 0.0625, 20, 10),
    "scalor-two-layer": (8, 4, 0.25, 0.0625, 20, 10),
    "scalor-two-layer-dense": (20, 8, 0.156, 0.039, 20, 10),
    "scalor-single-ball": (3, 4, 0.25, 0.0625, 9, 5),
}


@pytest.mark.parametrize("name", OURS)
def test_a_recipe_has_its_settings(name: str) -> None:
    chosen = recipe(name)
    model, schedule = chosen.model, chosen.model.schedule
    assert isinstance(model, ScalorConfig)
    slots, grid, size, size_range, longest, given = TABLE[name]
    assert (model.num_objects, model.discovery.grid) == (slots, grid)
    assert (model.boxes.size, model.boxes.size_range) == (size, size_range)
    assert (model.boxes.ratio, model.boxes.step) == (1, 0.2)
    assert (schedule.stage(10**9).length, chosen.data.given) == (longest, given)
    assert f"scalor-{chosen.data.world}" == name
    assert max(schedule.lengths[-1][0], schedule.detached, schedule.tau_steps) < chosen.train.steps
    assert float(schedule.pres_prior.at(torch.tensor(10**9))) == pytest.approx(1e-4, rel=1e-3)
    assert from_dict(Recipe, to_dict(chosen)) == chosen


def test_the_recipe_says_whose_settings_a_command_takes() -> None:
    ours = TrainCommand.from_args(
        ["scalor-interaction", "--train.steps", "10", "--model.boxes.size", "0.3"]
    )
    assert isinstance(ours.recipe.model, ScalorConfig)
    assert (ours.recipe.train.steps, ours.recipe.model.boxes.size) == (10, 0.3)
    theirs = TrainCommand.from_args(["two-layer", "--model.discovery.rejection", "0.7"])
    assert isinstance(theirs.recipe.model, GSWMConfig)
    assert theirs.recipe.model.discovery.rejection == 0.7
    with pytest.raises(UserError, match="boxes"):
        TrainCommand.from_args(["two-layer", "--model.boxes.size", "0.3"])


def test_it_trains_and_is_evaluated_from_the_command_line(tmp_path: Path) -> None:
    from gswm.cli import main

    out = str(tmp_path / "run")
    cheap = [f"--model.sizes.{n}={v}" for n, v in to_dict(SIZES).items()]
    cheap += ["--train.steps=2", "--train.batch=1", "--train.validation-episodes=1"]
    cheap += ["--data.episodes=2", "--model.schedule.lengths", "0", "2", "1", "3"]
    assert main(["train", "scalor-single-ball", *cheap, "--out", out, "--device", "cpu"]) == 0
    assert main(["train", "--resume", out, "--device", "cpu"]) == 0
    assert main(["eval", out, "--episodes", "2", "--device", "cpu"]) == 0


# -- the prior alone


def learner(steps: int) -> Trainee:
    """Two steps of everything, then the prior alone, on the windows of three steps."""
    chosen = recipe("scalor-interaction")
    schedule = replace(
        chosen.model.schedule, lengths=((0, 2), (1, 4)), prior_only=2, prior_repeats=3
    )
    train = replace(chosen.train, steps=steps, batch=2, warmup=0)
    chosen = replace(chosen, model=replace(chosen.model, schedule=schedule), train=train)
    model = lively(schedule=schedule)
    with torch.no_grad():  # some are found in the first frame, and stay
        model.discovery.conv_disc[-1].bias[0] = 1
        model.propagation.mlp_pres[-1].bias.fill_(3)
    return rehearsal(model, chosen, torch.device("cpu"), FastTrainee)


@pytest.mark.slow
def test_what_comes_again_is_observed_once_and_learned_from_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, again = learner(10), learner(10)
    prior = {n for n, _ in one.model.named_parameters() if "_prior" in n}
    seen: list[tuple] = []
    observe = one.model.observe
    monkeypatch.setattr(one.model, "observe", lambda *a: (seen.append(a), observe(*a))[1])
    for step in range(10):
        one.advance()
        again.kept = {}
        again.advance()
        learns = {n for n, p in one.model.named_parameters() if p.grad is not None and p.grad.any()}
        assert ({n for n in learns if "_prior" not in n} == set()) == (step >= 2)
        if step >= 2:
            assert {n for n in learns if "_prior" in n} == prior
            for ours, kept in zip(*map(tensors, (one.observed, one.kept[step % 3])), strict=True):
                assert torch.equal(ours, kept)
    assert len(seen) == 3
    for ours, theirs in zip(one.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for (windows, _), step in zip(seen, (2, 0, 1), strict=True):
        assert torch.equal(windows.video, one.loader.batch(step, 4).video)


@pytest.mark.parametrize("stop", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 7))])
def test_a_training_goes_on_where_the_prior_learns_alone(stop: int) -> None:
    whole, first, second = learner(9), learner(9), learner(9)
    for _ in range(9):
        whole.advance()
    for _ in range(stop):
        first.advance()
    second.restore(stop, first.tensors(), first.counts())
    for _ in range(stop, 9):
        second.advance()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name
