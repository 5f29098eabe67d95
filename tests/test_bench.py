"""Benchmarks print and write what they measured."""

import json
from pathlib import Path

import pytest

from gswm.cli import main

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
        (["--json", "/no/such/folder/x.json"], "cannot write /no/such/folder/x.json"),
    ],
)
def test_a_mistake_is_one_line(
    settings: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ONE, *settings]) == 2
    assert said in capsys.readouterr().err
