"""Benchmarks print and write their measurements."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import SIZES

from gswm.bench.train import Case, Figures, bench_train, beside, cases
from gswm.cli import main
from gswm.models.gswm.gswm import GSWM
from gswm.models.recipe import Recipe
from gswm.models.registry import recipe

ONE = ["bench", "data", "--worlds", "occlusion", "--episodes", "2", "--no-windows"]


def test_figures_of_a_world_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    assert main([*ONE, "--json", str(file)]) == 0
    assert "occlusion" in capsys.readouterr().out
    figures = json.loads(file.read_text())
    (row,) = figures["worlds"]
    assert row["episodes"] == 2
    assert row["rate"] == pytest.approx(2 / row["seconds"])
    assert row["ratio"] == pytest.approx(row["rate"] * 0.08)
    assert min(row[part] for part in ("start_seconds", "physics_seconds", "drawing_seconds")) > 0
    assert row["host_bytes"] > 1 << 20
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["--worlds", "nowhere"], "there is no world 'nowhere'"),
        (["--json", "/dev/null/x.json"], "cannot write /dev/null/x.json"),
    ],
)
def test_a_mistake_is_one_line(
    settings: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ONE, *settings]) == 2
    assert said in capsys.readouterr().err


def small(chosen: Recipe) -> Recipe:
    return replace(chosen, model=replace(chosen.model, sizes=SIZES))


@pytest.mark.slow
def test_figures_of_training_stand_beside_the_authors() -> None:
    so_far: list[int] = []
    figures = bench_train(
        lengths=[2],
        batches=[2],
        objects=[2, 3],
        both=True,
        steps=1,
        change=small,
        after=lambda figures: so_far.append(len(figures["steps"])),
    )
    assert so_far == [1, 2, 3, 4]
    assert json.loads(json.dumps(figures)) == figures
    measured = [(r["length"], r["batch"], r["objects"], r["path"]) for r in figures["steps"]]
    points = [(2, 2, 2), (2, 2, 3)]
    assert measured == [(*at, path) for at in points for path in ("fast", "plain")]
    for row in figures["steps"]:
        assert 0 < row["ms_best"] <= row["ms"]
        assert row["frames_per_second"] == pytest.approx(
            1e3 * row["batch"] * row["length"] / row["ms"]
        )
        assert 0 < row["seconds_to_first_step"] <= row["seconds_to_full_speed"]
        assert row["kernels"] is row["peak_bytes"] is row["authors_ms"] is None


@pytest.mark.parametrize(
    ("case", "device", "theirs"),
    [
        (Case("two-layer", 20, 16, 10, "fast"), "cuda", 971),
        (Case("two-layer", 20, 16, 10, "plain"), "cpu", 10_900),
        (Case("maze", 10, 16, 16, "fast"), "cuda", 502),
        (Case("maze", 10, 16, 16, "fast"), "cpu", None),
        (Case("two-layer", 20, 4, 10, "fast"), "cuda", None),
        (Case("two-layer", 20, 16, 5, "fast"), "cuda", None),
        (Case("two-layer", 12, 16, 10, "fast"), "cuda", None),
    ],
)
def test_the_authors_figures_are_for_the_same_size_alone(
    case: Case, device: str, theirs: float | None
) -> None:
    found = beside(case, Figures(10.0, 9.0, 1.0, 1.0, 1.0, None, None), torch.device(device))
    assert found["authors_ms"] == theirs
    assert found["times_as_fast"] == (None if theirs is None else theirs / 10)


def test_a_model_without_a_fast_path_is_measured_on_the_plain_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GSWM, "recurrent", lambda self: [])
    sizes: dict = {"lengths": [2], "batches": [2], "steps": 1, "change": small}
    for both in (False, True):
        (row,) = bench_train(**sizes, both=both)["steps"]
        assert row["path"] == "plain"


def test_the_studio_is_measured_with_a_model_that_can_be_edited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(GSWM, "editable", False)
    assert main(["bench", "studio", "--device", "cpu", "--steps", "1", "--repeats", "1"]) == 2
    assert "two-layer does not support edits" in capsys.readouterr().err


def test_one_thing_is_varied_at_a_time() -> None:
    found = cases(recipe("two-layer"), [4, 16, 64], [2, 20], [5, 10])
    assert [(case.length, case.batch, case.objects) for case in found] == [
        *((2, 16, 10), (20, 16, 10), (20, 4, 10), (20, 64, 10), (20, 16, 5)),
    ]
    (alone,) = cases(recipe("maze"), [], [], [])
    assert (alone.length, alone.batch, alone.objects) == (10, 16, 16)


def test_training_is_measured_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    sizes = ["--batch", "1", "--lengths", "2", "--steps", "1"]
    assert main(["bench", "train", "--device", "cpu", *sizes, "--json", str(file)]) == 0
    assert "Training steps of two-layer, cpu" in capsys.readouterr().out
    assert len(json.loads(file.read_text())["steps"]) == 1
    assert main(["bench", "train", "--device", "cpu", "--steps", "0"]) == 2
    assert "must be at least 1" in capsys.readouterr().err


@pytest.mark.slow
def test_recipes_are_measured_one_after_the_other_by_their_numbers_of_objects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = ["sqair-interaction", "stove-interaction"]
    sizes = ["--objects", "1", "2", "--batch", "1", "--lengths", "3", "--steps", "1"]
    args = ["bench", "train", "--recipe", *both, *sizes, "--device", "cpu"]
    assert main(args) == 0
    said = capsys.readouterr()
    assert [line.split(",")[0] for line in said.err.splitlines() if " K " in line] == [
        *both[:1] * 2,
        *both[1:] * 2,
    ]
    assert "Training steps of sqair-interaction, stove-interaction, cpu" in said.out
    assert main([*args[:3], "nothing"]) == 2


@pytest.mark.parametrize("json_first", [True, False])
def test_without_a_file_the_figures_are_printed_and_nothing_else(
    json_first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--batch", "1", "--lengths", "2", "--steps", "1", "--device", "cpu"]
    words = ["--json", *sizes] if json_first else [*sizes, "--json"]
    assert main(["bench", "train", *words]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == 1
    assert not Path("-").exists()


def test_imagination_is_measured_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    sizes = ["--given", "2", "--steps", "2", "--batch", "1", "--repeats", "1"]
    assert main(["bench", "imagine", "--device", "cpu", *sizes, "--json", str(file)]) == 0
    assert "2 frames given" in capsys.readouterr().out
    figures = json.loads(file.read_text())
    assert [row["path"] for row in figures["paths"]] == ["plain", "fast"]
    assert all(0 < row["ms_best"] <= row["ms"] for row in figures["paths"])
    assert figures["authors_ms"] is None
    assert main(["bench", "imagine", "--device", "cpu", "--steps", "0"]) == 2
    assert "must be at least 1" in capsys.readouterr().err


def test_tracking_is_measured_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    args = ["bench", "track", "--model", "single-ball", "--device", "cpu", "--repeats", "1"]
    assert main([*args, "--frames", "3", "--json", str(file)]) == 0
    assert "3 frames of cars.mp4, 64 × 64" in capsys.readouterr().out
    figures = json.loads(file.read_text())
    assert [row["path"] for row in figures["paths"]] == ["model", "with decoding"]
    for row in figures["paths"]:
        assert 0 < row["frames_per_second"] <= row["frames_per_second_best"]
    for wrong, said in (
        (["--frames", "0"], "must be at least 1"),
        (["--video", "nowhere.mp4"], "nowhere.mp4"),
        (["--model", "nothing"], "nothing"),
    ):
        assert main([*args, *wrong]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
