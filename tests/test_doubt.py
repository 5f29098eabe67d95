"""Doubtful objects: followed by inference, and reported if something confirms them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import lively, video
from torch import Tensor

from gswm.core.doubt import DOUBTFUL, MOVED, SURE, confirmed
from gswm.core.shapes import NOBODY
from gswm.models.gswm.discovery import DiscoveryConfig
from gswm.models.gswm.gswm import GSWM
from gswm.models.track import Track
from gswm.tracking.following import settled
from gswm.viz.located import Located

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_confirmed_objects_are_those_of_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 30))
    ids = rng.integers(0, 6, rows)
    presence = rng.choice([0.6, DOUBTFUL, SURE, 1.0], rows, p=[0.5, 0.4, 0.05, 0.05])
    low = rng.uniform(0, 12, (rows, 2))
    corners = np.concatenate([low, low + rng.uniform(1, 9, (rows, 2))], axis=1)
    got = confirmed(ids, presence, corners)
    for number in set(ids.tolist()):
        boxes = corners[ids == number]
        size = np.mean([max(r - x, b - y) for x, y, r, b in boxes])
        left, top, right, bottom = (max(side) - min(side) for side in boxes.T)
        moved = max(min(left, right), min(top, bottom)) >= MOVED * size
        certain = max(presence[ids == number]) > DOUBTFUL
        assert set(got[ids == number]) == {bool(moved or certain)}


def test_a_box_that_grows_from_the_border_has_not_moved() -> None:
    doubtful = np.full(9, DOUBTFUL)
    sides = np.linspace(1, 40, 9)
    grows = np.stack([0 * sides, 0 * sides, sides, 0 * sides + 4], axis=1)
    assert not confirmed(np.zeros(9, int), doubtful, grows).any()
    passes = grows + np.stack([sides, 0 * sides, sides, 0 * sides], axis=1)
    assert confirmed(np.zeros(9, int), doubtful, passes).all()


def hesitant() -> GSWM:
    """A model that is certain of some cells and doubts others."""
    cfg = DiscoveryConfig(certainty=0.9545, doubt=0.5, rivals=False)
    model = lively("interaction", num_objects=16, discovery=cfg)
    return model.requires_grad_(False)


@torch.no_grad()
def perceived(model: GSWM, seen: Tensor) -> Track:
    how = {"discover": "always", "render": False, "actions": None}
    return model.perceive(seen, background=None, **how)


def test_unconfirmed_objects_are_absent_from_tracks_and_states() -> None:
    model, seen = hesitant(), video(2, 4)
    raw = perceived(model, seen)
    track = model.infer(seen)
    gone = raw.present & ~track.present
    assert gone.any()
    assert torch.equal(track.present, raw.present & raw.confirmed)
    assert not (track.present & ~raw.present).any()
    for t, state in enumerate(track.states):
        assert (state.objects.o.pres[gone[:, t]] == 0).all()
        assert (state.objects.id[gone[:, t]] == NOBODY).all()
    ahead = model.imagine_from(track.state_at(-1), 2, sample=False)
    assert torch.equal(ahead.present[:, 0, 0], track.present[:, -1])


def test_chunks_keep_doubtful_objects_until_they_are_joined() -> None:
    model, seen = hesitant(), video(1, 6)
    parts = list(model.infer_chunks(seen.split(2, dim=1)))
    joined = Track.join([replace(part, states=()) for part in parts])
    assert torch.equal(joined.id, perceived(model, seen).id)
    assert torch.equal(model.settled(joined).present, model.infer(seen).present)


def test_a_model_without_doubts_reports_all_that_it_follows() -> None:
    model = lively("interaction")
    track = model.infer(video(1, 3))
    assert not model.doubts
    assert model.settled(track) is track


@pytest.mark.parametrize("doubts", [True, False])
def test_rows_of_a_film_are_settled_for_models_with_doubts(doubts: bool) -> None:
    model = hesitant() if doubts else lively("interaction")
    still = np.array([0, 0, 1, 1])
    x = np.array([5.0, 5.0, 5.0, 90.0])
    one = np.ones(4)
    rows = Located(0 * one, still * 0, still, x, 5 * one, one, one, 0 * one, DOUBTFUL * one)
    assert set(settled(model, rows).id) == ({1} if doubts else {0, 1})
