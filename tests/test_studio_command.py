"""`gswm studio`, `gswm bench studio`, and the studio in a notebook."""

import json
import os
import re
import signal
import stat
import webbrowser
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from starlette.testclient import TestClient
from studio import model

import gswm
from gswm.cli import main
from gswm.commands.studio import StudioCommand
from gswm.core.errors import UserError
from gswm.studio.catalog import Catalog
from gswm.studio.server import Server
from gswm.viz import formats
from gswm.weights import files as weights


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["nothing"], "'nothing' is not a run"),
        (["--world", "maze", "--video", "x.mp4"], "either --world or --video"),
        (["--world", "nowhere"], "there is no world 'nowhere'"),
        (["two-layer", "--video", "nowhere.mp4"], "there is no video nowhere.mp4"),
        (["--skip", "3"], "--skip needs --video"),
        (["--port", "99999"], "--port is 99999"),
        (["--video", "x.mp4", "--video-fps", "-1"], "--video-fps is -1; it must be positive"),
        (["--host", "256.0.0.1", "--port", "9"], "cannot listen at 256.0.0.1"),
        (["--host", ""], "--host is empty"),
    ],
)
def test_a_mistake_is_one_line(
    settings: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["studio", "--no-browser", *settings]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("which", "code", "said"),
    [(signal.SIGINT, 0, ""), (signal.SIGTERM, 143, "gswm: ended by SIGTERM\n")],
)
def test_ctrl_c_quits_silently(
    which: signal.Signals,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Server, "run", lambda _: os.kill(os.getpid(), which))
    assert main(["studio", "--no-browser"]) == code
    assert capsys.readouterr().err == said


def test_the_browser_is_led_to_the_address_by_a_file_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)

    def visited(self: Server) -> None:
        address = capsys.readouterr().out.split()[2]
        assert "token=" in address
        (file,) = tmp_path.iterdir()
        assert opened == [file.as_uri()]
        assert "token" not in opened[0]
        assert f'href="{address}"' in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with (
            TestClient(self.studio.app, base_url=address) as client,
            client.websocket_connect(self.url("/session", "ws")),
        ):
            pass
        assert not list(tmp_path.iterdir())  # as soon as the page is there

    monkeypatch.setattr(Server, "run", visited)
    assert main(["studio"]) == 0
    monkeypatch.setattr(Server, "run", lambda _: None)
    assert main(["studio"]) == 0
    assert len(opened) == 2
    assert not list(tmp_path.iterdir())


def test_a_video_without_a_model_is_for_the_default_weights(small_clips: Path) -> None:
    shelf = Catalog()
    shelf.add_installed()
    assert StudioCommand(video=Path("film.mp4")).first_model(shelf) == "clips"
    tiny.ship(small_clips.parent, "two-layer")
    shelf.add_installed()
    assert StudioCommand().first_model(shelf) == "two-layer"


def test_without_the_default_weights_a_video_needs_a_model(
    no_weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["studio", "--no-browser", "--video", "film.mp4"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "choose a trained model" in line


def test_a_video_of_ones_own_is_taken_as_those_of_the_training_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film, recipe = tmp_path / "own.mp4", gswm.recipe("interaction")
    formats.save_video(film, np.zeros((6, 64, 64, 3), np.uint8), 10)
    about = {"videos": {"fps": 5.0, "fit": "letterbox"}}
    weights.save(tmp_path / "own.safetensors", gswm.build(recipe), recipe, about=about)
    for video_fps, frames in ((None, 3), (0.0, 6)):
        shelf = Catalog(video_fps=video_fps)
        shelf.add_weights("own", str(tmp_path / "own.safetensors"))
        shown = StudioCommand(video=film, video_fps=video_fps).source(shelf, "own")
        assert shelf.uploads[shown].shape == (1, frames, 3, 64, 64)
        said = "own.mp4: as in training, 5 frames per second (--video-fps 0 uses all)\n"
        assert capsys.readouterr().err == (said if video_fps is None else "")


def test_a_notebook_shows_the_studio_on_a_video() -> None:
    video = tiny.video(batch=1, time=6)[0]
    shown = gswm.studio(model(), video, given=3)
    try:
        assert re.search(r"\?token=\S{20,}", shown.address)
        assert f'src="{shown.address}"' in shown._repr_html_()
        page = shown.server.studio
        (name,) = page.catalog.uploads
        assert page.start.world == name
        assert torch.equal(page.catalog.uploads[name], (255 * video[None]).round().to(torch.uint8))
        client = TestClient(page.app, base_url=f"http://127.0.0.1:{shown.server.port}")
        assert client.get("/").status_code == 403
        answer = client.get(shown.address)
        assert answer.status_code == 200
        assert "frame-ancestors http://localhost:*" in answer.headers["content-security-policy"]
    finally:
        shown.stop()


def test_a_run_is_opened_although_its_folder_is_called_like_a_shipped_model(
    small_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Server] = []
    monkeypatch.setattr(Server, "run", lambda self: opened.append(self))
    recipe = gswm.recipe("single-ball")
    run = tmp_path / "clips"
    weights.save(run / "best.safetensors", tiny.build(recipe.model), recipe)
    monkeypatch.chdir(run)
    for path in (str(run), "."):
        assert main(["studio", "--no-browser", path]) == 0
        studio = opened.pop().studio
        assert studio.catalog.models[studio.start.model].line.startswith("single-ball, ")
        assert studio.start.model


def test_a_notebook_shows_as_many_frames_as_it_is_told() -> None:
    for chosen in (model(), "two-layer"):
        shown = gswm.studio(chosen, world="two-layer", given=3)
        shown.stop()
        catalog = shown.server.studio.catalog
        assert catalog.models[shown.server.studio.start.model].given == 3
    with pytest.raises(UserError, match="given is 0; it must be from 1"):
        gswm.studio(model(), world="maze", given=0)
    with pytest.raises(UserError, match="there is no world 'moon'"):
        gswm.studio(model(), world="moon")


def test_a_notebook_needs_something_to_show() -> None:
    with pytest.raises(UserError, match="pass a video"):
        gswm.studio(model())
    with pytest.raises(UserError, match="expects videos of shape"):
        gswm.studio(model(), torch.zeros(5, 3, 32, 32))


def test_the_bench_says_how_long_a_person_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures.json"
    settings = ["--model", "single-ball", "--futures", "2", "--steps", "2", "--repeats", "1"]
    assert main(["bench", "studio", *settings, "--device", "cpu", "--json", str(out)]) == 0
    assert "first frame, ms" in capsys.readouterr().out
    rows = json.loads(out.read_text())["figures"]
    assert [(row["futures"], row["edit"]) for row in rows] == [(2, "move"), (2, "throw")]
    assert all(row["first_ms"] > 0 for row in rows)
