"""`gswm train` and `gswm export`: arguments, files and output."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from test_importing import pictures, video
from training import arguments, metrics_of, small, stop_after, train_here

import gswm
from gswm.cli import main
from gswm.commands.train import TrainCommand
from gswm.core.devices import tf32
from gswm.core.errors import UserError
from gswm.core.settings import to_dict
from gswm.data.batches.resident import Fresh
from gswm.data.episode import Episodes
from gswm.data.storage.layouts import Layout
from gswm.data.storage.writer import Writer
from gswm.data.worlds.base import SplitName
from gswm.data.worlds.registry import world
from gswm.eval.explained import measure
from gswm.eval.validate import SAMPLED, validate
from gswm.models.objects import Sizes
from gswm.models.recipe import Recipe
from gswm.models.registry import RECIPES, build
from gswm.train import folder, launch
from gswm.train.checkpoint import numbered
from gswm.train.launch import validator
from gswm.train.loop import LoopConfig
from gswm.train.signals import Signals, Stopped
from gswm.weights.files import read_header, trained_before, trained_by

pytestmark = pytest.mark.usefixtures("small_trunk")
Capture = pytest.CaptureFixture[str]


def balls(number: int = 4, seed: int = 5) -> Episodes:
    return next(iter(world("single-ball").episodes(seed, number)))


def blank(size: int = 64, frames: int = 6) -> Episodes:
    """Videos without ground truth."""
    g = torch.Generator().manual_seed(0)
    video = torch.randint(0, 255, (3, frames, 3, size, size), generator=g, dtype=torch.uint8)
    return Episodes(video)


def write(path: Path, parts: dict[SplitName | None, Episodes], layout: Layout) -> Path:
    with Writer(path, layout) as writer:
        for split, episodes in parts.items():
            writer.append(episodes, split=split)
    return path


def on_file(path: Path, steps: int = 3, **changes: object) -> Recipe:
    one = small(steps)
    return replace(one, data=replace(one.data, world=str(path), episodes=10_000, **changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has come to its end."""
    with pytest.MonkeyPatch.context() as patch:
        from training import SmallTrunk

        patch.setattr("gswm.models.gswm.discovery.Trunk", SmallTrunk)
        out = tmp_path_factory.mktemp("finished") / "run"
        args = ["train", *arguments(small(6)), "--seed", "3", "--out", str(out), "--device", "cpu"]
        args += ["--report-every", "2", "--save-every", "3", "--checkpoint-parts", "1M"]
        assert main(args) == 0
    return out


# -- the run's folder


def test_a_run_leaves_all_that_is_known_of_it(finished: Path) -> None:
    files = ["recipe.json", "environment.json", "metrics.jsonl", "checkpoints"]
    files += ["best.safetensors", "last.safetensors"]
    assert {path.name for path in finished.iterdir()} >= set(files)
    assert not list(finished.rglob("*.tmp"))
    assert [path.name for path in numbered(finished / "checkpoints")] == ["00000003", "00000006"]


def test_the_recipe_is_there_with_every_value(finished: Path) -> None:
    text = json.loads((finished / "recipe.json").read_text())
    want = to_dict(replace(small(6), seed=3))
    assert text == json.loads(json.dumps(want))


def test_the_environment_says_what_ran_where(finished: Path) -> None:
    (start,) = json.loads((finished / "environment.json").read_text())
    assert start["gswm"] == gswm.__version__
    assert start["torch"] == torch.__version__
    assert start["processes"] == 1
    assert set(start) >= {"commit", "started", "python", "numpy", "system", "device"}


def test_every_line_of_metrics_is_json_with_every_term(finished: Path) -> None:
    lines = metrics_of(finished)
    trained = [line for line in lines if "loss" in line]
    assert [line["step"] for line in trained] == [2, 4, 6]
    assert [line["length"] for line in trained] == [2, 2, 3]
    for line in trained:
        kinds = ("nll", "kl_", "aux_")
        terms = [value for name, value in line.items() if name.startswith(kinds)]
        assert len(terms) >= 5
        assert sum(terms) == pytest.approx(line["loss"], rel=1e-4)
        assert {"objects", "squared_error", "gradient"} <= set(line)
    scored = [line for line in lines if "validation_strict_error" in line]
    assert [line["step"] for line in scored] == [3, 6]
    assert all(next(iter(line)) == "step" for line in lines)


def test_parts_of_checkpoints_are_no_larger_than_asked(finished: Path) -> None:
    files = list(numbered(finished / "checkpoints")[-1].iterdir())
    assert len(files) > 3
    assert max(file.stat().st_size for file in files) <= 1_000_000


