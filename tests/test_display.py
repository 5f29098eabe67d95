"""What a person sees: plain lines where there is no terminal, a bar above them where there is."""

import io
import re

import pytest
from rich.console import Console

from gswm.train.display import Display

VALUES = {"loss": -9.5, "nll": -20.0, "kl_state": 10.5, "aux_pres": 0.0, "objects": 5.97}


def shown(*, terminal: bool, silent: bool = False) -> str:
    """All that is written in the course of ten steps."""
    text = io.StringIO()
    display = Display(steps=10, batch=2, silent=silent)
    display.console = Console(file=text, force_terminal=terminal, width=200)
    with display.running(0):
        for step in (5, 10):
            display.report(step, 3, VALUES)
    return text.getvalue()


def test_without_a_terminal_a_report_is_one_plain_line_with_everything() -> None:
    first, second = shown(terminal=False).splitlines()
    line = (
        r"step       5  T  3  loss -9.5  nll -20.0  kl_state 10.5  aux_pres 0.0  objects 5.97"
        r"  [\d,]+ frames/s  [\d.]+ min left"
    )
    assert re.fullmatch(line, first)
    assert second.startswith("step      10")
    assert "\x1b" not in first


def test_in_a_terminal_there_is_a_bar_too() -> None:
    text = shown(terminal=True)
    assert "training" in text
    assert "━" in text
    assert "objects 5.97" in text


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
