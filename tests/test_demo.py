"""`gswm demo`: shipped models, their futures and scores, and all worlds."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
from PIL import Image
from test_located import moving
from test_videos import encode

from gswm.cli import main, parse
from gswm.commands import demo
from gswm.data.example import CARS
from gswm.data.importing.film import Film
from gswm.data.importing.videos import Cut
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


@pytest.mark.slow
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


def test_the_demo_tracks_a_video_with_the_default_weights(
    small_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "CARS", encode(tmp_path / "short.mp4", moving(3)))
    monkeypatch.setattr(demo, "WORLDS", {})
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out)]) == 0
    source = (out / "index.html").read_text()
    assert 'src="film/short.mp4"' in source
    assert "CC BY 4.0" in source
    assert len(Film(out / "film" / "short.mp4", Cut(64)).footage) == 3
    assert (out / "film" / "tracks.csv").read_text().count("\n") > 3


def test_without_the_default_weights_the_demo_says_so(
    no_weights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "WORLDS", {})
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    assert "skipped the example video" in capsys.readouterr().out


def test_worlds_that_lack_the_same_software_share_a_line(
    no_weights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lacking = {"one": "MuJoCo: install it", "two": "MuJoCo: install it", "three": "another thing"}
    worlds = {
        name: SimpleNamespace(missing=lambda what=what: what) for name, what in lacking.items()
    }
    monkeypatch.setattr(demo, "WORLDS", worlds)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "skipped one, two: needs MuJoCo: install it" in said
    assert "skipped three: needs another thing" in said


def test_the_example_video_is_small_and_credited() -> None:
    film = Film(CARS, Cut(64))
    assert len(film.footage) == 90
    assert (film.placement.width, film.placement.height) == (320, 180)
    assert CARS.stat().st_size < 400_000
    said = (CARS.parent / "README.md").read_text()
    assert "CC BY 4.0" in said
    assert CARS.name in said


@pytest.mark.slow
def test_without_weights_there_are_all_worlds(
    shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo"), "--scale", "1"]) == 0
    assert "no weights" in capsys.readouterr().out
    source = (tmp_path / "demo" / "index.html").read_text()
    assert all(f"worlds/{name}.gif" in source for name in WORLDS)


def test_the_first_scene_is_in_3d() -> None:
    assert WORLDS[demo.SCENES[0].name].style == "stills"


def test_every_scene_is_of_a_world_and_a_recipe() -> None:
    for scene in demo.SCENES:
        assert scene.name in WORLDS
        assert recipe(scene.name).data.given + scene.steps <= WORLDS[scene.name].num_frames


@pytest.mark.parametrize("scene", demo.SCENES, ids=lambda scene: scene.name)
def test_the_commands_that_the_demo_names_are_what_it_does(scene: demo.DemoScene) -> None:
    asked = parse("imagine", scene.command().split()[2:])
    assert (asked.model, asked.steps, asked.sample) == (scene.name, scene.steps, scene.sample)
    assert asked.futures == scene.futures or not scene.sample