@pytest.mark.parametrize("which", ["best", "last"])
def test_its_weights_can_be_used(finished: Path, which: str) -> None:
    file = finished / f"{which}.safetensors"
    track = gswm.load(file).imagine(balls(2).video, given=3, steps=2)
    assert track.xy.isfinite().all()
    header = read_header(file)
    assert header["recipe"] == replace(small(6), seed=3)
    assert header["about"]["seed"] == 3
    assert header["about"]["device"]
    assert "commit" in header["about"]
    assert header["about"]["step"] in ((3, 6) if which == "best" else (6,))


def test_a_run_can_begin_with_the_weights_of_another(finished: Path, tmp_path: Path) -> None:
    still = small(4, start=str(finished / "last.safetensors"), lr=0.0)
    run = train_here(still, tmp_path / "run")
    want = gswm.load(finished / "last.safetensors").state_dict()
    for name, tensor in run.trainee.model.state_dict().items():
        assert torch.equal(tensor, want[name])
    about = read_header(tmp_path / "run" / "last.safetensors")["about"]
    assert about["step"] == 4 + 6
    assert about["began"]["step"] == 6
    first = read_header(finished / "last.safetensors")
    assert about["began"]["runs"] == [{"command": trained_by(first), "step": 6}]
    assert [step for step, _, _ in about["curve"]] == [3, 6, 3 + 6, 4 + 6]
    assert [minutes for _, minutes, _ in about["curve"]] == sorted(m for _, m, _ in about["curve"])


