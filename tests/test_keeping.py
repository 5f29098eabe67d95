"""The choice between a fit and its initial weights: the comparison, and the files of a fit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic_videos
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_fit import SIZE, film
from test_fit import discs as discs

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.settings import from_dict, to_dict
from gswm.data.storage.hdf5 import open_file
from gswm.eval.metrics.boxes import Boxes
from gswm.fitting import keeping, showing
from gswm.fitting.attempts import FitStoppedError, Trained
from gswm.fitting.config import FitConfig
from gswm.fitting.decisions import settings_for
from gswm.fitting.episodes import FitData, prepare
from gswm.fitting.fit import fit_video, said_of
from gswm.fitting.keeping import Agreement, Changing, Choice, agreement, sums_of, validation
from gswm.fitting.recipe import TUNING, Length, recipe_for
from gswm.fitting.showing import Scores
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.recipe import Recipe
from gswm.models.registry import build
from gswm.models.track import Track
from gswm.train.folder import write_json
from gswm.train.signals import Signals
from gswm.weights.files import read_header

GRID = 16
TAKEN = 15
"""Steps of the stand-in for training, of 20."""


def boxes_of(rows: list[tuple[float, float, float, float]]) -> Boxes:
    """One frame with boxes (x, y, height, width), as fractions of the frame."""
    values = torch.tensor(rows, dtype=torch.float64).reshape(1, 1, -1, 4)
    ids = torch.arange(len(rows))[None, None]
    return Boxes(values[..., :2], values[..., 2:], ids, torch.ones_like(ids, dtype=torch.bool))


def score(boxes: Boxes, change: torch.Tensor, foreground: torch.Tensor) -> float:
    inside, total, hit, area = sums_of(boxes, change, foreground).tolist()
    return Agreement(inside / total, hit / max(area, 1.0)).score


# -- the comparison


@given(st.integers(0, 10_000))
def test_sums_are_those_of_a_loop_over_pixels(seed: int) -> None:
    g = tiny.generator(seed)

    def rand(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=g, dtype=torch.float64)

    xy, hw, there = rand(2, 2, 3, 2) * 1.4 - 0.2, rand(2, 2, 3, 2), rand(2, 2, 3) > 0.3
    boxes = Boxes(xy, hw, torch.zeros(2, 2, 3).long(), there)
    change, foreground = rand(2, 2, 5, 5), rand(2, 2, 5, 5) > 0.5
    inside = hit = area = 0.0
    for n in range(2):
        for t in range(2):
            for y in range(5):
                for x in range(5):
                    number = 0
                    for k in range(3):
                        (cx, cy), (h, w) = xy[n, t, k].tolist(), hw[n, t, k].tolist()
                        px, py = (x + 0.5) / 5, (y + 0.5) / 5
                        across = cx - w / 2 <= px < cx + w / 2
                        down = cy - h / 2 <= py < cy + h / 2
                        number += bool(there[n, t, k]) and across and down
                    area += number
                    inside += change[n, t, y, x].item() * (number > 0)
                    hit += bool(foreground[n, t, y, x]) and number > 0
    want = [inside, change.sum().item(), hit, area]
    assert sums_of(boxes, change, foreground).tolist() == pytest.approx(want)


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_score_is_the_harmonic_mean(found: float, filled: float) -> None:
    got = Agreement(found, filled).score
    assert min(found, filled) - 1e-6 <= got <= max(found, filled) + 1e-6
    if found > 0.01 and filled > 0.01:
        assert got == pytest.approx(2 / (1 / found + 1 / filled))


@given(st.floats(0, 1), st.floats(0, 1))
def test_models_that_see_the_same_are_undecided_and_the_fit_is_kept(
    found: float, filled: float
) -> None:
    same = Agreement(found, filled)
    choice = Choice(same, same)
    assert not choice.worse
    assert choice.keeps_fit
    assert choice.line("clips", "fitted.safetensors") == ""


@given(st.floats(0, 1), st.floats(0, 1))
def test_no_objects_never_win(found: float, filled: float) -> None:
    assert not Choice(Agreement(found, filled), Agreement(0.0, 0.0)).worse


def two_bars() -> tuple[torch.Tensor, torch.Tensor, list[tuple[float, float, float, float]]]:
    """A low bar and a high one, as change and foreground, with a box each."""
    foreground = torch.zeros(1, 1, GRID, GRID, dtype=torch.bool)
    foreground[..., 2:5, 2:12] = True
    foreground[..., 8:14, 11:14] = True
    rows = [(7 / 16, 3.5 / 16, 3 / 16, 10 / 16), (12.5 / 16, 11 / 16, 6 / 16, 3 / 16)]
    return foreground.double(), foreground, rows


def test_tight_boxes_score_1_and_any_mistake_costs() -> None:
    change, foreground, rows = two_bars()
    assert score(boxes_of(rows), change, foreground) == pytest.approx(1)
    (x, y, h, w), other = rows
    joined = (8 / 16, 8 / 16, 12 / 16, 12 / 16)
    mistakes = {
        "missed": [other],
        "twice": [*rows, other],
        "loose": [(x, y, 1.5 * h, 1.5 * w), other],
        "joined": [joined],
        "empty": [*rows, (3 / 16, 13 / 16, 3 / 16, 3 / 16)],
        "beside": [(x, y + 4 / 16, h, w), other],
    }
    scores = {name: score(boxes_of(some), change, foreground) for name, some in mistakes.items()}
    assert all(value < 0.95 for value in scores.values()), scores
    assert scores["joined"] < 1 - keeping.MARGIN


def seeing(boxes: torch.Tensor, *, present: bool = True) -> GSWM:
    """A model that reports given boxes."""

    def infer(video: torch.Tensor, **_: Any) -> Track:
        there = torch.full(boxes.shape[:-1], float(present))
        ids = torch.arange(there.shape[-1]).expand(there.shape)
        xy, hw = boxes.split(2, dim=-1)
        return Track(xy, hw, there, there, ids, None, None)

    model: Any = tiny.lively("clips", image_size=SIZE)
    model.infer = infer
    return model


@pytest.fixture(scope="module")
def prepared(discs: Path, tmp_path_factory: pytest.TempPathFactory) -> FitData:
    facts = synthetic_videos.facts_with(width=64, height=64)
    decisions = settings_for(facts)
    said = said_of(facts, decisions)
    small = replace(decisions.model(), sizes=tiny.SIZES, num_objects=3)
    assert small.image_size == SIZE
    said |= {"model": to_dict(small)}
    file = tmp_path_factory.mktemp("prepared") / "video.hdf5"
    return prepare([film(discs)], 1, file, said)


def true_boxes(data: FitData) -> torch.Tensor:
    """The discs of the validation part: x, y from -1 to 1, height and width."""
    truth = synthetic_videos.make("discs")
    with open_file(data.file) as stored:
        (number,) = stored.of_split("val").tolist()
        footage = stored.footage(number)
    assert footage is not None
    place = footage.placement
    side = max(place.width, place.height)
    off = torch.tensor([place.width - side, place.height - side]) / 2
    centers = torch.from_numpy(truth.centers[footage.frames])
    xy = (centers - off) / side * 2 - 1
    return torch.cat([xy, torch.full_like(xy, 18 / side)], dim=-1)[None].float()


def test_only_the_validation_part_is_compared(prepared: FitData) -> None:
    (part,) = validation(prepared.file)
    with open_file(prepared.file) as stored:
        want = stored.read(stored.of_split("val").tolist()).video
    assert torch.equal(part.video, want)
    assert part.foreground.shape == part.change.shape == (*want.shape[:2], SIZE, SIZE)


def test_objects_beat_none_and_their_neighborhood(prepared: FitData) -> None:
    parts = validation(prepared.file)
    true = true_boxes(prepared)
    models = {
        "true": seeing(true),
        "none": seeing(true, present=False),
        "twice": seeing(torch.cat([true, true], dim=2)),
        "loose": seeing(true * torch.tensor([1, 1, 2, 2])),
    }
    found = {name: agreement(model, parts) for name, model in models.items()}
    assert found["true"].score > 0.7
    assert found["none"] == Agreement(0.0, 0.0)
    for name in ("none", "twice", "loose"):
        assert Choice(found[name], found["true"]).worse, name
        assert not Choice(found["true"], found[name]).worse, name


def test_a_video_without_motion_decides_nothing() -> None:
    still = torch.zeros(1, 2, GRID, GRID)
    part = Changing(
        torch.zeros(1, 2, 3, GRID, GRID), torch.zeros(1, 3, GRID, GRID), still, still > 0
    )
    boxes = torch.tensor([0, 0, 0.5, 0.5]).expand(1, 2, 1, 4)
    blind = agreement(seeing(boxes, present=False), [part])
    assert not Choice(blind, agreement(seeing(boxes), [part])).worse


def test_long_parts_are_sampled_evenly() -> None:
    assert keeping.some([]) == []
    assert keeping.some(list(range(5))) == list(range(5))
    assert keeping.some(list(range(40))) == list(range(0, 40, 3))


# -- a fit


@pytest.fixture(scope="module")
def scores(prepared: FitData) -> Scores:
    """Scores on the held-out end, to be measured only once."""
    model = tiny.lively("clips", image_size=SIZE)
    return showing.score(model, showing.held_out(prepared.file), 5)


@pytest.fixture
def fitting(
    prepared: FitData,
    scores: Scores,
    tmp_path: Path,
    small_trunk: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., list[str]]:
    """Fit `prepared` by a stand-in for training, whose result has the given scores."""
    model = from_dict(GSWMConfig, prepared.said["model"])
    recipe = recipe_for("x", str(prepared.file), model, Length(20), TUNING)
    torch.manual_seed(0)
    start, fit = lively(recipe), lively(recipe)
    gswm.save(tmp_path / "start.safetensors", start)
    name = str(tmp_path / "start.safetensors")
    monkeypatch.setattr(showing, "imagine", lambda *_: None)
    monkeypatch.setattr(showing, "score", lambda *_: scores)

    def run(agreed: tuple[float, float], *, stops: bool = False, **how: Any) -> list[str]:
        def train(*args: Any, **_: Any) -> Trained:
            write_json(args[4] / "run-1" / "recipe.json", to_dict(recipe))
            if stops:
                raise FitStoppedError(Signals())
            return Trained(fit, recipe, args[4] / "run-1", 1, TAKEN, TAKEN / 60 * 2, name)

        def compare(one: Any, other: Any, file: Path, *, asked: bool) -> Choice:
            assert one is fit
            assert distance(other, start) == 0
            assert file == prepared.file
            ours, theirs = (Agreement(score, score) for score in agreed)
            return Choice(ours, theirs, asked)

        monkeypatch.setattr("gswm.fitting.fit.train_within", train)
        monkeypatch.setattr(keeping, "compare", compare)
        lines: list[str] = []
        cfg = FitConfig(device="cpu", start=name, steps=20, **how)
        fit_video(prepared.file, tmp_path / "out", cfg, lines.append)
        return lines

    run_any: Any = run
    run_any.models = SimpleNamespace(start=start, fit=fit)
    return run_any


def lively(recipe: Recipe) -> Any:
    model = build(recipe)
    with torch.no_grad():
        model.get_parameter("discovery.mlp_disc.4.bias")[0] = 3.0
    return model


def distance(one: Any, other: Any) -> float:
    """The largest difference of two models' parameters, rounded as in a file."""
    mine, theirs = (dict(each.named_parameters()) for each in (one, other))
    return max((mine[k].half() - theirs[k].half()).abs().max().item() for k in mine)


