"""The background for tracking: that of the video, the stored one, or the emptier of the two."""

from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from PIL import Image
from test_standing import BOX, HEIGHT, HERE, WIDTH, film, ghosts, ground
from torch import Tensor

import gswm
from gswm.cli import main
from gswm.commands import labelled
from gswm.commands.labelled import VideoModel
from gswm.core.errors import UserError
from gswm.data.importing.film import Film
from gswm.data.importing.videos import Cut
from gswm.models.gswm.gswm import GSWM
from gswm.tracking.backgrounds import BackgroundFrom, background_in, check_source

pytestmark = pytest.mark.filterwarnings("ignore::gswm.tracking.misfit.MisfitWarning")
SIZE = 64
SCENE = ground(0.02)
MOVING = [(4, 4 + 3 * t) for t in range(20)]


def saved(folder: Path, video: Tensor) -> Path:
    """A folder of lossless images."""
    folder.mkdir()
    for i, frame in enumerate((video * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()):
        Image.fromarray(frame).save(folder / f"{i:03}.png")
    return folder


def fitted(stored: Tensor) -> GSWM:
    """A model that stores a background, with the bars of its frames."""
    model = tiny.lively("clips", image_size=SIZE)
    bar = (SIZE - HEIGHT) // 2
    model.context.picture = torch.nn.functional.pad(stored, (0, 0, bar, bar))
    return model


def found_in(model: GSWM, path: Path, source: BackgroundFrom = "auto") -> Tensor:
    """The background, without bars."""
    found = background_in(model, Film(path, Cut(SIZE)), source)
    assert found is not None
    bar = (SIZE - HEIGHT) // 2
    return found[0, :, bar:-bar]


@pytest.fixture
def empty() -> Tensor:
    return torch.from_numpy(SCENE).float().permute(2, 0, 1)


@pytest.fixture
def with_box() -> Tensor:
    return film(SCENE, [HERE], noise=0.0)[0]


def test_an_object_in_the_stored_background_is_absent_if_the_video_shows_it_leave(
    empty: Tensor, with_box: Tensor, tmp_path: Path
) -> None:
    path = saved(tmp_path / "video", film(SCENE, [HERE] * 20 + [None] * 20))
    model = fitted(with_box)
    assert ghosts(found_in(model, path), SCENE) < 0.05 * BOX
    assert ghosts(found_in(model, path, "video"), SCENE) < 0.05 * BOX
    assert torch.equal(found_in(model, path, "stored"), with_box)
    given = background_in(
        fitted(empty), Film(path, Cut(SIZE)), "stored", stored=model.context.picture
    )
    assert given is not None
    assert torch.equal(given[0], model.context.picture)


@pytest.mark.parametrize(("frames", "speed"), [(1, 0), (2, 4), (6, 2), (40, 0)])
def test_an_object_that_never_leaves_its_place_is_absent_if_the_stored_background_lacks_it(
    frames: int, speed: int, empty: Tensor, tmp_path: Path
) -> None:
    places = [(HERE[0], HERE[1] + speed * t) for t in range(frames)]
    path = saved(tmp_path / "video", film(SCENE, places))
    model = fitted(empty)
    assert ghosts(found_in(model, path, "video"), SCENE) > BOX / 2
    assert ghosts(found_in(model, path), SCENE) < 0.05 * BOX


def test_the_stored_background_of_another_scene_is_not_used(tmp_path: Path) -> None:
    path = saved(tmp_path / "video", film(SCENE, MOVING))
    other = torch.from_numpy(ground(0.1, seed=8)).float().permute(2, 0, 1).flip(0)
    model = fitted(other)
    assert torch.equal(found_in(model, path), found_in(model, path, "video"))


def test_without_a_stored_background_it_is_that_of_the_video(tmp_path: Path) -> None:
    path = saved(tmp_path / "video", film(SCENE, MOVING))
    model = tiny.lively("clips", image_size=SIZE)
    want = model.background_for(Film(path, Cut(SIZE)))
    assert want is not None
    for source in ("auto", "video"):
        found = background_in(model, Film(path, Cut(SIZE)), source)
        assert found is not None
        assert torch.equal(found, want)


def test_the_frame_rate_of_a_model_does_not_change_the_background(tmp_path: Path) -> None:
    gif = tmp_path / "video.gif"
    video = (film(SCENE, MOVING, noise=0.0) * 255).round().to(torch.uint8)
    first, *rest = (Image.fromarray(f.permute(1, 2, 0).numpy()) for f in video)
    first.save(gif, save_all=True, append_images=rest, duration=100)
    model = tiny.lively("clips", image_size=SIZE)
    every, some = (background_in(model, Film(gif, Cut(SIZE, fps=fps))) for fps in (None, 2.5))
    assert every is not None
    assert some is not None
    assert torch.equal(every, some)


def test_tracks_use_the_background_that_is_asked_for(
    empty: Tensor, with_box: Tensor, tmp_path: Path
) -> None:
    path = saved(tmp_path / "video", film(SCENE, [HERE] * 3 + [None] * 3))
    model = fitted(with_box)
    opened = Film(path, Cut(SIZE))
    seen = model.infer(opened.read(), background=model.context.picture).located(opened.footage)
    boxes = gswm.track(path, model, background="stored").boxes
    assert 0 < len(boxes) <= len(seen)
    ours, models = (set(zip(rows.frame, rows.x, rows.y, strict=True)) for rows in (boxes, seen))
    assert ours <= models
    with pytest.raises(UserError, match="'stored', not 'best'"):
        check_source("best")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["track", "{video}", "--background", "stored"], "no stored background"),
        (["track", "clips", "--background", "video"], "--background needs a video"),
        (["track", "{video}", "--model", "single-ball", "--background", "video"], "does not use"),
        (["eval", "clips", "{video}", "--background", "video"], "--background needs --labels"),
        (
            ["eval", "--labels", "{labels}", "--tracks", "{labels}", "--background", "stored"],
            "--background needs a model",
        ),
        (
            ["eval", "clips", "{video}", "--labels", "{labels}", "--background", "stored"],
            "no stored background",
        ),
    ],
)
def test_a_background_that_does_not_exist_is_refused_in_one_line(
    words: list[str],
    said: str,
    small_clips: Path,
    no_weights: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny.ship(no_weights, "single-ball")
    video = saved(tmp_path / "video", film(SCENE, MOVING[:8]))
    labels = tmp_path / "labels.txt"
    labels.write_text("1,1,10,10,10,10,1,-1,-1,-1\n")
    assert main([word.format(video=video, labels=labels) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "states.csv").exists()


def test_rollouts_do_not_know_the_background_of_the_frames_that_they_predict(
    small_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Tensor] = []

    def nothing(_film: Film, _given: int, _last: float, background: Tensor) -> list[object]:
        used.append(background)
        return []

    monkeypatch.setattr(labelled, "film_windows", nothing)
    start, end = film(SCENE, MOVING), film(1 - SCENE, [None] * 20)
    for name, rest in (("one", end), ("other", end.flip(-1))):
        path = saved(tmp_path / name, torch.cat([start, rest]))
        VideoModel("clips", path, torch.device("cpu")).forecast(0.5)
    assert torch.equal(*used)
    bar = (used[0].shape[-1] - used[0].shape[-1] * HEIGHT // WIDTH) // 2
    inside = torch.nn.functional.interpolate(used[0][:, :, bar:-bar], (HEIGHT, WIDTH))
    assert np.abs(inside[0].permute(1, 2, 0).numpy() - SCENE).mean() < 0.05
