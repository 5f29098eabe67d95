"""The evaluator: any model, reproducible numbers, and clear errors."""

import json
import math
import re
import shlex
import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import tiny_sqair
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import gswm
from gswm.cli import main, parse
from gswm.commands import evaluate as command
from gswm.commands.resolving import resolve
from gswm.core.errors import UserError
from gswm.core.records import concatenate, regroup
from gswm.core.words import score
from gswm.data.episode import Episodes
from gswm.data.storage.writer import Writer
from gswm.data.worlds.balls import INTERACTION, OCCLUSION
from gswm.data.worlds.registry import world
from gswm.eval.baselines import Baseline, Rule
from gswm.eval.evaluate import Result, evaluate, imagine, standard_errors
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.distance import TABLE_STEPS, center_errors
from gswm.eval.protocols import PROTOCOLS, Protocol, protocol, register_protocol, usual
from gswm.eval.validate import validate
from gswm.models.base import WorldModel, as_float
from gswm.models.track import Track
from gswm.train.launch import validator

SHORT = Protocol("short", 10, 10, ("center", "tracking", "pixels"))


class Seer(WorldModel):
    """A model of which only imagined tracks are used."""

    image_size = 64
    device = torch.device("cpu")

    def loss(self, *_: Any) -> Any:
        raise NotImplementedError

    def perceive(self, *_: Any, **__: Any) -> Track:
        raise NotImplementedError

    def rollout(self, *_: Any, **__: Any) -> Track:
        raise NotImplementedError


class Puppet(Seer):
    """A model that does as a rule does. Each video's first pixel tells which episode it is."""

    def __init__(self, episodes: Episodes, rule: Rule) -> None:
        self.episodes, self.rule = episodes, Baseline(rule)

    def of(self, video: Tensor) -> Episodes:
        return self.episodes[video[:, 0, 0, 0, 0].long()]

    def imagine(self, video: Tensor, given: int, steps: int, **settings: Any) -> Track:
        episodes = self.of(video)
        track = self.rule.imagine(episodes, given, steps)
        frames = as_float(episodes.video[:, given : given + steps])[:, None]
        return replace(track, reconstruction=frames if settings["render"] else None)

    def infer(self, video: Tensor, **_: Any) -> Track:
        past = self.rule.imagine(self.of(video), video.shape[1], 1).past
        assert past is not None
        return past


def marked(n: int, frames: int) -> Episodes:
    """Interacting balls."""
    episodes = next(replace(INTERACTION, num_frames=frames).episodes(3, n))
    episodes.video[:, 0, 0, 0, 0] = torch.arange(n)
    return episodes


def test_who_knows_everything_scores_everything() -> None:
    episodes = marked(4, 20)
    scores = evaluate(Puppet(episodes, "simulator"), [episodes], SHORT).scores
    assert scores["center_error"] == pytest.approx(0, abs=1e-5)
    assert scores["strict_error"] == pytest.approx(0, abs=1e-5)
    for name in ("mota", "idf1", "hota", "count_right", "ssim"):
        assert scores[name] == pytest.approx(1, abs=1e-5), name
    assert scores["psnr"] == pytest.approx(100)


def test_validation_is_the_evaluation_of_ten_steps() -> None:
    episodes = marked(5, 30)
    model = Puppet(episodes, "straight")
    light = validate(model, episodes, given=10)
    full = evaluate(model, [episodes], Protocol("x", 10, 20, ("center",))).scores
    assert light["center_error"] == pytest.approx(full["center_error"])
    assert light["strict_error"] == pytest.approx(full["strict_error"])
    assert light["objects"] == light["true_objects"] == 3


class AskedError(Exception):
    """Raised with the discovery mode that a model was asked for."""


class Inquirer(Seer):
    def __init__(self) -> None:
        pass

    def imagine(self, *_: Any, discover: str, **__: Any) -> Track:
        raise AskedError(discover)


@pytest.mark.parametrize(
    ("name", "discover"), [("sqair-interaction", "first"), ("sqair-digits", "always")]
)
def test_validation_discovers_objects_as_the_worlds_protocol_does(name: str, discover: str) -> None:
    of = gswm.recipe(name)
    few = replace(of, train=replace(of.train, validation_episodes=1))
    scores, _ = validator(few, torch.device("cpu"))
    assert scores is not None
    with pytest.raises(AskedError, match=discover):
        scores(Inquirer(), None)