def test_a_run_that_goes_on_no_longer_needs_the_weights_it_began_with(
    finished: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "begin.safetensors"
    copy.write_bytes((finished / "last.safetensors").read_bytes())
    train_here(small(4, start=str(copy)), tmp_path / "run")
    copy.write_bytes((finished / "best.safetensors").read_bytes()[:-8])
    run = train_here(small(4, start=str(copy)), tmp_path / "run")
    assert run.began["step"] == 6


@pytest.mark.slow
def test_fresh_episodes_are_trained_on_and_a_resumed_run_sees_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small(6)
    recipe = replace(recipe, data=replace(recipe.data, episodes=9, fresh=True))
    whole = train_here(recipe, tmp_path / "whole")
    assert isinstance(whole.trainee.loader, Fresh)
    assert whole.trainee.loader.held is not None
    assert len(whole.trainee.loader.held) == 8
    with monkeypatch.context() as patched:
        stop_after(patched, 3)
        assert train_here(recipe, tmp_path / "parts").trainee.step == 3
    parts = train_here(recipe, tmp_path / "parts")
    for name, tensor in parts.trainee.model.state_dict().items():
        assert torch.equal(tensor, whole.trainee.model.state_dict()[name])


def test_a_file_has_no_fresh_episodes(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.hdf5", {"train": balls()}, "single-ball")
    mine = on_file(file)
    mine = replace(mine, data=replace(mine.data, fresh=True))
    with pytest.raises(UserError, match="a file cannot provide fresh episodes"):
        train_here(mine, tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.json").exists()


def test_weights_know_all_runs_that_they_come_from(finished: Path, tmp_path: Path) -> None:
    start = finished / "last.safetensors"
    for number in (1, 2):
        train_here(small(number, start=str(start)), tmp_path / str(number))
        start = tmp_path / str(number) / "last.safetensors"
    runs = trained_before(read_header(start))
    assert [run["step"] for run in runs] == [6, 6 + 1, 6 + 1 + 2]
    settings = [run["command"].split() for run in runs]
    assert [words[words.index("--train.steps") + 1] for words in settings] == ["6", "1", "2"]
    assert "--train.start" not in settings[0]
    assert settings[2][settings[2].index("--train.start") + 1].endswith("1/last.safetensors")


def test_weights_that_do_not_fit_are_refused_before_anything_is_written(
    finished: Path, tmp_path: Path
) -> None:
    one = small(4, start=str(finished))
    wider = replace(one, model=replace(one.model, sizes=Sizes(what=8, hidden=8, encoding=8)))
    with pytest.raises(UserError, match="does not fit this model"):
        train_here(wider, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_last_weights_are_those_of_the_last_checkpoint(finished: Path) -> None:
    from gswm.train.checkpoint import load

    kept = load(numbered(finished / "checkpoints")[-1]).tensors
    for name, tensor in gswm.load(finished / "last.safetensors").state_dict().items():
        assert torch.equal(tensor, kept[f"model.{name}"])


def test_the_best_weights_have_the_score_that_the_metrics_say(finished: Path) -> None:
    there = world("single-ball")
    episodes = next(iter(there.episodes(there.splits["val"].seed, 2)))
    scores = validate(gswm.load(finished / "best.safetensors"), episodes, 5, 4, SAMPLED)
    best = min(line.get("validation_error", 99) for line in metrics_of(finished))
    assert scores["error"] == pytest.approx(best)


# -- export


def test_an_export_in_half_is_half_as_large_and_scores_the_same(
    finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    half, whole = tmp_path / "half.safetensors", tmp_path / "whole.safetensors"
    assert main(["export", str(finished), "--half", "--out", str(half)]) == 0
    assert main(["export", str(finished), "--out", str(whole)]) == 0
    assert str(half) in capsys.readouterr().out
    header = 20_000
    assert half.stat().st_size < whole.stat().st_size / 2 + header
    scores = [validate(gswm.load(path), balls(3), 5, 4) for path in (half, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=0.02)
    assert read_header(half)["recipe"] == read_header(whole)["recipe"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("best.safetensors", "it is also an input"),
        ("last.safetensors", "it is also an input"),
        ("recipe.json", "the name must end in .safetensors"),
    ],
)
def test_an_export_replaces_nothing_of_its_run(
    name: str, said: str, finished: Path, capsys: Capture
) -> None:
    before = (finished / name).read_bytes()
    assert main(["export", str(finished), "--out", str(finished / name)]) == 2
    assert said in capsys.readouterr().err
    assert (finished / name).read_bytes() == before


def test_an_export_keeps_the_scores_of_its_own_weights_alone(
    finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    out, file = tmp_path / "a.safetensors", tmp_path / "scores.json"
    args = ["export", str(finished), "--out", str(out), "--scores", str(file)]
    assert main(["eval", str(finished), "--episodes", "2", "--json", str(file)]) == 0
    measured = json.loads(file.read_text())
    assert main(args) == 0
    assert read_header(out)["about"]["test"] == measured["scores"]
    out.unlink()
    model, about = measured["model"], measured["model"]["about"]
    others = [model | {"recipe": "maze"}, {"baseline": "stay"}]
    others += [model | {"about": about | {name: 77}} for name in ("step", "seed")]
    wrong = {json.dumps(measured | {"model": other}): "scores of other weights" for other in others}
    less = {k: v for k, v in measured.items() if k != "scores"}
    wrong |= {json.dumps(less): "it has no 'scores'", "{}": "it has no 'scores'"}
    wrong |= {"[1]": "is not a result of `gswm eval --json`", "{": "is damaged"}
    wrong |= {json.dumps(measured | {"scores": 3}): "is not a result of `gswm eval --json`"}
    capsys.readouterr()
    for text, said in wrong.items():
        file.write_text(text)
        assert main(args) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
        assert not out.exists()


def test_an_export_names_the_world_and_not_the_folder_of_its_scenes(tmp_path: Path) -> None:
    recipe = gswm.recipe("single-ball")
    away = replace(recipe, data=replace(recipe.data, world="obj3d:my/scenes"))
    gswm.save(tmp_path / "run.safetensors", gswm.build(away), away)
    args = ["export", str(tmp_path / "run.safetensors"), "--out", str(tmp_path / "a.safetensors")]
    assert main(args) == 0
    assert read_header(tmp_path / "a.safetensors")["recipe"].data.world == "obj3d"


def test_an_export_of_what_is_not_there_says_what_is(tmp_path: Path, capsys: Capture) -> None:
    train_here(small(1, validation_episodes=0), tmp_path)
    capsys.readouterr()
    assert main(["export", str(tmp_path), "--which", "best"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gswm: {tmp_path} has no best.safetensors, which training writes after")
    assert said.endswith("omit --which best\n")
    assert main(["export", str(tmp_path)]) == 0
    assert "exporting the last weights" in capsys.readouterr().err


# -- what is asked for


def test_help_names_every_recipe_and_a_recipes_help_every_setting(capsys: Capture) -> None:
    for args in (["train"], ["train", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(args)
        assert stop.value.code == 0
        said = capsys.readouterr().out
        assert all(name in said for name in RECIPES)
    with pytest.raises(SystemExit):
        main(["train", "single-ball", "--help"])
    said = capsys.readouterr().out
    for name in ("--seed", "--out", "--max-minutes", "--train.lr", "--checkpoint-parts"):
        assert name in said


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["nothing"], "there is no recipe 'nothing'; choose from interaction, "),
        (["tow-layer"], "there is no recipe 'tow-layer': did you mean two-layer?"),
        (["--seed", "3"], "specify a recipe first: gswm train RECIPE "),
        (["--resume"], "--resume needs a value"),
        (["--resume", "--seed", "3"], "--resume needs a value"),
        (["two-layer", "maze"], "Unexpected argument: maze"),
        (["two-layer", "--train.start", "none"], "'none' is not a run"),
        (["two-layer", "--train.lrr", "1"], "Unrecognized option: --train.lrr"),
        (["two-layer", "--train.lr", "fast"], "--train.lr must be a number"),
        (["two-layer", "--checkpoint-parts", "15X"], "'15X' is not a size; use, for example, 15M"),
        (
            ["two-layer", "--checkpoint-parts", "1K"],
            "--checkpoint-parts is 1K; it must be at least 1M",
        ),
        (["two-layer", "--save-every", "0"], "--save-every is 0; it must be at least 1"),
        (["two-layer", "--train.batch", "0"], "--train.batch is 0; it must be at least 1"),
        (["two-layer", "--train.lr", "-0.1"], "--train.lr is -0.1; it must be at least 0"),
        (["two-layer", "--train.lr", "nan"], "--train.lr is nan; it must be at least 0"),
        (["two-layer", "--train.last-lr", "-1"], "--train.last-lr is -1.0; it must be at least 0"),
        (["two-layer", "--train.warmup", "-1"], "--train.warmup is -1; it must be at least 0"),
        (["two-layer", "--seed", "-1"], "--seed is -1; it must be from 0"),
        (
            ["two-layer", "--model.discovery.dropout", "7"],
            "--model.discovery.dropout is 7.0: it must",
        ),
        (
            ["two-layer", "--model.discovery.dropout", "nan"],
            "dropout is nan; it must be a finite number",
        ),
        (["two-layer", "--train.clip", "0"], "--train.clip is 0.0; it must be positive"),
        (["two-layer", "--train.clip", "-1"], "--train.clip is -1.0; it must be positive"),
        (["two-layer", "--model.schedule.lengths", "5", "2"], "--model.schedule.lengths is ((5"),
        (
            ["two-layer", "--model.schedule.background-only", "3"],
            "--model.schedule.background-only is 3, but this model has no background: set it to 0",
        ),
        (
            ["maze", "--model.background", "black"],
            "--model.schedule.background-only is 500, but this model has no background",
        ),
        (
            ["maze", "--model.schedule.likelihood-std.to-step", "9000"],
            "--model.schedule.likelihood-std.to-step is 9000; it must not be less than ",
        ),
        (
            ["scalor-interaction", "--model.schedule.likelihood-std.end", "0"],
            "--model.schedule.likelihood-std goes from 0.2 to 0.0; ",
        ),
        (
            ["two-layer", "--model.schedule.likelihood-std.start", "-0.2"],
            "--model.schedule.likelihood-std.end must be positive",
        ),
        (
            [
                *("two-layer", "--model.schedule.aux-weight.start", "0"),
                "--model.schedule.aux-weight.geometric",
            ],
            "aux-weight.end must be positive",
        ),
        (["two-layer", "--model.schedule.aux-weight.end", "nan"], "both must be finite"),
        (["two-layer", "--model.schedule.pres-prior.start", "1"], "must be below 1"),
        (["scalor-interaction", "--model.schedule.pres-prior.end", "0"], "must be positive"),
        (["two-layer", "--model.discovery.tau", "0"], "--model.discovery.tau is 0.0"),
        (["two-layer", "--data.world", "none.hdf5"], "none.hdf5 does not exist"),
        (["two-layer", "--data.world", "moon"], "moon"),
        (
            ["two-layer", "--data", "moon"],
            "moon is not a video, a folder of videos or an HDF5 file",
        ),
        (["two-layer", "--data.episodes", "0"], "--data.episodes is 0; it must be at least 1"),
        (["maze", "--data.episodes", "10001"], "--data.episodes is 10001; it must be from 1 to"),
        (["two-layer", "--data", "none.hdf5"], "none.hdf5 does not exist"),
        (["two-layer", "--model.image-size", "2048"], "two-layer has no frames of 2048 pixels"),
        (["single-ball", "--model.schedule.lengths", "0", "30"], "has 9 frames per video, but"),
        (
            ["single-ball", "--data.given", "9", "--data.episodes", "2"],
            "set --data.given to 1 to 8",
        ),
        (["two-layer", "--device", "abacus"], "there is no device 'abacus' here"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_folder(
    tmp_path: Path, capsys: Capture, args: list[str], line: str
) -> None:
    out = tmp_path / "run"
    more = ["--out", str(out)] if len(args) > 1 and args[0][0] != "-" else []
    assert main(["train", *args, *more]) == 2
    said = capsys.readouterr().err
    assert line.lower() in said.lower()
    assert said.startswith("gswm: ")
    assert said.count("\n") == 1
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_without_a_gpu_it_is_said_what_to_take(tmp_path: Path, capsys: Capture, name: str) -> None:
    assert main(["train", "two-layer", "--device", name, "--out", str(tmp_path / "run")]) == 2
    assert "no CUDA device found; use --device cpu" in capsys.readouterr().err


def test_resume_goes_on_with_the_settings_of_the_run(
    finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    before = (finished / "recipe.json").read_bytes()
    assert main(["train", "--resume", str(finished), "--device", "cpu"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == ["resuming from step 6", f"trained at step 6; the run is in {finished}"]
    assert (finished / "recipe.json").read_bytes() == before


@pytest.mark.parametrize("words", [["--device", "cpu", "--resume", "RUN"], ["--resume=RUN"]])
def test_resume_may_stand_anywhere(finished: Path, capsys: Capture, words: list[str]) -> None:
    words = [word.replace("RUN", str(finished)) for word in words]
    assert main(["train", *words, *([] if "--device" in words else ["--device", "cpu"])]) == 0
    assert "resuming from step 6" in capsys.readouterr().err
    assert main(["train", "single-ball", *words]) == 2
    assert "--resume uses the recipe of the run: omit single-ball" in capsys.readouterr().err


def test_a_run_in_the_place_of_a_recipe_is_told_how_to_resume(
    finished: Path, capsys: Capture
) -> None:
    assert main(["train", str(finished)]) == 2
    assert f"is a run: `gswm train --resume {finished}` resumes it" in capsys.readouterr().err


def test_resume_remembers_what_is_no_setting_of_the_recipe(
    finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    was = {"report_every": 2, "save_every": 3, "checkpoint_parts": "1M"}
    assert TrainCommand.from_args(["--resume", str(run)]).loop == LoopConfig(**was)
    assert main(["train", "--resume", str(run), "--max-minutes", "9", "--device", "cpu"]) == 0
    again = TrainCommand.from_args(["--resume", str(run), "--save-every", "9"]).loop
    assert again == LoopConfig(**was | {"save_every": 9})
    file = run / "environment.json"
    starts = json.loads(file.read_text())
    del starts[-1]["settings"]  # as a run of before has none
    file.write_text(json.dumps(starts))
    assert TrainCommand.from_args(["--resume", str(run)]).loop == LoopConfig()


def test_a_run_of_another_commit_goes_on_only_if_told_so(
    finished: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    file = run / "environment.json"
    starts = json.loads(file.read_text())
    starts[-1]["commit"] = "a" * 40
    file.write_text(json.dumps(starts))
    monkeypatch.setattr(folder, "commit", lambda: "b" * 40)
    again = ["train", "--resume", str(run), "--device", "cpu"]
    assert main(again) == 2
    said = capsys.readouterr().err
    assert f"was trained by commit {'a' * 40} of gswm, but this is {'b' * 40}" in said
    assert "--any-code" in said
    assert main([*again, "--any-code"]) == 0
    assert main(again) == 0  # it is this commit's run now
    monkeypatch.setattr(folder, "commit", lambda: None)
    assert main(again) == 0


def test_a_run_of_another_version_is_named_so_whatever_its_settings(
    finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    for name, change in (("environment", {"gswm": "0.0.1"}), ("recipe", {"color": "red"})):
        file = run / f"{name}.json"
        held = json.loads(file.read_text())
        (held[0] if name == "environment" else held).update(change)
        file.write_text(json.dumps(held))
    assert main(["train", "--resume", str(run)]) == 2
    assert "was started by gswm 0.0.1" in capsys.readouterr().err


def test_resume_takes_no_other_recipe_and_no_other_folder(
    finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["train", "--resume", str(finished), "--train.steps", "9"]) == 2
    assert "is a run of another recipe: its train.steps is 6, not 9" in capsys.readouterr().err
    assert main(["train", "--resume", str(finished), "--out", str(tmp_path / "other")]) == 2
    assert "omit --out" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_folder_is_named_after_recipe_and_seed_if_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args = ["train", *arguments(small(1)), "--seed", "7", "--device", "cpu"]
    assert main(args) == 0
    assert (tmp_path / "runs" / "single-ball-7" / "last.safetensors").exists()


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    for seed in (0, 1):
        train_here(replace(small(2, validation_episodes=0), seed=seed), tmp_path / str(seed))
    assert metrics_of(tmp_path / "0") != metrics_of(tmp_path / "1")


def test_parts_smaller_than_a_tensor_are_refused_before_the_first_step(tmp_path: Path) -> None:
    wide = small(1)
    wide = replace(wide, model=replace(wide.model, sizes=Sizes(what=4, encoding=600)))
    with pytest.raises(gswm.UserError, match=r"alone takes .* bytes; parts must be larger"):
        train_here(wide, tmp_path / "run", checkpoint_parts="1M")
    assert not (tmp_path / "run").exists()


# -- one's own videos


def test_a_file_with_splits_and_truth_trains_and_validates(tmp_path: Path) -> None:
    parts: dict[SplitName | None, Episodes] = {"train": balls(4), "val": balls(2, seed=6)}
    file = write(tmp_path / "mine.hdf5", parts, "single-ball")
    train_here(on_file(file), tmp_path / "run")
    lines = metrics_of(tmp_path / "run")
    assert any("validation_strict_error" in line for line in lines)
    assert (tmp_path / "run" / "best.safetensors").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("single-ball", False),
        ("maze", True),
        pytest.param("single-ball", True, marks=pytest.mark.slow),
        pytest.param("maze", False, marks=pytest.mark.slow),
    ],
)
def test_a_file_of_a_world_is_validated_as_the_world_is(
    name: Literal["single-ball", "maze"], says: bool, tmp_path: Path
) -> None:
    there, file = world(name), tmp_path / "mine.hdf5"
    with Writer(file, name, attributes={"world": name} if says else {}) as writer:
        writer.append(next(iter(there.episodes(there.splits["val"].seed, 2))), split="val")
    model = build(small()).eval()
    found = []
    for source in (name, str(file)):
        on = replace(small(), data=replace(small().data, world=source))
        scores, note = validator(on, torch.device("cpu"))
        assert scores is not None
        assert note == ""
        found.append(scores(model, None))
    assert f"min_ade_{SAMPLED}" in found[0]
    assert list(found[0]) == list(found[1])
    assert found[0] == pytest.approx(found[1])


@pytest.mark.slow
def test_a_file_without_truth_trains_and_is_validated_by_pixels(
    tmp_path: Path, capsys: Capture
) -> None:
    parts: dict[SplitName | None, Episodes] = {"train": blank(), "val": blank()}
    file = write(tmp_path / "mine.hdf5", parts, "video")
    train_here(on_file(file, steps=6), tmp_path / "run", pictures=True)
    said = capsys.readouterr().err
    unknown = f"{file} has no ground truth for objects"
    assert said.startswith(f"validation uses pixel errors: {unknown}\n")
    scored = [line for line in metrics_of(tmp_path / "run") if "validation_error" in line]
    assert [line["step"] for line in scored] == [3, 6]
    about = read_header(tmp_path / "run" / "best.safetensors")["about"]
    assert about["validation"]["error"] == min(line["validation_error"] for line in scored)
    assert list(about["validation"]) == ["error", "psnr", "unexplained"]
    model = gswm.load(tmp_path / "run")
    scores = validate(model, blank()[:2], 5, 1)
    assert scores | {"unexplained": measure(model, blank()[:2].video)} == pytest.approx(
        about["validation"]
    )
    assert about["curve"] == []  # which is of places
    assert (tmp_path / "run" / "pictures" / "00000003" / "imagined.png").is_file()


def test_weights_know_how_their_videos_were_imported(tmp_path: Path) -> None:
    for name in ("train/0.mkv", "train/1.mkv", "val/0.mkv"):
        video(tmp_path / "in" / name, frames=16)
    file, args = tmp_path / "mine.hdf5", ["--size", "64", "--frames", "8", "--fit", "stretch"]
    for fps in ([], ["--fps", "5"]):
        out = ["--out", str(file), "--force"]
        assert main(["data", "import", str(tmp_path / "in"), *out, *args, *fps]) == 0
        run = tmp_path / f"run{len(fps)}"
        train_here(on_file(file), run)
        known = {"fit": "stretch"} | ({"fps": 5.0} if fps else {})
        for which in ("best", "last"):
            assert read_header(run / f"{which}.safetensors")["about"]["videos"] == known
    assert main(["export", str(run), "--out", str(tmp_path / "a.safetensors")]) == 0
    assert read_header(tmp_path / "a.safetensors")["about"]["videos"] == known


def test_videos_too_short_to_imagine_train_and_say_how_to_validate(
    tmp_path: Path, capsys: Capture
) -> None:
    parts: dict[SplitName | None, Episodes] = {"train": blank(), "val": blank(frames=6)}
    file = write(tmp_path / "mine.hdf5", parts, "video")
    train_here(on_file(file, given=6), tmp_path / "run")
    said = capsys.readouterr().err
    assert said.startswith("no validation: validation needs more than 6 given frames, but ")
    assert "set --data.given to 1 to 5\n" in said
    assert (tmp_path / "run" / "last.safetensors").exists()


@pytest.mark.parametrize("split", ["train", None])
def test_a_file_without_a_validation_split_trains_and_says_so(
    tmp_path: Path, capsys: Capture, split: SplitName | None
) -> None:
    file = write(tmp_path / "mine.hdf5", {split: balls()}, "single-ball")
    train_here(on_file(file), tmp_path / "run")
    said = capsys.readouterr().err
    assert said.startswith(f"no validation: {file} has no validation videos; ")
    assert "add the key `splits`" in said
    assert (tmp_path / "run" / "last.safetensors").exists()


def test_any_recipe_takes_videos_of_its_size(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.hdf5", {"train": blank(frames=4)}, "video")
    args = ["train", "two-layer", "--data.world", str(file), "--out", str(tmp_path / "run")]
    args += ["--model.schedule.lengths", "0", "2", "--train.steps", "1", "--train.batch", "2"]
    assert main([*args, "--device", "cpu"]) == 0
    assert (tmp_path / "run" / "last.safetensors").exists()


def test_videos_of_another_size_are_refused_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path / "mine.hdf5", {"train": blank(size=32)}, "video")
    args = ["train", "two-layer", "--data.world", str(file), "--out", str(tmp_path / "run")]
    assert main([*args, "--device", "cpu"]) == 2
    assert capsys.readouterr().err == (
        f"gswm: {file} has frames of 32 × 32 pixels, but the model expects 64 × 64: import the "
        "videos at that size, or set --model.image-size\n"
    )
    assert not (tmp_path / "run").exists()


def test_videos_that_are_too_short_are_refused_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    file = write(tmp_path / "mine.hdf5", {"train": blank(frames=6)}, "video")
    args = ["train", "two-layer", "--data.world", str(file), "--out", str(tmp_path / "run")]
    assert main([*args, "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert (
        "has 6 frames per video, but training uses up to 20: shorten --model.schedule.len" in said
    )
    assert said.count("\n") == 1


def test_a_file_that_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.hdf5", {"train": balls()}, "single-ball")
    train_here(on_file(file, steps=4), tmp_path / "run", max_minutes=0.0)
    file.unlink()
    write(file, {"train": balls(seed=9)}, "single-ball")
    with pytest.raises(gswm.UserError, match="to other data: its checksum is"):
        train_here(on_file(file, steps=4), tmp_path / "run")


def reading() -> int:
    """Threads that read ahead."""
    return sum(thread.name.startswith("gswm-read") for thread in threading.enumerate())


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_training_closes_the_file_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_well: bool
) -> None:
    monkeypatch.setattr("gswm.data.batches.loader.SHARE", 0.0)
    found: list[int] = []

    def look() -> None:
        found.append(reading())
        if not ends_well:
            raise UserError("no more")

    stop_after(monkeypatch, 2, look)
    file = write(tmp_path / "mine.hdf5", {"train": balls()}, "single-ball")
    with nullcontext() if ends_well else pytest.raises(UserError, match="no more"):
        train_here(on_file(file), tmp_path / "run")
    assert found[0] > 0
    assert reading() == 0
    held = [os.readlink(handle) for handle in Path("/proc/self/fd").iterdir() if handle.exists()]
    assert str(file) not in held


def test_a_training_leaves_the_products_of_a_gpu_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []

    def look_and_stop(*_: Any) -> None:
        found.extend(backend.allow_tf32 for backend in backends)
        raise Stopped

    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    monkeypatch.setattr(launch, "find_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(launch, "check", look_and_stop)
    with tf32(False):
        with pytest.raises(Stopped):
            launch.train(small(1), tmp_path / "run", "cuda", LoopConfig())
        found.extend(backend.allow_tf32 for backend in backends)
    assert found == [True, True, False, False]


# -- OBJ3D, or any folder of videos


@pytest.fixture(scope="module")
def obj3d(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree like OBJ3D's, of four videos."""
    root = tmp_path_factory.mktemp("original") / "OBJ3D"
    for name in ("train/000", "train/001", "val/000", "test/000"):
        pictures(root / name, frames=100)
    return root


def on_folder(folder: Path, out: Path) -> list[str]:
    args = ["obj3d", "--data", str(folder), "--out", str(out), "--device", "cpu"]
    args += ["--model.schedule.lengths", "0", "2", "--train.steps", "1", "--train.batch", "2"]
    return [*args, "--train.validation-episodes", "1"]


@pytest.mark.slow
def test_the_original_set_trains_and_is_measured_by_the_name_of_its_folder(
    obj3d: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = obj3d.with_name("OBJ3D.hdf5")
    assert main(["train", *on_folder(obj3d, tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"`gswm data import {obj3d} --out {file} --size 64`, once:\n")
    assert folder.RunFolder(tmp_path / "run").recipe().data.world == str(file)
    about = read_header(tmp_path / "run" / "best.safetensors")["about"]
    assert about["validation"]["error"] > 0
    assert main(["train", *on_folder(obj3d, tmp_path / "again")]) == 0
    assert capsys.readouterr().err.startswith(f"{obj3d}: using {file}; ")
    for on in ([], ["--world", str(obj3d)]):
        scores = tmp_path / "scores.json"
        assert main(["eval", str(tmp_path / "run"), *on, "--json", str(scores), "--force"]) == 0
        said = capsys.readouterr().err
        unknown = f"{file} has no ground truth for objects"
        assert f"{unknown}: measuring only pixels, with slotformer-6-44\n" in said
        measured = json.loads(scores.read_text())
        assert set(measured["scores"]) == {
            *("psnr", "ssim", "reconstruction_psnr", "reconstruction_gain", "sharpness"),
        }
        assert measured["data"] == {"world": str(file), "of": "video", "split": "val"}
    args = ["eval", str(tmp_path / "run"), "--protocol", "gswm-10-90"]
    assert main(args) == 2
    assert "--protocol slotformer-6-44 or ocvp-5-25" in capsys.readouterr().err


def test_data_names_the_file_before_anything_is_imported(tmp_path: Path) -> None:
    for given, file in (("OBJ3D", "OBJ3D.hdf5"), ("mine.hdf5", "mine.hdf5")):
        parsed = TrainCommand.from_args(["obj3d", "--data", given, "--data.episodes", "5"])
        assert (parsed.recipe.data.world, parsed.recipe.data.episodes) == (file, 5)


@pytest.mark.slow
def test_data_may_be_one_video(tmp_path: Path, capsys: Capture) -> None:
    film, run = video(tmp_path / "film.mkv", frames=100), tmp_path / "run"
    assert main(["train", *on_folder(film, run)]) == 0
    assert sorted(os.listdir(tmp_path)) == ["film.mkv", "film.mkv.hdf5", "run"]
    capsys.readouterr()
    args = ["eval", str(run), "--world", str(film), "--split", "train"]
    assert main([*args, "--json", str(tmp_path / "scores.json")]) == 0
    assert ": using " in capsys.readouterr().err


def test_data_may_be_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.hdf5", {"train": blank()}, "video")
    args = on_folder(file, tmp_path / "run")
    assert main(["train", *args, "--data.first-frames", "6"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["mine.hdf5", "run"]


def test_a_signal_while_importing_leaves_nothing(
    obj3d: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "OBJ3D").symlink_to(obj3d)
    append = Writer.append

    def append_and_stop(self: Writer, *args: Any, **settings: Any) -> None:
        append(self, *args, **settings)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Writer, "append", append_and_stop)
    assert main(["train", *on_folder(tmp_path / "OBJ3D", tmp_path / "run")]) == 143
    assert capsys.readouterr().err.endswith("cached episodes are not generated again\n")
    assert os.listdir(tmp_path) == ["OBJ3D"]


def test_importing_is_a_part_of_the_time(
    obj3d: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float] = []

    def look(*_: Any) -> None:
        left.append(signal.getitimer(signal.ITIMER_REAL)[0])
        time.sleep(0.3)

    def look_and_stop(*_: Any) -> None:
        look()
        raise Stopped

    monkeypatch.setattr("gswm.commands.train.import_once", look)
    monkeypatch.setattr("gswm.train.launch.training_loader", look_and_stop)
    args = on_folder(obj3d, tmp_path / "run")
    assert main(["train", *args, "--max-minutes", "1"]) == 0
    importing, training = left
    assert importing <= 60
    assert 0 < training <= importing - 0.3


def test_time_that_was_up_before_it_could_be_heard_stops_at_once() -> None:
    signals = Signals()
    signals.since -= 90
    with pytest.raises(Stopped), signals.heard(1.0):
        time.sleep(5)
    assert signals.asked
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_commit_is_that_of_the_source_and_says_if_there_is_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "src" / "source.py"
    source.parent.mkdir()
    source.write_text("1")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "of.txt").write_text("1")
    monkeypatch.setattr(folder, "__file__", str(source))

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(
            ["git", "-C", tmp_path, *who, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "of another project")
    assert folder.commit() is None
    git("add", ".")
    git("commit", "-q", "-m", "ours")
    head = git("rev-parse", "HEAD")
    assert folder.commit() == head
    (tmp_path / "notes.txt").write_text("of nobody's concern")
    assert folder.commit() == head
    source.write_text("2")
    assert folder.commit() == f"{head}+changes"
