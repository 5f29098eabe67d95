"""Work is shared out evenly."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.data.worlds.threads import shares


@given(st.integers(1, 10_000), st.integers(1, 2000), st.integers(1, 9))
def test_pieces_are_small_and_no_thread_has_one_more_round(
    count: int, most: int, threads: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: threads)
        size = shares(count, most)
    assert 1 <= size <= most
    pieces, fewest = -(-count // size), -(-count // most)
    assert -(-pieces // threads) == -(-fewest // threads)


def test_two_threads_get_equal_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert shares(5400, 1024) == 900