def test_the_steps_that_were_taken_are_stated_and_not_those_that_were_planned(
    fitting: Any, tmp_path: Path
) -> None:
    (line,) = [line for line in fitting((0.6, 0.6)) if "A model of" in line]
    assert f"{TAKEN} steps" in line
    assert "2000 ms each" in line
    assert "ended before the last step" in line
    assert read_header(tmp_path / "out" / "weights.safetensors")["about"]["step"] == TAKEN


def test_a_fit_that_is_clearly_worse_gives_way_to_its_start(
    fitting: Any, prepared: FitData, tmp_path: Path
) -> None:
    lines = fitting((0.45, 0.59))
    out = tmp_path / "out"
    kept, fitted = gswm.load(out), gswm.load(out / "fitted.safetensors")
    assert distance(kept, fitting.models.start) == 0
    assert distance(fitted, fitting.models.fit) == 0
    assert kept.cfg == fitted.cfg
    for model in (kept, fitted):
        assert model.saved_background is not None
        torch.testing.assert_close(
            model.saved_background, prepared.backgrounds[0] / 255, atol=1e-3, rtol=0
        )
    (line,) = [line for line in lines if "worse than its start" in line]
    for said in ("0.45", "0.59", "start.safetensors was kept", "fitted.safetensors", "--keep-fit"):
        assert said in line
    page = (out / "index.html").read_text()
    assert "worse than its start" in page
    assert "--keep-fit" in page
    stored = json.loads((out / "fit.json").read_text())["choice"]
    assert (stored["kept"], stored["line"]) == ("start", line)
    assert stored["fit"]["score"] == pytest.approx(0.45)
    assert stored["start"]["score"] == pytest.approx(0.59)
    for name in ("weights", "fitted"):
        header = read_header(out / f"{name}.safetensors")
        assert header["about"]["choice"] == stored
        assert header["about"]["videos"]["fit"] == "letterbox"


