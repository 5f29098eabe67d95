"""`gswm data import` and `gswm data info`: usable videos are imported, others listed."""

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from test_videos import encode

from gswm.cli import main
from gswm.commands.importing import ImportCommand, file_of, import_once
from gswm.core.errors import UserError
from gswm.data.episode import Episodes
from gswm.data.importing.sources import split_of_name
from gswm.data.importing.videos import Cut
from gswm.data.placement import Placement
from gswm.data.storage.hdf5 import open_file, read
from gswm.data.storage.writer import Writer


def run(*args: object) -> int:
    return main(["data", "import", *map(str, args), "--frames", "4", "--size", "8"])


def video(path: Path, frames: int = 8, brightest: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = [np.full((24, 32, 3), 10 * brightest + i, np.uint8) for i in range(frames)]
    return encode(path, plain, "ffv1", "gray")


def pictures(folder: Path, frames: int = 8) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(1, frames + 1):
        Image.new("L", (12, 10), 100 + i).save(folder / f"test_{i}.png")
    return folder


def test_videos_and_folders_of_images_become_episodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(3):
        video(tmp_path / "in" / f"{i}.mkv", frames=9, brightest=i)
    pictures(tmp_path / "in" / "b" / "pictures", frames=12)
    out = tmp_path / "a.hdf5"
    assert run(tmp_path / "in", "--out", out) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines() == [
        f"{out}: 9 episodes of 4 frames, 8 x 8, from 4 videos",
        "splits: " + ", ".join(f"{s} {n}" for s, n in counted(out).items() if n),
        "split by the videos' names; to choose the splits yourself, use folders named train, val "
        "and test",
        "dropped 3 leftover frames at the ends of videos",
    ]
    episodes = read(out)
    levels = episodes.video[..., 3:5, 3:5].float().mean((2, 3, 4)).round().int().tolist()
    of_videos = [[10 * i + 4 * e + k for k in range(4)] for i in range(3) for e in range(2)]
    assert levels == of_videos + [[101 + 4 * e + k for k in range(4)] for e in range(3)]
    names = [f"in/{i}.mkv" for i in range(3) for _ in range(2)] + ["in/b/pictures"] * 3
    assert open_file(out).sources == names


def counted(path: Path) -> dict[str, int]:
    splits = open_file(path).splits
    assert splits is not None
    return {split: int((splits == split).sum()) for split in ("train", "val", "test")}


def test_all_episodes_of_a_video_are_in_the_split_of_its_name(tmp_path: Path) -> None:
    names = [f"{i}.mkv" for i in range(12)]
    for name in names:
        video(tmp_path / "in" / name)
    out = tmp_path / "a.hdf5"
    assert run(tmp_path / "in", "--out", out) == 0
    file = open_file(out)
    assert file.splits is not None
    assert file.splits.tolist() == [split_of_name(name) for name in names for _ in range(2)]
    assert set(file.splits) > {"train"}


def named(split: str, number: int) -> list[str]:
    """Names of videos that are of this split."""
    names = (f"{i}.mkv" for i in range(1_000))
    return [name for name in names if split_of_name(name) == split][:number]


def test_where_no_name_gives_train_all_videos_are_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [video(tmp_path / name) for name in (*named("val", 1), *named("test", 2))]
    (bad := tmp_path / named("train", 1)[0]).write_text("no video")
    one, all_of_them = tmp_path / "one.hdf5", tmp_path / "all.hdf5"
    assert run(paths[0], "--out", one) == 0
    assert counted(one) == {"train": 2, "val": 0, "test": 0}
    said = capsys.readouterr().out.splitlines()
    choose = "to choose the splits yourself, use folders named train, val and test"
    assert said[1:] == [
        "splits: train 2",
        f"split all train, since a split would be empty; {choose}",
    ]
    assert run(*paths, bad, "--out", all_of_them) == 2  # one that cannot be read does not count
    assert counted(all_of_them) == {"train": 6, "val": 0, "test": 0}


def test_where_no_name_gives_train_folders_still_say_what_is_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = tmp_path / "in", tmp_path / "a.hdf5"
    for name in ("val/a.mkv", named("test", 1)[0]):
        video(root / name)
    assert run(root, "--out", out) == 0
    assert counted(out) == {"train": 2, "val": 2, "test": 0}
    capsys.readouterr()
    assert run(root / "val", "--out", out, "--force") == 0
    assert counted(out) == {"train": 0, "val": 2, "test": 0}
    assert "folders named" not in capsys.readouterr().out


def test_the_file_is_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    for i in range(7):
        video(tmp_path / "in" / f"{i}.mkv", frames=5 + 8 * (i % 3), brightest=i)
    (tmp_path / "in" / "3.mkv").write_bytes(b"no video")
    for workers in (1, 5):
        assert (
            run(tmp_path / "in", "--out", tmp_path / f"{workers}.hdf5", "--workers", workers) == 2
        )
    one, five = (open_file(tmp_path / f"{workers}.hdf5") for workers in (1, 5))
    assert one.sources == five.sources
    assert one.read().video.equal(five.read().video)


def cut_short(path: Path, share: float = 0.6) -> Path:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    return path


def noise(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (32, 48, 3), np.uint8) for _ in range(count)]


