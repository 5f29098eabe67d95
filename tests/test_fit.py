"""`gswm fit`: the split by time, the schedule, attempts, and a complete fit of a small video."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic_videos
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.core.settings import to_dict
from gswm.data.importing.film import Film
from gswm.data.importing.videos import Cut
from gswm.data.looking.teaching import Boxes
from gswm.data.storage.hdf5 import open_file
from gswm.fitting import attempts as fitting
from gswm.fitting.attempts import Budget, FitStoppedError, steps_within, train_within
from gswm.fitting.config import FitConfig
from gswm.fitting.decisions import settings_for
from gswm.fitting.episodes import EPISODE, FitData, episode_length, planned, prepare
from gswm.fitting.fit import (
    default_folder,
    films_of,
    fit_video,
    override,
    said_of,
)
from gswm.fitting.pace import Pace
from gswm.fitting.recipe import STANDARD, TUNING, Length, Teaching, recipe_for
from gswm.fitting.showing import nothing_found
from gswm.fitting.watching import ObjectsLostError, Watch
from gswm.models.gswm.recipes import any_video
from gswm.models.recipe import Recipe
from gswm.models.track import Track
from gswm.train.folder import write_json
from gswm.train.signals import Signals, Stopped
from gswm.viz.located import Located
from gswm.weights.files import read_header

SIZE = 64


@pytest.fixture(scope="module")
def discs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of bright discs on a textured ground."""
    path = tmp_path_factory.mktemp("films") / "discs.mp4"
    return synthetic_videos.save(path, synthetic_videos.make("discs").video)


def film(path: Path) -> Film:
    return Film(path, Cut(SIZE))


# -- the split


@given(st.integers(36, 5_000))
def test_the_end_of_a_video_is_held_out_and_no_split_is_empty(total: int) -> None:
    length = episode_length(total)
    plan = planned(total, length)
    assert EPISODE[0] <= length <= EPISODE[1]
    assert plan == sorted(plan, key=["train", "val", "test"].index)
    assert len(plan) * length <= total
    assert min(plan.count(split) for split in ("train", "val", "test")) >= 1
    assert plan.count("train") >= plan.count("test") == plan.count("val")


def test_a_video_too_short_for_three_parts_is_refused() -> None:
    with pytest.raises(UserError, match="a fit needs"):
        episode_length(20)


def test_prepared_episodes_are_read_back(discs: Path, tmp_path: Path) -> None:
    said = {"model": {}, "expected": 1.5, "decisions": [["grid", "8", "asked"]], "fps": None}
    made = prepare([film(discs)], 1, tmp_path / "video.hdf5", said)
    again = FitData.read(tmp_path / "video.hdf5")
    assert (again.frames, again.splits, again.said) == (made.frames, made.splits, made.said)
    assert torch.equal(again.backgrounds[0], made.backgrounds[0])
    with open_file(made.file) as file:
        first = file.read([0])
        last = file.read(file.of_split("test").tolist())
    assert torch.equal(first.video[0], film(discs).read()[0, : made.frames])
    assert first.background is not None
    assert made.labelled
    assert again.labelled
    assert first.labels is not None
    assert last.labels is not None
    assert first.labels.present.sum(dim=-1).float().median() == 3  # discs
    assert not last.labels.present.any()  # the held-out part teaches nothing