def test_validation_of_a_model_that_finds_nothing_is_strict_and_finite() -> None:
    episodes = marked(2, 20)
    assert episodes.truth is not None
    blind = replace(episodes.truth, present=torch.zeros_like(episodes.truth.present))
    scores = validate(Puppet(replace(episodes, truth=blind), "stay"), episodes, given=10)
    assert scores == {"objects": 0, "true_objects": 3, "count_right": 0} | dict.fromkeys(
        ("error", "strict_error"), 10
    )


def test_validation_of_videos_without_truth_is_by_pixels() -> None:
    known = marked(20, 14)
    videos = replace(known, truth=None)
    right = validate(Puppet(known, "simulator"), videos, given=10, steps=4)
    assert right == {"error": 0, "psnr": pytest.approx(100)}
    wrong = Puppet(replace(known, video=known.video.roll(1, dims=1)), "simulator")
    scores = validate(wrong, videos, given=10, steps=4)
    apart = as_float(known.video[:, 10:]) - as_float(known.video[:, 9:13])
    assert scores["error"] == pytest.approx(apart.square().mean().item())
    full = evaluate(wrong, [videos], Protocol("x", 10, 4, ("pixels",))).scores
    assert scores["psnr"] == pytest.approx(full["psnr"])


class Chooser(Seer):
    """A model of the single ball: its futures are episodes of a list, one after the other."""

    def __init__(self, episodes: Episodes, order: list[int]) -> None:
        self.episodes, self.order = episodes, order

    def imagine(self, video: Tensor, given: int, steps: int, **settings: Any) -> Track:
        number = settings["futures"] if settings["sample"] else 1
        rule, shown = Baseline("simulator"), []
        for i in range(number):
            which = torch.full((len(video),), self.order[i % len(self.order)])
            shown.append(rule.imagine(self.episodes[which], given, steps))
        past, futures = shown[0].past, [replace(track, past=None) for track in shown]
        return replace(concatenate(futures, dim=1), past=past)


@pytest.mark.parametrize(("order", "better"), [([0, 1], True), ([0], False), ([1], False)])
def test_where_there_are_several_futures_the_best_model_has_them_all(
    order: list[int], better: bool
) -> None:
    """By means, a model that always takes one way scores as well as one that takes both."""
    episodes = next(iter(world("single-ball").episodes(0, 2)))
    both = Chooser(episodes, order)
    scores = validate(both, episodes, given=5, steps=4, futures=10)
    assert scores["on_mode"] == 1
    assert scores["end_error"] == pytest.approx(0, abs=1e-5)
    assert (scores["error"] < 1e-4) == better
    assert validate(both, episodes, given=5, steps=4)["error"] == pytest.approx(
        scores["strict_error"]
    )


class Gambler(Puppet):
    """A model whose objects are anywhere."""

    def imagine(self, video: Tensor, given: int, steps: int, **settings: Any) -> Track:
        track = super().imagine(video, given, steps, **settings)
        return replace(track, xy=torch.rand(track.xy.shape, generator=settings["generator"]))


def test_samples_depend_on_the_seed_alone() -> None:
    episodes, rules = marked(20, 6), Protocol("x", 2, 4, ("center",), sample=True)
    model = Gambler(episodes, "stay")
    together = evaluate(model, [episodes], rules).to_json()
    assert together == evaluate(model, [episodes[:7], episodes[7:]], rules).to_json()
    assert together["scores"] != evaluate(model, [episodes], rules, seed=1).to_json()["scores"]


# -- scores of single episodes


