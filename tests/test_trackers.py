"""Trackers: TensorBoard events, Weights & Biases, and pictures."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL import Image
from test_track import track
from tiny import SIZES

from gswm.core.errors import UserError
from gswm.data.episode import Episodes
from gswm.models.base import WorldModel
from gswm.models.recipe import Recipe
from gswm.models.registry import build, recipe
from gswm.train import snapshots as pictures
from gswm.train.launch import train, validator
from gswm.train.loop import LoopConfig
from gswm.train.trackers import TensorBoard, Wandb

pytestmark = pytest.mark.usefixtures("small_trunks")


def small(steps: int = 4) -> Recipe:
    chosen = recipe("single-ball")
    return replace(
        chosen,
        data=replace(chosen.data, episodes=4),
        model=replace(chosen.model, sizes=SIZES),
        train=replace(chosen.train, steps=steps, batch=2, validate_every=2, validation_episodes=3),
    )


def scalars(folder: Path) -> dict[str, list[int]]:
    """The steps of every scalar, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), purge_orphaned_data=True).Reload()
    return {tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small_trunks: None) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    train(small(), out, "cpu", LoopConfig(report_every=1, save_every=2))
    return out


def test_every_metric_is_a_scalar(finished: Path) -> None:
    found = scalars(finished)
    assert found["train/loss"] == [1, 2, 3, 4]
    assert found["validation/strict_error"] == [2, 4]
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    names = {name for line in lines for name in line} - {"step"}
    assert {tag.split("/")[1] for tag in found} == {n.removeprefix("validation_") for n in names}


def test_each_validation_has_two_small_pictures(finished: Path) -> None:
    for step in ("00000002", "00000004"):
        files = sorted((finished / "pictures" / step).iterdir())
        assert [file.name for file in files] == ["imagined.png", "tracked.png"]
        for file in files:
            assert file.stat().st_size < 200_000
            with Image.open(file) as image:
                assert image.size[0] > 9 * 64


