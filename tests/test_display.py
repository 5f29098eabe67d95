"""Progress: plain lines, and a bar on a terminal."""

import errno
import io
import re
import sys
from collections.abc import Callable

import pytest
from rich.console import Console

from gswm.core.words import duration
from gswm.train.display import Display

VALUES = {"loss": -9.5, "nll": -20.0, "kl_state": 10.5, "aux_pres": 0.0, "objects": 5.97}


def shown(*, terminal: bool, silent: bool = False, meanwhile: Callable[[], object] = int) -> str:
    """The output of ten steps; `meanwhile` runs before each report."""
    text = io.StringIO()
    display = Display(steps=10, batch=2, silent=silent)
    display.console = Console(file=text, force_terminal=terminal, width=200)
    with display.running(0):
        for step in (5, 10):
            meanwhile()
            display.report(step, 3, VALUES)
    return text.getvalue()


def test_without_a_terminal_a_report_is_one_plain_line_with_everything() -> None:
    first, second = shown(terminal=False).splitlines()
    line = (
        r"step       5  T  3  loss -9.5  nll -20.0  kl_state 10.5  aux_pres 0  objects 5.97"
        r"  [\d,]+ frames/s  [\d.]+ s left"
    )
    assert re.fullmatch(line, first)
    assert second.startswith("step      10")
    assert "\x1b" not in first


def test_in_a_terminal_there_is_a_bar_too() -> None:
    text = shown(terminal=True)
    assert "training" in text
    assert "━" in text
    assert "objects 5.97" in text


def test_the_bar_says_how_long_it_takes_yet_however_rare_reports_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]

    def wait() -> None:
        now[0] += 90

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    text = shown(terminal=True, meanwhile=wait)
    assert text.index("1.5 min left") < text.index("0 s left")


def test_the_first_step_says_how_fast_it_goes_and_how_long_it_will_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    for terminal in (False, True):
        text = io.StringIO()
        display = Display(steps=36_000, batch=2)
        display.console = Console(file=text, force_terminal=terminal, width=200)
        with display.running(0):
            now[0] += 4
            display.advance(1)
        assert "of 36,000  4.0 s/step  40.0 h left" in text.getvalue()


def test_where_there_is_no_bar_a_slow_run_says_something_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, text = [100.0], io.StringIO()
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    display = Display(steps=1_000, batch=2)
    display.console = Console(file=text, width=200)
    with display.running(0):
        for step in range(1, 100):
            now[0] += 1
            display.advance(step)
    steps = [int(line.split()[1]) for line in text.getvalue().splitlines()]
    assert steps == [1, 31, 61, 91]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1.0 min"),
        (5399, "90.0 min"),
        (165_270, "45.9 h"),
        (4e5, "4.6 days"),
    ],
)
def test_a_duration_is_in_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_other_processes_are_silent() -> None:
    assert shown(terminal=False, silent=True) == shown(terminal=True, silent=True) == ""


def test_frames_per_second_are_of_the_steps_since_the_last_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    display = Display(steps=100, batch=4, silent=True)
    with display.running(20):
        now[0] += 2
        assert display.report(30, 3, VALUES) == 10 * 4 * 3 / 2
        now[0] += 5
        assert display.report(40, 6, VALUES) == 10 * 4 * 6 / 5


def test_what_is_done_beside_the_steps_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, text = [100.0], io.StringIO()
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    display = Display(steps=40, batch=4)
    display.console = Console(file=text, width=200)
    with display.running(20):
        now[0] += 2
        with display.aside():
            now[0] += 1_000
        now[0] += 4
        assert display.report(30, 3, VALUES) == 10 * 4 * 3 / 6
    assert text.getvalue().endswith("  6 s left\n")


def test_a_terminal_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    display = Display(10, 2)
    with display.running(0):
        display.report(1, 3, {"loss": 1.0})
        display.tell("more")
