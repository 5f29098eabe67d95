"""Exports: drawn frame by frame in a process that ends with its tab, while other tabs continue."""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from studio import Page

from gswm.core.errors import UserError
from gswm.models.gswm.gswm import GSWM
from gswm.studio import desk, drawing, exports, jobs
from gswm.studio.protocol import ExportRequest, ViewSettings
from gswm.viz import pictures
from gswm.viz.imagination import tiling, with_futures

MOVE = {"kind": "move", "id": 0, "xy": [0.5, 0.5]}
ENDLESS = (sys.executable, "-c", "import time; time.sleep(600)")
QUICK = (sys.executable, "-c", "import sys; open(sys.argv[1] + '/export.csv', 'w').write('x')")
"""A process that draws a table at once."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def ordered(page: Page, folder: Path, **request: Any) -> drawing.ExportedView:
    """The view that the process drawing a file reads."""
    page.say(type="export", branch=0, **request)
    page.session.step()
    order = page.session.jobs.pop().order
    for _ in exports.write(order, folder):
        pass
    return drawing.read(folder)[1]


@pytest.mark.parametrize("request_", [{}, {"compare": 1, "future": 1}, {"boxes": False}])
def test_a_film_that_is_drawn_frame_by_frame_is_the_one_drawn_at_once(
    request_: dict[str, Any], tmp_path: Path
) -> None:
    page = Page().open(settings={"futures": 3}).edit(MOVE)
    shown = ordered(page, tmp_path, kind="gif", **request_)
    first, *others = shown.imaginations
    top = [first.true(4, 8), first.future(shown.future, 4, 8)]
    top += [each.future(0, 4, 8) for each in others]
    names = ["truth", "branch 0", *["branch 1" for _ in others]]
    scale, columns = tiling(len(top), 4, 3)
    small = [first.future(i, scale, 8) for i in range(3)]
    want = with_futures(pictures.side_by_side(top, names), small, columns)
    np.testing.assert_array_equal(drawing.moving(shown).whole(), want)


def test_the_process_does_not_import_torch() -> None:
    code = "import sys, gswm.studio.drawing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_process_gets_what_the_page_has_heard(tmp_path: Path) -> None:
    page = Page().open(settings={"futures": 3})
    (line,) = ordered(page, tmp_path, kind="csv").branches
    np.testing.assert_array_equal(line.objects, page.futures(0))
    np.testing.assert_array_equal(line.past_pixels, page.of("branch")[0][1]["pixels"])
    assert line.pixels.size == 0  # a table has no use for them


@pytest.mark.parametrize(
    "asked",
    [
        {"type": "export", "kind": "gif", "branch": 0},
        {"type": "masks", "branch": 0, "future": 1},
        {"type": "edit", "branch": 0, "frame": 9, "future": 1, "change": MOVE},
        {"type": "open", "model": "small", "world": "noise", "settings": {"given": 8}},
    ],
    ids=lambda message: message["type"],
)
def test_a_piece_of_work_is_one_call_of_the_model(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(desk, "MEMORY", 0)  # all is imagined again
    page = Page().open()
    calls = 0

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **how: Any) -> Any:
            nonlocal calls
            calls += 1
            return method(*args, **how)

        return call

    for name in ("imagine_from", "infer", "infer_after"):
        monkeypatch.setattr(GSWM, name, counted(getattr(GSWM, name)))
    page.say(**asked)
    total = 0
    while page.session.waiting or page.session.busy:  # in this order: what it waits for may arrive
        calls = 0
        page.session.step()
        assert calls <= 1
        total += calls
    assert total >= 2
    page.session.close()


def test_what_is_too_much_to_keep_is_imagined_again_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = Page().open().edit(MOVE, frame=8, future=1)
    monkeypatch.setattr(desk, "MEMORY", 0)
    again = Page().open()
    assert again.session.desk.branches[0].futures == []
    for live in (True, True, False):  # dragged, and let go
        again.edit(MOVE, frame=8, future=1, live=live)
    ours, theirs = (page.session.desk.branches[1] for page in (there, again))
    for one, other in zip(ours.moments, theirs.moments, strict=True):
        np.testing.assert_array_equal(one.objects, other.objects)
    np.testing.assert_array_equal(there.futures(1), again.futures(1))


def test_edits_wait_for_one_that_is_imagined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "MEMORY", 0)
    page = Page().open()
    for at in (0.1, 0.2):
        change = {"kind": "move", "id": 0, "xy": [at, 0]}
        page.say(type="edit", branch=0, frame=8, change=change)
    page.work()
    assert [head["branch"] for head, _ in page.of("branch")] == [0, 1, 2]


def test_there_is_an_end_to_the_memory_of_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page().open()
    page.edit(MOVE, frame=8)
    held = page.session.desk.own_bytes
    assert held > 0
    monkeypatch.setattr(desk, "EDITED_MEMORY", 2 * held)
    for _ in range(2):
        page.edit(MOVE, frame=8)
    assert len(page.session.desk.branches) == 3
    assert "reopen the episode" in page.of("error")[-1][0]["line"]


@pytest.mark.parametrize("kind", ["gif", "mp4"])
def test_a_film_that_is_too_large_is_refused_before_it_is_made(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page().open()
    monkeypatch.setattr(exports, "MOST_PIXELS", 10 * 64 * 64 * (2 * 16 + 2 * 4) - 1)
    page.say(type="export", kind=kind, branch=0)
    page.work()
    (error, _) = page.of("error")[-1]
    assert "10 frames with 2 futures" in error["line"]
    assert not page.session.jobs
    monkeypatch.setattr(jobs, "COMMAND", QUICK)
    page.say(type="export", kind="csv", branch=0)
    page.work()
    assert page.of("file")


def test_the_largest_film_of_the_page_is_allowed() -> None:
    page = Page().open(settings={"given": 8, "steps": 3, "futures": 2})
    order = page.session.desk.order(ExportRequest("gif", 0, 0, 0, True, 8))
    full = ViewSettings(given=40, steps=120, futures=64)
    replace(order, settings=full).check()
    large = np.zeros((8, 128, 128, 3), np.uint8)
    with pytest.raises(UserError, match="export fewer"):
        replace(order, settings=replace(full, steps=200), video=large).check()


def drawn_by(page: Page) -> "subprocess.Popen[bytes]":
    """The process that draws a page's file."""
    while page.session.busy:
        page.session.step()
    (job,) = page.session.jobs
    while job.process is None:
        time.sleep(0.01)
    return job.process


