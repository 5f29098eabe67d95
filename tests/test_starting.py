"""Initial weights of a fit: their choice, their compatibility, and a short fit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic_videos
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic_videos import facts_with
from test_fit import discs as discs

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.data.looking.facts import Quantiles
from gswm.fitting import attempts
from gswm.fitting.attempts import Trained
from gswm.fitting.config import FitConfig
from gswm.fitting.decisions import NEW, REACH, Decision, TrainedStart, settings_for
from gswm.fitting.fit import Kept, fit_video
from gswm.fitting.pace import Pace
from gswm.fitting.starting import check_start, find_start, read_start
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.gswm.propagation import UpdateScales
from gswm.models.registry import build
from gswm.weights import files as weights


def clips() -> GSWMConfig:
    model = gswm.recipe("clips").model
    assert isinstance(model, GSWMConfig)
    return model


STARTED: Decision[TrainedStart | None] = Decision(TrainedStart("clips", clips()), "a reason")


# -- which weights


def test_the_weights_for_any_video_are_the_default(small_clips: Path) -> None:
    found = find_start(None, {"image_size": None, "grid": 16})
    assert found.value is not None
    assert found.value.name == "clips"


def test_without_them_a_fit_trains_new_weights_and_says_why(no_weights: Path) -> None:
    found = find_start(None, {})
    assert found.value is None
    assert "does not ship" in found.reason


@pytest.mark.parametrize("decided", [{"image_size": 64}, {"grid": 4}])
def test_settings_of_the_users_own_that_the_weights_do_not_have(
    decided: dict[str, int], small_clips: Path
) -> None:
    found = find_start(None, decided)
    assert found.value is None
    assert next(iter(decided)) in found.reason
    with pytest.raises(UserError, match="leave one of the two out"):
        find_start("clips", decided)
    assert find_start(NEW, decided).value is None


def test_weights_that_no_fit_can_begin_with_are_refused(no_weights: Path) -> None:
    tiny.ship(no_weights, "single-ball")
    with pytest.raises(UserError, match="no G-SWM with a static background"):
        read_start("single-ball")
    with pytest.raises(UserError, match="--start none"):
        read_start("nowhere")


# -- settings


def test_a_start_decides_what_its_networks_depend_on() -> None:
    sides = Quantiles(20.0, 25.0, 30.0, 30.0)
    large = facts_with(width=100, heights=sides, widths=sides)
    new, tuned = settings_for(large), settings_for(large, STARTED)
    assert (new.image_size.value, new.start.value) == (64, NEW)
    assert (tuned.image_size.value, tuned.grid.value) == (128, 16)
    assert (tuned.start.value, tuned.start.reason) == ("clips", "a reason")
    assert "clips" in tuned.image_size.reason
    assert tuned.num_objects == new.num_objects
    assert tuned.hw_prior_mean == new.hw_prior_mean
    assert tuned.pres_prior.value < new.pres_prior.value
    assert tuned.model().propagation == clips().propagation
    assert tuned.model().boxes_by_label == clips().boxes_by_label


def test_the_weights_of_a_start_do_the_same_with_the_settings_of_a_video() -> None:
    small = replace(clips(), sizes=tiny.SIZES)
    start: Decision[TrainedStart | None] = Decision(TrainedStart("small", small), "a reason")
    settings = settings_for(facts_with(), start).model()
    first, second = GSWM(small).eval(), GSWM(replace(settings, num_objects=12)).eval()
    second.load_state_dict(first.state_dict())
    video = tiny.video(batch=1, time=3, size=128)
    one, other = (model.infer(video, render=False) for model in (first, second))
    for name in ("xy", "hw", "pres", "depth"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name))


@given(st.floats(0.05, 15), st.floats(1, 4))
def test_objects_are_within_reach_of_a_start_or_it_is_changed(speed: float, faster: float) -> None:
    speeds = Quantiles(speed, speed, speed, faster * speed)
    facts = facts_with(width=100, frames=5_000, speeds=speeds)
    own = replace(
        clips().propagation,
        relative=False,
        update=UpdateScales(xy=0.3, hw=0.1),
        proposal_range=(0.05, 0.3),
    )
    plain = TrainedStart("plain", replace(clips(), propagation=own))
    new, tuned = settings_for(facts), settings_for(facts, Decision(plain, "a reason"))
    step = 2 * tuned.stride.value * faster * speed / 100
    assert tuned.update_xy.value == (
        own.update.xy if step <= REACH * own.update.xy else new.update_xy.value
    )
    assert tuned.proposal_range.value[1] >= min(step, new.proposal_range.value[1])
    assert all(each.reason for _, each in tuned.items())


@given(st.floats(0.05, 15))
def test_relative_updates_keep_their_scale_and_look_as_far_as_needed(speed: float) -> None:
    facts = facts_with(width=100, frames=5_000, speeds=Quantiles(speed, speed, speed, speed))
    tuned = settings_for(facts, STARTED)
    step = 2 * tuned.stride.value * speed / 100
    own = clips().propagation
    assert tuned.update_xy.value == own.update.xy
    low, high = tuned.proposal_range.value
    assert low == high == pytest.approx(max(step, own.proposal_range[1]))
    assert all(each.reason for _, each in tuned.items())


def test_weights_of_other_sizes_or_another_grid_do_not_fit(small_clips: Path) -> None:
    small = replace(clips(), sizes=tiny.SIZES)
    check_start("clips", replace(small, num_objects=5))
    for change, said in (
        ({"sizes": clips().sizes}, "sizes"),
        ({"discovery": replace(small.discovery, grid=4)}, "discovery.grid"),
        ({"image_size": 64}, "image_size"),
    ):
        with pytest.raises(UserError, match=said):
            check_start("clips", replace(small, **change))


def test_a_number_of_slots_of_ones_own_takes_the_same_weights() -> None:
    few = replace(clips(), num_objects=5)
    assert weights.shapes_of(replace(gswm.recipe("clips"), model=few)) == weights.shapes_of(
        gswm.recipe("clips")
    )


@pytest.mark.slow
def test_a_look_at_a_video_names_the_start(
    small_clips: Path, discs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "look", str(discs)]) == 0
    assert any(
        line.split()[:3] == ["start", "--start", "clips"]
        for line in capsys.readouterr().out.splitlines()
    )


# -- a fit


@pytest.fixture
def small_start(tmp_path: Path, small_trunk: None) -> Path:
    """Weights of another video at 64 pixels, with a background of its own."""
    recipe = gswm.recipe("clips")
    discovery = replace(clips().discovery, grid=8)
    model = replace(clips(), image_size=64, sizes=tiny.SIZES, discovery=discovery)
    made = build(replace(recipe, model=model))
    made.get_submodule("context").picture = torch.full((3, 64, 64), 0.25)
    with torch.no_grad():
        made.get_parameter("discovery.mlp_disc.4.bias")[0] = 3.0
    gswm.save(tmp_path / "start.safetensors", made)
    return tmp_path / "start.safetensors"


def cfg(**how: Any) -> FitConfig:
    return FitConfig(steps=1, batch=2, device="cpu", **how)


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step take no time to measure."""
    pace = Pace(dict.fromkeys((4, 8, 12), 0.01))
    monkeypatch.setattr(attempts, "measure_pace", lambda *_: pace)