def make_bad(kind: str, folder: Path) -> Path:
    """A source of which nothing can be imported."""
    folder.mkdir(exist_ok=True)
    formats = {"mp4": ("libx264", "yuv420p"), "webm": ("libvpx-vp9", "yuv420p")}
    formats |= {"avi": ("mpeg4", "yuv420p"), "mkv": ("ffv1", "gray"), "gif": ("gif", "gray")}
    if kind in formats:
        return cut_short(encode(folder / f"cut.{kind}", noise(40), *formats[kind]))
    if kind == "faststart":
        return cut_short(encode(folder / "cut.mp4", noise(40), movflags="faststart"))
    if kind == "damaged":
        path = encode(folder / "damaged.avi", noise(40), *formats["avi"])
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes(200) + whole[middle + 200 :])
        return path
    if kind == "text":
        (folder / "text.mp4").write_text("no video")
        return folder / "text.mp4"
    if kind == "empty file":
        (folder / "empty.mp4").write_bytes(b"")
        return folder / "empty.mp4"
    if kind == "empty folder":
        (folder / "empty").mkdir()
        return folder / "empty"
    if kind == "no image":
        (pictures(folder / "images") / "test_3.png").write_text("no image")
        return folder / "images"
    if kind == "half image":
        cut_short(pictures(folder / "images") / "test_3.png")
        return folder / "images"
    if kind == "mixed sizes":
        Image.new("L", (10, 12)).save(pictures(folder / "images") / "test_6.png")
        return folder / "images"
    if kind == "short":
        return video(folder / "short.mkv", frames=3)
    if kind == "one image":
        return pictures(folder / "images") / "test_1.png"
    return folder / "missing.mp4"


