"""`gswm data make`, `gswm data show`."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

from gswm.cli import main
from gswm.commands import data
from gswm.data.episode import Episodes
from gswm.data.storage import hdf5
from gswm.data.storage.writer import Writer
from gswm.data.worlds.registry import WORLDS, world
from gswm.data.worlds.single_ball import SingleBall


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


SOLIDS = ("obj3d", "obj3d-shadows", "obj3d-two")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] * (n in SOLIDS))
        for n in WORLDS
        if n not in ("obj3d-128", "obj3d-hard")  # made as obj3d is
    ],
)
def test_a_made_file_holds_the_first_episodes_of_the_split(name: str, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "a.hdf5"
    number = 1 if name in SOLIDS else 2
    args = ["data", "make", name, "--split", "val", "--episodes", str(number), "--out", str(out)]
    assert main(args) == 0
    made = hdf5.read(out)
    expected = next(world(name).episodes(world(name).splits["val"].seed, number))
    assert torch.equal(made.video, expected.video)
    assert made.truth is not None
    assert expected.truth is not None
    torch.testing.assert_close(made.truth.positions, expected.truth.positions)
    assert torch.equal(made.truth.ids, expected.truth.ids)
    seen = expected.truth.present
    assert torch.equal(made.truth.order[seen], expected.truth.order[seen])
    torch.testing.assert_close(made.truth.colors, expected.truth.colors)
    torch.testing.assert_close(made.truth.velocities, expected.truth.velocities)
    if expected.corridors is not None:
        assert made.corridors is not None
        assert torch.equal(made.corridors.grid, expected.corridors.grid)
        assert torch.equal(made.corridors.cells, expected.corridors.cells)
    assert (made.space is None) == (expected.space is None)
    for part in vars(expected.space) if expected.space is not None else ():
        was, now = getattr(expected.space, part), getattr(made.space, part)
        torch.testing.assert_close(now, was.to(now.dtype), rtol=1e-3, atol=1e-3, msg=part)
    assert files(tmp_path) == ["deep/a.hdf5"]


def test_the_default_file_is_named_after_world_and_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "make", "single-ball", "--split", "test"]) == 0
    assert files(tmp_path) == ["data/single-ball/test.hdf5"]
    assert "100 episodes of 9 frames" in capsys.readouterr().out
    assert len(hdf5.open_file("data/single-ball/test.hdf5")) == 100


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["data", "make", "nowhere"], "there is no world 'nowhere'; choose from interaction"),
        (["data", "make", "mzae"], "there is no world 'mzae': did you mean maze?"),
        (["data", "make", "maze", "--episodes", "0"], "at least 1"),
        (["data", "make", "maze", "--device", "tpu"], "cpu or cuda"),
        (["data", "make", "maze", "--device", "cuda"], "no CUDA device found; use --device cpu"),
        (["data", "make", "single-ball", "--out", "old.hdf5"], "old.hdf5 exists; use --force"),
        (["data", "make", "maze", "--out", "x.hdf5"], "are free"),
        (["data", "make", "maze", "--out", "x.mp4"], "must end in .hdf5 or .h5"),
        (["data", "scenes", "--out", "x.csv"], "must end in .hdf5 or .h5"),
        (["data", "show", "nowhere", "--out", "x.png"], "there is no world 'nowhere'"),
        (["data", "show", "no.hdf5", "--out", "x.png"], "no.hdf5 does not exist"),
        (["data", "show", "old.hdf5", "--out", "x.png"], "old.hdf5: cannot be read"),
        (
            ["data", "show", "two.hdf5", "--out", "x.gif", "--episode", "2"],
            "no episode 2; it has 2",
        ),
        (["data", "show", "maze", "--out", "x.jpg"], "must end in .png, .gif or .mp4"),
        (["data", "show", "maze", "--out", "x.gif", "--scale", "0"], "--scale"),
        (["demo", "--out", "old.hdf5"], "it is a file; choose a folder"),
        (["demo", "--out", "new", "--scale", "0"], "--scale is 0"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    args: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(data.shutil, "disk_usage", lambda _: type("", (), {"free": 1_000_000})())
    (tmp_path / "old.hdf5").write_bytes(b"old")
    with Writer(tmp_path / "two.hdf5", "single-ball") as writer:
        writer.append(next(SingleBall().episodes(0, 2)))
    before = files(tmp_path)
    assert main(args) == 2
    error = capsys.readouterr().err
    assert error.startswith("gswm: ")
    assert said in error
    assert len(error.splitlines()) == 1
    assert files(tmp_path) == before
    assert (tmp_path / "old.hdf5").read_bytes() == b"old"


def test_force_replaces_a_file(tmp_path: Path) -> None:
    out = tmp_path / "a.hdf5"
    out.write_bytes(b"old")
    args = ["data", "make", "single-ball", "--episodes", "2", "--out", str(out)]
    assert main(args) == 2
    assert main([*args, "--force"]) == 0
    assert len(hdf5.open_file(out)) == 2


def test_an_interrupted_run_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = SingleBall.episodes

    def cut(*args, **settings) -> Iterator[Episodes]:
        yield next(whole(*args, **settings))[:2]
        assert files(tmp_path) != []
        raise KeyboardInterrupt

    monkeypatch.setattr(SingleBall, "episodes", cut)
    out = tmp_path / "a.hdf5"
    assert main(["data", "make", "single-ball", "--episodes", "5", "--out", str(out)]) == 130
    assert capsys.readouterr().err == "gswm: interrupted\n"
    assert files(tmp_path) == []


def test_a_disk_that_fills_up_is_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(h5py.Dataset, "resize", full)
    out = tmp_path / "a.hdf5"
    assert main(["data", "make", "single-ball", "--episodes", "5", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "the disk is full" in error
    assert len(error.splitlines()) == 1
    assert files(tmp_path) == []


@pytest.mark.slow
def test_show_draws_a_world_and_its_file_alike(tmp_path: Path) -> None:
    made = tmp_path / "a.hdf5"
    main(["data", "make", "maze", "--split", "test", "--episodes", "3", "--out", str(made)])
    drawn = []
    for source in ("maze", str(made)):
        out = tmp_path / "x.gif"
        assert main(["data", "show", source, "--episode", "2", "--out", str(out), "--force"]) == 0
        with Image.open(out) as image:
            image.seek(17)
            drawn.append(np.asarray(image.convert("RGB")))
    np.testing.assert_array_equal(*drawn)
    assert drawn[0].shape == (256, 256, 3)


def test_show_draws_at_most_so_many_frames_on_a_sheet(tmp_path: Path) -> None:
    out = tmp_path / "x.png"
    settings = ["--frames", "5", "--scale", "1", "--no-boxes", "--out", str(out)]
    assert main(["data", "show", "single-ball", *settings]) == 0
    with Image.open(out) as image:
        sheet = np.asarray(image.convert("RGB"))
    video = next(SingleBall().episodes(2, 1)).video[0, ::2]
    balls = (sheet == (255, 0, 0)).all(axis=-1).sum()
    assert balls == (video[:, 0] == 255).sum()


def test_show_draws_a_video_of_which_nothing_is_known(tmp_path: Path) -> None:
    video = torch.randint(0, 256, (1, 4, 3, 20, 30), dtype=torch.uint8)
    with Writer(tmp_path / "a.hdf5", "video") as writer:
        writer.append(Episodes(video))
    out = tmp_path / "x.gif"
    assert main(["data", "show", str(tmp_path / "a.hdf5"), "--scale", "2", "--out", str(out)]) == 0
    with Image.open(out) as image:
        assert image.size == (60, 40)
