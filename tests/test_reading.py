"""`read_video`: any video as a tensor for a model, or a one-line error."""

from pathlib import Path
from typing import Any, get_args

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from test_videos import encode, shades

from gswm.core.errors import UserError
from gswm.data.importing.film import Film
from gswm.data.importing.reading import open_video, read_video
from gswm.data.importing.sources import Source
from gswm.data.importing.videos import Cut, clips, frames_of
from gswm.data.placement import Fit
from gswm.models.base import check_video
from gswm.viz.formats import save_video


def made(kind: str, folder: Path) -> Path:
    """A video of 8 frames, wider than high, each brighter than the one before."""
    frames = shades(8)
    if kind == "folder":
        (folder / "frames").mkdir()
        for i, frame in enumerate(frames):
            Image.fromarray(frame).save(folder / "frames" / f"{i + 5}.png")
        return folder / "frames"
    if kind == "gif":
        save_video(folder / "a.gif", np.stack(frames))
        return folder / "a.gif"
    return encode(folder / f"a.{kind}", frames)


@pytest.mark.parametrize("kind", ["mp4", "gif", "folder"])
def test_a_video_is_a_batch_of_one_that_a_model_takes(kind: str, tmp_path: Path) -> None:
    video = read_video(str(made(kind, tmp_path)), 32)
    assert video.dtype == torch.uint8
    assert video.shape == (1, 8, 3, 32, 32)
    assert video.is_contiguous()
    middle = video[..., 8:24, 8:24].double()
    gray = middle.mean(dim=(0, 2, 3, 4))
    np.testing.assert_allclose(gray, [20 + 12 * i for i in range(8)], atol=2)
    assert check_video(video, 32).shape == video.shape


@pytest.mark.parametrize("fit", get_args(Fit))
@pytest.mark.parametrize("fps", [None, 5.0])
def test_it_is_what_an_import_would_take(fit: Fit, fps: float | None, tmp_path: Path) -> None:
    frames = shades(8)
    for frame in frames:
        frame[:, :10] = 255
    path = encode(tmp_path / "a.mp4", frames)
    cut = Cut(24, fps, 8 if fps is None else 4, fit)
    (wanted,) = clips(frames_of(Source(path, "a", "test"), cut), cut)
    video = read_video(path, 24, fps=fps, fit=fit)
    np.testing.assert_array_equal(video[0].movedim(1, -1), wanted.video)
    assert video.shape[1] == (8 if fps is None else 4)


@pytest.mark.parametrize("kind", ["mp4", "folder"])
def test_a_film_is_read_as_often_as_needed_in_parts_or_whole(kind: str, tmp_path: Path) -> None:
    film = open_video(made(kind, tmp_path), 16)
    every = film.read()
    parts = list(film.chunks(3))
    assert [len(part) for part in parts] == [3, 3, 2]
    joined = np.concatenate([part.video for part in parts])
    np.testing.assert_array_equal(joined, every[0].movedim(1, -1))
    assert film.footage.frames.tolist() == list(range(8))
    assert np.isnan(film.footage.times).all() == (kind == "folder")


@pytest.mark.parametrize(("frames", "wanted"), [(2, [0, 4]), (3, [0, 2, 4, 6]), (9, range(8))])
def test_a_sample_is_spread_over_the_film(frames: int, wanted: list[int], tmp_path: Path) -> None:
    film = open_video(made("mp4", tmp_path), 16)
    assert torch.equal(film.sample(frames), film.read()[:, list(wanted)])


def test_a_sample_is_of_keyframes_where_there_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def often(stream) -> None:
        stream.codec_context.gop_size = 3

    film = open_video(encode(tmp_path / "a.mp4", shades(12), setup=often), 16)
    every = film.read()
    monkeypatch.setattr(Film, "timed", lambda _: pytest.fail("all frames were decoded"))
    some = film.sample(4)
    of = [[torch.equal(one, frame) for frame in every[0]].index(True) for one in some[0]]
    assert 4 <= len(of) < 8
    assert of == sorted(set(of))


@pytest.mark.parametrize("kind", ["mp4", "folder"])
def test_the_first_frames_alone_are_read(kind: str, tmp_path: Path) -> None:
    path = made(kind, tmp_path)
    every = read_video(path)
    assert torch.equal(read_video(path, frames=3), every[:, :3])
    assert torch.equal(read_video(path, frames=99), every)


def test_images_have_no_times(tmp_path: Path) -> None:
    assert read_video(made("folder", tmp_path), fps=2.0).shape[1] == 8


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("nowhere.mp4", {}, "there is no video"),
        ("empty", {}, "it has no images"),
        ("bad.mp4", {}, "cannot be decoded"),
        ("bad.gif", {}, "cannot be decoded"),
        ("short.gif", {}, "cut short"),
        ("notes.txt", {}, "it has no video stream"),
        ("damaged", {}, "0.png in it is damaged or not an image"),
        ("a.mp4", {"size": 0}, "size is 0"),
        ("a.mp4", {"size": 10**6}, "size is 1000000"),
        ("a.mp4", {"fps": 0.0}, "fps is 0"),
        ("a.mp4", {"fps": -1.0}, "fps is -1"),
        ("a.mp4", {"fps": float("nan")}, "fps is nan"),
        ("a.mp4", {"fps": float("inf")}, "fps is inf"),
        ("a.mp4", {"frames": 0}, "frames is 0"),
        ("a.mp4", {"region": (0, 0, 0, 5)}, "has no pixels"),
        ("a.mp4", {"region": (40, 0, 20, 20)}, "outside the frame of 48 x 32"),
        ("nothing.mp4", {}, "the file is empty"),
        ("cut.mp4", {}, "cannot be decoded"),
        ("a.hdf5", {}, "it is a file of episodes"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    name: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    good = made("mp4", tmp_path).read_bytes()
    (tmp_path / "nothing.mp4").write_bytes(b"")
    (tmp_path / "cut.mp4").write_bytes(good[: len(good) // 2])
    whole = made("gif", tmp_path).read_bytes()
    (tmp_path / "short.gif").write_bytes(whole[:-1])
    h5py.File(tmp_path / "a.hdf5", "w").close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    for bad in ("bad.mp4", "bad.gif", "damaged/0.png"):
        (tmp_path / bad).write_bytes(b"no video at all")
    (tmp_path / "notes.txt").write_text("A ball rolls.\n" * 99)
    with pytest.raises(UserError) as error:
        read_video(tmp_path / name, **settings)
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_an_address_is_refused_with_a_remedy() -> None:
    with pytest.raises(UserError, match=r"https://example.com/a.mp4 is an address: download"):
        read_video("https://example.com/a.mp4")
