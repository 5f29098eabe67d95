"""Overshooting: the score of rollouts compared with loops, its gradients, and its training."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import generator, lively, video
from torch import Tensor
from training import metrics_of, small, state_of, stop_after, train_here, trained_once

from gswm.core.distributions import Gaussian
from gswm.core.errors import UserError
from gswm.core.records import map_tensors, stack, tensors
from gswm.core.schedule import Stage
from gswm.core.shapes import NOBODY
from gswm.data.batches.batch import Batch
from gswm.fast.deferred import Deferred
from gswm.fast.trainee import FastTrainee
from gswm.models.contract import Discover
from gswm.models.gswm.gswm import GSWM
from gswm.models.gswm.noise import GSWMNoise
from gswm.models.gswm.overshoot import (
    SHORTEST,
    TOGETHER,
    OvershootNoise,
    Tracks,
    calmed,
    energy_score,
    groups,
    joint_term,
    overshoot_terms,
    recall,
    rollouts,
    score,
    terms_of,
)
from gswm.models.gswm.schedule import Overshooting, OvershootStage, Schedule
from gswm.models.objects import Attributes
from gswm.models.recipe import Recipe, TrainConfig
from gswm.models.registry import RECIPES, build, recipe
from gswm.train.distributed import Processes
from gswm.train.launch import training_loader
from gswm.train.step import Trainee, rate_share

GIVEN, HORIZON, SAMPLES = 3, 2, 2
CFG = Overshooting(start=0, batch=2, windows=4, given=GIVEN, horizon=HORIZON, samples=SAMPLES)
VARIANTS = pytest.mark.parametrize("name", ["interaction", "maze", "maze-no-aoe", "maze-no-mu"])


def model(name: str = "interaction", cfg: Overshooting = CFG) -> GSWM:
    schedule = Schedule(lengths=((0, 3),), overshoot=cfg)
    return lively(name, schedule=schedule)


def observed(of: GSWM, seed: int = 0) -> Tracks:
    frames = video(time=GIVEN + HORIZON, seed=seed)
    return of.observe(Batch(frames), draw(of)).full()


def draw(of: GSWM, seed: int = 0, batch: int = 2) -> OvershootNoise:
    noise = of.noise(batch, of.stage(0), generator(seed))
    assert isinstance(noise, OvershootNoise)
    return noise


def frame(o: Attributes, t: int) -> Attributes:
    return map_tensors(lambda values: values[:, t], o)


# -- the score


def naive_score(x: list[list[float]], y: list[float]) -> float:
    def far(a: list[float], b: list[float]) -> float:
        squares = sum((i - j) ** 2 for i, j in zip(a, b, strict=True))
        return math.sqrt(squares + SHORTEST**2) - SHORTEST

    pairs = [far(a, b) for i, a in enumerate(x) for j, b in enumerate(x) if i != j]
    apart = sum(pairs) / len(pairs) if pairs else 0.0
    return sum(far(a, y) for a in x) / len(x) - apart / 2


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_the_energy_score_is_what_a_loop_gives(seed: int, samples: int, width: int) -> None:
    g = generator(seed)
    x = torch.randn(2, samples, 3, width, generator=g)
    y = torch.randn(2, 3, width, generator=g)
    got = energy_score(x, y)
    for b in range(2):
        for k in range(3):
            want = naive_score(x[b, :, k].tolist(), y[b, k].tolist())
            assert got[b, k].item() == pytest.approx(want, abs=1e-5)


def test_samples_of_both_futures_score_better_than_one_of_them_or_the_middle() -> None:
    """Two futures, equally likely; of each forecast all pairs of samples are counted."""
    futures = torch.tensor([-1.0, 1.0])

    def expected(points: Tensor) -> float:
        scores = [
            energy_score(torch.stack([a, b])[None, :, None], y[None, None])
            for a in points
            for b in points
            for y in futures
        ]
        return torch.stack(scores).mean().item()

    both, one, middle = expected(futures), expected(futures[:1]), expected(torch.zeros(1))
    assert both == pytest.approx(0.5, abs=0.01)
    assert one == pytest.approx(1.0, abs=0.01)
    assert middle == pytest.approx(1.0, abs=0.01)


def test_equal_places_have_a_slope_that_is_finite() -> None:
    x = torch.zeros(1, 2, 3, requires_grad=True)
    energy_score(x, torch.zeros(1, 3)).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


# -- rollouts


@pytest.mark.parametrize("discover", ["first", "always"])
@VARIANTS
@torch.no_grad()
def test_the_prior_is_told_what_it_remembers_of_a_track(name: str, discover: Discover) -> None:
    """Its h after the given frames is the one that inference has; and so is its prior."""
    of = model(name)
    frames = video(time=GIVEN + HORIZON)
    objects, known, contexts = of.tracked(frames, discover, None)
    seen = of.propagation.situation.survey(contexts.mu_bg)
    if name != "interaction":  # the background of each frame is another here, and is learned
        objects, known = objects[:2], known[:1]
        seen = seen[:, :1].expand_as(seen)
    tracks = Tracks.of(objects, known, seen[:, 0], len(objects))
    tracks = replace(tracks.full(), o=stack([each.o for each in objects], dim=1))
    start, told = recall(of.propagation, tracks, len(objects))
    torch.testing.assert_close(start.h_prior.h, objects[-1].h_prior.h, atol=2e-3, rtol=1e-2)
    assert told is not None
    want = of.propagation.latent.prior(stack(known, dim=1).h_prior)
    torch.testing.assert_close(told.mean, want.mean, atol=2e-3, rtol=1e-2)
    torch.testing.assert_close(start.o.xy, objects[-1].o.xy)


@torch.no_grad()
def test_slots_of_new_objects_remember_nothing() -> None:
    of = model()
    tracks = observed(of)
    before, _ = recall(of.propagation, tracks, GIVEN)
    after, _ = recall(of.propagation, handed_over(tracks, slot=0, t=GIVEN - 1), GIVEN)
    h_0 = of.propagation.rnn_prior.start(2, 1)
    torch.testing.assert_close(after.h_prior.h[:, :1], h_0.h)
    torch.testing.assert_close(after.h_prior.c[:, :1], h_0.c)
    assert not torch.allclose(before.h_prior.h[:, :1], h_0.h)
    torch.testing.assert_close(after.h_prior.h[:, 1:], before.h_prior.h[:, 1:])


def handed_over(tracks: Tracks, slot: int, t: int) -> Tracks:
    """The same tracks, in which a slot holds another object from frame `t` on."""
    ids = tracks.id.clone()
    ids[:, t:, slot] = ids.max() + 1
    return replace(tracks, id=ids)


@VARIANTS
@torch.no_grad()
def test_the_loss_is_the_naive_one(name: str) -> None:
    """Video by video, rollout by rollout, object by object; one is lost while it is imagined."""
    of = model(name)
    tracks, noise = handed_over(observed(of), slot=1, t=GIVEN + 1), draw(of, 1)
    got = overshoot_terms(of.propagation, tracks, CFG, noise)
    start, told = recall(of.propagation, tracks, GIVEN)
    assert told is not None
    for b in range(2):
        row = slice(b, b + 1)
        x = []
        for i in range(SAMPLES):
            now, imagined = map_tensors(lambda v, r=row: v[r], start), []
            for t in range(HORIZON):
                eps = map_tensors(lambda v, r=row, j=i * HORIZON + t: v[r, j], noise.rollouts)
                now = of.propagation.imagine(now, tracks.seen[row], eps)
                imagined.append(now.o)
            x.append(imagined)
        number, score, kl = tracks.o.pres[b, GIVEN - 1].sum().item(), 0.0, 0.0
        for k in range(3):
            for t in range(HORIZON):
                y = frame(tracks.o, GIVEN + t)

                def one(part: str, t: int = t, of: tuple[int, int] = (b, k), x: Any = x) -> float:
                    b, k = of
                    seen = [getattr(roll[t], part)[0, k] for roll in x]
                    truth = getattr(tracks.o, part)[b, GIVEN + t, k]
                    if part == "depth":
                        seen, truth = [each.sigmoid() for each in seen], truth.sigmoid()
                    return naive_score([each.tolist() for each in seen], truth.tolist())

                look = one("depth") + one("what") / math.sqrt(y.what.shape[-1])
                if tracks.id[b, GIVEN + t, k] == tracks.id[b, GIVEN - 1, k]:
                    score += y.pres[b, k].item() * (one("xy") / 2 + one("hw") + CFG.looks * look)
            for t in range(GIVEN - 1):
                q = Gaussian(tracks.q.mean[b, t, k], tracks.q.std[b, t, k])
                p = Gaussian(told.mean[b, t, k], told.std[b, t, k])
                kl += tracks.o.pres[b, t, k].item() * q.kl(p).sum().item()
        number = max(number, 1)
        assert got["overshoot"][b].item() == pytest.approx(score / number, rel=1e-4)
        assert got["kl_overshoot"][b].item() == pytest.approx(CFG.kl * kl / number, rel=1e-4)


@VARIANTS
@torch.no_grad()
def test_empty_slots_change_nothing(name: str) -> None:
    """The loss of all slots, which a GPU computes, is that of the occupied ones."""
    of, windows = model(name), TOGETHER + 3
    frames = video(batch=windows, time=GIVEN + HORIZON)
    tracks = of.observe(Batch(frames), draw(of, batch=windows)).full()
    there = (torch.rand(windows, 1, 3, 1, generator=generator(2)) > 0.5).float()
    pres = tracks.o.pres * there
    pres[0], pres[1] = 0, 1  # no object, and no empty slot
    tracks = replace(tracks, o=replace(tracks.o, pres=pres))
    noise = draw(of, 1, windows)
    assert any(slots.shape[1] < 3 for _, slots in groups(tracks, GIVEN))
    want = terms_of(of.propagation, tracks, CFG, noise)
    for term, values in overshoot_terms(of.propagation, tracks, CFG, noise).items():
        torch.testing.assert_close(values, want[term], msg=term)


@torch.no_grad()
def test_a_prior_that_foresees_the_track_loses_nothing() -> None:
    cfg = replace(CFG, samples=0, kl=0.0)
    of = model(cfg=cfg)
    tracks, noise = observed(of), draw(of)
    assert not any(values.any() for values in tensors(noise))
    start, _ = recall(of.propagation, tracks, GIVEN)
    ahead = rollouts(of.propagation, start, tracks.seen, noise.rollouts, CFG)
    told = map_tensors(lambda values: values[:, :GIVEN], tracks.o)
    o = map_tensors(lambda a, b: torch.cat([a, b[:, 0]], dim=1), told, ahead)
    terms = overshoot_terms(of.propagation, replace(tracks, o=o), cfg, noise)
    assert terms.keys() == {"overshoot"}
    assert terms["overshoot"].tolist() == [0, 0]
    o.xy[:, GIVEN:] += torch.tensor([0.6, 0.8])
    away = overshoot_terms(of.propagation, replace(tracks, o=o), cfg, noise)["overshoot"]
    assert (away > 0.1).all()


@VARIANTS
def test_only_the_priors_networks_learn(name: str) -> None:
    of = model(name)
    of.loss_of(observed(of), draw(of)).total.backward()
    prior = {id(p) for net in of.propagation.networks_of_prior() for p in net.parameters()}
    for each, param in of.named_parameters():
        learns = param.grad is not None and bool(param.grad.any())
        assert learns == (id(param) in prior), each
        assert param.requires_grad


def test_no_object_has_a_gradient_far_above_that_of_the_others() -> None:
    x = torch.randn(4, 5, 3, generator=generator(0)).requires_grad_()
    passed = torch.randn(4, 5, 3, generator=generator(1)) * 0.1
    passed[0, 0], passed[1, 1] = 100.0, 0.0  # a wild object, and one that is not there
    (grad,) = torch.autograd.grad(calmed(x, 1.0, 2.0), x, passed)

    norms = [row.norm().item() for row in passed.flatten(0, 1)]
    some = [norm for norm in norms if norm]
    typical = math.prod(some) ** (1 / len(some))
    for before, after, norm in zip(passed.flatten(0, 1), grad.flatten(0, 1), norms, strict=True):
        share = min(1.0, 2 * typical / norm) if norm else 1.0
        torch.testing.assert_close(after, before * share)
    assert grad.norm(dim=-1).max() < 100 < passed.norm(dim=-1).max()
    torch.testing.assert_close(calmed(x, 0.5, 2.0), x, rtol=0, atol=0)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_gradients_shrink_from_frame_to_frame_and_values_do_not(decay: float) -> None:
    of = model()
    tracks = observed(of)
    start, _ = recall(of.propagation, tracks, GIVEN)

    def ahead(decay: float) -> tuple[Tensor, list[Tensor]]:
        z_state = start.z_state.detach().requires_grad_()
        told = (replace(start, z_state=z_state), tracks.seen, draw(of).rollouts)
        x = rollouts(of.propagation, *told, replace(CFG, decay=decay)).xy
        frames = (x[:, :, t].sum() for t in range(HORIZON))
        return x, [torch.autograd.grad(each, z_state, retain_graph=True)[0] for each in frames]

    (x, slopes), (y, others) = ahead(1.0), ahead(decay)
    assert torch.equal(x, y)
    assert slopes[-1].any()
    for t, (slope, other) in enumerate(zip(slopes, others, strict=True)):
        torch.testing.assert_close(other, decay**t * slope)


def test_no_posterior_depends_on_what_learns() -> None:
    of = model()
    before = observed(of)
    with torch.no_grad():
        for net in of.propagation.networks_of_prior():
            for param in net.parameters():
                param.add_(0.1)
    for a, b in zip(tensors(before), tensors(observed(of)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
def test_it_lowers_the_error_of_rollouts_it_has_not_seen_the_noise_of() -> None:
    of = model(cfg=replace(CFG, kl=0.0))
    tracks, params = observed(of), list(of.propagation.parameters())
    adam = torch.optim.Adam(params, lr=3e-3)

    @torch.no_grad()
    def error() -> float:
        start, _ = recall(of.propagation, tracks, GIVEN)
        noise = map_tensors(torch.zeros_like, draw(of).rollouts)
        x = rollouts(of.propagation, start, tracks.seen, noise, CFG)
        return (x.xy[:, 0] - tracks.o.xy[:, GIVEN:]).norm(dim=-1).mean().item()

    first = error()
    for step in range(100):
        adam.zero_grad()
        of.loss_of(tracks, draw(of, 100 + step)).total.backward()
        adam.step()
    assert error() < 0.7 * first


# -- beside the ELBO

JOINT = Overshooting(joint=50.0, joint_starts=2, joint_horizon=2)


def drawn_for(of: GSWM, time: int) -> GSWMNoise:
    noise = of.noise(2, Stage(time), generator(4))
    assert isinstance(noise, GSWMNoise)
    return noise


@pytest.mark.parametrize("name", ["interaction", "maze"])
@torch.no_grad()
def test_the_term_beside_the_elbo_is_the_naive_one(name: str) -> None:
    """The windows contain objects that appear and disappear."""
    of, time = model(name, JOINT), 6
    noise = drawn_for(of, time)
    drawn, horizon = noise.rollouts, JOINT.joint_horizon
    assert drawn is not None
    contexts = of.context.infer(of.context.start(2), noise.context, video(time=time))
    objects, _ = of.track(video(time=time), contexts, noise)
    objects[3].id[0, 1] = 77
    objects[2].id[1] = NOBODY
    survey = of.propagation.situation.survey(contexts.mu_bg)
    got = joint_term(of.propagation, objects, survey, JOINT, drawn)
    for b in range(2):
        row, total = slice(b, b + 1), 0.0
        for s in range(2):
            t0 = 1 + math.floor(drawn.start[b, s].item() * (time - 1 - horizon))
            begin = map_tensors(lambda v, r=row: v[r], objects[t0])
            x = []
            for i in range(SAMPLES):
                now, imagined = begin, []
                for t in range(horizon):
                    j = (s * SAMPLES + i) * horizon + t
                    eps = map_tensors(lambda v, r=row, j=j: v[r, j], drawn.propagation)
                    now = of.propagation.imagine(now, survey[row, t0], eps)
                    imagined.append(now.o)
                x.append(imagined)
            real = [k for k in range(3) if begin.id[0, k] != NOBODY]
            number = max(1.0, sum(begin.o.pres[0, k].item() for k in real))
            for k in real:
                for t in range(horizon):
                    y = map_tensors(lambda v, r=row: v[r], objects[t0 + 1 + t])
                    if y.id[0, k] == begin.id[0, k]:
                        ahead = map_tensors(lambda *v: torch.stack(v, dim=1), *(r[t] for r in x))
                        worth = score(ahead, y.o, JOINT.looks)[0, k].item()
                        total += y.o.pres[0, k].item() * worth / number
        assert got[b].item() == pytest.approx(50 * total / 2, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("decoder", [False, True])
def test_rollouts_beside_the_elbo_teach_the_prior_and_maybe_the_decoder(decoder: bool) -> None:
    with_them = model("maze", replace(JOINT, joint_decoder=decoder))
    without = model("maze", Overshooting())
    frames, losses = video(time=5), []
    for of in (with_them, without):
        loss = of.loss(Batch(frames), drawn_for(of, 5), torch.tensor(0), Stage(5))
        loss.total.backward()
        losses.append(loss)
    extra = losses[0].terms["overshoot"]
    torch.testing.assert_close(losses[0].total, losses[1].total + extra)
    changed: set[str] = set()
    for (name, a), b in zip(with_them.named_parameters(), without.parameters(), strict=True):
        if not torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-6 * b.grad.abs().max().item()):
            changed.add(".".join(name.split(".")[:3]))
    decoding = {"propagation.latent.mlp_att"} if decoder else set[str]()
    assert {n for n in changed if not n.startswith("propagation.rnn_prior")} == {
        "propagation.latent.mlp_state_prior"
    } | decoding
    assert "propagation.rnn_prior.rnn_os" in changed


@pytest.mark.parametrize(("length", "frames"), [(1, 0), (2, 0), (3, 1), (4, 2), (9, 2)])
def test_short_windows_have_short_rollouts_or_none(length: int, frames: int) -> None:
    of = model(cfg=JOINT)
    noise = drawn_for(of, length)
    assert (noise.rollouts is not None) == (frames > 0)
    loss = of.loss(Batch(video(time=length)), noise, torch.tensor(0), Stage(length))
    assert ("overshoot" in loss.terms) == (frames > 0)
    if noise.rollouts is not None:
        assert noise.rollouts.propagation.pres.shape[1] == 2 * SAMPLES * frames


@pytest.mark.parametrize("decoder", [False, True])
def test_the_fast_path_gives_the_same_gradients_beside_the_elbo(decoder: bool) -> None:
    cfg = replace(JOINT, joint_decoder=decoder)
    one, other = model("maze", cfg), model("maze", cfg)
    noise, frames = drawn_for(one, 5), video(time=5)
    Deferred(one)(lambda: one.loss(Batch(frames), noise, torch.tensor(0), Stage(5)))
    other.loss(Batch(frames), noise, torch.tensor(0), Stage(5)).total.backward()
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        atol = 1e-4 * b.grad.abs().max().item() + 1e-4
        assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=atol), name


# -- training


def late(steps: int = 8, **changes: Any) -> Recipe:
    """Four steps of the ELBO, then rollouts: four windows a step, those of two steps."""
    one = small(steps, **changes)
    cfg = replace(CFG, start=4, batch=3, windows=6, given=2, horizon=2)
    schedule = replace(one.model.schedule, overshoot=cfg)
    return replace(one, model=replace(one.model, schedule=schedule))


@pytest.mark.slow
@pytest.mark.usefixtures("small_trunk")
@pytest.mark.parametrize("at", [3, 4, 5, 7])
def test_a_run_goes_on_where_only_the_prior_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    whole, again = tmp_path / "whole", tmp_path / "again"
    trained_once(late(), whole)
    with monkeypatch.context() as patch:
        stop_after(patch, at)
        assert train_here(late(), again).trainee.step == at
    assert train_here(late(), again).trainee.step == 8
    assert state_of(again) == state_of(whole)
    assert metrics_of(again) == metrics_of(whole)
    lines = [line for line in metrics_of(whole) if "loss" in line]
    assert ["overshoot" in line for line in lines] == [False, False, True, True]


@pytest.mark.usefixtures("small_trunk")
def test_the_posterior_stays_and_adam_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train_here(late(4), tmp_path / "elbo")
    before = {name: value.clone() for name, value in run.trainee.model.state_dict().items()}
    seen: list[int] = []
    observe = GSWM.observe
    monkeypatch.setattr(
        GSWM, "observe", lambda self, b, n: (seen.append(len(b.video)), observe(self, b, n))[1]
    )
    start = late(8, start=str(tmp_path / "elbo" / "last.safetensors"))
    one = train_here(from_the_start(start), tmp_path / "run")
    prior = [f"propagation.{name}" for name in ("rnn_prior", "latent.mlp_state_prior")]
    after = one.trainee.model.state_dict()
    moved = {name for name in before if not torch.equal(after[name], before[name])}
    learns = {name for name in before if name.startswith(tuple(prior))}
    # A softmax does not depend on what is added to all of its logits.
    assert moved | {"propagation.rnn_prior.interaction.mlp_weight.4.bias"} == learns
    assert seen == [4, 4]  # once for each of two steps, rounded up from 3 to two batches
    kept = [tensor.shape[0] for tensor in tensors(one.trainee.observed)]
    assert set(kept) == {4}
    nets = one.trainee.model.propagation.networks_of_prior()
    assert {id(p) for p in one.trainee.adam.state} == {
        id(p) for net in nets for p in net.parameters()
    }


def from_the_start(one: Recipe) -> Recipe:
    schedule = one.model.schedule
    schedule = replace(schedule, overshoot=replace(schedule.overshoot, start=0))
    return replace(one, model=replace(one.model, schedule=schedule))


@pytest.mark.usefixtures("small_trunk")
def test_the_fast_path_learns_the_same_from_rollouts(tmp_path: Path) -> None:
    one, other = (
        train_here(from_the_start(late(5)), tmp_path / make.__name__, trainee=make)
        for make in (Trainee, FastTrainee)
    )
    assert isinstance(other.trainee, FastTrainee)
    theirs = other.trainee.model.state_dict()
    for name, value in one.trainee.model.state_dict().items():
        assert torch.equal(value, theirs[name]), name


@pytest.mark.usefixtures("small_trunk")
def test_processes_share_windows_and_noise() -> None:
    """One after the other, they have what one process has."""
    one, device = from_the_start(late()), torch.device("cpu")

    def seen(processes: Processes) -> list[Tensor]:
        torch.manual_seed(0)
        loader = training_loader(one, device, processes)
        how: dict[str, Any] = {"seed": 0, "device": device, "processes": processes}
        trainee = Trainee(build(one), loader, one.train, **how)
        trainee.enter(trainee.model.stage(0))
        trainee.observe(1)
        return tensors((trainee.observed, trainee.noise()))

    alone = seen(Processes())
    parts = [seen(Processes(rank, 2)) for rank in range(2)]
    assert {len(tensor) for tensor in alone} == {4}
    for whole, *halves in zip(alone, *parts, strict=True):
        torch.testing.assert_close(torch.cat(halves), whole)


@pytest.mark.usefixtures("small_trunk")
def test_what_adam_remembers_is_forgotten_when_the_prior_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: dict[int, set[float]] = {}
    advance = Trainee.advance

    def watched(self: Trainee) -> None:
        advance(self)
        steps[self.step] = {float(state["step"]) for state in self.adam.state.values()}

    monkeypatch.setattr(Trainee, "advance", watched)
    train_here(late(), tmp_path / "run")
    assert max(steps[4]) == 4
    assert [steps[step] for step in (5, 8)] == [{1.0}, {4.0}]


@pytest.mark.parametrize("later", [1.0, 0.3])
@pytest.mark.parametrize("anew", [None, 0, 15, 30, 40, 60])
def test_the_rate_rises_and_falls_anew(anew: int | None, later: float) -> None:
    schedule = Schedule(overshoot=Overshooting(anew, rate=later))
    cfg = TrainConfig(steps=40, warmup=4, lr=0.3, last_lr=0.1)
    turn = 40 if anew is None else min(anew, 40)
    for step in range(45):
        first, length = (0, turn) if step < turn or turn == 40 else (turn, 40 - turn)
        share = min(1.0, (step - first) / length)
        rate = 0.3 * min(1, (step - first + 1) / 4)
        rate *= 0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2
        rate *= later if turn < 40 and step >= turn else 1
        got = cfg.lr * rate_share(torch.tensor(step), cfg, schedule)
        assert got.item() == pytest.approx(rate, abs=1e-6)


# -- settings


@settings(max_examples=10)
@given(st.integers(0, 20))
def test_rollouts_begin_at_their_step(start: int) -> None:
    schedule = Schedule(lengths=((0, 2), (5, 40)), overshoot=replace(CFG, start=start))
    for step in range(25):
        stage = schedule.stage(step)
        assert isinstance(stage, OvershootStage) == (step >= start)
        if step >= start:
            assert (stage.length, stage.repeats, stage.batch) == (GIVEN + HORIZON, 2, 2)
            assert not stage.through_frames
    assert (schedule.needed(10**9), schedule.anew) == (40, start)
    short = replace(schedule, lengths=((0, 2),))
    assert [short.needed(steps) for steps in (start, start + 1)] == [2, GIVEN + HORIZON]
    steady = schedule.steady(7)
    assert steady.stage(10**9) == Schedule(lengths=((0, 7),)).stage(0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"start": -1}, "overshoot.start is -1"),
        ({"given": 0}, "overshoot.given is 0"),
        ({"horizon": 0}, "overshoot.horizon is 0"),
        ({"windows": 1}, "overshoot.windows is 1: it must be at least 2"),
        ({"limit": -1.0}, "overshoot.limit is -1.0: it must be at least 0"),
        ({"decay": 1.5}, "overshoot.decay is 1.5: it must be at most 1"),
        ({"samples": -1}, "overshoot.samples is -1"),
        ({"joint_starts": 0}, "overshoot.joint-starts is 0"),
        ({"kl": float("nan")}, "overshoot.kl is nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        model(cfg=replace(CFG, **wrong))


@pytest.mark.usefixtures("small_trunk")
def test_videos_too_short_for_rollouts_are_refused(tmp_path: Path) -> None:
    one = late()
    cfg = replace(one.model.schedule.overshoot, horizon=500)
    one = replace(
        one, model=replace(one.model, schedule=Schedule(overshoot=cfg, lengths=((0, 2),)))
    )
    with pytest.raises(
        UserError, match=r"overshooting needs 502: lower --model\.schedule\.overshoot"
    ):
        train_here(one, tmp_path / "run")


@pytest.mark.parametrize("name", [name for name in RECIPES if name.endswith("-elbo")])
def test_a_recipe_of_the_elbo_alone_is_the_other_without_its_rollouts(name: str) -> None:
    alone, whole = recipe(name), recipe(name.removesuffix("-elbo"))
    start = whole.model.schedule.overshoot.start
    assert alone.train.steps == start == whole.model.schedule.anew
    assert whole.train.steps > start
    assert alone.model.schedule.overshoot == Overshooting()
    schedule = replace(alone.model.schedule, overshoot=whole.model.schedule.overshoot)
    model = replace(alone.model, schedule=schedule)
    assert replace(alone, name=whole.name, model=model, train=whole.train) == whole
    assert whole.model.schedule.overshoot.given == whole.data.given
