"""Known failures of a training cause one helpful warning; healthy runs cause none."""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from training import arguments, small, stop_after, train_here

from gswm.cli import main
from gswm.core.schedule import Curriculum
from gswm.core.settings import to_dict
from gswm.models.base import ModelConfig
from gswm.models.registry import RECIPES
from gswm.train import launch
from gswm.train.checkpoint import load_newest
from gswm.train.diagnostics import CHECKS, PATIENCE, Diagnostics, NonFiniteError
from gswm.train.step import Trainee


def report(step: int, **values: float) -> dict[str, float]:
    usual = {"loss": -9000.0, "objects": 6.0, "squared_error": 0.01, "kl_context": 0.0}
    return {"step": float(step)} | usual | values


def said(lines: list[dict[str, float]], begin: int = 1_000, model: Any = None) -> list[str]:
    """The names of all that was said."""
    diagnostics = Diagnostics(max_objects=30, begin=begin, model=model)
    sentences = {check.sentence(model): check.name for check in CHECKS}
    return [sentences[text] for each in lines for text in diagnostics.look(each)]


def validation(step: int, objects: float, true: float = 6.0) -> dict[str, float]:
    names = ("step", "validation_objects", "validation_true_objects")
    return dict(zip(names, (float(step), objects, true), strict=True))