def test_labels_are_compared_with_what_the_start_sees(
    discs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def nothing(boxes: Boxes, seen: Track) -> Boxes:
        assert seen.xy.shape[1] == len(boxes)
        calls.append(len(boxes))
        return np.zeros_like(boxes)

    monkeypatch.setattr("gswm.fitting.episodes.reconciled", nothing)
    start = tiny.build(replace(any_video(SIZE), sizes=tiny.SIZES, num_objects=2))
    made = prepare([film(discs)], 1, tmp_path / "video.hdf5", {}, start)
    assert sum(calls) == made.splits["train"] * made.frames
    with open_file(made.file) as file:
        labels = file.read([0]).labels
    assert labels is not None
    assert not labels.present.any()


def test_the_start_is_not_asked_where_nothing_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = np.full((120, 48, 48, 3), 90, np.uint8)
    path = synthetic_videos.save(tmp_path / "still.mp4", still)
    start = tiny.build(replace(any_video(SIZE), sizes=tiny.SIZES, num_objects=2))
    monkeypatch.setattr(type(start), "infer", None)
    made = prepare([film(path)], 1, tmp_path / "video.hdf5", {}, start)
    with open_file(made.file) as file:
        labels = file.read([0]).labels
    assert labels is not None
    assert not labels.present.any()


def test_frames_between_those_of_a_stride_are_further_training_episodes(
    discs: Path, tmp_path: Path
) -> None:
    made = prepare([film(discs)], 2, tmp_path / "video.hdf5", {"fps": 10.0})
    video = film(discs).read()[0]
    with open_file(made.file) as file:
        train = file.read(file.of_split("train").tolist()).video
        held_out = file.of_split("test")
    assert len(train) == made.splits["train"]
    assert torch.equal(train[0], video[0 : 2 * made.frames : 2])
    assert torch.equal(train[1], video[1 : 2 * made.frames : 2])
    assert len(held_out) == made.splits["test"] == 1


@pytest.mark.slow
def test_the_background_does_not_know_the_end_of_the_video(discs: Path, tmp_path: Path) -> None:
    true = synthetic_videos.make("discs").video
    other = true.copy()
    other[80:] = 255 - other[80:]
    paths = [
        synthetic_videos.save(tmp_path / f"{name}.mp4", video)
        for name, video in (("a", true), ("b", other))
    ]
    first, second = (
        prepare([film(path)], 1, tmp_path / "x.hdf5", {}).backgrounds[0].float() for path in paths
    )
    assert (first - second).abs().mean() < 2  # of 255: the codec looks ahead a little


def test_the_background_is_the_scene_without_objects(discs: Path, tmp_path: Path) -> None:
    made = prepare([film(discs)], 1, tmp_path / "video.hdf5", {})
    truth = (synthetic_videos.make("discs").background * 255).round().astype(np.uint8)
    empty = synthetic_videos.save(tmp_path / "empty.mp4", np.stack([truth] * 40))
    want = film(empty).read()[0, 20]
    assert (made.backgrounds[0].float() - want.float()).abs().mean() < 6


def test_a_file_that_was_not_prepared_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "balls.hdf5"
    assert main(["data", "make", "interaction", "--out", str(other), "--episodes", "1"]) == 0
    with pytest.raises(UserError, match="not prepared"):
        FitData.read(other)


# -- the schedule


def recipe(steps: int = 1_000, teaching: Teaching = STANDARD, **how: Any) -> Recipe:
    return recipe_for("mine", "video.hdf5", any_video(SIZE), Length(steps, **how), teaching)


@given(st.integers(20, 50_000), st.sampled_from([STANDARD, TUNING]))
def test_a_schedule_is_as_long_as_the_training(steps: int, teaching: Teaching) -> None:
    schedule = recipe(steps, teaching).model.schedule
    assert [length for _, length in schedule.lengths] == [length for _, length in teaching.lengths]
    last = schedule.lengths[-1][0]
    assert last == round(teaching.lengths[-1][0] * steps)
    for line in (schedule.pres_prior, schedule.motion_weight, schedule.aux_weight):
        assert 0 <= line.from_step <= line.to_step <= steps
    assert schedule.motion_weight.to_step <= schedule.pres_prior.to_step


def test_windows_are_no_longer_than_episodes() -> None:
    assert recipe(longest=6).model.schedule.longest == 6


@pytest.mark.parametrize("teaching", [STANDARD, TUNING])
def test_more_help_keeps_presence_high_for_longer(teaching: Teaching) -> None:
    more = teaching.stronger()
    assert more.motion > teaching.motion
    assert more.pres_end > teaching.pres_end
    assert more.taught[1] > teaching.taught[1]
    assert (more.lengths, more.lr) == (teaching.lengths, teaching.lr)


def test_trained_weights_are_not_taught_anew() -> None:
    new, tuned = recipe(1_000), recipe(1_000, TUNING)
    first, later = new.model.schedule, tuned.model.schedule
    assert tuned.train.lr < new.train.lr
    assert later.lengths[0] == (0, 4)
    assert later.motion_weight.start < first.motion_weight.start
    assert later.motion_weight.to_step == 150
    assert later.pres_prior.start < first.pres_prior.start
    assert later.pres_prior.to_step < first.pres_prior.to_step
    assert new.model.discovery.start_at_prior
    assert not tuned.model.discovery.start_at_prior
    assert (new.train.frozen, tuned.train.frozen) == ((), ("discovery",))


def test_boxes_of_what_moves_teach_discovery_where_the_data_have_them() -> None:
    common = "mine", "video.hdf5", any_video(SIZE), Length(1_000), TUNING
    with_boxes, without = recipe_for(*common, labelled=True), recipe_for(*common)
    assert with_boxes.model.takes_labels
    assert with_boxes.model.schedule.label_weight.start > 0
    assert with_boxes.train.frozen == ()
    assert not without.model.takes_labels


def test_a_crowded_video_raises_the_presence_of_new_weights_alone() -> None:
    settings = any_video(SIZE)
    crowded = replace(settings.schedule, pres_prior=gswm.Anneal(0.25, 0.25))
    settings = replace(settings, schedule=crowded)
    for teaching, want in ((STANDARD, 0.25), (TUNING, TUNING.pres_start)):
        made = recipe_for("mine", "video.hdf5", settings, Length(100), teaching)
        assert made.model.schedule.pres_prior.start == want


def test_the_time_of_a_training_is_the_sum_of_its_steps() -> None:
    pace = Pace({2: 0.1, 4: 0.2, 8: 0.4, 12: 0.5})
    made = recipe(1_000)
    schedule = made.model.schedule
    want = sum(pace.seconds[schedule.length_at(step)] for step in range(1_000))
    assert pace.total(made) == pytest.approx(want)


def test_there_are_as_many_steps_as_there_is_time_for() -> None:
    pace = Pace(dict.fromkeys((2, 4, 8, 12), 0.1))
    number = steps_within(100.0, pace, recipe)
    assert pace.total(recipe(number)) == pytest.approx(88, rel=0.01)
    with pytest.raises(UserError, match="to --minutes"):
        steps_within(3.0, pace, recipe)
    assert steps_within(3.0, pace, recipe, TUNING.least) == 26


# -- decisions


def test_decisions_can_be_overridden() -> None:
    decided = settings_for(synthetic_videos.facts_with())
    own = override(decided, {"image_size": 128, "object_size": 0.5, "grid": None})
    assert own.image_size.value == own.model().image_size == 128
    assert own.image_size.reason == "as requested"
    assert own.hw_prior_mean.value == 0.0
    assert own.grid == decided.grid
    with pytest.raises(UserError, match="no decision 'colour'"):
        override(decided, {"colour": 1})
    with pytest.raises(UserError, match="no decision 'num_object': did you mean num_objects"):
        FitConfig(decided={"num_object": 5}).check()
    with pytest.raises(UserError, match="--objects is 5"):
        FitConfig(decided={"num_objects": 5.5}).check()


def test_a_fit_is_named_after_the_folder_of_its_videos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "films" / "cars").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "films" / "cars")
    assert default_folder(Path("dogs.mp4")) == Path("fits/dogs")
    assert default_folder(Path(".")) == Path("fits/cars")
    assert default_folder(Path("..")) == Path("fits/films")


