"""Who waits is told what for, and who does not is told nothing."""

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
