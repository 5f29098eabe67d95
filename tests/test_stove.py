"""STOVE as a whole, in addition to the laws of every model (test_world_models)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import generator, video
from tiny_stove import ACTING, SIZE, SMALL, SPN, VARIANTS, build
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.distributions import Normal

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.core.settings import from_dict, to_dict
from gswm.data.batches.batch import Batch
from gswm.fast.deferred import Deferred
from gswm.fast.selftest import plain
from gswm.models.recipe import Recipe
from gswm.models.registry import recipe
from gswm.models.stove.config import StoveConfig, StoveSchedule
from gswm.models.stove.dynamics import DynamicsConfig
from gswm.models.stove.matching import greedy
from gswm.models.stove.scene import StoveScene, as_hw
from gswm.models.stove.stove import Stove, StoveNoise
from gswm.weights import files as weights


def frames(batch: int = 2, time: int = 4, seed: int = 0) -> Tensor:
    return video(batch, time, SIZE, seed)


def draws(model: Stove, batch: int = 2, seed: int = 0) -> StoveNoise:
    return model.noise(batch, model.stage(0), generator(seed))


def loss(model: Stove, seed: int = 0, step: int = 5, **more: Tensor) -> Any:
    noise = draws(model, seed=seed)
    return model.loss(
        Batch(frames(seed=seed), **more), noise, torch.tensor(step), model.stage(step)
    )


def acts(batch: int = 2, time: int = 4, seed: int = 0) -> Tensor:
    """One-hot actions."""
    which = torch.randint(0, 5, (batch, time), generator=generator(seed))
    return torch.nn.functional.one_hot(which, 5).float()


# -- the bound


@pytest.mark.parametrize("name", VARIANTS)
def test_the_loss_is_the_bound_written_out(name: str) -> None:
    """One video, one frame, one object, one number after the other."""
    model, batch = build(VARIANTS[name]), frames()
    noise, num, time = draws(model), VARIANTS[name].num_objects, 4
    got = model.loss(Batch(batch), noise, torch.tensor(0), model.stage(0))
    images = model.look(batch)
    where, hue = model.see(batch, images)
    want = dict.fromkeys(got.terms, 0.0)
    for b in range(2):
        z = torch.cat([where.mean[b, 1], 0.01 * noise.latents[b]], dim=-1)
        for t in range(1, time):
            share = 1.0 if t == 1 else 1 / (time - 2)
            if t > 1:
                seen = map_tensors(lambda x, b=b, t=t: x[b : b + 1, t], where)
                before = z[None, :, 2:]
                moved, _ = model.dynamics(before, torch.ones(1, num, 1), None, None)
                z_new, evidence = model.dynamics.infer(
                    before, seen, noise.z[b : b + 1, t], hue[b : b + 1, t - 1], None
                )
                z = z_new[0]
                for k in range(num):
                    for d in range(8):
                        q = Normal(evidence.q.mean[0, k, d], evidence.q.std[0, k, d])
                        want["posterior"] += share * q.log_prob(z[k, d]).item()
                    for d in range(6):
                        p = Normal(moved.mean[0, k, d], 0.01)
                        want["transition"] -= share * p.log_prob(z[k, 2 + d]).item()
            found = model.images(images[b : b + 1, t], z[None, :, 2:4], as_hw(z[None, :, :2]))
            for part in ("background", "patches", "overlap"):
                want[part] -= share * getattr(found, part).item()
    for part, value in want.items():
        assert got.terms[part].item() == pytest.approx(value / 2, rel=1e-4, abs=1e-3), part
    assert got.total.item() == pytest.approx(sum(want.values()) / 2, rel=1e-4)


def test_rewards_are_told_by_their_cross_entropy_and_count_more_and_more() -> None:
    model, actions = build(ACTING), acts()
    rewards = torch.tensor([[-1.0, 0, -1, 0], [0, 0, 0, -1]])
    found = {
        step: loss(model, step=step, actions=actions, rewards=rewards).terms["reward"].item()
        for step in (0, 5, 10, 99)
    }
    batch = frames()
    where, hue = model.see(batch, model.look(batch))
    _, evidence = model.filter(where, hue, draws(model), actions)
    wrong = 0.0
    for t, each in enumerate(evidence, start=2):
        assert each.reward is not None
        chance = each.reward.sigmoid()
        for b in range(2):
            likely = chance[b] if rewards[b, t] == 0 else 1 - chance[b]
            wrong -= likely.log().item() / 4
    assert found[0] == 0
    assert found[5] == pytest.approx(5 * wrong, rel=1e-4)
    assert found[10] == found[99] == pytest.approx(10 * wrong, rel=1e-4)
    assert "reward" not in loss(model, actions=actions).terms


def test_what_is_watched_does_not_pretend_to_count_objects() -> None:
    found = loss(build()).metrics
    assert set(found) == {"hidden", "width", "std"}
    assert 0 <= found["hidden"] <= 1
    assert not any(value.requires_grad for value in found.values())


def test_at_first_the_background_may_learn_alone() -> None:
    cfg = replace(SMALL, schedule=replace(SMALL.schedule, background_only=3))
    model = build(cfg)
    found = loss(model, step=2)
    want = -model.images.log_background(model.look(frames()).flatten(0, 1), None).mean()
    torch.testing.assert_close(found.total, want)
    assert set(loss(model, step=3).terms) > {"patches"}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_learns(name: str) -> None:
    model = build(VARIANTS[name])
    loss(model).total.backward()
    still = {n for n, p in model.named_parameters() if p.grad is None or not (p.grad != 0).any()}
    alone = {n for n in still if ".rel_" in n or ".att_" in n or "weight_hh" in n}
    assert still == alone
    assert bool(alone) == (name == "one ball")


def test_every_parameter_of_actions_and_rewards_learns() -> None:
    model = build(ACTING)
    loss(model, actions=acts(), rewards=-torch.ones(2, 4)).total.backward()
    assert [n for n, p in model.named_parameters() if not (p.grad != 0).any()] == []


@pytest.mark.parametrize("name", [*VARIANTS, "acting"])
def test_the_fast_backward_pass_gives_the_same_gradients(name: str) -> None:
    cfg = (VARIANTS | {"acting": ACTING})[name]
    more = {"actions": acts(), "rewards": -torch.ones(2, 4)} if name == "acting" else {}
    ours, theirs = build(cfg), build(cfg)
    a, b = Deferred(ours)(lambda: loss(ours, **more)), plain(lambda: loss(theirs, **more))
    torch.testing.assert_close(a.total, b.total)
    for (key, left), right in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if right.grad is not None:
            assert left.grad is not None
            near = 1e-4 * right.grad.abs().max().item() + 1e-6
            assert torch.allclose(left.grad, right.grad, rtol=1e-3, atol=near), key


def test_a_step_asks_nothing_of_the_device() -> None:
    """Tensors without values cannot be read, so the step can be captured and replayed."""
    model = build()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        batch, step = mode.from_tensor(frames()), mode.from_tensor(torch.tensor(0))
        noise = map_tensors(mode.from_tensor, draws(model))
        model.loss(Batch(batch), noise, step, model.stage(0)).total.backward()
        assert greedy(mode.from_tensor(torch.rand(2, 7, 7))).shape == (2, 7)
        with pytest.raises(DataDependentOutputException):
            batch.sum().item()


# -- laws


def test_samples_are_as_far_apart_as_the_dynamics_are_unsure() -> None:
    model, state = build(), build().infer(frames(1)).state_at(-1)
    expected, _ = model.dynamics(state.s, torch.ones(1, 3, 1), None, None)
    drawn = model.imagine_from(state, 1, futures=4000, render=False).xy[0, :, 0]
    torch.testing.assert_close(drawn.std(dim=0), expected.std[0, :, :2], rtol=0.1, atol=0)


@pytest.mark.parametrize("time", [1, 2, 3])
def test_short_videos_have_objects_too(time: int) -> None:
    model = build()
    track = model.infer(frames(2, time))
    assert track.xy.shape == (2, time, 3, 2)
    assert not track.states[0].objects.z_state.any()
    future = model.imagine(frames(2, time), time, 2)
    assert torch.isfinite(future.xy).all()


def test_the_posterior_mean_of_the_first_frames_is_what_the_encoder_sees() -> None:
    model, batch = build(), frames()
    where, _ = model.see(batch, model.look(batch))
    track = model.infer(batch)
    assert torch.equal(track.xy[:, :2], where.mean[:, :2, :, 2:4])
    torch.testing.assert_close(track.hw[..., 1][:, :2], where.mean[:, :2, :, 0])
    assert (track.xy[:, 2:] - where.mean[:, 2:, :, 2:4]).abs().max() > 1e-4
    assert (track.pres == 1).all()
    assert (track.id == torch.arange(3)).all()


# -- actions


def test_imagination_follows_the_plan_and_each_future_its_own() -> None:
    model, batch, plan = build(ACTING), frames(), acts(2, 7)
    whole = model.imagine(batch, 4, 3, actions=plan, sample=False)
    state = model.infer(batch, actions=plan[:, :4]).state_at(-1)
    both = torch.stack([plan[:, 3:6], acts(2, 3, seed=9)], dim=1)
    futures = model.imagine_from(state, 3, futures=2, sample=False, actions=both)
    torch.testing.assert_close(futures.xy[:, 0], whole.xy[:, 0])
    assert (futures.xy[:, 1] - whole.xy[:, 0]).abs().max() > 1e-4
    for track in (whole, futures):
        assert track.reward is not None
        assert track.reward.shape == track.xy.shape[:3]
    _, logit = model.dynamics(state.s, torch.ones(2, 3, 1), state.objects.o.what, plan[:, 3])
    assert logit is not None
    torch.testing.assert_close(futures.reward[:, 0, 0], logit.sigmoid() - 1)
    assert whole.past is not None


def test_an_action_changes_the_next_frame_and_none_before() -> None:
    model, batch, plan = build(ACTING), frames(2, 5), acts(2, 5)
    other = plan.clone()
    other[:, 2] = 1 - other[:, 2]
    a, b = (model.infer(batch, actions=x).xy for x in (plan, other))
    assert torch.equal(a[:, :3], b[:, :3])
    assert (a[:, 3] - b[:, 3]).abs().min() > 0


REFUSED: dict[str, tuple[StoveConfig, Callable[[Stove], object]]] = {
    "this model needs actions of 5 numbers": (ACTING, lambda m: m.infer(frames())),
    "does not use actions": (SMALL, lambda m: m.infer(frames(), actions=acts())),
    "3 or more, 5": (ACTING, lambda m: m.infer(frames(), actions=acts(2, 2))),
    "given must be from 1 to": (ACTING, lambda m: m.imagine(frames(), 9, 2, actions=acts(2, 11))),
    "no object can be added": (
        ACTING,
        lambda m: m.imagine_from(
            m.infer(frames(), actions=acts()).state_at(-1).add(0, (0.0, 0.0)), 2, actions=acts(2, 2)
        ),
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(text: str) -> None:
    cfg, call = REFUSED[text]
    with pytest.raises(UserError, match=text):
        call(build(cfg))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_objects": 0}, "at least 1 slot for objects, not 0"),
        ({"dynamics": DynamicsConfig(width=9)}, "even and at least 10, not 9"),
        ({"dynamics": DynamicsConfig(width=8)}, "even and at least 10, not 8"),
        ({"schedule": StoveSchedule(lengths=((0, 2),))}, "T must be 3 or more"),
        ({"images": replace(SMALL.images, object=replace(SPN, depth=0))}, "at least 1 deep"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        Stove(replace(SMALL, **changes))


# -- states


def state(model: Stove) -> StoveScene:
    return model.infer(frames()).state_at(-1)


def test_a_state_can_be_edited_and_imagined_from() -> None:
    model = build()
    start = state(model)
    moved = start.move(1, (0.3, -0.2), of=0)
    assert moved.objects.o.xy[0, 1].tolist() == pytest.approx([0.3, -0.2])
    assert torch.equal(moved.objects.o.xy[1], start.objects.o.xy[1])
    fast = start.change(2, velocity=(0.1, 0.0), hw=(0.5, 0.4), look_of=0)
    assert fast.objects.z_state[0, 2, :2].tolist() == pytest.approx([0.1, 0])
    assert torch.equal(fast.objects.z_state[:, 2, 2:], start.objects.z_state[:, 2, 2:])
    assert torch.equal(fast.objects.z_state[:, :2], start.objects.z_state[:, :2])
    assert torch.equal(fast.objects.o.what[:, 2], start.objects.o.what[:, 0])
    a, b = (model.imagine_from(each, 2, sample=False) for each in (start, fast))
    assert (a.xy[:, 0, 0, 2] - b.xy[:, 0, 0, 2]).abs().max() > 1e-4
    assert b.hw[0, 0, 1, 2].tolist() == pytest.approx([0.5, 0.4])


def test_who_is_removed_is_gone_and_unfelt() -> None:
    model = build()
    start = state(model)
    gone = start.remove(1)
    elsewhere = start.move(1, (0.9, 0.9)).remove(1)
    a, b = (model.imagine_from(each, 3, sample=False) for each in (gone, elsewhere))
    torch.testing.assert_close(a.xy[..., [0, 2], :], b.xy[..., [0, 2], :])
    assert (a.pres[..., 1] == 0).all()
    torch.testing.assert_close(a.reconstruction, b.reconstruction)


def test_there_is_always_room_for_one_more() -> None:
    model = build()
    more = state(model).add(0, (0.5, 0.5), of=1)
    assert more.objects.id.tolist() == [[0, 1, 2, -1], [0, 1, 2, 3]]
    assert more.objects.o.xy[1, 3].tolist() == [0.5, 0.5]
    future = model.imagine_from(more, 2)
    assert future.pres[:, 0, 1].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    again = more.add(3, (0.1, 0.1))
    assert again.objects.id.tolist() == [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4]]
    back = state(model).remove(1).add(0, (0.2, 0.2))
    assert back.objects.id.tolist() == [[0, 3, 2]] * 2


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda s: s.change(0, depth=1.0), "no depth"),
        (lambda s: s.change(9, velocity=(0.0, 0.0)), "no object 9"),
        (lambda s: s.change(0, velocity=(float("nan"), 0.0)), "velocity must be finite"),
        (lambda s: s.move(0, (float("inf"), 0.0)), "xy must be finite"),
    ],
)
def test_an_edit_that_cannot_be_is_refused(edit: Callable[[Any], object], text: str) -> None:
    with pytest.raises(UserError, match=text):
        edit(state(build()))


# -- recipes, counts, files


@pytest.mark.parametrize(
    ("world", "num", "width", "longest", "given"),
    [
        ("interaction", 3, (0.1, 0.4), 20, 10),
        ("occlusion", 3, (0.1, 0.4), 20, 10),
        ("two-layer", 6, (0.1, 0.4), 20, 10),
        ("two-layer-dense", 16, (0.1, 0.3), 20, 10),
        ("single-ball", 1, (0.1, 0.4), 9, 5),
    ],
)
def test_a_recipe_has_the_experiments_settings(
    world: str, num: int, width: tuple[float, float], longest: int, given: int
) -> None:
    r = recipe(f"stove-{world}")
    assert isinstance(r.model, StoveConfig)
    assert (r.data.world, r.data.given) == (world, given)
    assert (r.model.num_objects, r.model.encoder.width) == (num, width)
    lengths = r.model.schedule.lengths
    assert lengths[-1] == (max(start for start, _ in lengths), longest)
    assert lengths[-1][0] < r.train.steps
    assert from_dict(Recipe, to_dict(r)) == r


PARTS = ("encoder", "images.spn_object", "images.spn_background", "dynamics")


@pytest.mark.parametrize(
    ("cfg", "counts"),
    [
        (StoveConfig(image_size=32), (1_326_026, 24_600, 36_972, 22_657)),
        (StoveConfig(), (4_471_754, 24_600, 147_564, 22_657)),
        (StoveConfig(color=True), (12_860_362, 48_600, 442_476, 22_657)),
    ],
    ids=["32 pixels", "64 pixels", "64 pixels in color"],
)
def test_it_has_as_many_parameters_as_the_release_with_one_core(
    cfg: StoveConfig, counts: tuple[int, ...]
) -> None:
    model = Stove(cfg)
    found = [sum(p.numel() for p in model.get_submodule(part).parameters()) for part in PARTS]
    assert tuple(found) == counts
    assert sum(found) == sum(p.numel() for p in model.parameters())


def test_weights_come_back_from_a_file_with_their_regions(tmp_path: Path) -> None:
    chosen = replace(recipe("stove-interaction"), model=SMALL)
    model = build()
    for half, near in ((False, 0.0), (True, 0.05)):
        weights.save(tmp_path / "w.safetensors", model, chosen, half=half)
        torch.manual_seed(1)
        found = gswm.load(tmp_path / "w.safetensors")
        assert isinstance(found, Stove)
        a, b = model.infer(frames()), found.infer(frames())
        torch.testing.assert_close(a.xy, b.xy, atol=near, rtol=0)
        assert torch.equal(model.images.spn_object.region, found.images.spn_object.region)


def test_it_trains_is_evaluated_and_imagines_by_the_commands(tmp_path: Path, capsys: Any) -> None:
    run = str(tmp_path / "run")
    small = ["--data.episodes", "4", "--train.batch", "2", "--train.steps", "3"]
    small += ["--train.validation-episodes", "2", "--model.encoder.hidden", "8"]
    small += ["--model.schedule.lengths", "0", "4"]
    args = ["train", "stove-single-ball", "--out", run, "--device", "cpu", *small]
    assert main(args) == 0
    assert (tmp_path / "run" / "pictures" / "00000003" / "tracked.png").is_file()
    assert main(["eval", run, "--episodes", "2", "--device", "cpu"]) == 0
    assert "coverage" in capsys.readouterr().out
    out = str(tmp_path / "imagined")
    assert (
        main(["imagine", run, "--futures", "2", "--out", out, "--no-mp4", "--device", "cpu"]) == 0
    )
    assert (tmp_path / "imagined" / "states.csv").is_file()
    assert main(["track", "single-ball", "--model", run, "--out", f"{out}.csv"]) == 0