def test_a_file_ends_with_its_page(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(jobs, "COMMAND", ENDLESS)
    page = Page().open()
    page.say(type="export", kind="gif", branch=0)
    process = drawn_by(page)
    assert list(folder.iterdir())
    (job,) = page.session.jobs
    page.session.close()
    assert process.returncode  # at once: the server may be about to end
    assert job.over
    assert not list(folder.iterdir())
    assert not page.of("file")
    assert not page.of("error")


def test_a_file_that_is_being_imagined_ends_with_its_page(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    page = Page().open()
    page.say(type="export", kind="gif", branch=0)
    for _ in range(3):
        page.session.step()
    assert list(folder.iterdir())
    page.session.close()
    assert not list(folder.iterdir())
    assert not page.session.busy


def test_a_file_that_waits_for_others_ends_with_its_page(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(jobs, "COMMAND", ENDLESS)
    pages = [Page().open() for _ in range(jobs.MOST_DRAWN + 1)]
    made = []
    for page in pages:
        page.say(type="export", kind="csv", branch=0)
        while page.session.busy:
            page.session.step()
        made.append(page.session.jobs[0])
    while sum(job.process is not None for job in made) < jobs.MOST_DRAWN:
        time.sleep(0.01)
    assert len(list(folder.iterdir())) == len(pages)
    for page in pages:
        page.session.close()
    assert all(job.over for job in made)
    assert not list(folder.iterdir())


def test_a_process_that_dies_is_one_line_and_the_next_file_is_made(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(jobs, "COMMAND", ENDLESS)
    page = Page().open()
    page.say(type="export", kind="csv", branch=0)
    drawn_by(page).kill()
    page.work()
    assert "cannot create this file" in page.of("error")[-1][0]["line"]
    monkeypatch.setattr(jobs, "COMMAND", QUICK)
    page.say(type="export", kind="csv", branch=0)
    page.work()
    assert page.of("file")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SECONDS", 0.01, "takes too long"),
        ("COMMAND", ("/nowhere/python",), "cannot create this file"),
        ("COMMAND", (sys.executable, "-c", "exit('no')"), "cannot create this file: no"),
    ],
)
def test_a_file_that_cannot_be_drawn_is_one_line(
    name: str, value: Any, said: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(jobs, name, value)
    page = Page().open()
    page.say(type="export", kind="csv", branch=0)
    page.work()
    line = page.of("error")[-1][0]["line"]
    assert said in line
    assert len(line.splitlines()) == 1
    assert not list(folder.iterdir())


def test_an_export_that_fails_before_its_thread_has_started_is_over(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    class AtOnce(threading.Thread):
        def start(self) -> None:
            self.run()

    monkeypatch.setattr(jobs, "COMMAND", ("/nowhere/python",))
    ours = SimpleNamespace(Thread=AtOnce, Lock=threading.Lock)
    monkeypatch.setattr(jobs, "threading", ours)
    page = Page().open()
    page.say(type="export", kind="csv", branch=0)
    for _ in range(500):
        if not page.session.busy:
            break
        page.session.step()
    assert not page.session.jobs
    assert "cannot create this file" in page.of("error")[-1][0]["line"]
    assert not list(folder.iterdir())


def test_the_process_says_in_one_line_why_it_cannot_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "limit", lambda *_: None)
    monkeypatch.setattr(drawing.os, "nice", lambda _: None)
    assert drawing.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == "FileNotFoundError\n"


def test_a_page_has_only_so_many_files_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gswm.studio.session.MOST_JOBS", 2)
    monkeypatch.setattr(jobs, "COMMAND", QUICK)
    page = Page().open()
    for _ in range(3):
        page.say(type="export", kind="csv", branch=0)
    page.work()
    assert len(page.of("file")) == 2
    assert "wait for one" in page.of("error")[-1][0]["line"]


def test_an_export_is_of_what_was_open_when_it_was_asked_for(folder: Path) -> None:
    page = Page().open(settings={"futures": 2})
    page.say(type="export", kind="csv", branch=0)
    page.session.step()
    page.open(settings={"futures": 3, "seed": 5})
    ((_, arrays),) = page.of("file")
    rows = arrays["data"].tobytes().decode().splitlines()
    assert {row.split(",")[0] for row in rows[1:]} == {"-1", "0", "1"}


def test_masks_of_what_is_no_longer_open_are_not_sent() -> None:
    page = Page().open(settings={"steps": 30})
    page.say(type="masks", branch=0)
    page.session.step()
    page.session.step()
    page.open(settings={"steps": 2})
    kinds = [head["type"] for head, _ in page.heard]
    last = len(kinds) - kinds[::-1].index("opened")
    assert "masks" not in kinds[last:]