@pytest.mark.parametrize(
    ("decided", "message"),
    [
        ({"image_size": 96}, "--size is 96"),
        ({"image_size": 32}, "--size is 32"),
        ({"image_size": 64, "grid": 16}, "use --grid 1, 2, 4 or 8, or --size 128"),
        ({"image_size": 128, "grid": 3}, "use --grid 1, 2, 4, 8 or 16$"),
    ],
)
def test_a_size_and_a_grid_that_do_not_fit_are_refused(
    decided: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        FitConfig(device="cpu", decided=decided).check()


def test_what_is_said_of_a_video_is_enough_to_train_elsewhere() -> None:
    decisions = settings_for(synthetic_videos.facts_with())
    said = said_of(synthetic_videos.facts_with(), decisions)
    assert {"model", "expected", "decisions", "fps"} <= said.keys()
    assert said["expected"] > 0


def test_a_folder_without_videos_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        films_of(tmp_path, SIZE, None)


# -- attempts


def told(watch: Watch, objects: list[float]) -> None:
    for number, value in enumerate(objects):
        watch({"step": 100 * (number + 1), "objects": value})


def test_objects_that_vanish_end_a_training() -> None:
    watch = Watch(expected=2.0, begin=300)
    told(watch, [2.0, 1.5, 0.1, 0.1])
    assert watch.healthy == 200
    with pytest.raises(ObjectsLostError, match="lost at step 500"):
        watch({"step": 500, "objects": 0.1})


def test_objects_may_be_few_at_first_and_for_a_moment() -> None:
    watch = Watch(expected=2.0, begin=1_000)
    told(watch, [0.0] * 9)
    watch = Watch(expected=2.0, begin=0)
    told(watch, [0.0, 0.0, 2.0, 0.0, 0.0, 2.0])
    watch({"step": 700, "validation_error": 0.1})


class Losing:
    """A stand-in for training that loses the objects a given number of times."""

    def __init__(self, times: int, ended: Any) -> None:
        self.left, self.ended = times, ended
        self.recipes: list[Recipe] = []

    def __call__(self, recipe: Recipe, *_: Any) -> Any:
        self.recipes.append(recipe)
        if self.left:
            self.left -= 1
            raise ObjectsLostError("objects are lost")
        return self.ended


class Ended:
    """A training that has come to its end."""

    def __init__(self) -> None:
        self.trainee = self
        self.step, self.minutes = 10**9, 1.0
        self.model = tiny.lively("clips", image_size=SIZE)


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Any], Any]:
    pace = Pace(dict.fromkeys((2, 4, 8, 12), 0.01))
    monkeypatch.setattr(fitting, "measure_pace", lambda *_: pace)

    def run(losing: Callable[..., Any], **how: Any) -> Any:
        monkeypatch.setattr(fitting, "train", losing)
        data = FitData(tmp_path / "x.hdf5", 30, {"train": 1, "val": 1, "test": 1}, (), False, {})
        common = {"expected": 1.0, "device_name": "cpu", "tell": lambda _: None} | how
        return train_within(Budget.of(5.0), "x", any_video(SIZE), data, tmp_path, **common)

    return run


