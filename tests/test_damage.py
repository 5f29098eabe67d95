"""Damaged videos are refused, and accepted ones have the recorded pictures."""

import os
import shutil
from collections import Counter
from pathlib import Path

import av
import numpy as np
import pytest
from synthetic_videos import make
from test_importing import run, video
from test_videos import FORMATS, encode, shades

import gswm
from gswm.cli import main
from gswm.commands.studio import StudioCommand
from gswm.core.errors import UserError
from gswm.data.importing.damage import LOG, Reading
from gswm.data.importing.film import Film
from gswm.data.importing.frames import TimedFrame, video_frames
from gswm.data.importing.videos import Cut, UnusableError
from gswm.studio.catalog import Catalog

CODECS = {
    "a.mp4": ("libx264", "yuv420p"),
    "a.webm": ("libvpx-vp9", "yuv420p"),
    "a.avi": ("mpeg4", "yuv420p"),
    "a.mkv": ("ffv1", "yuv420p"),
    "b.mkv": ("libx264", "yuv420p"),
    "a.gif": ("gif", "rgb8"),
    "a.mov": ("mjpeg", "yuvj420p"),
    "a.mpg": ("mpeg2video", "yuv420p"),
}
BYTES = 64


def recorded(folder: Path, name: str, frames: int = 100) -> Path:
    """A video with objects that move, as a camera would write it."""
    (folder / "whole").mkdir(exist_ok=True)
    options = {"level": "3"} if name == "a.mkv" else {}
    pictures = list(make("discs").video[:frames])
    return encode(folder / "whole" / name, pictures, *CODECS[name], **options)


