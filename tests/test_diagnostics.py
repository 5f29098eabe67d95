"""Known failures are said once, in the sentence that helps; healthy runs are left in peace."""

import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from training import arguments, small, stop_after, train_here

from gswm.cli import main
from gswm.recipes import RECIPES
from gswm.settings import to_dict
from gswm.train.checkpoint import load_newest
from gswm.train.diagnostics import CHECKS, PATIENCE, Diagnostics, NonFiniteError
from gswm.train.step import Trainee

SENTENCES = {check.name: check.sentence() for check in CHECKS}


def report(step: int, **values: float) -> dict[str, float]:
    usual = {"loss": -9000.0, "objects": 6.0, "squared_error": 0.01, "kl_context": 0.0}
    return {"step": float(step)} | usual | values


def said(reports: list[dict[str, float]], begin: int = 1_000) -> list[str]:
    """The names of all that was said."""
    diagnostics = Diagnostics(max_objects=10, begin=begin)
    texts = [text for each in reports for text in diagnostics.look(each)]
    names = {text: name for name, text in SENTENCES.items()}
    return [names[text] for text in texts]


STEPS = range(1_100, 4_100, 100)
FAILURES = {
    "foreground": [report(step, objects=0.0) for step in STEPS],
    "background": [report(step, objects=0.01, kl_context=40.0) for step in STEPS],
    "slots": [report(step, objects=9.9) for step in STEPS],
    "drift": [
        report(s, objects=3.0 + i / 5, squared_error=0.01 + i / 999) for i, s in enumerate(STEPS)
    ],
    "exploding": [report(s, loss=-9000.0 if i < 9 else 1e6) for i, s in enumerate(STEPS)],
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_said_once_with_its_sentence(name: str) -> None:
    assert said(FAILURES[name]) == [name]


def test_every_check_has_a_test() -> None:
    assert set(FAILURES) == set(SENTENCES)


@pytest.mark.parametrize("name", ["foreground", "background", "slots"])
def test_what_does_not_last_is_not_said(name: str) -> None:
    bad, good = FAILURES[name], [report(step) for step in STEPS]
    mixed = [b if i % PATIENCE else g for i, (b, g) in enumerate(zip(bad, good, strict=True))]
    assert said(mixed) == []
    assert said(bad[: PATIENCE - 1]) == []
    assert said(bad[:PATIENCE]) == [name]


@pytest.mark.parametrize("name", ["foreground", "background", "slots"])
def test_the_first_steps_are_left_in_peace(name: str) -> None:
    early = [{**each, "step": each["step"] - 1_100} for each in FAILURES[name][:10]]
    assert said(early) == []
    assert said(FAILURES[name], begin=10_000) == []


def test_a_run_that_learns_is_left_in_peace() -> None:
    """As the two-layer recipe goes: many objects at first, then six, and longer videos."""
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


@pytest.mark.parametrize("recipe", ["maze", "scalor-interaction"])
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
        Diagnostics(3).check_finite({"loss": float("nan")}, 7, 0)
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
    assert "begin a new run with a lower --train.lr" in capsys.readouterr().err


@pytest.mark.usefixtures("small_trunk")
def test_a_run_that_does_well_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_here(small(4), tmp_path)
    assert "look out" not in capsys.readouterr().err