def test_a_training_that_loses_its_objects_begins_again_with_more_help(
    attempt: Callable[[Losing], Any],
) -> None:
    losing = Losing(1, Ended())
    assert attempt(losing).attempts == 2
    first, second = (each.model.schedule for each in losing.recipes)
    assert second.pres_prior.end > first.pres_prior.end
    assert second.motion_weight.start > first.motion_weight.start


def test_an_attempt_after_lost_objects_begins_with_the_same_trained_weights(
    attempt: Callable[..., Any],
) -> None:
    losing, lines = Losing(1, Ended()), list[str]()
    trained = attempt(losing, start="clips", tell=lines.append)
    assert trained.start == "clips"
    assert [each.train.start for each in losing.recipes] == ["clips", "clips"]
    assert all(each.train.lr == TUNING.lr for each in losing.recipes)
    assert [each.train.frozen for each in losing.recipes] == [("discovery",), ()]
    assert any("from clips" in line for line in lines)


def test_a_signal_ends_a_fit_with_its_exit_code(attempt: Callable[[Any], Any]) -> None:
    def interrupted(*args: Any) -> Any:
        signals = next(arg for arg in args if isinstance(arg, Signals))
        signals.by = signal.SIGINT
        return Ended()

    with pytest.raises(FitStoppedError, match="same command again") as raised:
        attempt(interrupted)
    assert raised.value.code == 130


def test_a_fit_whose_time_ends_before_its_first_step_says_so(
    attempt: Callable[[Any], Any],
) -> None:
    def late(*_: Any) -> Any:
        raise Stopped

    with pytest.raises(FitStoppedError, match="more --minutes") as raised:
        attempt(late)
    assert raised.value.code == 2


def test_it_does_not_begin_again_for_ever(attempt: Callable[[Losing], Any]) -> None:
    with pytest.raises(UserError, match="3 attempts"):
        attempt(Losing(3, Ended()))


def test_the_last_attempt_is_resumed_with_its_own_recipe(
    attempt: Callable[..., Any], tmp_path: Path
) -> None:
    first = Losing(1, Ended())
    attempt(first, steps=50)
    for number, recipe in enumerate(first.recipes, 1):
        write_json(tmp_path / f"run-{number}" / "recipe.json", to_dict(recipe))
    again, lines = Losing(1, Ended()), list[str]()
    assert attempt(again, tell=lines.append).attempts == 3  # it loses the objects once more
    assert again.recipes[0] == first.recipes[1]
    assert lines[0].startswith("resuming 50 steps")
    weights = [each.model.schedule.motion_weight.start for each in first.recipes + again.recipes]
    assert weights[0] < weights[1] == weights[2] < weights[3]