def test_an_episodes_scores_are_those_of_that_episode_alone() -> None:
    episodes, rules = marked(5, 25), Protocol("x", 10, 15, ("center", "tracking"))
    model = Puppet(episodes, "straight")
    both = evaluate(model, [episodes], rules)
    for i in range(5):
        alone = evaluate(model, [episodes[i : i + 1]], rules).scores
        for name, values in both.per_episode.items():
            assert values[i] == pytest.approx(alone[name], abs=1e-6), name
    assert {"center_error", "center_error_mean", "strict_error", "mota"} < set(both.per_episode)
    for name, values in both.per_episode.items():
        assert statistics.fmean(values) == pytest.approx(both.scores[name], abs=1e-6), name
        expected = statistics.stdev(values) / math.sqrt(5)
        assert both.standard_errors[name] == pytest.approx(expected, abs=1e-6), name


def test_what_was_not_measured_has_no_part_in_a_standard_error() -> None:
    nan = float("nan")
    values = {"some": torch.tensor([1.0, nan, 3.0]), "one": torch.tensor([nan, 2.0])}
    assert standard_errors(values) == {"some": pytest.approx(statistics.stdev([1, 3]) / 2**0.5)}


# -- samples


def of_balls(frames: int, number: int = 3) -> Episodes:
    return next(replace(INTERACTION, num_frames=frames).episodes(3, number))


@pytest.mark.parametrize("posterior", ["mean", "sample"])
def test_a_sampled_future_is_measured_as_the_mean_rollout_is(posterior: Any) -> None:
    model, episodes, given = tiny.lively("interaction"), of_balls(16), 4
    rules = Protocol("x", given, 12, ("center",), posterior=posterior, samples=3)
    found = evaluate(model, [episodes], rules)
    drawn = torch.Generator().manual_seed(0)
    how: dict[str, Any] = {"discover": "first", "render": False}
    if posterior == "sample":
        how["generator"] = drawn
    state = model.infer(episodes.video[:, :given], **how).state_at(-1)
    futures = model.imagine_from(state, 12, futures=3, generator=drawn, render=False)
    assert episodes.truth is not None
    true, all_of = Boxes.of_truth(episodes.truth, 64).frames(given), Boxes.of_track(futures)
    errors = []
    for i in range(3):
        one = Boxes(*(getattr(all_of, name)[:, i] for name in ("xy", "hw", "id", "there")))
        errors.append(center_errors(one, true).paper)
    paper = torch.stack(errors).nanmean(dim=(0, 1))
    expected = paper[:TABLE_STEPS].sum().item()
    assert found.scores["center_error_sample"] == pytest.approx(expected)
    assert found.scores["center_error_sample_mean"] == pytest.approx(paper.mean().item())
    assert found.curves["center_error_sample"] == pytest.approx(paper.tolist())
    assert found.scores["center_error_sample"] != pytest.approx(found.scores["center_error"])


def test_sampled_futures_leave_the_other_scores_alone() -> None:
    model, rules = tiny.lively("interaction"), Protocol("x", 4, 6, ("center", "tracking"))
    with_samples = evaluate(model, [of_balls(10)], replace(rules, samples=2)).scores
    plain = evaluate(model, [of_balls(10)], rules).scores
    assert {name: with_samples[name] for name in plain} == plain
    assert set(with_samples) - set(plain) == {"center_error_sample", "center_error_sample_mean"}


def test_futures_after_samples_of_the_posterior_each_begin_with_their_own() -> None:
    model, episodes = tiny.lively("interaction"), of_balls(9)
    rules = Protocol("x", 4, 5, ("center",), sample=True, futures=3, posterior="sample")
    track = imagine(model, episodes, rules, tiny.generator(2))
    rows = episodes.video.repeat_interleave(3, dim=0)
    plain = model.imagine(rows, 4, 5, generator=tiny.generator(2), sample_given=True, render=False)
    assert track.past is not None
    assert torch.equal(track.xy, plain.xy.reshape(3, 3, *plain.xy.shape[2:]))
    assert torch.equal(track.past.xy, plain.past.xy)
    assert not torch.equal(track.past.xy[0], track.past.xy[1])
    scores = evaluate(model, [episodes], rules)
    assert len(scores.per_episode["center_error"]) == 3


def test_samples_of_the_posterior_change_what_is_tracked() -> None:
    model, rules = tiny.lively("interaction"), Protocol("x", 4, 5, ("tracking",))
    mean, drawn, again = (
        evaluate(model, [of_balls(9)], replace(rules, posterior=how)).to_json()
        for how in ("mean", "sample", "sample")
    )
    assert drawn == again
    boxes = [result["examples"][0]["tracked"] for result in (mean, drawn)]
    assert boxes[0] != boxes[1]


