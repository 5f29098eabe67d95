"""`gswm.track` and `gswm track` without a model: the default weights, on a video of any length."""

import csv
from pathlib import Path

import numpy as np
import pytest
import synthetic_videos
import tiny
import torch
from test_videos import encode

import gswm
from gswm.cli import main
from gswm.core.errors import UserError
from gswm.tracking import following
from gswm.weights import finding

pytestmark = pytest.mark.filterwarnings("ignore::gswm.tracking.misfit.MisfitWarning")
SHAPE = (48, 96, 3)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """A bright square that moves over gray, wider than high, 10 frames per second."""
    pixels = np.full((11, *SHAPE), 90, np.uint8)
    for t, frame in enumerate(pixels):
        frame[10:26, 4 + 6 * t : 20 + 6 * t] = 240
    return encode(tmp_path / "film.mp4", list(pixels))


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_video_without_a_model_is_tracked_by_the_default_weights(
    small_clips: Path, film: Path, tmp_path: Path
) -> None:
    out, named = tmp_path / "out.csv", tmp_path / "named.csv"
    assert main(["track", str(film), "--out", str(out)]) == 0
    assert main(["track", str(film), "--model", str(small_clips), "--out", str(named)]) == 0
    assert out.read_text() == named.read_text()
    assert len(table(out)) > 11


def test_without_the_default_weights_one_line_says_what_to_do(
    no_weights: Path, film: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["track", str(film), "--out", str(tmp_path / "out.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "gswm fit VIDEO" in line
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(UserError, match="default weights for videos"):
        gswm.track(film)


def test_a_world_without_a_model_is_tracked_by_its_own_weights(
    no_weights: Path, tmp_path: Path
) -> None:
    tiny.ship(no_weights, "single-ball")
    out = tmp_path / "out.csv"
    assert main(["track", "single-ball", "--frames", "2", "--out", str(out)]) == 0
    assert len(table(out)) > 0


def test_tracks_in_python_are_those_of_the_command(
    small_clips: Path, film: Path, tmp_path: Path
) -> None:
    tracks = gswm.track(film, device="cpu")
    assert "film.mp4" in repr(tracks)
    assert "11 frames" in repr(tracks)
    outs = [tmp_path / f"command.{kind}" for kind in ("csv", "txt", "mp4")]
    named = [word for out in outs for word in ("--out", str(out))]
    assert main(["track", str(film), "--device", "cpu", *named]) == 0
    for out in outs:
        (tmp_path / f"python{out.suffix}").write_bytes(b"an older file")
        tracks.save(tmp_path / f"python{out.suffix}")
        assert (tmp_path / f"python{out.suffix}").read_bytes() == out.read_bytes()
    columns = tracks.to_frame()
    assert columns["x"] == tracks.boxes.x.tolist()
    assert max(columns["frame"]) == 10


def test_boxes_are_in_pixels_of_the_video_and_not_of_its_letterbox(
    small_clips: Path, film: Path
) -> None:
    tracks = gswm.track(film)
    assert tracks.film.placement.inside == (0, 32, 128, 64)
    boxes = tracks.boxes
    center, size = np.stack([boxes.x, boxes.y], -1), np.stack([boxes.width, boxes.height], -1)
    model = gswm.load("clips")
    seen = model.infer(tracks.film.read(), background=model.background_for(tracks.film))
    xy, hw = seen.xy[seen.present].numpy(), seen.hw[seen.present].numpy()
    want = tracks.film.placement.to_source(xy, hw)
    np.testing.assert_allclose(center, want[0], atol=1e-3)
    np.testing.assert_allclose(size, want[1], atol=1e-3)


def test_ids_go_on_from_chunk_to_chunk_and_the_background_is_of_the_whole_video(
    small_clips: Path, film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gswm.track(film).boxes
    monkeypatch.setattr(following, "CHUNK", 4)
    parts = gswm.track(film).boxes
    assert np.array_equal(parts.frame, whole.frame)
    assert np.array_equal(parts.id, whole.id)
    np.testing.assert_allclose(parts.x, whole.x, atol=1e-3)


@pytest.mark.slow
def test_a_model_knows_how_its_videos_were_cut(
    small_clips: Path, film: Path, tmp_path: Path
) -> None:
    model = gswm.load(small_clips)
    assert not model.videos
    model.videos = {"fps": 5.0, "fit": "letterbox", "region": "0,0,48,48"}
    gswm.save(tmp_path / "mine.safetensors", model)
    again = gswm.load(tmp_path / "mine.safetensors")
    assert again.videos == model.videos
    for given in (again, tmp_path / "mine.safetensors"):
        tracks = gswm.track(film, given)
        assert len(tracks.film.footage) == 6
        assert tracks.film.placement.shown == (0.0, 0.0, 48.0, 48.0)
    every = gswm.track(film, again, fps=0.0, region="all")
    assert len(every.film.footage) == 11
    assert every.film.placement.shown == (0.0, 0.0, 96.0, 48.0)
    part = gswm.track(film, again, region=(4, 2, 40, 30), frames=2)
    assert part.film.placement.shown == (4.0, 2.0, 40.0, 30.0)
    assert len(part.film.footage) == 2


def test_a_mistake_is_one_line(small_clips: Path, film: Path, tmp_path: Path) -> None:
    for how, said in (
        ({"fps": -1.0}, "fps is -1"),
        ({"region": "1,2"}, "the region is '1,2'"),
        ({"frames": 0}, "frames is 0"),
    ):
        with pytest.raises(UserError, match=said):
            gswm.track(film, **how)
    with pytest.raises(UserError, match="there is no video"):
        gswm.track(tmp_path / "nowhere.mp4")
    tracks = gswm.track(film, frames=1)
    for name, said in (("film.gif", "must end in"), ("film.mp4", "is also an input")):
        with pytest.raises(UserError, match=said):
            tracks.save(film.with_name(name))


def test_a_video_without_objects_has_tracks_all_the_same(small_clips: Path, film: Path) -> None:
    model = gswm.load(small_clips)
    with torch.no_grad():
        model.get_parameter("discovery.mlp_disc.4.bias")[0] = -99
    tracks = gswm.track(film, model)
    assert len(tracks.boxes) == 0
    assert "0 tracks in 11 frames (0.0 boxes per frame)" in repr(tracks)


@pytest.mark.slow
@pytest.mark.parametrize("kind", synthetic_videos.KINDS)
def test_the_shipped_weights_find_the_objects_of_each_kind_of_video(
    kind: str, tmp_path: Path
) -> None:
    true = synthetic_videos.make(kind)
    boxes = gswm.track(synthetic_videos.save(tmp_path / "film.mp4", true.video)).boxes
    corners, found = boxes.corners(), []
    for frame, (centers, present) in enumerate(zip(true.centers, true.present, strict=True)):
        low, high = np.split(corners[boxes.frame == frame], 2, axis=1)
        inside = (low < centers[present, None]) & (centers[present, None] < high)
        found += inside.all(axis=-1).any(axis=1).tolist()
    assert np.mean(found) > 0.75
    assert len(boxes) < 1.3 * len(found)


def test_the_default_weights_are_a_recipe_for_videos_of_a_fixed_camera() -> None:
    model = gswm.recipe(finding.ANY_VIDEO).model
    assert model.takes_background
    assert model.image_size == 128
