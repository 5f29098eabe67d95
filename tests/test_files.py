"""Files are written completely or not at all, and a full disk has its own exit code."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gswm.core.errors import UserError
from gswm.core.files import FULL, DiskFullError, check_output, check_place, room, write_whole


def test_a_file_is_written_with_the_folders_to_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "a" / "b" / "file", b"new")
    write_whole(tmp_path / "a" / "b" / "file", b"newer")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"newer"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file"]


def test_a_place_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    for good in ("file", "new", "a/b/new"):
        check_place(tmp_path / good)
    for good in (".", "folder", "a/b/folder"):
        check_place(tmp_path / good, folder=True)
    with pytest.raises(UserError, match="it is a folder; choose a file name"):
        check_place(tmp_path)
    with pytest.raises(UserError, match="it is a file; choose a folder"):
        check_place(tmp_path / "file", folder=True)
    for folder in (False, True):
        with pytest.raises(UserError, match=r"cannot write .*: not a directory"):
            check_place(tmp_path / "file" / "deep" / "er", folder=folder)
    with pytest.raises(UserError, match=r"cannot write .*: file name too long"):
        check_place(tmp_path / ("x" * 300))
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_file_of_another_kind_or_that_is_read_is_refused(tmp_path: Path) -> None:
    film, link = tmp_path / "film.mp4", tmp_path / "link.mp4"
    film.write_bytes(b"old")
    link.symlink_to(film)
    for good in ("new.mp4", "NEW.GIF"):
        check_output(tmp_path / good, (".gif", ".mp4"), [film, tmp_path / "nowhere"])
    with pytest.raises(UserError, match=r"film.mp4': the name must end in .csv or .txt"):
        check_output(film, (".csv", ".txt"))
    for same in (film, link, tmp_path / "nowhere" / ".." / "film.mp4"):
        (tmp_path / "nowhere").mkdir(exist_ok=True)
        with pytest.raises(UserError, match="it is also an input; choose another file"):
            check_output(same, (".mp4",), [tmp_path, film])
    assert film.read_bytes() == b"old"


def test_a_place_where_nothing_may_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(UserError, match=r"cannot write .*: permission denied"):
        check_place(tmp_path / "file")


def test_writers_at_the_same_time_tear_nothing_and_fail_for_no_reason(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"")

    def write(letter: bytes) -> None:
        for size in range(100):
            write_whole(path, letter * 1000 * (1 + size % 7))

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, letter) for letter in (b"a", b"b", b"c")]
        while not all(writer.done() for writer in writers):
            assert len(set(path.read_bytes())) <= 1
            assert len(path.read_bytes()) % 1000 == 0
        for writer in writers:
            writer.result()
    assert os.listdir(tmp_path) == ["file"]


def test_file_and_folder_are_on_the_disk_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real = os.fsync, os.replace

    def fsync(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real[0](handle)

    def replace(*names: Path) -> None:
        done.append("replace")
        real[1](*names)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_whole(tmp_path / "file", b"new")
    assert done == ["file", "replace", "folder"]


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("ä" * 127), b"new")
    check_place(tmp_path / ("ö" * 127))


def test_others_may_read_it_if_the_user_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space"), KeyboardInterrupt()])
def test_what_was_there_stays_if_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, name, fail)
    kind = DiskFullError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(kind):
        write_whole(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


@pytest.mark.parametrize("code", FULL)
def test_no_room_is_code_4(code: int) -> None:
    with (
        pytest.raises(DiskFullError, match=r"^not enough space to write it \(") as caught,
        room("it"),
    ):
        raise OSError(code, os.strerror(code))
    assert caught.value.code == 4


def test_another_reason_is_a_mistake_like_any_other() -> None:
    with (
        pytest.raises(UserError, match=r"^cannot write it: permission denied$") as caught,
        room("it"),
    ):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert caught.value.code == 2


def test_what_is_no_error_of_a_file_passes() -> None:
    with pytest.raises(ZeroDivisionError), room("it"):
        raise ZeroDivisionError