def test_a_protocol_of_sampled_futures_alone_has_no_samples_beside_them() -> None:
    for rules in (
        Protocol("x", 5, 5, ("center",), sample=True, samples=2),
        Protocol("x", 5, 5, ("pixels",), samples=2),
        Protocol("x", 5, 5, ("center",), futures=2, samples=2),
        Protocol("x", 5, 5, ("center",), samples=-1),
    ):
        with pytest.raises(UserError, match="samples of 'x'"):
            register_protocol(rules)
    assert "x" not in PROTOCOLS


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(1, 6))
def test_batches_are_cut_alike_however_episodes_come(sizes: list[int], size: int) -> None:
    video = (
        torch.arange(sum(sizes), dtype=torch.uint8).reshape(-1, 1, 1, 1, 1).expand(-1, 1, 3, 1, 1)
    )
    chunks = [Episodes(part) for part in video.split(sizes)]
    cut = [batch.video[:, 0, 0, 0, 0].tolist() for batch in regroup(chunks, size)]
    assert [len(batch) for batch in cut[:-1]] == [size] * (len(cut) - 1)
    assert [number for batch in cut for number in batch] == list(range(sum(sizes)))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "ball.safetensors"
    torch.manual_seed(0)
    recipe = gswm.recipe("single-ball")
    gswm.save(path, gswm.build(recipe), recipe)
    return path


