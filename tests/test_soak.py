"""`tools/soak.py`: the conditions under which it fails."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from soak import ANSWERS, MEANING, SLOW, Figures, Record, figures

FLAT = [400.0] + 30 * [500.0]


def soaked(open: float = 0.5, export: float = 30.0, error: str = "") -> Record:
    """A record of some requests."""
    record = Record()
    for kind, seconds in (("open", 0.1), ("open", open), ("edit", 0.1), ("export", export)):
        record.answered(kind, seconds)
    if error:
        record.complain(error)
    return record


def judged(record: Record, memory: list[float] = FLAT, left: str = "") -> Figures:
    return figures(record, memory, 30.0, 8, left)


def test_exports_may_take_long_and_memory_may_grow_at_first() -> None:
    assert judged(soaked()).failures() == []


@pytest.mark.parametrize("kind", ["open", "objects", "given"])
def test_each_time_of_a_video_that_is_opened_has_a_limit(kind: str) -> None:
    record = soaked()
    record.answered(kind, SLOW + 1)
    (line,) = judged(record).failures()
    assert f"{kind}: 1 of " in line


def test_each_time_is_explained() -> None:
    record = soaked()
    for kind in ANSWERS:
        record.answered(kind, 0.1)
    table = judged(record).table()
    for kind in ANSWERS:
        assert MEANING[kind] in table
    assert "until the page shows it" in table


def test_the_course_of_memory_is_shown() -> None:
    assert (
        "mean of each tenth of the time: 1 2 3 4 5 6 7 8 9 10"
        in judged(soaked(), [float(i) for i in range(1, 11) for _ in range(3)]).table()
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (judged(soaked(open=SLOW + 0.1)), "open: 1 of 2 answers"),
        (judged(soaked(), [*FLAT, *(20 * [560.0])]), "memory grew from 500 to 560 MB"),
        (judged(soaked(), left="1 processes, 0 files"), "left behind: 1 processes"),
        (judged(soaked(error="the server has ended")), "1 times: the server has ended"),
    ],
)
def test_a_soak_fails_for_one_reason(found: Figures, said: str) -> None:
    (line,) = found.failures()
    assert said in line
