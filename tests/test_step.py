"""One training step: learning rate, noise, stages and clipping."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from training import small, train_here

from gswm.core.errors import UserError
from gswm.core.records import tensors
from gswm.core.schedule import Curriculum
from gswm.data.batches.batch import Batch
from gswm.data.worlds.registry import world
from gswm.fast.trainee import FastTrainee, accelerate
from gswm.models.base import Loss, WorldModel
from gswm.models.recipe import TrainConfig
from gswm.models.registry import build
from gswm.train.distributed import Processes
from gswm.train.launch import training_loader
from gswm.train.step import (
    REPORTED,
    Trainee,
    check_names,
    clip_gradients,
    clip_groups,
    noise_seed,
    rate_share,
)

pytestmark = pytest.mark.usefixtures("small_trunk")


def trainee(**changes: object) -> Trainee:
    one, device = small(**changes), torch.device("cpu")
    torch.manual_seed(one.seed)
    return Trainee(
        build(one),
        training_loader(one, device, Processes()),
        one.train,
        seed=one.seed,
        device=device,
        processes=Processes(),
    )


@pytest.mark.parametrize("warmup", [0, 1, 10])
@pytest.mark.parametrize("last_lr", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("background_only", [0, 4, 15])
def test_the_rate_rises_in_a_line_and_falls_along_a_cosine(
    warmup: int, last_lr: float, background_only: int
) -> None:
    """It rises once more after the steps in which only the background learns."""
    cfg = TrainConfig(steps=40, warmup=warmup, lr=0.3, last_lr=last_lr)
    for step in range(50):
        rate = 0.3
        since = step if step < background_only else step - background_only
        if since < warmup:
            rate = rate * (since + 1) / warmup
        angle = math.pi * min(step, 40) / 40
        rate *= last_lr + (1 - last_lr) * (1 + math.cos(angle)) / 2
        got = cfg.lr * rate_share(
            torch.tensor(step), cfg, Curriculum(background_only=background_only)
        )
        assert got.item() == pytest.approx(rate, abs=1e-7)


def test_a_step_is_taken_at_the_rate_of_its_own_number() -> None:
    one = trainee()
    for step in range(3):
        one.advance()
        assert one.lr == one.cfg.lr * rate_share(torch.tensor(step), one.cfg, Curriculum())
        assert one.clock == one.step == step + 1


@given(seed=st.integers(0, 2**40), step=st.integers(0, 2**40))
def test_the_seed_of_the_noise_follows_from_seed_and_step(seed: int, step: int) -> None:
    assert 0 <= noise_seed(seed, step) == noise_seed(seed, step) < 2**63
    assert noise_seed(seed, step) not in (noise_seed(seed + 1, step), noise_seed(seed, step + 1))


def test_no_two_steps_or_seeds_have_the_same_noise() -> None:
    seeds = [noise_seed(seed, step) for seed in range(20) for step in range(100)]
    assert len(set(seeds)) == len(seeds)


def test_noise_depends_on_nothing_that_came_before() -> None:
    seen: dict[int, list[Tensor]] = {}

    def watch(one: Trainee) -> Trainee:
        draw = one.model.noise

        def watched(*args: object) -> object:
            noise = draw(*args)
            seen.setdefault(one.step, []).extend(tensors(noise)[:1])
            return noise

        one.model.noise = watched
        return one

    first, later = watch(trainee()), watch(trainee())
    for _ in range(3):
        first.advance()
    later.step = 2
    torch.manual_seed(99)
    later.advance()
    assert torch.equal(*seen[2])
    assert not torch.equal(seen[0][0], seen[2][0])


def test_gradients_are_clipped_together_and_by_their_norm() -> None:
    one = trainee(clip=0.5)

    def backward() -> Loss:
        for i, param in enumerate(one.params):
            param.grad = torch.full_like(param, (-1.0) ** i * (1 + i % 3))
        zero = torch.zeros(())
        return Loss(zero, {}, {})

    one.backward = backward
    one.advance()
    squares = sum(param.numel() * (1 + i % 3) ** 2 for i, param in enumerate(one.params))
    assert one.means()["gradient"] == pytest.approx(math.sqrt(squares), rel=1e-5)
    clipped = math.sqrt(sum(param.grad.square().sum().item() for param in one.params))
    assert clipped == pytest.approx(0.5, rel=1e-4)
    for i, param in enumerate(one.params):
        want = (-1.0) ** i * (1 + i % 3) * 0.5 / math.sqrt(squares)
        torch.testing.assert_close(param.grad, torch.full_like(param, want), rtol=1e-3, atol=0)


def test_each_part_is_clipped_by_its_own_norm_as_torch_does() -> None:
    one, other = trainee(clip=0.5, clip_by="part"), trainee(clip=1e12)
    for each in (one, other):
        each.advance()
    parts = other.model.parts()
    assert set(parts) == {"discovery", "posterior", "prior", "drawing"}
    norms = {}
    for name, modules in parts.items():
        params = [param for module in modules for param in module.parameters()]
        norms[name] = torch.nn.utils.clip_grad_norm_(params, 0.5).item()
    assert min(norms.values()) > 0.5
    for ours, theirs in zip(one.params, other.params, strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad)
    means = one.means()
    for name, norm in norms.items():
        assert means[f"gradient_{name}"] == pytest.approx(norm, rel=1e-5)
    total = math.sqrt(sum(norm**2 for norm in norms.values()))
    assert means["gradient"] == pytest.approx(total, rel=1e-5)


def test_every_parameter_is_in_one_part() -> None:
    model = build(small())
    groups = clip_groups(model, TrainConfig(clip_by="part"))
    assert "rest" not in groups
    together = [id(param) for params in groups.values() for param in params]
    assert sorted(together) == sorted(map(id, model.parameters()))
    assert {id(p) for p in groups["prior"]}.isdisjoint(
        id(p) for p in model.propagation.rnn_post.parameters()
    )
    assert list(clip_groups(model, TrainConfig())) == ["rest"]


def test_what_is_in_no_part_or_in_several_is_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(small())
    a, b, c = model.discovery, model.propagation, model.renderer
    monkeypatch.setattr(model, "parts", lambda: {"a": [a, b], "b": [b, a.mlp_disc]})
    groups = clip_groups(model, TrainConfig(clip_by="part"))
    mixed = {id(p) for module in (b, a.mlp_disc, c) for p in module.parameters()}
    assert {id(p) for p in groups["rest"]} == mixed
    assert set(groups) == {"a", "rest"}


def test_a_part_without_gradients_has_no_norm() -> None:
    with_one, without = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    with_one.grad = torch.tensor([3.0, 4.0])
    norms = clip_gradients({"a": [with_one], "b": [without]}, 1.0)
    assert {name: value.item() for name, value in norms.items()} == {"gradient": 5, "gradient_a": 5}
    torch.testing.assert_close(with_one.grad, torch.tensor([0.6, 0.8]))


def test_frozen_parts_keep_their_weights_and_the_others_learn() -> None:
    one = trainee(frozen=("discovery",))
    before = {name: param.clone() for name, param in one.model.named_parameters()}
    one.advance()
    moved = {name for name, param in one.model.named_parameters() if not param.equal(before[name])}
    assert not any(name.startswith("discovery.") for name in moved)
    assert any(name.startswith("renderer.") for name in moved)
    with pytest.raises(UserError, match="discovery"):
        trainee(frozen=("eyes",))


def test_small_gradients_are_left_as_they_are() -> None:
    one = trainee(clip=1e12)
    one.advance()
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in one.params if p.grad is not None))
    assert one.means()["gradient"] == pytest.approx(norm, rel=1e-4)


def test_weights_move_as_adam_says() -> None:
    one = trainee()
    mean, square = ([torch.zeros_like(p) for p in one.params] for _ in range(2))
    for step in range(3):
        before = [p.detach().clone() for p in one.params]
        one.advance()
        rate = one.cfg.lr * rate_share(torch.tensor(step), one.cfg, Curriculum()).item()
        for i, param in enumerate(one.params):
            if param.grad is None:
                assert torch.equal(param, before[i])
                continue
            mean[i] = 0.9 * mean[i] + 0.1 * param.grad
            square[i] = 0.999 * square[i] + 0.001 * param.grad.square()
            m, s = mean[i] / (1 - 0.9 ** (step + 1)), square[i] / (1 - 0.999 ** (step + 1))
            torch.testing.assert_close(
                param.detach(), before[i] - rate * m / (s.sqrt() + 1e-8), rtol=1e-4, atol=1e-6
            )


def test_stages_change_at_their_steps() -> None:
    one, lengths = trainee(), []
    batch = one.loader.batch

    def watched(step: int, length: int) -> Batch:
        lengths.append(length)
        return batch(step, length)

    one.loader.batch = watched
    for _ in range(6):
        one.advance()
    assert lengths == [2, 2, 2, 2, 3, 3]


def test_means_are_of_the_steps_since_they_were_forgotten_and_of_one_stage() -> None:
    one, losses = trainee(), []
    plain = one.backward

    def backward() -> Loss:
        losses.append(plain())
        return losses[-1]

    one.backward = backward
    assert one.means() == {}
    for _ in range(3):
        one.advance()
    want = sum(loss.total.item() for loss in losses) / 3
    assert one.means()["loss"] == pytest.approx(want)
    assert one.means()["loss"] == pytest.approx(want)
    one.forget()
    assert one.means() == {}
    for _ in range(2):
        one.advance()
    assert one.means()["loss"] == pytest.approx(losses[-1].total.item())


def test_every_window_is_the_worlds() -> None:
    one = trainee()
    there = world("single-ball")
    episodes = next(iter(there.episodes(there.splits["train"].seed, 4))).video
    for step in range(3):
        which, start = one.loader.windows.at(step, 2)
        for row, (e, s) in enumerate(zip(which.tolist(), start.tolist(), strict=True)):
            assert torch.equal(one.loader.batch(step, 2).video[row], episodes[e, s : s + 2])


@pytest.mark.parametrize("name", sorted(REPORTED | {"gradient_prior"}))
def test_a_term_that_a_report_would_mix_up_is_refused(name: str) -> None:
    zero = torch.zeros(2)
    for loss in (Loss.of({name: zero}, {}), Loss.of({"error": zero}, {name: zero[0]})):
        with pytest.raises(UserError, match=f"'{name}' is a reserved name in reports"):
            check_names(loss)


def test_a_model_without_parameters_is_not_trained(tmp_path: Path) -> None:
    def frozen(model: WorldModel, *args: Any, **how: Any) -> Trainee:
        return Trainee(model.requires_grad_(False), *args, **how)

    with pytest.raises(UserError, match="GSWM has no parameters to train"):
        train_here(small(), tmp_path / "run", trainee=frozen)
    assert not (tmp_path / "run").exists()


def test_the_fast_path_is_for_gpus_and_the_cpu_takes_the_plain_one(
    tmp_path: Path,
) -> None:
    run = train_here(small(1), tmp_path / "run", trainee=accelerate())
    assert type(run.trainee) is Trainee


def test_a_model_that_names_no_recurrent_methods_takes_the_plain_path_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The device is only named here: no model is moved to it."""
    made: list[type] = []
    for each in (Trainee, FastTrainee):
        monkeypatch.setattr(each, "__init__", lambda self, *_, **__: made.append(type(self)))
    model = build(small())
    how = {"seed": 0, "device": torch.device("cuda"), "processes": Processes()}
    loader = training_loader(small(), torch.device("cpu"), Processes())
    accelerate()(model, loader, small().train, **how)
    monkeypatch.setattr(type(model), "recurrent", lambda self: [])
    accelerate()(model, loader, small().train, **how)
    assert made == [FastTrainee, Trainee]