def damaged(whole: Path, path: Path, seed: int) -> Path:
    """The same file with some bytes overwritten: all in a row, or anywhere."""
    rng = np.random.default_rng(seed)
    data = np.frombuffer(whole.read_bytes(), np.uint8).copy()
    if seed % 2:
        at = rng.integers(len(data) // 4, len(data) * 3 // 4) + np.arange(BYTES)
    else:
        at = rng.integers(0, len(data), BYTES)
    data[at] = rng.integers(0, 256, BYTES)
    path.write_bytes(data.tobytes())
    return path


def seen(path: Path, **settings: bool) -> list[bytes]:
    """All pictures of a video."""
    return [frame.pixels(1).tobytes() for frame in video_frames(path, **settings)]


@pytest.mark.parametrize("name", CODECS)
def test_a_video_with_damage_in_its_middle_is_refused(name: str, tmp_path: Path) -> None:
    whole = recorded(tmp_path, name)
    assert len(seen(whole)) == 100
    bad = damaged(whole, tmp_path / name, 3)
    with pytest.raises(UnusableError, match=r"damaged|cannot be decoded|announces|cut short"):
        seen(bad)


@pytest.mark.slow
def test_of_200_damaged_files_few_are_taken_for_whole_and_no_whole_one_is_refused(
    tmp_path: Path,
) -> None:
    counts: Counter[str] = Counter()
    for name in CODECS:
        whole = recorded(tmp_path, name)
        before = seen(whole)
        for seed in range(200 // len(CODECS)):
            bad = damaged(whole, tmp_path / name, seed)
            try:
                counts["same" if seen(bad) == before else "wrong"] += 1
            except UnusableError:
                counts["refused"] += 1
    assert counts.total() == 200
    assert counts["wrong"] <= 10, counts


def test_an_import_skips_damaged_videos_unless_they_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video(tmp_path / "in" / "good.mkv")
    bad = damaged(recorded(tmp_path, "a.mkv"), tmp_path / "in" / "bad.mkv", 1)
    out = tmp_path / "a.hdf5"
    assert run(tmp_path / "in", "--out", out) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gswm: skipped {bad}: it is damaged at")
    assert "--allow-damaged" in line
    assert run(tmp_path / "in", "--out", out, "--force", "--allow-damaged") == 0
    assert "from 2 videos" in capsys.readouterr().out


def test_a_film_is_refused_when_it_is_read_unless_that_is_allowed(tmp_path: Path) -> None:
    bad = damaged(recorded(tmp_path, "a.mkv"), tmp_path / "bad.mkv", 1)
    with pytest.raises(UserError, match=r"cannot read .*bad.mkv: it is damaged at .* s"):
        Film(bad, Cut(16)).read()
    assert Film(bad, Cut(16, allow_damaged=True)).read().shape[1] > 0


READERS = {
    "track": ["track", "bad.mkv", "--out", "new/a.csv"],
    "imagine": [
        *("imagine", "clips", "--video", "bad.mkv", "--steps", "30", "--out", "new"),
        *("--futures", "1", "--scale", "1", "--no-mp4"),
    ],
    "fit": ["fit", "bad.mkv", "--prepare", "--out", "new"],
    "eval": ["eval", "clips", "bad.mkv", "--last", "0.6"],
    "baseline": ["eval", "bad.mkv", "--baseline", "median-sort", "--labels", "labels.txt"],
    "tracks": ["eval", "bad.mkv", "--tracks", "labels.txt", "--labels", "labels.txt"],
    "studio": ["studio", "--video", "bad.mkv", "--no-browser"],
}


@pytest.fixture(scope="module")
def damaged_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    return damaged(recorded(folder, "a.mkv", frames=60), folder / "bad.mkv", 1)


@pytest.fixture
def bad(damaged_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A damaged video in the working directory, with labels beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("1,1,5,5,20,20,1\n2,1,6,5,20,20,1\n")
    return Path(shutil.copy(damaged_once, tmp_path))


IN_TIME = [pytest.param(name, marks=[pytest.mark.slow] * (name == "fit")) for name in READERS]


@pytest.mark.parametrize("name", IN_TIME)
def test_every_command_refuses_a_damaged_video(
    name: str, bad: Path, small_clips: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*READERS[name], "--device", "cpu"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("gswm: cannot read bad.mkv: it is damaged at")
    assert "--allow-damaged" in line
    assert not any(Path("new").glob("[!.]*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in READERS if name != "studio"])
def test_every_command_takes_a_damaged_video_if_that_is_allowed(
    name: str, bad: Path, small_clips: Path
) -> None:
    assert main([*READERS[name], "--device", "cpu", "--allow-damaged"]) == 0


def test_the_studio_takes_a_damaged_video_if_that_is_allowed(bad: Path, small_clips: Path) -> None:
    shelf = Catalog()
    shelf.add_installed()
    shown = StudioCommand(video=bad, allow_damaged=True).source(shelf, "clips")
    assert shelf.uploads[shown].shape[1] > 0


def test_python_refuses_a_damaged_video_unless_that_is_allowed(
    bad: Path, small_clips: Path
) -> None:
    for read in (gswm.read_video, gswm.track):
        with pytest.raises(UserError, match="it is damaged at"):
            read(bad)
    assert gswm.read_video(bad, allow_damaged=True).shape[1] > 0


@pytest.mark.slow
def test_python_tracks_a_damaged_video_if_that_is_allowed(bad: Path, small_clips: Path) -> None:
    assert len(gswm.track(bad, device="cpu", allow_damaged=True).film.footage) > 30
    with pytest.raises(UserError, match="it is damaged at"):
        gswm.fit(bad, out="new", device="cpu")


def announced(path: Path, frames: int) -> Path:
    """An AVI that announces another number of frames."""
    data = bytearray(path.read_bytes())
    for tag, offset in ((b"avih", 24), (b"strh", 40)):
        at = data.index(tag) + offset
        data[at : at + 4] = frames.to_bytes(4, "little")
    path.write_bytes(bytes(data))
    return path


@pytest.mark.parametrize("frames", [97, 103])
def test_a_few_frames_may_be_missing(frames: int, tmp_path: Path) -> None:
    path = encode(tmp_path / "a.avi", shades(20) * 5, "mpeg4", "yuv420p")
    assert len(seen(announced(path, frames))) == 100


@pytest.mark.parametrize(
    ("frames", "said"),
    [(96, "its header announces 96 frames, but it has 100"), (104, "it is cut short at 10")],
)
def test_frames_are_counted_against_what_the_file_announces(
    frames: int, said: str, tmp_path: Path
) -> None:
    path = encode(tmp_path / "a.avi", shades(20) * 5, "mpeg4", "yuv420p")
    with pytest.raises(UnusableError, match=said):
        seen(announced(path, frames))


def test_repeated_frames_of_an_avi_are_not_missing(tmp_path: Path) -> None:
    """Cameras and converters write an empty chunk where a picture stays the same."""
    times = [3 * time for time in range(20)]
    path = encode(tmp_path / "a.avi", shades(20), "mpeg4", "yuv420p", times)
    with av.open(str(path)) as container:
        assert container.streams.video[0].frames == times[-1] + 1
    assert len(seen(path)) == 20
    with pytest.raises(UnusableError, match="cut short"):
        seen(announced(path, times[-1] + 10))


def test_frames_that_an_edit_hides_are_not_missing(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", shades(19) * 5)
    data = bytearray(path.read_bytes())
    at = data.index(b"elst") + 12
    data[at : at + 4] = (2_000).to_bytes(4, "big")  # two of nine seconds
    path.write_bytes(bytes(data))
    assert len(seen(path)) == 20


def test_a_video_whose_header_is_no_text_is_taken(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", shades(12))
    data = path.read_bytes()
    assert b"VideoHandler" in data
    path.write_bytes(data.replace(b"VideoHandler", b"Video\xff\xfe\x99dler"))
    assert len(seen(path)) == 12


@pytest.mark.parametrize("name", FORMATS)
def test_every_whole_video_is_taken(name: str, tmp_path: Path) -> None:
    path = encode(tmp_path / name, shades(12), *FORMATS[name])
    assert len(seen(path)) == 12


@pytest.mark.slow
def test_a_strict_decoder_sees_what_the_usual_one_sees(tmp_path: Path) -> None:
    path = recorded(tmp_path, "a.webm")
    with av.open(str(path)) as container:
        usual = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    with av.open(str(path)) as container:
        reading = Reading(container, container.streams.video[0], tolerant=False)
        assert reading.decoder.name == "libvpx-vp9"
        strict = [(f.time, f.to_ndarray(format="rgb24")) for f in reading.frames()]
    np.testing.assert_array_equal([image for _, image in strict], usual)
    assert [round(time * 10) for time, _ in strict] == list(range(len(usual)))


def test_errors_are_those_of_one_thread_and_the_log_is_left_as_it_was() -> None:
    level, repeated = av.logging.get_level(), av.logging.get_skip_repeated()
    with LOG.errors() as said:
        for _ in range(2):
            av.logging.log(av.logging.ERROR, "probe", "it broke\n")
        av.logging.log(av.logging.WARNING, "probe", "it bent")
    assert said == ["probe: it broke", "probe: it broke"]
    assert (av.logging.get_level(), av.logging.get_skip_repeated()) == (level, repeated)


def test_a_pipe_is_no_video(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.mp4")
    with pytest.raises(UnusableError, match="not a regular file"):
        next(iter(video_frames(tmp_path / "a.mp4")), TimedFrame)