BAD = {
    "mp4": "cannot be decoded",
    "faststart": "",  # the decoder says it, or the number of frames
    "webm": "it is damaged at",
    "avi": "",
    "mkv": "File ended prematurely",
    "gif": "it is damaged at",
    "damaged": "it is damaged at",
    "text": "choose a video",
    "empty file": "the file is empty",
    "empty folder": "this folder has no videos or images",
    "no image": "test_3.png in it is damaged or not an image; replace or delete it",
    "half image": "test_3.png in it is damaged or not an image; replace or delete it",
    "mixed sizes": "its frame size changes from 12 x 10 to 10 x 12; split the video there",
    "short": "has 3 frames, but an episode needs 4; use --frames 3 or fewer",
    "one image": "is a single image; choose the folder with all images of the video",
    "missing": "does not exist; check the name",
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_imported_is_named_and_the_rest_is_imported(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = make_bad(kind, tmp_path / "bad")
    before, after = (video(tmp_path / "good" / name, brightest=1) for name in ("1.mkv", "2.mkv"))
    out = tmp_path / "a.hdf5"
    assert run(before, bad, after, "--out", out) == 2
    said = capfd.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith(f"gswm: skipped {bad}: ")
    assert BAD[kind] in line
    assert said.out.splitlines()[-1] == "skipped: 1"
    assert open_file(out).sources == ["1.mkv", "1.mkv", "2.mkv", "2.mkv"]
    assert len(read(out)) == 4


@pytest.mark.parametrize("kind", ["mp4", "webm", "empty folder", "no image", "short", "missing"])
def test_where_nothing_can_be_imported_there_is_no_file(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = make_bad(kind, tmp_path / "bad")
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "a.hdf5"
    assert run(bad, "--out", out) == 2
    skipped, last = capfd.readouterr().err.splitlines()
    assert skipped.startswith(f"gswm: skipped {bad}: ")
    assert last == f"gswm: nothing could be imported; {out} was not written"
    assert os.listdir(out.parent) == []


def test_many_that_are_skipped_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [tmp_path / f"{i}.mp4" for i in range(25)]
    assert run(*names, "--out", tmp_path / "a.hdf5") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 22
    assert lines[-2] == "gswm: skipped 5 more"


@pytest.mark.parametrize(
    ("setting", "value"), [("--fps", "0"), ("--fps", "inf"), ("--workers", "0")]
)
def test_a_setting_that_makes_no_sense_is_one_line(
    setting: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(video(tmp_path / "a.mkv"), "--out", tmp_path / "a.hdf5", setting, value) == 2
    assert capsys.readouterr().err.startswith(f"gswm: {setting} is {value}")
    assert os.listdir(tmp_path) == ["a.mkv"]


def test_no_source_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--out", tmp_path / "a.hdf5") == 2
    assert capsys.readouterr().err.startswith("gswm: nothing to import; specify videos")


def test_a_file_that_exists_is_kept_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.hdf5"
    out.write_text("precious")
    source = video(tmp_path / "a.mkv")
    assert run(source, "--out", out) == 2
    assert capsys.readouterr().err == (
        f"gswm: {out} exists; use --force to overwrite it, or choose another name\n"
    )
    assert out.read_text() == "precious"
    assert run(source, "--out", out, "--force") == 0
    assert len(read(out)) == 2


def test_a_full_disk_is_one_line_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(8):
        video(tmp_path / "in" / f"{i}.mkv")

    def full(*_: object) -> None:
        raise OSError("file write failed: errno = 28, error message = 'No space left on device'")

    monkeypatch.setattr(h5py.Dataset, "__setitem__", full)
    out = tmp_path / "out" / "a.hdf5"
    assert run(tmp_path / "in", "--out", out) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gswm: {out}: cannot be written: the disk is full; free some space")
    assert os.listdir(out.parent) == []


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = video(tmp_path / "a.mkv")
    assert run(source, "--out", source / "a.hdf5") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"gswm: cannot write {source / 'a.hdf5'}: ")


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.mkv", "the name must end in .hdf5 or .h5"), ("a.h5", "it is also an input")],
)
def test_a_video_is_not_replaced_by_its_import(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = video(tmp_path / "a.mkv").rename(tmp_path / name)
    before = source.read_bytes()
    assert run(source, "--out", source, "--force") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert source.read_bytes() == before
    assert list(tmp_path.iterdir()) == [source]


INTERRUPTED = """
import os, signal, sys
from gswm.cli import main
from gswm.data.storage.writer import Writer

append = Writer.append

def append_and_press(self, *args, **settings):
    append(self, *args, **settings)
    if self.episodes == 3:
        os.kill(os.getpid(), signal.SIGINT)

Writer.append = append_and_press
sys.exit(main(["data", "import", *sys.argv[1:]]))
"""


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    for i in range(6):
        video(tmp_path / "in" / f"{i}.mkv", frames=40)
    out = tmp_path / "out" / "a.hdf5"
    out.parent.mkdir()
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "in"), "--out", str(out)]
    done = subprocess.run([*command, "--frames", "4"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "gswm: interrupted\n")
    assert os.listdir(out.parent) == []


def test_a_terminal_sees_a_bar_and_a_log_sees_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(12):
        video(tmp_path / "in" / f"{i}.mkv", frames=4)
    assert run(tmp_path / "in", "--out", tmp_path / "a.hdf5") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "12 of 12 videos done"
    assert len(lines) == 10
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(tmp_path / "in", "--out", tmp_path / "b.hdf5") == 0
    assert "12/12" in capsys.readouterr().err


def test_info_says_what_an_imported_file_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "val"):
        video(tmp_path / "in" / split / "a.mkv")
    out = tmp_path / "a.hdf5"
    run(tmp_path / "in", "--out", out, "--fps", "10")
    capsys.readouterr()
    assert main(["data", "info", str(out)]) == 0
    facts = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert facts == {
        "file": str(out),
        "bytes": f"{out.stat().st_size:,}",
        "layout": "video",
        "episodes": "4",
        "frames": "4",
        "image": "8 x 8",
        "fit": "letterbox",
        "fps": "10.0",
        "made with gswm": facts["made with gswm"],
        "splits": "train 2, val 2",
        "videos": "2",
        "key imgs": "uint8 (4, 4, 8, 8, 3)",
        "key placements": "text (4,)",
        "key source_frames": "int64 (4, 4)",
        "key source_times": "float64 (4, 4)",
        "key sources": "text (4,)",
        "key splits": "text (4,)",
    }


def test_info_of_what_is_no_file_of_episodes_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.hdf5").write_text("text")
    for name in ("a.hdf5", "none.hdf5"):
        assert main(["data", "info", str(tmp_path / name)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"gswm: {tmp_path / name}")


@pytest.mark.parametrize("size", [8, 128])
def test_episodes_know_where_and_when_in_their_videos_they_are(size: int, tmp_path: Path) -> None:
    plain = [np.full((24, 32, 3), 9 * i, np.uint8) for i in range(10)]
    pictures(tmp_path / "in" / "b", frames=5)
    encode(tmp_path / "in" / "a.mkv", plain, "ffv1", "gray")
    out, cut = tmp_path / "a.hdf5", ["--fps", "5", "--region", "2,1,8,6"]
    args = ["data", "import", str(tmp_path / "in"), "--out", str(out), "--frames", "2"]
    assert main([*args, "--size", str(size), *cut]) == 0
    with open_file(out) as file:
        assert file.sources == ["in/a.mkv", "in/a.mkv", "in/b", "in/b"]
        found = [file.footage(i) for i in range(4)]
        assert file.attributes["region"] == "2,1,8,6"
    part = "letterbox", (2, 1, 8, 6)
    video_there, images_there = (Placement.of(*s, size, *part) for s in ((32, 24), (12, 10)))
    placements = [each.placement for each in found if each is not None]
    assert placements == [video_there] * 2 + [images_there] * 2
    frames = [each.frames.tolist() for each in found if each is not None]
    assert frames == [[0, 2], [4, 6], [0, 1], [2, 3]]
    times = np.stack([each.times for each in found if each is not None])
    np.testing.assert_allclose(times[:2], [[0, 0.2], [0.4, 0.6]], atol=1e-3)
    assert np.isnan(times[2:]).all()


def test_a_file_from_before_has_no_footage_and_keeps_its_crop(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.hdf5", "video", attributes={"crop": "none"}) as writer:
        writer.append(Episodes(torch.zeros(1, 2, 3, 8, 8, dtype=torch.uint8)))
    with open_file(tmp_path / "a.hdf5") as file:
        assert file.footage(0) is None
        assert Cut.like(file.attributes, 8).fit == "stretch"
    assert Cut.like({"fps": 5.0}, 8).fit == "crop"
    assert Cut.like({}, 8) == Cut(8)


@pytest.mark.parametrize(
    ("region", "said"),
    [("0,0,0,5", "has no pixels"), ("30,0,10,5", "outside the frame"), ("x", "x,y,width,height")],
)
def test_a_bad_region_leaves_nothing_behind(
    region: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film, out = video(tmp_path / "in.mkv"), tmp_path / "out" / "a.hdf5"
    assert run(film, "--out", out, "--region", region) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


# -- a folder in the place of a file


def test_a_folder_is_imported_once_into_the_file_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "val"):
        pictures(tmp_path / "in" / split / "000", frames=100)
    out = import_once(tmp_path / "in", Cut(8))
    assert out == tmp_path / "in.hdf5"
    command = f"gswm data import {tmp_path / 'in'} --out {out} --size 8"
    assert capsys.readouterr().err == f"`{command}`, once:\n"
    assert counted(out) == {"train": 1, "val": 1, "test": 0}
    written = out.stat()
    assert import_once(tmp_path / "in", Cut(8)) == out
    again = f"{tmp_path / 'in'}: using {out}; delete that file to import again\n"
    assert capsys.readouterr().err == again
    assert out.stat() == written
    out.unlink()
    assert main(command.split()[1:]) == 0


def test_a_folder_is_imported_as_other_videos_were_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video(tmp_path / "in" / "train" / "a.mkv", frames=200)
    out = import_once(tmp_path / "in", Cut.like({"fps": 5.0, "crop": "none"}, 8))
    assert "--size 8 --fps 5 --fit stretch`, once:\n" in capsys.readouterr().err
    with open_file(out) as file:
        assert (len(file), file.frames) == (1, 100)
        assert (file.attributes["fps"], file.attributes["fit"]) == (5, "stretch")


def test_the_file_is_beside_the_folder_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in")
    assert file_of(Path("a/")) == Path("a.hdf5")
    assert file_of(Path("../in.v2")) == Path("../in.v2.hdf5")
    assert file_of(Path()) == tmp_path / "in.hdf5"
    assert file_of(Path("a/..")) == tmp_path / "in.hdf5"


def test_where_a_folder_cannot_be_imported_nothing_stays(tmp_path: Path) -> None:
    pictures(tmp_path / "in", frames=99)
    with pytest.raises(UserError, match=r"nothing could be imported; .*in\.hdf5 was not written"):
        import_once(tmp_path / "in", Cut(8))
    assert os.listdir(tmp_path) == ["in"]
    with pytest.raises(UserError, match="is not a video, a folder of videos or an HDF5 file"):
        import_once(tmp_path / "nowhere", Cut(8))


def test_one_video_is_imported_as_a_folder_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film = video(tmp_path / named("val", 1)[0], frames=100)
    out = import_once(film, Cut(8))
    assert out == film.with_name(f"{film.name}.hdf5")
    assert counted(out) == {"train": 1, "val": 0, "test": 0}
    assert import_once(film, Cut(8)) == out
    assert ": using " in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("no video")
    with pytest.raises(UserError, match="nothing could be imported"):
        import_once(tmp_path / "notes.txt", Cut(8))


def test_clips_too_short_for_a_folders_episodes_come_with_the_whole_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my videos"
    for name, frames in (("a", 40), ("b", 50)):
        pictures(folder / "train" / name, frames)
    with pytest.raises(UserError, match="nothing could be imported"):
        import_once(folder, Cut(8))
    assert (
        command_said(capsys)
        == f"gswm data import '{folder}' --out '{folder}.hdf5' --size 8 --frames 40"
    )
    pictures(folder / "train" / "c", 100)
    out = import_once(folder, Cut(8))
    assert len(read(out)) == 1
    command = command_said(capsys)
    assert command.endswith(" --frames 40 --force")
    assert main(shlex.split(command)[1:]) == 0
    assert len(read(out)) == 1 + 1 + 2


def command_said(capsys: pytest.CaptureFixture[str]) -> str:
    """The command that the last line recommends."""
    return capsys.readouterr().err.splitlines()[-1].split("`")[1]


def test_of_several_that_start_at_once_one_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures(tmp_path / "in", frames=100)
    imported, run_one = [], ImportCommand.run
    monkeypatch.setattr(ImportCommand, "run", lambda self: (imported.append(1), run_one(self))[1])
    with ThreadPoolExecutor(3) as pool:
        files = list(pool.map(lambda _: import_once(tmp_path / "in", Cut(8)), range(3)))
    assert files == [tmp_path / "in.hdf5"] * 3
    assert imported == [1]


def test_a_file_that_another_machine_has_made_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures(tmp_path / "in", frames=100)

    def slower(self: ImportCommand) -> int:
        self.out.write_text("theirs")
        raise UserError("exists")

    monkeypatch.setattr(ImportCommand, "run", slower)
    assert import_once(tmp_path / "in", Cut(8)).read_text() == "theirs"
