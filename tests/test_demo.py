"""`gswm demo`: what ships, imagined, measured and shown."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from PIL import Image

from gswm.cli import main, parse
from gswm.commands import demo
from gswm.data.worlds.registry import WORLDS
from gswm.models.registry import recipe
from gswm.weights import finding


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of weights that ship; and the demo at its smallest."""
    monkeypatch.setattr(demo, "EPISODES", 1)
    monkeypatch.setattr(demo, "FRAMES", 18)
    small = [replace(scene, scale=1, measured=1) for scene in demo.SCENES]
    monkeypatch.setattr(demo, "SCENES", small)
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setattr(finding, "SHIPPED", folder)
    return folder


def test_the_demo_shows_what_ships(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.ship(shipped, "single-ball", about={"test": {"on_mode": 0.5}})
    some = {name: WORLDS[name] for name in ("single-ball", "maze")}
    monkeypatch.setattr(demo, "WORLDS", some)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--scale", "1"]) == 0
    source = (out / "index.html").read_text()
    files = [src for src in re.findall(r'src="(.*?)"', source) if not src.startswith("data:")]
    assert sorted(files) == sorted(
        ["single-ball/imagined.gif", *(f"worlds/{name}.gif" for name in some)]
    )
    for file in files:
        with Image.open(out / file) as picture:
            assert getattr(picture, "n_frames", 1) >= 6
    assert "1 of the 100 test episodes" in source
    assert "on mode 0.500" in source
    assert "100 futures" in source
    assert (out / "worlds" / "maze.png").is_file()


@pytest.mark.slow
def test_without_weights_there_are_all_worlds(
    shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo"), "--scale", "1"]) == 0
    assert "no weights" in capsys.readouterr().out
    source = (tmp_path / "demo" / "index.html").read_text()
    assert all(f"worlds/{name}.gif" in source for name in WORLDS)


def test_every_scene_is_of_a_world_and_a_recipe() -> None:
    for scene in demo.SCENES:
        assert scene.name in WORLDS
        assert recipe(scene.name).data.given + scene.steps <= WORLDS[scene.name].num_frames


@pytest.mark.parametrize("scene", demo.SCENES, ids=lambda scene: scene.name)
def test_the_commands_that_the_demo_names_are_what_it_does(scene: demo.DemoScene) -> None:
    asked = parse("imagine", scene.command().split()[2:])
    assert (asked.model, asked.steps, asked.sample) == (scene.name, scene.steps, scene.sample)
    assert asked.futures == scene.futures or not scene.sample
