"""`gswm imagine` and `gswm track`: pictures and a table from a model and a video."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from PIL import Image
from test_videos import encode
from tiny import SIZES

from gswm.cli import main
from gswm.commands import imagine, track
from gswm.commands.films import own_film
from gswm.data.episode import Episodes
from gswm.data.importing.film import Film
from gswm.data.importing.videos import Cut
from gswm.data.storage.writer import Writer
from gswm.eval import explained
from gswm.models.gswm.gswm import GSWM
from gswm.models.registry import build, recipe
from gswm.tracking import following
from gswm.viz import formats
from gswm.weights import files as weights


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Weights of a small untrained model that sees objects everywhere."""
    small = recipe("single-ball")
    small = replace(small, model=replace(small.model, sizes=SIZES))
    torch.manual_seed(0)
    untrained = build(small)
    with torch.no_grad():
        for presence in ("discovery.mlp_disc", "propagation.latent.mlp_att"):
            untrained.get_parameter(f"{presence}.4.bias")[0] = 9.0
    file = tmp_path_factory.mktemp("model") / "small.safetensors"
    weights.save(file, untrained, small)
    return str(file)


@pytest.fixture(scope="module")
def timed(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same weights, as of a training on videos at 5 frames a second, all of each frame."""
    file = tmp_path_factory.mktemp("model") / "timed.safetensors"
    videos = {"fps": 5.0, "crop": "none"}
    header = weights.read_header(model)
    weights.save(file, weights.load(model), header["recipe"], about={"videos": videos})
    return str(file)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """A video of 12 frames, 10 a second, wider than high."""
    pixels = np.zeros((12, 48, 80, 3), np.uint8)
    for i, frame in enumerate(pixels):
        frame[10:30, 2 + 4 * i : 22 + 4 * i] = 255
    return encode(tmp_path / "film.mp4", list(pixels))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A video of one's own: a folder of images, wider than high."""
    frames = tmp_path / "frames"
    frames.mkdir()
    for i in range(4):
        picture = np.zeros((48, 80, 3), np.uint8)
        picture[10:30, 20 + 4 * i : 40 + 4 * i] = 255
        Image.fromarray(picture).save(frames / f"{i}.png")
    return frames


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_an_episode_of_the_models_own_world_is_imagined(model: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["imagine", model, "--futures", "2", "--out", str(out), "--scale", "1"]) == 0
    names = [".gswm", "imagined.gif", "imagined.mp4", "imagined.png", "states.csv"]
    assert sorted(file.name for file in out.iterdir()) == names
    with Image.open(out / "imagined.gif") as moving:
        assert moving.n_frames == 9
    for row in rows(out / "states.csv"):
        assert (int(row["future"]) == -1) == (int(row["frame"]) < 5)


def test_a_video_of_ones_own_goes_on_beyond_its_end(
    model: str, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    settings = ["--given", "2", "--steps", "4", "--futures", "1", "--no-mp4", "--out", str(out)]
    assert main(["imagine", model, "--video", str(folder), *settings]) == 0
    assert not (out / "imagined.mp4").exists()
    with Image.open(out / "imagined.gif") as moving:
        assert moving.n_frames == 6


@pytest.mark.slow
def test_means_have_one_future_and_samples_depend_on_the_seed(model: str, tmp_path: Path) -> None:
    def table(name: str, *settings: str) -> list[dict[str, str]]:
        out = tmp_path / name
        common = ["--no-mp4", "--scale", "1", "--futures", "2", "--out", str(out)]
        assert main(["imagine", model, *common, *settings]) == 0
        return rows(out / "states.csv")

    first = table("first")
    assert {row["future"] for row in first} == {"-1", "0", "1"}
    assert first == table("again")
    assert first != table("other", "--seed", "1")
    assert {row["future"] for row in table("means", "--no-sample")} == {"-1", "0"}


@pytest.fixture(autouse=True)
def unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not measure whether models fit videos: these ones are untrained, and test_misfit does."""
    for name in ("measure", "measure_track"):
        monkeypatch.setattr(explained, name, lambda *_, **__: None)


@pytest.mark.parametrize("source", ["world", "folder", "gif"])
@pytest.mark.parametrize("picture", ["seen.png", "seen.gif"])
def test_objects_of_a_video_are_tracked(
    source: str,
    picture: str,
    model: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, seen = tmp_path / "out" / "states.csv", tmp_path / "out" / picture
    named = {"world": "single-ball", "folder": str(folder), "gif": str(tmp_path / "own.gif")}
    if source == "gif":
        gray = np.arange(4, dtype=np.uint8)[:, None, None, None] * 50
        formats.save_video(tmp_path / "own.gif", np.tile(gray, (1, 64, 64, 3)))
    settings = ["--model", model, "--frames", "3", "--out", str(out), "--picture", str(seen)]
    assert main(["track", named[source], *settings]) == 0
    assert "in 3 frames" in capsys.readouterr().out
    assert {int(row["frame"]) for row in rows(out)} <= {0, 1, 2}
    with Image.open(seen) as image:
        assert getattr(image, "n_frames", 1) == (3 if picture.endswith("gif") else 1)


PER_SECOND = "5 frames per second (--video-fps 0 uses all)"
WHOLE = "each frame distorted into a square (--fit letterbox adds bars instead)"


CUTS: list[tuple[list[str], Cut, str]] = [
    ([], Cut(64, 5.0, fit="stretch"), f"as in training, {PER_SECOND} and {WHOLE}"),
    (["--video-fps", "0"], Cut(64, fit="stretch"), f"as in training, {WHOLE}"),
    (["--fit", "letterbox"], Cut(64, 5.0), f"as in training, {PER_SECOND}"),
    (["--fit", "crop"], Cut(64, 5.0, fit="crop"), f"as in training, {PER_SECOND}"),
    (["--video-fps", "2.5", "--fit", "stretch"], Cut(64, 2.5, fit="stretch"), ""),
    (
        ["--video-fps", "2.5", "--fit", "letterbox", "--region", "10,4,60,40"],
        Cut(64, 2.5, region=(10, 4, 60, 40)),
        "",
    ),
]
"""Settings for a video, how it is cut, and what is said about it."""


@pytest.mark.parametrize(
    ("command", "settings", "cut", "said"),
    [*(("track", *each) for each in CUTS), *(("imagine", *CUTS[i]) for i in (0, -1))],
)
def test_a_video_is_taken_as_those_of_the_training_were(
    command: str,
    settings: list[str],
    cut: Cut,
    said: str,
    timed: str,
    film: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    taken = []

    def seen(*args: Any, **settings: Any) -> Film:
        taken.append(own_film(*args, **settings))
        return taken[0]

    monkeypatch.setattr(imagine if command == "imagine" else track, "own_film", seen)
    if command == "track":
        args = ["track", str(film), "--model", timed, "--out", str(tmp_path / "states.csv")]
    else:
        args = ["imagine", timed, "--video", str(film), "--out", str(tmp_path / "out")]
        args += ["--given", "2", "--futures", "1", "--no-mp4"]
    assert main([*args, *settings]) == 0
    assert taken[0].cut == cut
    assert taken[0].read().shape[1] == {5.0: 6, 2.5: 3, None: 12}[cut.fps]
    assert capsys.readouterr().err == (f"film.mp4: {said}\n" if said else "")


def test_images_have_no_times_and_other_weights_take_every_frame(
    timed: str, model: str, folder: Path, film: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(film.with_name("states.csv")), "--force"]
    assert main(["track", str(folder), "--model", timed, *out]) == 0
    said = capsys.readouterr()
    assert "in 4 frames" in said.out
    assert said.err == f"{folder.name}: as in training, {WHOLE}\n"
    assert main(["track", str(film), "--model", model, *out]) == 0
    said = capsys.readouterr()
    assert "in 12 frames" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["imagine", "MODEL", "--video", "x.mp4", "--video-fps", "-1"],
            "--video-fps is -1; it must be positive",
        ),
        (
            ["track", "x.mp4", "--model", "MODEL", "--video-fps", "inf"],
            "--video-fps is inf; it must be positive",
        ),
        (["imagine", "MODEL", "--world", "maze", "--video", "x.mp4"], "either --world or --video"),
        (["imagine", "MODEL", "--video", "nowhere.mp4"], "there is no video nowhere.mp4"),
        (["imagine", "MODEL", "--futures", "0"], "--futures is 0; it must be at least 1"),
        (["imagine", "MODEL", "--given", "30"], "given must be from 1 to 9, the number of frames"),
        (["imagine", "MODEL", "--video", "x.mp4", "--episode", "3"], "--episode needs a world"),
        (["track", "x.mp4", "--model", "MODEL", "--split", "val"], "--split needs a world"),
        (["imagine", "MODEL", "--episode", "-1"], "--episode is -1"),
        (["imagine", "MODEL", "--given", "0"], "--given is 0; it must be at least 1"),
        (["imagine", "MODEL", "--steps", "0"], "--steps is 0; it must be at least 1"),
        (["imagine", "MODEL", "--episode", "100"], "single-ball, test has no episode 100; it has"),
        (["imagine", "MODEL", "--out", "/dev/null"], "'/dev/null': it is a file; choose a folder"),
        (["track", "x.mp4", "--model", "MODEL", "--region", "0,0,0,9"], "has no pixels"),
        (["imagine", "MODEL", "--video", "x.mp4", "--region", "1,2"], "x,y,width,height"),
        (["track", "x.mp4", "--model", "MODEL", "--out", "x.avi"], ".csv, .txt or .mp4"),
        (["track", "maze", "--model", "MODEL", "--frames", "0"], "--frames is 0; it must be"),
        (["track", "maze", "--model", "MODEL", "--episode", "500"], "it has 100, starting at 0"),
        (["track", "maze", "--model", "MODEL", "--out", "."], "cannot write .: it is a folder"),
        (["track", "maze", "--model", "MODEL", "--out", "/dev/null/x"], "not a directory"),
        (["imagine", "nothing", "--world", "maze"], "'nothing' is not a run"),
        (["track", "nowhere", "--model", "MODEL"], "there is no video nowhere"),
        (["track", "maze", "--model", "MODEL", "--picture", "x.jpg"], "must end in"),
        (["track", "maze", "--model", "MODEL", "--scale", "17"], "--scale is 17"),
        (["imagine", "MODEL", "--scale", "100"], "--scale is 100"),
        (["imagine", "MODEL", "--scale", "16", "--steps", "90"], "use a smaller --scale, or"),
        (["track", "maze", "--model", "MODEL", "--out", "x.mp4"], "use --picture x.mp4"),
        (["track", "maze", "--model", "MODEL", "--out", "x.txt"], "'x.txt': the name must end in"),
        (["track", "two-layers"], "did you mean the world two-layer?"),
        (["track", "two-layers.mp4", "--model", "MODEL"], "there is no video two-layers.mp4;"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    settings: list[str],
    said: str,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([model if word == "MODEL" else word for word in settings]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert len(message.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["track", "film.mp4", "--out", "film.mp4"], "it is also an input"),
        (["track", "film.mp4", "--out", "a.csv", "--out", "film.mp4"], "it is also an input"),
        (["track", "film.mp4", "--picture", "frames/../film.mp4"], "it is also an input"),
        (["track", "frames", "--picture", "frames/0.png"], "it is also an input"),
        (["track", "some.hdf5", "--out", "some.hdf5"], "the name must end in .csv"),
        (["track", "some.hdf5", "--picture", "some.hdf5"], "the name must end in .png"),
        (["imagine", "MODEL", "--video", "imagined.mp4", "--out", "."], "it is also an input"),
    ],
)
def test_what_is_read_is_never_written(
    settings: list[str],
    said: str,
    model: str,
    film: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "imagined.mp4").write_bytes(film.read_bytes())
    (tmp_path / "some.hdf5").write_bytes(b"episodes")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    args = [model if word == "MODEL" else word for word in settings]
    assert main([*args, *(["--model", model] if args[0] == "track" else [])]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert len(message.splitlines()) == 1
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


def test_a_table_beside_the_images_it_is_about_is_written_again(model: str, folder: Path) -> None:
    for _ in range(2):
        args = ["track", str(folder), "--model", model, "--frames", "1", "--force"]
        assert main([*args, "--out", str(folder / "states.csv")]) == 0


@pytest.mark.parametrize("command", ["imagine", "track"])
def test_a_bad_place_is_refused_before_the_work(
    command: str, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (imagine, track):
        monkeypatch.setattr(module, "resolve", lambda *_: pytest.fail("it began to work"))
    what = [model] if command == "imagine" else ["maze", "--model", model]
    assert main([command, *what, "--out", "/dev/null/x"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_damaged_video_is_one_line(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"no video at all")
    assert main(["track", str(tmp_path / "bad.mp4"), "--model", model]) == 2
    assert "cannot be decoded" in capsys.readouterr().err


def test_a_static_background_is_of_all_frames_of_a_video_that_is_tracked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    still, given = tiny.lively("clips", image_size=64), []
    perceive = GSWM.perceive

    def seen(self: GSWM, video: Any, **how: Any) -> Any:
        given.append(how["background"])
        return perceive(self, video, **how)

    monkeypatch.setattr(GSWM, "perceive", seen)
    monkeypatch.setattr(track, "resolve", lambda *_: (still, {"about": {}}))
    monkeypatch.setattr(following, "CHUNK", 4)
    pixels = np.full((12, 64, 64, 3), 90, np.uint8)
    pixels[:4, 20:40, 20:40] = 255
    path = encode(tmp_path / "a.mp4", list(pixels))
    args = ["track", str(path), "--model", "any", "--windows", "1"]
    assert main([*args, "--out", str(tmp_path / "a.csv")]) == 0
    (behind,) = given  # of the first chunk; the others go on
    torch.testing.assert_close(behind, torch.full((1, 3, 64, 64), 90 / 255), atol=0.03, rtol=0)


@pytest.mark.slow
def test_frames_to_be_imagined_are_not_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = tiny.lively("clips", image_size=64)
    monkeypatch.setattr(imagine, "resolve", lambda *_: (still, {"about": {}, "given": 3}))
    tables = []
    for shade in (0, 200):
        (folder := tmp_path / f"{shade}").mkdir()
        for i in range(6):
            level = 100 + 10 * i if i < 3 else shade
            Image.new("RGB", (64, 64), (level, level, 50)).save(folder / f"{i}.png")
        out = tmp_path / f"out-{shade}"
        assert main(["imagine", "any", "--video", str(folder), "--out", str(out), "--no-mp4"]) == 0
        tables.append((out / "states.csv").read_text())
    assert tables[0] == tables[1]
    assert tables[0].count("\n") > 6


@pytest.mark.parametrize("command", [pytest.param("imagine", marks=pytest.mark.slow), "track"])
def test_the_background_of_a_files_episode_is_given_to_the_model(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    still, given = tiny.lively("clips", image_size=64), []
    infer = GSWM.infer

    def seen(self: GSWM, video: Any, **how: Any) -> Any:
        given.append(how["background"])
        return infer(self, video, **how)

    monkeypatch.setattr(GSWM, "infer", seen)
    behind = torch.randint(0, 255, (2, 3, 64, 64), dtype=torch.uint8)
    video = behind[:, None].repeat(1, 6, 1, 1, 1)
    file = tmp_path / "a.hdf5"
    with Writer(file, "video") as writer:
        writer.append(Episodes(video, background=behind), split="test")
    known = {"about": {}, "given": 3}
    monkeypatch.setattr(
        imagine if command == "imagine" else track, "resolve", lambda *_: (still, known)
    )
    out = ["--episode", "1", "--out", str(tmp_path / ("out" if command == "imagine" else "a.csv"))]
    words = {"imagine": ["any", "--world", str(file)], "track": [str(file), "--model", "any"]}
    assert main([command, *words[command], *out]) == 0
    (found,) = given
    assert torch.equal(found, behind[1:])
