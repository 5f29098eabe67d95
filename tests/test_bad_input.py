"""Bad input causes one line and an exit code, never a traceback, a hang or a guess."""

import inspect
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors import safe_open
from test_importing import pictures, run, video
from test_videos import at, encode, shades
from tiny import lively
from tiny import video as frames
from training import small, train_here, trained_once

import gswm
from gswm.cli import main
from gswm.core.devices import find_device
from gswm.core.errors import UserError
from gswm.core.limits import check_range
from gswm.core.settings import check_numbers
from gswm.core.words import counted, in_bytes, ordinal, printable
from gswm.data.importing.film import Film
from gswm.data.importing.frames import to_rgb
from gswm.data.importing.videos import MOST_REPEATS, Cut, UnusableError, known_cut, resample
from gswm.data.storage.hdf5 import open_file
from gswm.models.gswm.gswm import GSWM
from gswm.models.registry import build, recipe
from gswm.train.folder import RunFolder
from gswm.train.loop import LoopConfig
from gswm.weights import files as weights

pytestmark = pytest.mark.usefixtures("small_trunk")
HUGE = 2**64
WORLDS = ("single-ball", "two-layer", "maze", "digits", "clips-64", "obj3d")


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command says when it refuses its input."""
    capsys.readouterr()
    assert main(args) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gswm: ")
    return line


# -- numbers on the command line


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["imagine", "MODEL", "--seed", str(HUGE)], "--seed is 18446744073709551616; it must be"),
        (["imagine", "MODEL", "--fps", "100000"], "--fps is 100000; it must be from 1 to 1,000"),
        (["train", "maze", "--seed", str(HUGE)], "--seed is"),
        (["train", "maze", "--max-minutes", "nan"], "--max-minutes is nan; it must be from 0"),
        (["train", "maze", "--max-minutes", "1e300"], "--max-minutes is 1e+300"),
        (["train", "maze", "--train.steps", str(10**30)], "--train.steps is"),
        (["train", "maze", "--model.sizes.what", "-1"], "--model.sizes.what is -1"),
        (["train", "scalor-interaction", "--model.sizes.what", "0"], "--model.sizes.what is 0"),
        (["train", "maze", "--model.image-size", "-64"], "--model.image-size is -64"),
        (["train", "maze", "--device", "meta"], "there is no device 'meta' here"),
        (["sweep", "maze", "--seeds", "0..99999999999"], "at most 10,000 seeds"),
        (["sweep", "maze", "--seeds", str(HUGE)], "--seed is"),
        (["data", "import", "film", "--size", "100000"], "size is 100000; it must be from 1"),
        (["data", "import", "film", "--frames", "30000000"], "take 369 GB, more than the limit of"),
        (["data", "show", "maze", "--scale", "100000"], "--scale is 100000; it must be from 1"),
        (["data", "scenes", "--workers", "99999999"], "--workers is 99999999; it must be from 1"),
        (["data", "compare", "--scenes", "x", "--seed", "-1"], "--seed is -1"),
        (["demo", "--scale", "1000000"], "--scale is 1000000"),
        (["fit", "film", "--minutes", "nan"], "--minutes is nan"),
        (["fit", "film", "--stride", "0"], "--stride is 0; it must be at least 1"),
        (["fit", "film", "--sigma", "nan"], "--sigma is nan"),
        (["fit", "film", "--size", "100000"], "--size is 100000; it must be from 1 to 4,096"),
        (["data", "compare", "--scenes", "x", "--size", "100000"], "--size is 100000"),
        (["fit", "film", "--seed", str(HUGE)], "--seed is"),
        (["track", "film", "--frames", str(HUGE)], "--frames is 18446744073709551616; it must be"),
        (["bench", "data", "--episodes", "0"], "--episodes is 0; it must be at least 1"),
    ],
)
def test_a_number_out_of_range_is_refused(
    args: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "film")
    before = sorted(tmp_path.rglob("*"))
    if "MODEL" in args:
        args = [str(weights.find("single-ball")) if word == "MODEL" else word for word in args]
    out = {"import": "a.hdf5", "show": "a.gif"}.get(args[1])
    assert said in refused([*args, *(["--out", out] if out else [])], capsys)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("decided", "said"),
    [({"stride": 0}, "--stride is 0"), ({"seed": -1}, "--seed"), ({"image_size": -8}, "--size is")],
)
def test_a_fit_in_python_refuses_the_numbers_that_the_command_refuses(
    decided: dict[str, int], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        gswm.fit(pictures(tmp_path / "film"), out=tmp_path / "out", **decided)
    assert not (tmp_path / "out").exists()


@given(st.floats(), st.floats(-10, 10), st.floats(-10, 10))
def test_a_range_lets_through_what_lies_in_it(value: float, one: float, other: float) -> None:
    least, most = sorted((one, other))
    if least <= value <= most:
        check_range({"--x": value, "--y": None}, least, most)
    else:
        with pytest.raises(UserError, match=r"--x is .*; it must be"):
            check_range({"--x": value}, least, most)


def test_minutes_of_a_training_are_a_number() -> None:
    for minutes in (0.0, 5.5, None):
        assert LoopConfig(max_minutes=minutes).max_minutes == minutes
    for minutes in (float("nan"), float("inf"), -1.0):
        with pytest.raises(UserError, match="--max-minutes is"):
            LoopConfig(max_minutes=minutes)


def test_numbers_anywhere_in_settings_are_checked() -> None:
    check_numbers(recipe("maze"), "--recipe")
    object.__setattr__(cfg := LoopConfig(), "save_every", -3)
    with pytest.raises(UserError, match=r"--loop\.save-every is -3; it must not be negative"):
        check_numbers(cfg, "--loop")


@pytest.mark.parametrize("name", ["meta", "hpu", "abacus", "", "cuda:-1"])
def test_a_device_must_hold_values(name: str) -> None:
    with pytest.raises(UserError, match=r"device|GPU"):
        find_device(name)


@pytest.mark.parametrize("name", ["gpu", "abacus", "cuda:77"])
def test_a_device_that_this_machine_lacks_is_a_users_error_in_python(
    name: str, tmp_path: Path
) -> None:
    single = gswm.world("single-ball")
    some = next(single.episodes(seed=1, n=1))
    film = tmp_path / "film.gif"
    film.write_bytes(b"GIF89a")
    asks: list[Callable[[], Any]] = [
        *(lambda w=w: next(gswm.world(w).episodes(1, 1, device=name)) for w in WORLDS),
        lambda: some.to(name),
        lambda: gswm.load("single-ball", device=name),
        lambda: gswm.evaluate(build("single-ball"), [some], single.protocol, device=name),
        lambda: gswm.track(film, "single-ball", device=name),
        lambda: gswm.fit(film, device=name, out=tmp_path / "fit"),
    ]
    for ask in asks:
        with pytest.raises(UserError, match=r"no device|no CUDA device"):
            ask()
    assert not (tmp_path / "fit").exists()


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_folder_of_videos_is_not_read_as_one(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("10.mkv", "2.mkv"):
        video(tmp_path / "in" / name)
    folder = str(pictures(tmp_path / "in", number))
    out, model, labels = (str(tmp_path / name) for name in ("out", "m.safetensors", "labels.txt"))
    gswm.save(model, build("single-ball"))
    Path(labels).write_text("1,1,1,1,5,5,1,-1,-1,-1\n")
    asks = [
        ["track", folder, "--model", model, "--out", f"{out}.csv"],
        ["imagine", model, "--video", folder, "--out", out],
        ["eval", model, folder, "--labels", labels],
        ["eval", folder, "--baseline", "median-sort", "--labels", labels],
        ["eval", folder, "--tracks", labels, "--labels", labels],
        ["bench", "track", "--model", model, "--video", folder, "--device", "cpu"],
    ]
    for ask in asks:
        said = refused(ask, capsys)
        assert re.search(r"a folder of 2 videos.*pass one file, such as .*2\.mkv", said)
        assert (f" and {counted(number, 'image')};" in said) == bool(number)
    with pytest.raises(UserError, match="a folder of 2 videos"):
        gswm.track(folder, model)
    assert not list(tmp_path.glob("out*"))


def test_images_stay_one_video_while_a_video_is_written_beside_them(tmp_path: Path) -> None:
    film = gswm.open_video(pictures(tmp_path / "in"), 8)
    video(tmp_path / "in" / "boxes.mkv")
    assert film.read().shape[1] == len(list(film.source_frames())) == 8


def test_too_little_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")):

        def fail(*_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("gswm.cli.run", fail)
        assert main(["any"]) == 5
        assert capsys.readouterr().err.startswith("gswm: out of memory")
    monkeypatch.setattr("gswm.cli.run", lambda _: torch.zeros(2).view(3))
    with pytest.raises(RuntimeError):
        main(["any"])


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (3_000_000, "3 MB")),
        *((36_900_000_000, "36.9 GB"), (2.5e12, "2.5 TB"), (999_600, "1 MB")),
    ],
)
def test_bytes_are_told_in_the_unit_that_suits(size: float, text: str) -> None:
    assert in_bytes(size) == text


def test_a_disk_that_is_nearly_full_is_told_in_small_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    args = ["data", "make", "maze", "--episodes", "9", "--out", str(tmp_path / "a.hdf5")]
    assert "needs 10.9 MB, but 5 MB are free" in refused(args, capsys)


# -- what never ends


def test_a_pipe_is_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def pipe(name: str) -> str:
        os.mkfifo(tmp_path / name)
        return str(tmp_path / name)

    model = str(with_header(tmp_path))
    film, table, data, scores = (pipe(name) for name in ("a.mp4", "a.txt", "a.hdf5", "a.json"))
    other, scenes = pipe("a.safetensors"), pipe("b.hdf5")
    pictures(tmp_path / "images")
    (tmp_path / "images" / "test_3.png").unlink()
    os.mkfifo(tmp_path / "images" / "test_3.png")
    out = ["--out", str(tmp_path / "x.csv")]
    for args in (
        ["track", film, "--model", model, *out],
        ["data", "look", film],
        ["track", data, "--model", model, *out],
        ["track", "maze", "--model", other, *out],
        ["data", "info", data],
        ["data", "compare", "--scenes", scenes],
        ["eval", "--labels", table, "--tracks", table],
        ["fit", film, "--start", other, "--out", str(tmp_path / "fit")],
        ["report", scores, "--out", str(tmp_path / "report")],
        ["report", str(tmp_path), "--out", str(tmp_path / "report")],
        ["data", "look", str(tmp_path / "images")],
    ):
        assert "regular file" in (line := refused(args, capsys)) or "not an image" in line
        assert line.count("a.mp4") <= 1
    for source in (film, tmp_path / "images"):
        assert run(source, "--out", tmp_path / "new.hdf5") == 2
    assert "not an image" in capsys.readouterr().err


def test_a_gap_in_the_times_is_refused_before_it_is_filled() -> None:
    found = resample(at([0.0, 0.1, 1e6]), 10.0)
    assert next(found).index == 0
    with pytest.raises(UnusableError, match=r"its frame at 0\.1 s lasts until 1000000\.0 s"):
        list(found)


@pytest.mark.parametrize("fps", [1e9, 1e300])
def test_more_frames_than_make_sense_are_refused(fps: float) -> None:
    with pytest.raises(UnusableError, match="frames per second; use a lower frame rate"):
        next(resample(at([0.0, 0.1]), fps))


@given(st.floats(0.1, 1e4), st.lists(st.floats(0.01, 10), min_size=1, max_size=5))
def test_no_frame_is_taken_more_often_than_it_may(fps: float, gaps: list[float]) -> None:
    times = np.cumsum([0.0, *gaps]).tolist()
    try:
        found = [frame.index for frame in resample(at(times), fps)]
    except UnusableError:
        assert max(*gaps, 0.1) * fps > MOST_REPEATS - 1
    else:
        assert max(map(found.count, set(found))) <= MOST_REPEATS + 1


def test_an_import_at_a_senseless_rate_ends_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out" / "a.hdf5"
    out.parent.mkdir()
    film = video(tmp_path / "a.mkv")
    for fps, said in (
        ("1e300", "fps is 1e+300; it must be"),
        ("1e5", "would be repeated 1e+04 times"),
    ):
        assert run(film, "--out", out, "--fps", fps) == 2
        assert said in capsys.readouterr().err
    assert os.listdir(out.parent) == []


# -- headers of weights


def with_header(folder: Path, about: Any = None, **tensors: torch.Tensor) -> Path:
    """Weights of a small model with another header, or other tensors, and a checksum of these."""
    weights.save(whole := folder / "whole.safetensors", build(one := small()), one)
    with safe_open(whole, "pt") as file:
        held = {key: file.get_tensor(key) for key in file.keys()} | tensors  # noqa: SIM118
        header = file.metadata()
    header |= {"about": json.dumps(about or {}), "sha256": weights.digest(held)}
    header |= {"about": about} if isinstance(about, str) else {}
    path = folder / "other.safetensors"
    path.write_bytes(safetensors.torch.save(held, header))
    return path


ABOUT: list[tuple[Any, str]] = [
    ("[]", "`about` in its header is not an object"),
    ("3", "`about` in its header is not an object"),
    ("null", "`about` in its header is not an object"),
    ("{", "its header cannot be read"),
    ({"videos": {"fps": -5}}, "fps is -5; it must be positive"),
    ({"videos": {"fps": "fast"}}, "fps is 'fast'; it must be positive"),
    ({"videos": {"fps": float("nan")}}, "fps is nan"),
    ({"videos": {"fps": 10**400}}, "fps is 1000"),
    ({"minutes": 10**400}, "`minutes` in its header is 1000"),
    ({"videos": {"fit": "squash"}}, "fit is 'squash'; it must be one of"),
    ({"videos": {"crop": "none of these"}}, "crop is 'none of these'"),
    ({"videos": {"region": 5}}, "region is 5; it must be"),
    ({"videos": {"region": "1,2"}}, "the region is '1,2'"),
    ({"videos": {"region": [1, 2]}}, "region is list; it must be a single string or number"),
    ({"videos": [1]}, "`videos` in its header is [1]"),
    ({"step": "x"}, '`step` in its header is "x"'),
    ({"minutes": float("inf")}, "`minutes` in its header is Infinity"),
    ({"began": 3}, "`began` in its header is 3"),
    ({"began": {"step": -1}}, "`began` in its header"),
    ({"trained_with": 3}, "`trained_with` in its header is 3"),
    ({"test": {"mota": "good"}}, "`test` in its header"),
    ({"curve": [[1]]}, "`curve` in its header is [[1]]"),
]


@pytest.mark.parametrize(("about", "said"), ABOUT)
def test_what_a_header_says_is_checked_like_what_a_user_says(
    about: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_header(tmp_path, about)
    args = ["track", str(pictures(tmp_path / "film")), "--model", str(path)]
    assert said in (line := refused([*args, "--out", str(tmp_path / "a.csv")], capsys))
    assert str(path) in line
    assert said in refused(["export", str(path), "--out", str(tmp_path / "b.safetensors")], capsys)


def test_what_is_known_of_videos_is_taken_as_it_is() -> None:
    known = {"fps": 5.0, "fit": "crop", "region": "1,2,3,4", "another": object()}
    assert known_cut(known, "file") == {k: v for k, v in known.items() if k != "another"}
    assert known_cut({"fps": np.float64(2.5)}, "file") == {"fps": 2.5}
    assert known_cut({}, "file") == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_neither_loaded_nor_saved(
    value: float, tmp_path: Path
) -> None:
    model = build(one := small())
    name, tensor = next(iter(model.state_dict().items()))
    path = with_header(tmp_path, **{name: torch.full_like(tensor, value)})
    with pytest.raises(UserError, match=f"cannot be used: {name} has non-finite values"):
        weights.load(path)
    next(model.parameters()).data.view(-1)[0] = value
    with pytest.raises(UserError, match=r"cannot be saved: .* has non-finite values"):
        weights.save(tmp_path / "mine.safetensors", model, one)
    assert not (tmp_path / "mine.safetensors").exists()


def test_half_precision_keeps_what_is_too_large_for_it(tmp_path: Path) -> None:
    model = build(one := small())
    next(model.parameters()).data.view(-1)[0] = 3e38
    weights.save(path := tmp_path / "a.safetensors", model, one)
    assert main(["export", str(path), "--half", "--out", str(tmp_path / "b.safetensors")]) == 0
    loaded = weights.load(tmp_path / "b.safetensors")
    assert next(loaded.parameters()).view(-1)[0].item() == pytest.approx(3e38)


# -- HDF5 files


def changed(folder: Path, base: str, change: Callable[[h5py.File], object]) -> Path:
    """A file of a world, or of an imported video, in which something was changed."""
    path = folder / "other.hdf5"
    if base == "video":
        run(video(folder / "a.mkv", frames=8), "--out", path, "--fps", "5")
    else:
        main(["data", "make", base, "--split", "test", "--episodes", "2", "--out", str(path)])
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def put(key: str, value: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[key]
        file[key] = value(file) if callable(value) else value

    return change


def filled(key: str, value: Any) -> Callable[[h5py.File], None]:
    """The same shape, other values."""

    def change(file: h5py.File) -> None:
        shape = file[key].shape
        del file[key]
        file[key] = np.full(shape, value)

    return change


EMPTY = h5py.Empty("f")
TREES: dict[str, tuple[str, Callable[[h5py.File], object], str]] = {
    "null splits": ("video", put("splits", EMPTY), "`splits` is empty; expected text"),
    "null sources": ("video", put("sources", EMPTY), "`sources` is empty; expected text"),
    "null video": ("video", put("imgs", EMPTY), "`imgs` is empty; expected uint8"),
    "null truth": ("interaction", put("ids", EMPTY), "declares the layout 'balls'"),
    "numbers for splits": ("video", put("splits", np.arange(1)), "`splits` is int64"),
    "numbers for names": ("video", put("sources", np.arange(1.0)), "`sources` is float64"),
    "numbers for placements": ("video", put("placements", np.arange(1)), "`placements` is int64"),
    "one split for all": ("video", put("splits", "train"), "`splits` has the shape ()"),
    "too many splits": ("video", put("splits", [b"train"] * 9), "`splits` has the shape (9,)"),
    "text for numbers": ("video", put("source_frames", [[b"x"] * 4]), "expected numbers"),
    "text for truth": ("interaction", filled("positions", b"x"), "`positions` is"),
    "records for truth": (
        "interaction",
        put("colors", lambda _: np.zeros((2, 100, 3, 3), [("a", "f4")])),
        "`colors`",
    ),
    "complex truth": ("interaction", filled("sizes", 1j), "`sizes` is complex128"),
    "no frames": ("video", put("imgs", np.zeros((2, 0, 8, 8, 3), np.uint8)), "have no frames"),
    "no episodes": ("video", put("imgs", np.zeros((0, 4, 8, 8, 3), np.uint8)), "no episodes"),
    "no pixels": ("video", put("imgs", np.zeros((2, 4, 0, 8, 3), np.uint8)), "have no height"),
    "far away": ("interaction", filled("positions", 1e300), "`positions` has non-finite values"),
    "huge": ("interaction", filled("sizes", 1e300), "`sizes` has non-finite values"),
    "nowhere": ("interaction", filled("positions", np.nan), "`positions` has non-finite values"),
    "out of the maze": ("maze", filled("trajs", 10**9), "`trajs` leave the grid"),
}
ATTRIBUTES: dict[str, tuple[Any, str]] = {
    "null fps": ({"fps": EMPTY}, "fps is Empty"),
    "fps in words": ({"fps": "fast"}, "fps is 'fast'"),
    "many fps": ({"fps": np.arange(3.0)}, "fps is ndarray"),
    "fps below 0": ({"fps": -5.0}, "fps is -5.0"),
    "unknown fit": ({"fit": "squash"}, "fit is 'squash'"),
    "fit in numbers": ({"fit": 3}, "fit is 3"),
    "region in numbers": ({"region": np.arange(4)}, "region is ndarray"),
}


@pytest.mark.parametrize("name", TREES)
def test_a_file_with_other_things_in_it_than_expected_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, change, said = TREES[name]
    path = changed(tmp_path, base, change)
    assert said in refused(["data", "show", str(path), "--out", str(tmp_path / "a.gif")], capsys)
    if "values" not in said and "grid" not in said:
        assert said in refused(["data", "info", str(path)], capsys)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_what_a_file_says_about_itself_is_checked(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, said = ATTRIBUTES[name]
    path = changed(tmp_path, "video", lambda file: file.attrs.update(values))
    assert said in refused(["data", "look", str(path)], capsys)
    assert main(["data", "info", str(path)]) == 0


@pytest.mark.parametrize("key", ["source_frames", "source_times"])
@pytest.mark.parametrize("value", [1e300, -1e300, np.inf])
def test_where_frames_are_from_must_make_sense(key: str, value: float, tmp_path: Path) -> None:
    path = changed(tmp_path, "video", filled(key, value))
    with pytest.raises(UserError, match=r"are invalid; import the video again"):
        open_file(path).footage(0)


def test_text_that_is_no_text_can_be_read(tmp_path: Path) -> None:
    path = changed(tmp_path, "video", put("sources", np.array([b"\xff\xfe"])))
    assert open_file(path).sources == ["\ufffd\ufffd"]


FAST = json.dumps({"model": {}, "expected": 1, "decisions": [], "fps": -5})
"""A prepared file of a negative frame rate."""


@pytest.mark.parametrize("text", ["no JSON", "[1]", "{}", '{"fps": 3, "expected": 1}', FAST])
def test_a_prepared_file_must_say_what_was_decided(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(file: h5py.File) -> None:
        file.attrs["measured"] = text
        file["backgrounds"] = np.zeros((1, 8, 8, 3), np.uint8)

    path = changed(tmp_path, "video", change)
    said = refused(["fit", str(path), "--out", str(tmp_path / "out")], capsys)
    assert "prepare it again" in said


# -- runs


def test_a_damaged_environment_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_once(small(1), tmp_path)
    nested = ('[{"gswm": 3}]', '[{"gswm": "0", "settings": 3}]')
    for text in ("{}", "[3]", "[{}]", "null", "no JSON", *nested):
        (tmp_path / "environment.json").write_text(text)
        for args in (
            ["train", "--resume", str(tmp_path)],
            ["export", str(tmp_path), "--which", "last"],
        ):
            assert "environment.json is damaged" in refused(args, capsys), text


DAMAGED_METRICS = (
    *("{}", "[]", "3", '{"step": "x"}', '{"loss": 1}', '{"step": 1, "loss": "a"}', "\xff"),
    *('{"step": null}', '{"step": -1}', '{"step": true}'),
)


@pytest.mark.parametrize("line", DAMAGED_METRICS)
def test_a_damaged_line_of_metrics_is_left_out(line: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics.write_text(f'{{"step": 1, "loss": 0.5}}\n{line}\n{{"step": 2, "loss": 0.25}}\n')
    assert [metrics["step"] for metrics in folder.read_metrics()] == [1, 2]


def test_a_run_with_damaged_lines_of_metrics_is_resumed(tmp_path: Path) -> None:
    trained_once(small(2), tmp_path)
    folder = RunFolder(tmp_path)
    whole = folder.read_metrics()
    with folder.metrics.open("a") as file:
        file.writelines(line + "\n" for line in DAMAGED_METRICS)
    assert train_here(small(2), tmp_path).trainee.step == 2
    assert folder.read_metrics() == whole


# -- names


def test_a_name_is_shown_in_one_line_and_obeyed_by_no_terminal() -> None:
    assert printable("plain näme 1.mp4") == "plain näme 1.mp4"
    assert printable("a\x1b[31m\nb\udcff\ud800") == r"a\x1b[31m\nb\xff\ud800"


def test_ordinals_and_counts() -> None:
    numbers = {1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 13: "13th", 22: "22nd"}
    assert {number: ordinal(number) for number in numbers} == numbers
    assert [counted(number, "frame") for number in (0, 1, 2)] == ["0 frames", "1 frame", "2 frames"]


@given(st.text())
def test_any_text_becomes_printable(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    shown.encode()


def test_a_folder_with_odd_names_is_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = video(tmp_path / "good.mkv").read_bytes()
    folder = tmp_path / "in"
    folder.mkdir()
    for name in (b"\xff\xfe.mkv", b"esc\x1b[31m.mkv", b"new\nline.mkv", b"[red].mkv"):
        Path(folder / os.fsdecode(name)).write_bytes(good)
    (folder / "bad\x1b[2J.mp4").write_text("no video")
    out = tmp_path / "a.hdf5"
    assert run(folder, "--out", out) == 2
    said = capsys.readouterr()
    assert r"skipped " in said.err
    assert r"bad\x1b[2J.mp4" in said.err
    assert "\x1b" not in said.err + said.out
    names = {r"in/\xff\xfe.mkv", r"in/esc\x1b[31m.mkv", r"in/new\nline.mkv", "in/[red].mkv"}
    assert set(open_file(out).sources or ()) == names
    assert main(["data", "info", str(out)]) == 0


def test_a_bar_shows_names_with_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video(tmp_path / "in" / "[" / "red].mkv")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(tmp_path / "in", "--out", tmp_path / "a.hdf5") == 0


def test_an_error_is_one_line_whatever_is_named_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(with_header(tmp_path))
    out = ["--out", str(tmp_path / "a.csv")]
    line = refused(["track", "no\nfilm\x1b\udcff.mp4", "--model", model, *out], capsys)
    assert r"no\nfilm\x1b\xff.mp4" in line


@pytest.mark.parametrize(
    "words",
    [
        ("data", "import"), ("data", "look"), ("data", "info"), ("track",), ("fit",), ("eval",),
        ("report",), ("export",), ("train",), ("sweep",), ("imagine",), ("studio", "--video"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_name_that_is_too_long_is_one_line(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    refused([*words, "9" * 300, *(["--out", "a.hdf5"] if "import" in words else [])], capsys)
    assert not list(tmp_path.iterdir())


# -- pictures


def test_floats_are_from_0_to_1(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 12 * 10, dtype=np.float32).reshape(10, 12)
    for i in range(3):
        Image.fromarray(ramp).save(tmp_path / f"{i}.tif")
    seen = Film(tmp_path, Cut(10, fit="stretch")).read()[0, 0, 0]
    assert (seen.min() < 10, seen.max() > 245) == (True, True)
    assert to_rgb(Image.fromarray(ramp))[..., 0].tolist() == (ramp * 255).round().tolist()


@pytest.mark.parametrize("high", [255.0, 1.5, -0.1, float("nan"), float("inf")])
def test_other_floats_are_refused_by_name(high: float, tmp_path: Path) -> None:
    picture = np.zeros((10, 12), np.float32)
    picture[3, 4] = high
    Image.fromarray(picture).save(tmp_path / "0.tif")
    with pytest.raises(UserError, match=r"0\.tif in it has floats from .*from 0 to 1; save it"):
        Film(tmp_path, Cut(8)).read()


def test_integers_beyond_16_bits_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((10, 12), 70_000, np.int32)).save(tmp_path / "0.tif")
    with pytest.raises(UserError, match=r"has integers from 70000 to 70000"):
        Film(tmp_path, Cut(8)).read()


# -- words


def test_a_misspelled_word_is_no_choice() -> None:
    model = lively("maze")
    film = frames(1, 2)
    infer, infer_after = (inspect.unwrap(each) for each in (GSWM.infer, GSWM.infer_after))
    with pytest.raises(UserError, match="discover must be 'always' or 'first', not 'allways'"):
        infer(model, film, discover="allways")
    state = model.infer(film).state_at(-1)
    with pytest.raises(UserError, match="not 'allways'"):
        infer_after(model, state, film, discover="allways")


def test_a_video_without_decoder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = encode(tmp_path / "a.mkv", shades(8))
    path.write_bytes(path.read_bytes().replace(b"V_MPEG4/ISO/AVC", b"V_MPEG9/ISO/AVX"))
    assert run(path, "--out", tmp_path / "a.hdf5") == 2
    assert "its codec is not supported" in capsys.readouterr().err