@pytest.mark.parametrize("agreed", [(0.6, 0.6), (0.9, 0.3), (0.6, 0.69)])
def test_a_fit_is_kept_unless_its_start_is_clearly_better(
    fitting: Any, tmp_path: Path, agreed: tuple[float, float]
) -> None:
    lines = fitting(agreed)
    assert distance(gswm.load(tmp_path / "out"), fitting.models.fit) == 0
    assert not (tmp_path / "out" / "fitted.safetensors").exists()
    assert not any("worse than its start" in line for line in lines)
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["choice"]["kept"] == "fit"


def test_the_same_fit_can_be_kept_afterwards(fitting: Any, tmp_path: Path) -> None:
    fitting((0.3, 0.6))
    lines = fitting((0.3, 0.6), keep_fit=True)
    out = tmp_path / "out"
    assert distance(gswm.load(out), fitting.models.fit) == 0
    assert not (out / "fitted.safetensors").exists()
    assert any("kept as requested" in line and "0.30" in line for line in lines)
    stored = json.loads((out / "fit.json").read_text())["choice"]
    assert stored["kept"] == "fit"
    assert "kept as requested" in (out / "index.html").read_text()


def test_an_interrupted_fit_is_compared_when_it_is_resumed(fitting: Any, tmp_path: Path) -> None:
    with pytest.raises(FitStoppedError):
        fitting((0.3, 0.6), stops=True)
    file = tmp_path / "out" / "fit.json"
    assert "choice" not in json.loads(file.read_text())
    assert not (tmp_path / "out" / "weights.safetensors").exists()
    fitting((0.3, 0.6))
    assert json.loads(file.read_text())["choice"]["kept"] == "start"
    with pytest.raises(UserError, match="--force"):
        fitting((0.3, 0.6), seed=1)


