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