@pytest.mark.slow
def test_a_resumed_run_takes_back_the_events_after_its_checkpoint(
    finished: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    shutil.rmtree(run / "checkpoints" / "00000004")
    train(small(), run, "cpu", LoopConfig(report_every=1, save_every=2))
    assert scalars(run)["train/loss"] == [1, 2, 3, 4]
    assert len(list(run.glob("events.out*"))) == 2


def test_events_follow_a_folder_that_is_moved(tmp_path: Path) -> None:
    (before := tmp_path / "before").mkdir()
    board = TensorBoard(before, None)
    board.write(1, {"loss": 0.5, "validation_error": 0.25})
    before.rename(after := tmp_path / "after")
    board.write(2, {"loss": 0.25})
    assert scalars(after) == {"train/loss": [1, 2], "validation/error": [1]}
    board.close()
    again = TensorBoard(after, 2)
    again.write(2, {"loss": 0.125})
    again.close()
    assert scalars(after)["train/loss"] == [1, 2]
    assert not before.exists()


@pytest.mark.slow
def test_without_tensorboard_there_are_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.record_writer", None)
    train(small(2), tmp_path / "run", "cpu", LoopConfig(report_every=1))
    assert not list((tmp_path / "run").glob("events*"))
    assert (tmp_path / "run" / "metrics.jsonl").is_file()


class FakeWandb(ModuleType):
    """Stores its arguments, and fails on request."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__("wandb")
        self.lines: list[tuple[int, dict[str, float]]] = []
        self.settings: dict[str, Any] = {}
        self.finished = 0
        self.breaks = breaks

    def init(self, **settings: Any) -> "FakeWandb":
        self.settings = settings
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        if self.breaks:
            raise ConnectionError("no network")
        self.lines.append((step, values))

    def finish(self) -> None:
        self.finished += 1


@pytest.mark.slow
def test_metrics_go_to_a_project_of_weights_and_biases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    train(small(2), tmp_path / "run", "cpu", LoopConfig(report_every=1, wandb="balls"))
    assert fake.settings["project"] == "balls"
    assert fake.settings["config"]["train"]["batch"] == 2
    assert [step for step, values in fake.lines if "loss" in values] == [1, 2]
    assert fake.finished == 1


def test_a_run_of_weights_and_biases_belongs_to_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)

    def started(folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        Wandb(folder, "balls", {})
        assert fake.settings["name"] == "run"
        assert fake.settings["resume"] == "allow"
        return fake.settings["id"]

    one, other = (started(tmp_path / parent / "run") for parent in "ab")
    assert one != other
    assert started(tmp_path / "a" / "run") == one
    shutil.rmtree(tmp_path / "a")
    assert started(tmp_path / "a" / "run") not in (one, other)


def test_a_tracker_that_fails_is_named_once_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb(breaks=True))
    run = train(small(2), tmp_path / "run", "cpu", LoopConfig(report_every=1, wandb="balls"))
    assert run.trainee.step == 2
    assert capsys.readouterr().err.count("stopped logging to Wandb: no network") == 1


def test_a_project_that_cannot_be_opened_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(fake, "init", lambda **_: exec("raise ValueError('no key\\nlog in')"))
    with pytest.raises(UserError, match=r"cannot start a run of balls: no key$"):
        Wandb(tmp_path, "balls", {})


def test_wandb_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="--wandb needs wandb"):
        train(small(2), tmp_path / "run", "cpu", LoopConfig(wandb="balls"))


def test_pictures_that_cannot_be_written_end_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pictures").write_text("in the way")
    scores, _ = validator(small(), torch.device("cpu"))
    assert scores is not None
    assert scores(build(small()).eval(), lambda: tmp_path / "pictures" / "1")["true_objects"] == 1
    assert "no pictures of this validation" in capsys.readouterr().err


def test_pictures_of_a_run_that_is_moved_meanwhile_are_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before := tmp_path / "before").mkdir()
    imagined, after = pictures.imagined, tmp_path / "after"

    def moved(*args: Any) -> Any:
        before.rename(after)
        return imagined(*args)

    monkeypatch.setattr(pictures, "imagined", moved)
    scores, _ = validator(small(), torch.device("cpu"))
    assert scores is not None
    scores(build(small()).eval(), lambda: (before if before.exists() else after) / "pictures")
    assert not before.exists()
    assert len(list((after / "pictures").iterdir())) == 2


class Steady(WorldModel):
    """A model for which nothing ever changes, on gray frames."""

    def __init__(self, futures: Any, seen: Any) -> None:
        self.futures, self.seen = futures, seen

    def infer(self, *_: Any, **__: Any) -> Any:
        return self.seen

    loss = perceive = rollout = infer

    def imagine(self, *_: Any, **__: Any) -> Any:
        return self.futures


def test_tracked_pictures_have_a_row_of_each_kind_for_each_episode() -> None:
    seen = replace(track(2, 6), background=torch.zeros(2, 6, 3, 32, 32))
    video = torch.full((2, 6, 3, 32, 32), 200, dtype=torch.uint8)
    picture = pictures.tracked(Steady(None, seen), Episodes(video), 6)
    column = picture[:, -20, 0]  # in the last frame, where no box is
    rows = [int(column[top + 2]) for top in range(22, len(column), 36)]
    assert rows == [200, 128, 200, 0] * 2


def test_imagined_pictures_show_the_truth_above_the_futures() -> None:
    futures = replace(track(1, pictures.FUTURES, 3), past=track(1, 3))
    video = torch.full((1, 6, 3, 32, 32), 200, dtype=torch.uint8)
    picture = pictures.imagined(Steady(futures, None), Episodes(video), 3, 3)
    column = picture[:, -20]
    rows = [tuple(column[top].tolist()) for top in range(22, len(column), 36)]
    assert rows == [(200, 200, 200), *[(255, 170, 40)] * pictures.FUTURES]
