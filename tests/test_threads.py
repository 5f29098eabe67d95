"""Work is divided evenly among threads, and small operations use one thread."""

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.core.devices import one_thread
from gswm.data.worlds.threads import shares
from gswm.models.gswm import recurrence
from gswm.models.gswm.propagation import Propagation


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


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The last number of threads set in torch; 4 at first."""
    told = [4]
    monkeypatch.setattr(torch, "get_num_threads", lambda: told[-1])
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    return told


def test_there_are_as_many_threads_as_before_afterwards(threads: list[int]) -> None:
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert threads == [4, 1, 4]
    with one_thread(when=False):
        assert threads == [4, 1, 4]


def test_few_objects_are_propagated_in_one_thread(
    threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, used, infer = tiny.lively().eval(), [], Propagation.infer

    def noted(self: Propagation, *args: object) -> object:
        used.append(threads[-1])
        return infer(self, *args)

    monkeypatch.setattr(Propagation, "infer", noted)
    video = tiny.video(1, 3)
    model.infer_after(model.infer(video[:, :2]).state_at(-1), video[:, 2:])
    tiny.loss(model, video)
    assert used == [1, 1, 4, 4]
    used.clear()
    monkeypatch.setattr(recurrence, "FEW", 2)
    model.infer(video)
    assert used == [4, 4]
    assert threads[-1] == 4
