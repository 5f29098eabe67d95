"""`gswm fit --learn motion`: its plan, its windows, its settings, and a complete fit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from test_fit import discs as discs
from test_starting import clips
from test_starting import small_start as small_start

import gswm
from gswm.core.errors import UserError
from gswm.fitting.config import FitConfig
from gswm.fitting.episodes import EPISODE, FitData
from gswm.fitting.fit import fit_video, of_motion
from gswm.fitting.motion import (
    LEAST,
    OBSERVED,
    PASSES,
    MotionPlan,
    WindowPace,
    plan_for,
    recipe_for_motion,
)
from gswm.models.gswm.gswm import GSWMConfig


def data(frames: int = 40, **said: Any) -> FitData:
    return FitData(Path("video.hdf5"), frames, {"train": 4, "val": 1, "test": 1}, (), True, said)


# -- the plan


@given(st.floats(1, 1e4), st.floats(0, 60), st.floats(1e-3, 10), st.integers(1, 500))
def test_a_plan_fits_into_the_time_and_is_no_longer_than_useful(
    seconds: float, observing: float, step: float, enough: int
) -> None:
    pace = WindowPace(observing, step)
    try:
        plan = plan_for(seconds, pace, enough)
    except UserError:
        assume(False)
        raise
    assert plan.seconds(pace) <= seconds * (1 + 1e-6)
    assert plan.batches == 1 or plan.batches * observing <= OBSERVED * seconds
    assert 1 <= plan.batches <= enough
    assert LEAST <= plan.steps <= PASSES * plan.batches


def test_windows_that_repeat_are_observed_once() -> None:
    pace = WindowPace(observing=10.0, step=1.0)
    assert MotionPlan(steps=50, batches=4).seconds(pace) == 4 * 10 + 50
    assert MotionPlan(steps=3, batches=4).seconds(pace) == 3 * 10 + 3


@given(st.floats(0.01, 60), st.floats(0.01, 10))
def test_too_little_time_is_refused_with_the_time_that_lacks(observing: float, step: float) -> None:
    pace = WindowPace(observing, step)
    short = MotionPlan(LEAST, 1).seconds(pace) * 0.9
    with pytest.raises(UserError, match="--minutes") as error:
        plan_for(short, pace, 10)
    more = 60 * float(str(error.value).split("add ")[1].split()[0])
    assert plan_for(short + more + 6, pace, 10).steps >= LEAST


# -- the recipe


@given(st.integers(*EPISODE))
def test_windows_are_no_longer_than_episodes_and_imagine_more_than_half(frames: int) -> None:
    recipe = recipe_for_motion("x", clips(), data(frames), "clips", MotionPlan(50, 3), 16, 0)
    assert isinstance(recipe.model, GSWMConfig)
    recipe.model.check()
    cfg = recipe.model.schedule.overshoot
    assert 1 <= cfg.given < cfg.horizon
    assert recipe.model.schedule.needed(recipe.train.steps) <= frames
    assert cfg.windows == 3 * 16
    assert recipe.data.given == cfg.given


def test_settings_are_those_of_the_start(small_start: Path) -> None:
    rows = [["start", "x", ""], ["stride", "2", ""], ["likelihood_std", "0.1", ""]]
    prepared = data(start=str(small_start), decisions=rows, model={"num_objects": 3})
    said = of_motion(prepared).said
    assert [row[0] for row in said["decisions"]] == ["start", "stride"]
    assert said["model"]["num_objects"] == clips().num_objects
    with pytest.raises(UserError, match="--start NAME"):
        of_motion(replace(prepared, said=prepared.said | {"start": "none"}))


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ({"decided": {"num_objects": 3}}, "--objects has no effect"),
        ({"decided": {"grid": 8}}, "--grid has no effect"),
        ({"start": "none"}, "--start none has no effect"),
    ],
)
def test_settings_without_effect_are_refused(how: dict[str, Any], match: str) -> None:
    with pytest.raises(UserError, match=match):
        FitConfig(learn="motion", **how).check()
    FitConfig(learn="motion", decided={"stride": 2, "num_objects": None}).check()


# -- all of it


def test_only_the_prior_learns_and_objects_are_found_as_before(
    discs: Path, small_start: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    cfg = FitConfig(steps=3, batch=2, device="cpu", start=str(small_start), learn="motion")
    page = fit_video(discs, tmp_path / "out", cfg, lines.append)
    assert any("training the prior for 3 steps on cpu" in line for line in lines)
    text = page.read_text()
    assert "whose prior learned for 3 steps" in text
    assert "initial weights" in text
    assert "likelihood_std" not in text

    before, after = (gswm.load(f) for f in (small_start, tmp_path / "out" / "weights.safetensors"))
    new, old = (dict(model.named_parameters()) for model in (after, before))
    # A fit is saved in half precision.
    changed = {name for name in new if not torch.equal(new[name], old[name].half().float())}
    prior = ("propagation.rnn_prior.", "propagation.latent.mlp_state_prior.")
    assert all(any(name.startswith(part) for name in changed) for part in prior)
    assert all(name.startswith(prior) for name in changed)
    assert after.saved_background is not None
    assert not torch.allclose(after.saved_background, torch.tensor(0.25), atol=0.01)

    fit_video(discs, tmp_path / "out", cfg, lines.append)  # finished: only the results are written
    assert "resuming 3 steps on cpu" in lines
    with pytest.raises(UserError, match="--force"):
        fit_video(discs, tmp_path / "out", replace(cfg, learn="all"), lines.append)
