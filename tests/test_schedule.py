"""Curriculum and annealing, written out step by step."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator

from gswm.core.schedule import Anneal
from gswm.models.gswm.noise import frames_kept, frames_to_discover_in
from gswm.models.gswm.schedule import Schedule


@given(st.integers(0, 30))
def test_annealing_is_a_straight_line_between_two_flat_ones(step: int) -> None:
    if step <= 10:
        want = 2.0
    elif step >= 20:
        want = -1.0
    else:
        want = 2.0 - 3.0 * (step - 10) / 10
    got = Anneal(2.0, -1.0, 10, 20).at(torch.tensor(step))
    assert float(got) == pytest.approx(want, abs=1e-6)


@given(st.integers(0, 20))
def test_annealing_of_no_steps_is_a_jump(step: int) -> None:
    got = Anneal(2.0, -1.0, 10, 10).at(torch.tensor(step))
    assert float(got) == (2.0 if step < 10 else -1.0)


@given(st.integers(0, 10**6))
def test_what_does_not_change_stays(step: int) -> None:
    assert float(Anneal(0.2, 0.2).at(torch.tensor(step))) == pytest.approx(0.2)


@given(st.integers(0, 100))
def test_the_curriculum_lengthens_videos_at_its_steps(step: int) -> None:
    schedule = Schedule(lengths=((0, 2), (10, 6), (50, 12)), background_only=5)
    stage = schedule.stage(step)
    assert stage.length == (2 if step < 10 else 6 if step < 50 else 12)
    assert stage.background_only == (step < 5)


@given(st.integers(1, 6), st.integers(1, 20), st.floats(0, 1))
def test_discovery_keeps_the_first_frame_and_its_share_of_the_others(
    batch: int, time: int, dropout: float
) -> None:
    kept = frames_kept(batch, time, dropout)
    keep = frames_to_discover_in(time, kept, generator(time))
    assert keep.sum(dim=1).tolist() == list(kept)
    assert keep[:, 0].all()
    exact = (time - 1) * (1 - dropout)
    for num in kept:
        assert exact - 1 < num - 1 < exact + 1


@given(st.integers(1, 20), st.floats(0, 1))
def test_over_a_batch_the_share_is_right(time: int, dropout: float) -> None:
    later = sum(frames_kept(16, time, dropout)) / 16 - 1
    assert later == pytest.approx((time - 1) * (1 - dropout), abs=1 / 16)


def test_a_half_is_rounded_down_and_up_in_turn() -> None:
    assert frames_kept(4, 2, 0.5) == (1, 2, 1, 2)
    assert frames_kept(4, 11, 0.9) == (2, 2, 2, 2)


def test_discovery_is_dropped_in_every_frame_alike() -> None:
    keep = frames_to_discover_in(5, frames_kept(4000, 5, 0.5), generator())
    share = keep[:, 1:].float().mean(dim=0)
    torch.testing.assert_close(share, torch.full((4,), 0.5), atol=0.04, rtol=0)