def test_the_same_command_resumes_a_fit_and_another_does_not_replace_it(
    discs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, data = list[Path](), list[FitData]()

    def measure(video: Path, *_: Any) -> Any:
        measured.append(video)
        return synthetic_videos.facts_with(width=64, height=64)

    def stop(*args: Any, **_: Any) -> Any:
        data.append(args[3])
        write_json(args[4] / "run-1" / "recipe.json", {})
        raise FitStoppedError(Signals())

    monkeypatch.setattr("gswm.fitting.fit.measured", measure)
    monkeypatch.setattr("gswm.fitting.fit.train_within", stop)

    def run(**how: Any) -> None:
        cfg = FitConfig(device="cpu", start="none", decided={"image_size": 64}, **how)
        fit_video(discs, tmp_path / "out", cfg, lambda _: None)

    for _ in range(2):
        with pytest.raises(FitStoppedError):
            run()
    assert len(measured) == 1
    assert (data[0].frames, data[0].splits) == (data[1].frames, data[1].splits)
    with pytest.raises(UserError, match="--force"):
        run(seed=1)
    assert (tmp_path / "out" / "run-1").is_dir()
    (tmp_path / "out" / "run-2").mkdir()
    write_json(tmp_path / "out" / "run-2" / "recipe.json", {})
    monkeypatch.delattr("gswm.fitting.fit.prepare")  # it would be next
    with pytest.raises(NameError):
        run(seed=1, force=True)
    assert len(measured) == 2
    assert not (tmp_path / "out" / "run-2").exists()


# -- all of it


@pytest.mark.parametrize(
    "kind",
    [
        "frames",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("black", "still", "camera")),
    ],
)
def test_a_video_from_which_nothing_can_be_learned_is_refused_and_nothing_is_written(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = synthetic_videos.save(tmp_path / "film.mp4", synthetic_videos.refusal(kind))
    assert main(["fit", str(path), "--out", str(tmp_path / "out"), "--minutes", "1"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "open {}\n"),
        (["--prepare"], "train on it with `gswm fit {}`, also on another machine\n"),
    ],
)
def test_the_command_says_what_to_do_with_what_it_wrote(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = tmp_path / "out" / "video.hdf5"
    monkeypatch.setattr("gswm.commands.fit.fit_video", lambda *_: written)
    assert main(["fit", str(tmp_path / "film.mp4"), *options]) == 0
    assert capsys.readouterr().out == said.format(written)


def test_a_fit_that_finds_nothing_says_so() -> None:
    one = Located(*(np.zeros(1, kind) for kind in (float, int, int, *6 * [float])))
    assert "finds no objects" in nothing_found([one[:0], one[:0]])
    assert nothing_found([one[:0], one]) == ""
    assert nothing_found([]) == ""  # a prepared file is without its video


@pytest.mark.slow
def test_a_fit_leaves_weights_tracks_futures_and_a_page(discs: Path, tmp_path: Path) -> None:
    cfg = FitConfig(steps=6, batch=2, device="cpu", decided={"image_size": 64})
    lines: list[str] = []
    page = fit_video(discs, tmp_path / "out", replace(cfg), lines.append)
    there = {path.name for path in (tmp_path / "out").iterdir()}
    wanted = {"weights.safetensors", "tracks.csv", "tracks.txt", "tracks.mp4", "imagined.gif"}
    assert wanted | {"index.html", "video.hdf5", "run-1"} <= there
    text = page.read_text()
    assert "tracks.mp4" in text
    assert "hw_prior_mean" in text
    assert "background alone" in text
    tracks = (tmp_path / "out" / "tracks.csv").read_text().splitlines()
    assert ("It finds no objects" in text) == (len(tracks) == 1)
    model = gswm.load(tmp_path / "out" / "weights.safetensors")
    assert model.saved_background is not None
    known = read_header(tmp_path / "out" / "weights.safetensors")["about"]["held_out"]
    assert known["windows"] > 0
    assert known["psnr"] > 0
    assert any("steps on cpu" in line for line in lines)