STEPS = range(1_100, 4_100, 100)
LONG = range(1_100, 16_100, 100)
FAILURES = {
    "foreground": [report(step, objects=0.0) for step in STEPS],
    "background": [report(step, objects=0.01, kl_context=40.0) for step in STEPS],
    "slots": [report(step, objects=29.0) for step in STEPS],
    "drift": [report(s, objects=6 + 14 * i / len(LONG)) for i, s in enumerate(LONG)],
    "lost": [report(s, objects=6 - 5 * i / len(LONG)) for i, s in enumerate(LONG)],
    "exploding": [report(s, loss=-2e4 if i < 9 else 1.5e5) for i, s in enumerate(STEPS)],
    "twice": [validation(step, 12.0) for step in STEPS],
    "missed": [validation(step, 4.0) for step in STEPS],
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_said_once_with_its_sentence(name: str) -> None:
    assert said(FAILURES[name]) == [name]


def test_every_check_has_a_test() -> None:
    assert set(FAILURES) == {check.name for check in CHECKS}


@pytest.mark.parametrize("name", ["foreground", "background", "slots"])
def test_what_does_not_last_is_not_said(name: str) -> None:
    bad, good = FAILURES[name], [report(step) for step in STEPS]
    mixed = [b if i % PATIENCE else g for i, (b, g) in enumerate(zip(bad, good, strict=True))]
    assert said(mixed) == []
    assert said(bad[: PATIENCE - 1]) == []
    assert said(bad[:PATIENCE]) == [name]


@pytest.mark.parametrize("name", ["twice", "missed"])
def test_two_validations_must_agree(name: str) -> None:
    bad, good = FAILURES[name], [validation(step, 6.0) for step in STEPS]
    assert said([b if i % 2 else g for i, (b, g) in enumerate(zip(bad, good, strict=True))]) == []
    assert said(bad[:1]) == []
    assert said(bad[:2]) == [name]


@pytest.mark.parametrize("name", FAILURES)
def test_the_first_steps_are_left_in_peace(name: str) -> None:
    early = [{**each, "step": each["step"] - 1_100} for each in FAILURES[name][:10]]
    assert said(early) == []
    assert said(FAILURES[name], begin=20_000) == []


def test_a_slow_drift_is_said_though_pixels_get_better_as_they_do_in_training() -> None:
    run = FAILURES["drift"]
    run = [{**r, "squared_error": 0.0018 * 3 ** (-i / len(run))} for i, r in enumerate(run)]
    assert said(run) == ["drift"]


@pytest.mark.parametrize("left_out", ["objects", "squared_error"])
def test_a_model_that_reports_less_is_told_of_its_loss_alone(left_out: str) -> None:
    lines = [{k: v for k, v in line.items() if k != left_out} for line in FAILURES["exploding"]]
    assert said(lines) == ["exploding"]


@dataclass(frozen=True)
class Deviation(Curriculum):
    likelihood_std: float = 0.2


def test_a_model_that_does_not_anneal_its_deviation_is_looked_at() -> None:
    model = ModelConfig(schedule=Deviation())
    assert said(FAILURES["exploding"], model=model) == ["exploding"]


def test_where_nothing_helps_only_the_failure_is_said() -> None:
    sentences = {check.name: check.sentence(ModelConfig()) for check in CHECKS}
    assert sentences["drift"].endswith("objects are found twice")


def test_objects_that_are_found_late_are_no_drift() -> None:
    """As in mazes: no agents, then half, then all of them; each improves the pixels."""
    found = [(0.0, 0.0179), (1.8, 0.0106), (3.5, 0.002)]
    run = [
        report(step, objects=found[i // 10][0], squared_error=found[i // 10][1], kl_context=0.0)
        for i, step in enumerate(STEPS)
    ]
    assert said(run) == ["foreground"]


def test_duplicates_that_vanish_are_no_loss() -> None:
    run = [
        report(s, objects=15 - i / 3, squared_error=0.01 - i / 5_000) for i, s in enumerate(STEPS)
    ]
    assert said(run) == []


@pytest.mark.parametrize("objects", [6.0, 1.0])
def test_pixels_that_are_much_worse_are_said_where_the_loss_hides_it(objects: float) -> None:
    """With σ = 1, the loss hardly depends on pixels; the reason is printed only once."""
    run = [
        report(s, loss=113_000.0, objects=6.0, squared_error=0.001)
        if i < 9
        else report(s, loss=113_900.0, objects=objects, squared_error=0.01)
        for i, s in enumerate(STEPS)
    ]
    assert said(run) == ["exploding" if objects == 6 else "lost"]


@pytest.mark.slow
@pytest.mark.parametrize("every", [100, 300, 500, 900])
def test_a_loss_that_jumps_by_design_is_left_in_peace(every: int) -> None:
    """As in the ablations of mazes: T grows from 1 to 10, and then σ from 0.1 to 1."""
    model = RECIPES["maze-no-sa"]().model
    losses = []
    for step in range(24_000):
        sigma = 0.1 + 0.9 * min(1, max(0, (step - 10_000) / 2_000))
        pixel = math.log(sigma * math.sqrt(2 * math.pi)) + 0.001 / (2 * sigma**2)
        losses.append(model.schedule.stage(step).length * 64 * 64 * 3 * pixel)
    run = [
        report(step, loss=sum(losses[step - every : step]) / every, objects=3.5)
        for step in range(every, 24_001, every)
    ]
    assert min(r["loss"] for r in run) < -100_000
    assert max(r["loss"] for r in run) > 100_000
    assert said(run, model=model) == []
    assert said(run) == ["exploding"]
    run[-9:] = [{**r, "loss": 2 * r["loss"]} for r in run[-9:]]
    assert said(run, model=model) == ["exploding"]


def test_validations_that_do_not_know_the_truth_say_nothing() -> None:
    run = [{"step": float(step), "validation_error": 0.1} for step in STEPS]
    assert said(run) == said([validation(step, 3.0, true=0.0) for step in STEPS]) == []


def test_what_was_said_of_reports_is_not_said_again_of_validations() -> None:
    assert said([*FAILURES["lost"], *FAILURES["missed"]]) == ["lost"]


def test_a_run_that_goes_on_knows_its_past() -> None:
    past, rest = FAILURES["lost"][:40], FAILURES["lost"][-20:]
    diagnostics = Diagnostics(max_objects=30)
    for line in [*past, {"step": 5_000.0, "validation_center_error": None}]:
        diagnostics.remember(line)
    assert [text for each in rest for text in diagnostics.look(each)]
    assert said(rest) == []


def test_long_runs_are_remembered_in_part() -> None:
    diagnostics = Diagnostics(max_objects=30)
    for step in range(5_000):
        diagnostics.look(report(step))
    steps = [r["step"] for r in diagnostics.history]
    assert len(steps) <= 200
    assert steps[0] == 0
    assert steps[-100:] == list(range(4_900, 5_000))
    assert steps == sorted(set(steps))


def test_a_run_that_learns_is_left_in_peace() -> None:
    """As in the two-layer recipe: many objects at first, then six, and longer videos."""
    run = []
    for step in range(100, 24_100, 100):
        length = 2 if step <= 1_500 else 6 if step <= 4_000 else 12 if step <= 9_000 else 20
        objects = 6 + 3.0 * 0.5 ** (step / 1_000) if step > 300 else step / 60
        loss = -3_000.0 * length * (1 - 0.7 ** (step / 500))
        error = 0.04 * 0.7 ** (step / 500) + 1e-3
        run.append(report(step, objects=objects, loss=loss, squared_error=error))
    assert said(run) == []


@given(noise=st.lists(st.floats(-1, 1), min_size=30, max_size=30))
def test_noise_about_a_good_state_is_no_failure(noise: list[float]) -> None:
    run = [
        report(step, objects=6 + n / 2, loss=-9000 + 500 * n, squared_error=0.01 + n / 500)
        for step, n in zip(STEPS, noise, strict=True)
    ]
    assert said(run) == []


@pytest.mark.parametrize(
    "recipe", ["maze", "scalor-interaction", "silot-interaction", "sqair-digits"]
)
def test_every_setting_that_a_sentence_names_exists(recipe: str) -> None:
    def paths(values: dict, before: str = "--") -> set[str]:
        found = set()
        for key, value in values.items():
            name = before + key.replace("_", "-")
            found |= paths(value, name + ".") | {name + ".*"} if isinstance(value, dict) else {name}
        return found

    chosen = RECIPES[recipe]()
    settings = paths(to_dict(chosen))
    sentences = [check.sentence(chosen.model) for check in CHECKS]
    with pytest.raises(NonFiniteError) as caught:
        Diagnostics(3, model=chosen.model).check_finite({"loss": float("nan")}, 7, 0)
    named = re.findall(r"--[\w.-]+(?:\*|\w)", " ".join([*sentences, str(caught.value)]))
    assert len(named) >= 8
    assert set(named) <= settings, set(named) - settings


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_stops_the_run(value: float) -> None:
    diagnostics = Diagnostics(3)
    diagnostics.check_finite({"loss": -1e30, "nll": 0.0}, 7, 5)
    with pytest.raises(NonFiniteError, match=r"^nll is not finite at step 7: .* step 5, is kept; "):
        diagnostics.check_finite({"loss": 1.0, "nll": value}, 7, 5)
    with pytest.raises(NonFiniteError, match="there is no checkpoint yet"):
        diagnostics.check_finite({"nll": value}, 7, 0)


@pytest.mark.usefixtures("small_trunk")
@pytest.mark.parametrize("at", [3, 4, 5])
def test_a_poisoned_weight_stops_the_run_with_the_last_good_checkpoint_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    """Whether the next is a report, a checkpoint or a change of stage; no weight of it is NaN."""
    poisoned: list[Trainee] = []
    start = Trainee.__init__

    def remember(self: Trainee, *args: object, **settings: object) -> None:
        start(self, *args, **settings)
        poisoned.append(self)

    def poison() -> None:
        with torch.no_grad():
            poisoned[-1].params[0].view(-1)[0] = float("nan")

    monkeypatch.setattr(Trainee, "__init__", remember)
    monkeypatch.setattr(launch, "draw", lambda *_: None)
    stop_after(monkeypatch, at, poison)
    out = tmp_path / "run"
    args = ["train", *arguments(small(8)), "--out", str(out), "--device", "cpu"]
    assert main([*args, "--report-every", "2", "--save-every", "2"]) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("gswm: ")
    assert "is not finite at step" in error
    kept = load_newest(out / "checkpoints", pytest.fail)
    assert kept is not None
    assert kept.step == (at - 1) // 2 * 2
    assert all(tensor.isfinite().all() for tensor in kept.tensors.values())
    assert f"the last good checkpoint, of step {kept.step}, is kept" in error


@pytest.mark.usefixtures("small_trunk")
def test_a_rate_that_is_much_too_high_ends_with_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["train", *arguments(small(8, lr=1e30)), "--out", str(tmp_path / "run")]
    assert main([*args, "--device", "cpu"]) == 3
    assert "start a new run with a lower --train.lr" in capsys.readouterr().err


@pytest.mark.usefixtures("small_trunk")
def test_a_run_that_does_well_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_here(small(4), tmp_path)
    assert "warning: " not in capsys.readouterr().err


@pytest.mark.usefixtures("small_trunk")
def test_validations_warn_too_and_the_one_before_a_stop_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {"error": 1.0, "objects": 2.0, "true_objects": 1.0}
    monkeypatch.setattr(launch, "validate", lambda *_: scores)
    recipe = small(8)  # validated at 3, 6 and 8
    schedule = replace(recipe.model.schedule, background_only=-1_000)  # so that it begins at 0
    recipe = replace(recipe, model=replace(recipe.model, schedule=schedule))
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        train_here(recipe, tmp_path)
    assert "warning: " not in capsys.readouterr().err
    train_here(recipe, tmp_path)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert len(said) == 1
    assert "objects are found twice" in said[0]
