"""Throws: an object that was drawn in flight continues its flight."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gswm
from gswm.core.errors import UserError
from gswm.data.worlds.registry import world
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.studio import throwing


@pytest.fixture(scope="module")
def trained() -> GSWM:
    return gswm.load("two-layer")


@pytest.fixture(scope="module")
def track(trained: GSWM) -> Track:
    """Its state after ten frames of six balls."""
    balls = world("two-layer")
    *_, episodes = balls.episodes(balls.splits["test"].seed, 2)
    return trained.infer(episodes.video[1:, :10], discover="first")


@pytest.mark.parametrize("velocity", [(0.12, 0.0), (-0.1, 0.1)])
def test_a_thrown_object_goes_the_way_it_was_thrown(
    trained: GSWM, track: Track, velocity: tuple[float, float]
) -> None:
    before = throwing.there(track, 9)
    id = 0
    thrown = throwing.throw(trained, track, id, before[id], velocity)
    now = throwing.there(thrown, thrown.pres.shape[1] - 1)
    assert now.keys() == before.keys()
    assert all(math.dist(now[each], before[each]) < 0.05 for each in now)
    future = trained.imagine_from(thrown.state_at(-1), 3, sample=False, render=False)
    later = throwing.there(replace(future, **{f: getattr(future, f)[:, 0] for f in FIELDS}), 2)
    way = [(then - start) / 3 for then, start in zip(later[id], now[id], strict=True)]
    assert math.dist(way, velocity) < 0.03


FIELDS = ("xy", "hw", "depth", "pres", "id")


def test_an_object_far_out_of_view_hinders_no_throw(track: Track) -> None:
    state = track.state_at(-1)
    moved = throwing.placed(state, {2: {8: (-4.1, 3.3)}}, 8)
    slot = (moved.objects.id == 2) & (moved.objects.o.pres[..., 0] > 0.5)
    xy, _ = moved.boxes
    assert xy[slot].tolist() == [pytest.approx([-2, 2])]
    assert throwing.placed(state, {2: {8: (-4.1, 3.3)}}, 7) is state


def test_an_object_that_an_edit_moved_takes_its_way_along(trained: GSWM, track: Track) -> None:
    ways = throwing.ways(track, 9)
    xy = track.xy.clone()
    slot = int((track.id[0, -1] == 2).nonzero()[0, 0])
    xy[0, -1, slot] = torch.tensor([0.7, -0.7])
    moved = throwing.ways(replace(track, xy=xy), 9)
    assert moved[2][9] == pytest.approx((0.7, -0.7))
    assert moved[2][8] == moved[2][9]
    step = [a - b for a, b in zip(ways[2][8], ways[2][7], strict=True)]
    assert [a - b for a, b in zip(moved[2][8], moved[2][7], strict=True)] == pytest.approx(step)
    assert {id: way for id, way in moved.items() if id != 2} == {
        id: way for id, way in ways.items() if id != 2
    }


@given(st.floats(-5, 5), st.floats(0.05, 1))
def test_nothing_comes_from_behind_a_wall(at: float, room: float) -> None:
    folded = throwing.folded(at, room)
    assert abs(folded) <= room
    assert folded == at or abs(at) > room


def test_a_throw_that_cannot_be_is_one_line(
    trained: GSWM, track: Track, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = replace(
        track,
        **{f: getattr(track, f)[:, :1] for f in (*FIELDS, "background", "reconstruction")},
        states=track.states[:1],
    )
    with pytest.raises(UserError, match="throw it in a later one"):
        throwing.throw(trained, first, 0, (0.0, 0.0), (0.1, 0.0))
    with pytest.raises(UserError, match="no object 99"):
        throwing.throw(trained, track, 99, (0.0, 0.0), (0.1, 0.0))
    monkeypatch.setattr(GSWM, "editable", False)
    with pytest.raises(UserError, match="cannot be thrown"):
        throwing.throw(trained, track, 0, (0.0, 0.0), (0.1, 0.0))