def far(one: Any, other: Any, part: str) -> float:
    """The largest difference between the weights of a part of two models."""
    first, second = (dict(each.get_submodule(part).named_parameters()) for each in (one, other))
    return max((first[name] - second[name]).abs().max().item() for name in first)


@pytest.mark.slow
def test_a_training_goes_on_from_a_start(
    discs: Path, small_start: Path, paced: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Trained] = []

    def results(out: Path, name: str, films: Any, data: Any, kept: Kept, tell: Any) -> Path:
        ended.append(kept.trained)
        return out

    monkeypatch.setattr("gswm.fitting.fit.write_results", results)
    lines: list[str] = []
    fit_video(discs, tmp_path / "out", cfg(start=str(small_start)), lines.append)
    (trained,) = ended
    before = gswm.load(small_start)
    assert any(line.startswith(f"start {small_start}") for line in lines)
    assert trained.start == str(small_start)
    assert trained.model.image_size == 64
    assert trained.model.cfg.num_objects != before.cfg.num_objects
    assert 0 < far(trained.model, before, "renderer") < 0.01  # a step, and not new weights
    assert 0 < far(trained.model, before, "discovery") < 0.01  # boxes of what moves teach it


@pytest.mark.slow
def test_a_fit_from_a_start_says_so_and_keeps_its_own_background(
    discs: Path, small_start: Path, paced: None, tmp_path: Path
) -> None:
    own = cfg(start=str(small_start), keep_fit=True)
    page = fit_video(discs, tmp_path / "out", own, lambda _: None)
    assert f"1 steps from {small_start}" in page.read_text()
    after = gswm.load(tmp_path / "out" / "weights.safetensors")
    assert after.saved_background is not None
    assert not torch.allclose(after.saved_background, torch.tensor(0.25), atol=0.01)


def test_several_videos_leave_no_background_and_not_that_of_the_start(small_start: Path) -> None:
    model = gswm.load(small_start)
    assert model.saved_background is not None
    assert attempts.with_background(model, None).saved_background is None


@pytest.mark.slow
def test_prepared_data_keeps_its_start_unless_asked_otherwise(
    discs: Path, small_start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []

    def stop(*_: Any, start: str | None, **__: Any) -> Any:
        begun.append(start)
        raise UserError("stop")

    monkeypatch.setattr("gswm.fitting.fit.train_within", stop)
    own = cfg(start=str(small_start), prepare=True)
    file = fit_video(discs, tmp_path / "out", own, lambda _: None)
    for start in (None, NEW):
        with pytest.raises(UserError, match="stop"):
            fit_video(file, tmp_path / "out", cfg(start=start), lambda _: None)
    assert begun == [str(small_start), None]
    small_start.unlink()
    with pytest.raises(UserError, match="--start none"):
        fit_video(file, tmp_path / "out", cfg(), lambda _: None)


def test_a_start_that_is_not_there_is_refused_before_the_video_is_read(
    no_weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = synthetic_videos.save(tmp_path / "film.mp4", synthetic_videos.refusal("frames"))
    assert main(["fit", str(video), "--start", "nothing", "--out", str(tmp_path / "out")]) == 2
    assert "cannot start from 'nothing'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