def test_the_same_weights_give_the_same_file_twice(weights: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    for out in (one, other):
        assert main(["eval", str(weights), "--episodes", "4", "--json", str(out)]) == 0
    assert one.read_bytes() == other.read_bytes()
    report = json.loads(one.read_text())
    assert report["protocol"]["name"] == "gswm-5-4"
    assert report["data"] == {"world": "single-ball", "of": "single-ball", "split": "test"}
    assert report["model"]["recipe"] == "single-ball"
    assert report["episodes"] == 4
    assert 0 <= report["scores"]["coverage"] <= 1
    assert sorted(tmp_path.iterdir()) == [one, other]


@pytest.mark.slow
def test_given_frames_are_sampled_if_asked_for(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["eval", str(weights), "--episodes", "1", "--given", "sample"]
    reports = []
    for name in ("one", "other"):
        out = tmp_path / f"{name}.json"
        assert main([*args, "--json", str(out)]) == 0
        assert "posterior samples" in capsys.readouterr().out
        reports.append(json.loads(out.read_text()))
    assert reports[0] == reports[1]
    assert reports[0]["protocol"]["posterior"] == "sample"
    assert reports[0]["command"] == f"gswm eval {weights} --given sample --episodes 1"
    assert main([*args[:-2], "--json", str(tmp_path / "mean.json")]) == 0
    mean = json.loads((tmp_path / "mean.json").read_text())
    assert mean["protocol"]["posterior"] == "mean"
    assert mean["scores"] != reports[0]["scores"]
    assert "posterior samples" not in capsys.readouterr().out


def test_balls_are_measured_by_the_mean_rollout_and_by_sampled_futures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small_trunk: None
) -> None:
    recipe, file = gswm.recipe("interaction"), tmp_path / "balls.safetensors"
    recipe = replace(recipe, model=tiny.config())
    torch.manual_seed(0)
    gswm.save(file, gswm.build(recipe), recipe)
    out = tmp_path / "out.json"
    args = ["eval", str(file), "--episodes", "1", "--json", str(out)]
    assert main([*args, "--samples", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    report = json.loads(out.read_text())
    assert report["protocol"]["samples"] == 2
    for name in ("center_error", "center_error_mean", "center_error_sample"):
        assert any(line.split()[:1] == [name] for line in lines), name
        assert name in report["scores"]
    assert sum("paper" in line for line in lines) == 1
    for args, number in (([], 10), (["--samples", "0"], 0)):
        assert parse("eval", ["x", *args]).changed(protocol("gswm-10-90")).samples == number


def test_python_takes_a_path_and_episodes_without_a_list(weights: Path) -> None:
    episodes = next(gswm.world("single-ball").episodes(seed=1, n=2))
    found = gswm.evaluate(weights, episodes, "gswm-5-4")
    chunks = [episodes[:1], episodes[1:]]
    by_model = gswm.evaluate(gswm.load(weights), chunks, "gswm-5-4")
    assert found.to_json() == by_model.to_json()


def test_a_run_is_measured_by_its_best_weights(weights: Path, tmp_path: Path) -> None:
    shutil.copy(weights, tmp_path / "last.safetensors")
    assert resolve(str(tmp_path), torch.device("cpu"))[1]["file"] == "last.safetensors"
    shutil.copy(weights, tmp_path / "best.safetensors")
    assert resolve(str(tmp_path), torch.device("cpu"))[1]["file"] == "best.safetensors"


def test_a_rule_is_measured_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "stay.json"
    args = ["eval", "--baseline", "stay", "--world", "occlusion", "--episodes", "3"]
    assert main([*args, "--json", str(out)]) == 0
    report = json.loads(out.read_text())
    assert len(report["curves"]["center_error"]) == 90
    assert report["model"] == {"baseline": "stay"}
    assert f"{report['scores']['center_error']:.4f}" in capsys.readouterr().out


def test_a_file_is_measured_as_its_world_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chunks = list(OCCLUSION.episodes(OCCLUSION.splits["test"].seed, 3))
    with Writer(file := tmp_path / "test.hdf5", "balls", attributes={"world": "occlusion"}) as new:
        for chunk in chunks:
            new.append(chunk)
    scores = []
    for where in ("occlusion", str(file)):
        args = ["eval", "--baseline", "simulator", "--world", where, "--episodes", "2"]
        assert main([*args, "--json", str(tmp_path / "out.json"), "--force"]) == 0
        scores.append(json.loads((tmp_path / "out.json").read_text())["scores"])
    assert scores[0] == scores[1]
    assert scores[0]["center_error"] == pytest.approx(0, abs=1e-4)
    assert main([*args[:-1], "4"]) == 2
    assert f"the test split of {file} has 3 episodes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "--baseline"),
        (["two-layer.pt"], "safetensors"),
        (["none.safetensors"], "there is no file"),
        (["."], "is not a run folder"),
        (["runs/nothing"], "a shipped model: check the path"),
        (["two-layer", "interaction"], "interaction is a world: use --world interaction"),
        (["x.safetensors", "--device", "abacus"], "no device 'abacus'"),
        (["--baseline", "stay"], "--world"),
        (["--baseline", "walls", "--world", "maze"], "bouncing balls"),
        (["--baseline", "stay", "--world", "nowhere"], "no world 'nowhere'"),
        (["--baseline", "stay", "--world", "maze", "--protocol", "x"], "no protocol 'x'"),
        (["--baseline", "stay", "--world", "single-ball", "--protocol", "gswm-10-90"], "frames"),
        (["--baseline", "stay", "--world", "occlusion", "--episodes", "0"], "at least 1"),
        (["--baseline", "stay", "--world", "occlusion", "--protocol", "gswm-maze-5"], "mazes"),
        (
            ["--baseline", "stay", "--world", "occlusion", "--given", "sample"],
            "--given needs a model",
        ),
        (
            ["--baseline", "stay", "--world", "occlusion", "--samples", "2"],
            "--samples needs a model",
        ),
        (["two-layer", "--samples", "-1"], "--samples must be 0 or more"),
        (["single-ball", "--samples", "2"], "unlike gswm-5-4"),
        (["x.avi", "--labels", "x.txt", "--given", "sample"], "cannot be used with --labels"),
        (
            ["--baseline", "stay", "--world", "two-layer", "--episodes", "201"],
            "--episodes is 201, but the test split of two-layer has 200 episodes: use 200",
        ),
    ],
)
def test_a_mistake_is_one_line(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", *args]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_videos_without_truth_can_only_be_measured_by_their_pixels() -> None:
    episodes = Episodes(marked(2, 20).video)
    for frames, said in (
        (50, "--protocol slotformer-6-44 or ocvp-5-25 measures only pixels"),
        (40, "--protocol ocvp-5-25 measures only pixels"),
        (
            20,
            "ocvp-5-25, which measures only pixels, needs 30 frames, and these videos have 20: "
            "import",
        ),
    ):
        with pytest.raises(UserError, match=f"; {said}"):
            evaluate(Puppet(marked(2, 20), "stay"), [Episodes(marked(2, frames).video)], SHORT)
    with pytest.raises(UserError, match="no ground truth"):
        evaluate(Baseline("stay"), [episodes], SHORT)
    only = Protocol("pixels", 10, 10, ("pixels",))
    scores = evaluate(Puppet(marked(2, 20), "stay"), [episodes], only).scores
    assert set(scores) == {"psnr", "ssim"}


def test_a_result_without_numbers_is_still_json() -> None:
    result = Result(SHORT, 1, 0, {"a": float("nan")}, {"b": [1.0, float("inf")]}).to_json()
    assert result["scores"] == {"a": None}
    assert json.loads(json.dumps(result, allow_nan=False))["curves"]["b"] == [1.0, None]


def test_a_model_is_evaluated_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gswm.eval.evaluate.find_device", lambda _: torch.device("meta"))
    episodes = marked(1, 20)
    assert evaluate(Puppet(episodes, "stay"), episodes, SHORT).episodes == 1


def test_rules_that_are_not_registered_are_checked_too() -> None:
    with pytest.raises(UserError, match="must be at least 1"):
        evaluate(Baseline("stay"), marked(1, 4), Protocol("x", 2, 2, ("center",), futures=0))
    with pytest.raises(UserError, match="seed is -1; it must be from 0"):
        evaluate(Baseline("stay"), marked(1, 4), Protocol("x", 2, 2, ("center",)), seed=-1)


def test_the_largest_seed_serves_several_batches() -> None:
    rules = Protocol("x", 2, 2, ("center",))
    assert evaluate(Baseline("stay"), marked(17, 4), rules, seed=2**64 - 1).episodes == 17


def test_protocols_go_by_their_own_names() -> None:
    assert all(protocol(name).name == name for name in PROTOCOLS)
    episodes = marked(1, 50)
    by_name = evaluate(Baseline("stay"), [episodes], "slotformer-6-44")
    assert by_name == evaluate(Baseline("stay"), [episodes], protocol("slotformer-6-44"))
    assert usual("two-layer").name == "gswm-10-90"
    assert usual("maze").frames == 99
    assert usual("obj3d").name == usual("obj3d-hard").name == "gswm-3d-10-90"


def test_a_maze_is_measured_by_its_corridors(tmp_path: Path) -> None:
    out = tmp_path / "stay.json"
    args = ["eval", "--baseline", "stay", "--world", "maze", "--episodes", "2"]
    assert main([*args, "--json", str(out)]) == 0
    scores = json.loads(out.read_text())["scores"]
    assert scores["in_corridor"] == 1
    assert scores["pace"] == 0


def test_a_result_says_how_to_get_it_again(weights: Path, tmp_path: Path) -> None:
    recipe = gswm.recipe("single-ball")
    other = replace(recipe, seed=4, train=replace(recipe.train, steps=7, lr=1e-3))
    about = {"trained_with": {"train.clip": 2.0}}
    gswm.save(tmp_path / "other.safetensors", gswm.build(other), other, about=about)
    args = ["eval", str(tmp_path / "other.safetensors"), "--episodes", "1", "--split", "val"]
    assert main([*args, "--half", "--json", str(tmp_path / "out.json")]) == 0
    report = json.loads((tmp_path / "out.json").read_text())
    file = tmp_path / "other.safetensors"
    assert report["command"] == f"gswm eval {file} --split val --episodes 1 --half"
    assert report["model"]["kind"] == "GSWM"
    train = "gswm train single-ball --train.steps 7 --train.lr 0.001 --seed 4 --train.clip 2.0"
    assert report["model"]["train"] == train
    assert len(report["examples"]) == 1
    assert len(report["examples"][0]["futures"]) == 100


def test_the_command_is_the_one_that_was_given() -> None:
    given = ["runs/my ball", "--episodes", "2", "--lpips", "nets/alex.safetensors"]
    again = parse("eval", given).command()
    assert again == "gswm eval 'runs/my ball' --episodes 2 --lpips nets/alex.safetensors"
    assert parse("eval", shlex.split(again)[2:]) == parse("eval", given)
    assert parse("eval", ["two-layer", "--json", "x.json"]).command() == "gswm eval two-layer"


def test_a_bad_place_for_the_result_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "evaluate", lambda *_, **__: pytest.fail("it began to measure"))
    (tmp_path / "file").write_text("")
    for bad in (tmp_path, tmp_path / "file" / "out.json", tmp_path / ("x" * 300)):
        args = ["eval", "--baseline", "stay", "--world", "maze", "--json", str(bad)]
        assert main(args) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"gswm: cannot write {bad}: ")
        assert len(said.splitlines()) == 1
    assert main(["eval", "--baseline", "stay", "--world", "maze", "--json", "x.hdf5"]) == 2
    assert "'x.hdf5': the name must end in .json" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("world", "number", "said"), [("single-ball", 1, True), ("maze", 1, False)]
)
def test_it_is_said_why_there_is_nothing_about_modes(
    world: str, number: int, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["eval", "--baseline", "stay", "--world", world, "--episodes", str(number)]
    assert main(args) == 0
    out, err = capsys.readouterr()
    assert "on_mode" not in out
    lack = "without share, on_mode, coverage and end_error"
    why = "all evaluated episodes (1) turn the same way; use more --episodes"
    assert err == (f"{lack}: {why}\n" if said else "")


def test_a_model_that_finds_no_objects_is_told_to_find_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = gswm.recipe("single-ball")
    model = gswm.build(recipe)
    assert isinstance(model, torch.nn.Module)
    with torch.no_grad():
        model.state_dict()["discovery.mlp_disc.4.bias"][0] = -30.0  # the logit of presence
    gswm.save(tmp_path / "blind.safetensors", model, recipe)
    assert main(["eval", str(tmp_path / "blind.safetensors"), "--episodes", "2"]) == 0
    out, err = capsys.readouterr()
    assert "found no objects" in err
    assert "nan" not in out
    assert re.search("objects +0.0000", out)


def test_counts_are_integers() -> None:
    assert score("misses", 1234.0) == "1,234"
    assert score("true_boxes_all", 5.0) == "5"
    assert score("objects", 1.5) == "1.5000"


def test_where_episodes_go_both_ways_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--baseline", "stay", "--world", "single-ball", "--episodes", "20"]) == 0
    out, err = capsys.readouterr()
    assert "on_mode" in out
    assert err == ""


def test_weights_are_rounded_as_they_are_for_release(weights: Path, tmp_path: Path) -> None:
    recipe = gswm.recipe("single-ball")
    gswm.save(tmp_path / "half.safetensors", gswm.load(weights), recipe, half=True)
    cpu = torch.device("cpu")
    released = resolve(str(tmp_path / "half.safetensors"), cpu)[0]
    rounded, whole = (resolve(str(weights), cpu, half)[0] for half in (True, False))
    assert isinstance(released, torch.nn.Module)
    for name, value in released.state_dict().items():
        assert torch.equal(value, rounded.state_dict()[name])
    assert any(not torch.equal(v, whole.state_dict()[k]) for k, v in released.state_dict().items())


def test_counts_are_of_the_frames_that_a_model_sees_where_a_protocol_says_so() -> None:
    """A digit that enters later is found by tracking, and not by imagining."""
    model = tiny_sqair.lively()
    episodes = next(world("digits").episodes(0, 2))
    assert episodes.truth is not None
    rules = Protocol("x", 2, 3, ("counts",))
    found = model.infer(episodes.video[:, :5], render=False).present.sum(dim=-1)
    true = episodes.truth.present[:, :5].sum(dim=-1)
    scores = evaluate(model, [episodes], rules).scores
    assert scores["objects"] == pytest.approx(float(found.double().mean()))
    assert scores["true_objects"] == pytest.approx(float(true.double().mean()))
    assert scores["count_right"] == pytest.approx(float((found == true).double().mean()))
