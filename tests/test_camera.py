"""A warning of `gswm track` about a camera that moves, and none about one that is fixed."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from synthetic_videos import KINDS, make, moving_camera, refusal, save

import gswm
from gswm.cli import main
from gswm.tracking.camera import camera_moves, shown
from gswm.tracking.misfit import MisfitWarning
from gswm.tracking.windows import WindowedFilm

NUMBER = 24


def seen(path: Path, along: int, number: int = NUMBER) -> tuple[WindowedFilm, torch.Tensor]:
    """The first frames of a film, in windows."""
    windows = WindowedFilm.of(gswm.open_video(path, 128), along)
    return windows, windows.cut(windows.film.read()[:, :number])


@pytest.mark.parametrize("along", [1, 2])
def test_a_moving_camera_is_told_from_a_fixed_one(along: int, tmp_path: Path) -> None:
    pans = save(tmp_path / "pans.mp4", refusal("camera")[:NUMBER])
    windows, video = seen(pans, along)
    assert camera_moves(windows, video, video[:, 0])
    assert not camera_moves(windows, video, None)  # the model has no background
    still = video[:, :1].expand_as(video)
    assert not camera_moves(windows, still, still[:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_no_camera_of_the_synthetic_kinds_moves(kind: str, tmp_path: Path) -> None:
    windows, video = seen(save(tmp_path / "a.mp4", make(kind).video[:NUMBER]), 1)
    assert not camera_moves(windows, video, video[:, 0])


def test_a_jolt_at_the_start_is_no_moving_camera(tmp_path: Path) -> None:
    """Few pairs of frames show it, also among many frames."""
    frames = np.repeat(refusal("camera")[:1], 120, axis=0)
    frames[:4] = np.roll(frames[:4], 12, axis=2)
    windows, video = seen(save(tmp_path / "a.mp4", frames), 1, number=120)
    assert not camera_moves(windows, video, video[:, 0])


def test_black_bars_are_not_compared(tmp_path: Path) -> None:
    """They stand still whatever the camera does."""
    windows, video = seen(save(tmp_path / "a.mp4", refusal("camera")[:NUMBER]), 1)
    frames = video[0].permute(0, 2, 3, 1).numpy()
    part = shown(windows, frames)
    assert part.shape[1] < part.shape[2] == frames.shape[2]
    assert part.min(axis=(0, 2, 3)).min() > 0
    assert frames.astype(int).sum() == part.astype(int).sum()


def by_command(path: Path, folder: Path) -> None:
    assert main(["track", str(path), "--frames", "8", "--out", str(folder / "a.csv")]) == 0


def by_python(path: Path, folder: Path) -> None:
    with pytest.warns(MisfitWarning) as noted:
        gswm.track(path, frames=8)
    print(*(str(each.message) for each in noted))


@pytest.mark.parametrize("track", [by_command, by_python])
def test_tracking_names_a_moving_camera_once(
    track: Callable[[Path, Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tmp_path / "pans.mp4", moving_camera(np.random.default_rng(1))[:8])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        track(path, tmp_path)
    said = "".join(capsys.readouterr())
    assert said.count("the camera moves in pans.mp4") == 1
    assert "does not fit" not in said