def test_a_fit_of_new_weights_has_nothing_to_compare(
    prepared: FitData, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gswm.fitting import fit as module

    monkeypatch.delattr(keeping, "compare")
    model: Any = tiny.lively("clips", image_size=SIZE)
    recipe = recipe_for("x", str(prepared.file), model.cfg, Length(20))
    trained = Trained(model, recipe, Path("run-1"), 1, 20, 0.5)
    kept = module.choose(trained, prepared, lambda _: None)
    assert kept.is_fit
    assert kept.line == ""
    assert kept.to_json() == {"kept": "fit"}


@pytest.mark.parametrize("asked", [False, True])
def test_the_command_succeeds_with_either_model(
    fitting: Any,
    prepared: FitData,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    asked: bool,
) -> None:
    fitting((0.3, 0.6))  # the stand-ins stay
    command = ["fit", str(prepared.file), "--start", str(tmp_path / "start.safetensors")]
    command += ["--steps", "20", "--device", "cpu", "--out", str(tmp_path / "out")]
    assert main(command + ["--keep-fit"] * asked) == 0
    shown = capsys.readouterr()
    said = [line for line in (shown.out + shown.err).splitlines() if "worse than its" in line]
    assert len(said) == 1
    assert ("--keep-fit" in said[0]) != asked
