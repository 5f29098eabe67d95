"""Messages about long waits; short waits are silent."""

import time

import pytest

from gswm.core import waiting


@pytest.mark.parametrize(("slow", "silent"), [(True, False), (False, False), (True, True)])
def test_only_what_takes_long_is_explained(
    slow: bool, silent: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "SECONDS", 0.05 if slow else 60.0)
    with waiting.explained("making tea", silent=silent):
        time.sleep(0.5 if slow else 0)
    assert capsys.readouterr().err == ("making tea ...\n" if slow and not silent else "")


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting.progress_bar("tracking", "frames", 10) as advance:
        advance(5)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_line_reports_the_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    with waiting.progress_bar("tracking a.mp4", "frames", 1_000) as advance:
        for done in range(0, 1_000, 8):
            advance(done)
            now[0] += 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4  # in 125 seconds
    assert lines[0] == "tracking a.mp4: 240 of 1,000 frames, 8.0 frames/s, 1.6 min left"


def test_in_a_terminal_a_bar_counts_and_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with waiting.progress_bar("tracking [a film]", "frames", 1_000) as advance:
        advance(512)
    said = capsys.readouterr().err
    assert "tracking [a film]" in said
    assert "512 of 1,000 frames" in said
    assert said.endswith("\x1b[2K")
