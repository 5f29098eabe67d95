"""The memory of the studio: freed when a tab is closed, and returned to the system."""

import ctypes
import gc
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest
from studio import Page, catalog

from gswm.studio import memory
from gswm.studio.memory import PAUSE, Trimmer, function, use_one_arena
from gswm.studio.session import Session
from gswm.studio.worker import Worker

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")

FREED = """
import ctypes
import os
import threading
from gswm.studio.memory import Trimmer, use_one_arena

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def fill():
    global kept
    blocks = [ctypes.create_string_buffer(b"x", 100_000) for _ in range(1000)]
    kept = blocks[::100]

use_one_arena()
thread = threading.Thread(target=fill)
thread.start()
thread.join()
before = resident()
Trimmer().trim()
print(before - resident())
"""


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free memory."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_closed_page_frees_its_branches_even_if_it_was_served_last() -> None:
    page = Page().open()
    branch = weakref.ref(page.session.desk.branches[0])
    page.session.close()
    assert branch() is None


def test_memory_is_returned_now_and_then_and_when_a_page_leaves() -> None:
    now, trims = [0.0], []
    worker = Worker()
    worker.memory = Trimmer(lambda: now[0])
    worker.memory.malloc_trim = lambda pad: trims.append(now[0]) or 1
    for now[0] in (1.0, PAUSE, PAUSE + 1, 2 * PAUSE):
        worker.memory.now_and_then()
    assert trims == [PAUSE, 2 * PAUSE]
    session = Session(catalog(), lambda _: None)
    worker.join(session)
    worker.leave(session)
    assert trims == [PAUSE, 2 * PAUSE, 2 * PAUSE]


def test_a_working_worker_returns_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    page, worker, trims = Page().open(), Worker(), []
    monkeypatch.setattr(memory, "PAUSE", 0.0)
    worker.memory.malloc_trim = lambda pad: trims.append(pad) or 1
    worker.join(page.session)
    page.say(type="show", branch=0)
    worker.start()
    while page.session.busy or page.session.imagining is not None:
        worker.thread.join(0.01)
    worker.stop()
    assert trims


@glibc
def test_freed_memory_is_returned_to_the_system() -> None:
    found = subprocess.run([sys.executable, "-c", FREED], capture_output=True, check=True)
    assert int(found.stdout) > 50e6


@pytest.mark.parametrize("error", [OSError, TypeError, AttributeError])
def test_other_systems_have_nothing_to_return(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def library(name: None) -> None:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", library)
    assert function("malloc_trim") is None
    use_one_arena()
    Trimmer().trim()
