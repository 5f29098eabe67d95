"""Selection of K objects: the most present stay, in their slots and with their ids."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import SIZES, attributes, generator, objects

from gswm.core.records import map_tensors
from gswm.core.shapes import NOBODY
from gswm.models.objects import Attributes, Latents, Objects, select

SEEDS = st.integers(0, 2**32 - 1)


def with_pres(record: Objects, pres: list[float], ids: list[int], born: int = 0) -> Objects:
    """One video's objects, with these presences and ids."""
    o = replace(record.o, pres=torch.tensor(pres)[None, :, None])
    return replace(record, o=o, id=torch.tensor([ids]), born=torch.tensor([born]))


def known(pres: list[float], ids: list[int], born: int = 0) -> Objects:
    return with_pres(objects(1, len(pres), seed=1), pres, ids, born)


def found(pres: list[float]) -> Objects:
    return with_pres(objects(1, len(pres), seed=2), pres, [NOBODY] * len(pres))


@given(SEEDS, st.integers(1, 6), st.integers(1, 6))
def test_selection_follows_the_paper(seed: int, slots: int, cells: int) -> None:
    """Sort both by presence, keep K; no two presences of these are equal."""
    old, new = objects(2, slots, seed), objects(2, cells, seed + 7)
    got = select(old, new)
    assert got.o.pres.shape == old.o.pres.shape
    for b in range(2):
        rows = [*old.flat()[b].tolist(), *new.flat()[b].tolist()]
        want = sorted(rows, key=lambda row: -row[0])[:slots]
        assert sorted(map(tuple, got.flat()[b].tolist())) == sorted(map(tuple, want))


@given(SEEDS)
def test_who_stays_keeps_slot_and_id(seed: int) -> None:
    old, new = objects(2, 4, seed), objects(2, 5, seed + 7)
    got = select(old, new)
    for b in range(2):
        best = sorted([*old.o.pres[b, :, 0].tolist(), *new.o.pres[b, :, 0].tolist()])[-4:]
        for k in range(4):
            if float(old.o.pres[b, k]) in best:
                assert torch.equal(got.flat()[b, k], old.flat()[b, k])
                assert got.id[b, k] == old.id[b, k]


def test_newcomers_take_the_slots_of_those_that_go_and_the_next_ids() -> None:
    got = select(known([0.9, 0.1, 0.8], [0, 1, 2], born=3), found([0.3, 0.95, 0.05]))
    torch.testing.assert_close(got.o.pres[0, :, 0], torch.tensor([0.9, 0.95, 0.8]))
    assert got.id.tolist() == [[0, 3, 2]]
    assert got.born.tolist() == [4]


def test_more_newcomers_than_slots_leave_the_most_present_of_them() -> None:
    got = select(known([0.0, 0.0], [NOBODY] * 2), found([0.7, 0.9, 0.6, 0.8]))
    torch.testing.assert_close(got.o.pres[0, :, 0], torch.tensor([0.9, 0.8]))
    assert got.id.tolist() == [[0, 1]]
    assert got.born.tolist() == [2]


def test_who_is_less_than_half_there_gets_no_id() -> None:
    got = select(known([0.0, 0.0, 0.0], [NOBODY] * 3, born=5), found([0.4, 0.9, 0.1]))
    torch.testing.assert_close(got.o.pres[0, :, 0], torch.tensor([0.4, 0.9, 0.1]))
    assert got.id.tolist() == [[NOBODY, 5, NOBODY]]
    assert got.born.tolist() == [6]


def test_of_many_that_are_wholly_there_k_are_kept_and_none_twice() -> None:
    """Presence saturates at 1, so ties are common."""
    old, new = known([1.0] * 3, [0, 1, 2], born=3), found([1.0] * 4)
    got = select(old, new)
    rows = {tuple(row) for row in got.flat()[0].tolist()}
    assert len(rows) == 3
    assert rows <= {tuple(row) for row in [*old.flat()[0].tolist(), *new.flat()[0].tolist()]}
    assert len(set(got.id[0].tolist())) == 3


def test_of_equals_who_is_already_there_stays() -> None:
    old, new = known([1.0, 0.5, 1.0], [0, 1, 2], born=3), found([1.0, 1.0])
    got = select(old, new)
    assert got.id.tolist() == [[0, 3, 2]]
    assert torch.equal(got.flat()[:, [0, 2]], old.flat()[:, [0, 2]])
    assert torch.equal(got.flat()[0, 1], new.flat()[0, 0])


def test_nothing_found_changes_nothing_that_is_there() -> None:
    old = known([0.9, 0.0, 1.0, 0.0], [0, NOBODY, 4, NOBODY], born=5)
    got = select(old, found([0.0] * 3))
    there = [0, 2]
    assert torch.equal(got.flat()[:, there], old.flat()[:, there])
    assert got.id.tolist() == old.id.tolist()
    assert got.o.pres.tolist() == old.o.pres.tolist()
    assert got.born.tolist() == [5]


def test_there_may_be_more_slots_than_cells() -> None:
    got = select(known([0.9] + [0.0] * 6, [0] + [NOBODY] * 6, born=1), found([0.7, 0.8]))
    assert sorted(got.o.pres[0, :, 0].tolist())[-3:] == sorted(
        torch.tensor([0.9, 0.8, 0.7]).tolist()
    )
    assert got.id[0, 0] == 0
    assert sorted(got.id[0].tolist()) == [NOBODY] * 4 + [0, 1, 2]


def test_batch_elements_are_selected_apart() -> None:
    old, new = objects(2, 3, 4), objects(2, 5, 5)
    both = select(old, new)
    for b in (0, 1):
        alone = select(*(map_tensors(lambda x: x[b : b + 1], each) for each in (old, new)))  # noqa: B023
        assert torch.equal(alone.flat()[0], both.flat()[b])
        assert torch.equal(alone.id[0], both.id[b])


def test_gradients_pass_through_selection() -> None:
    old, new = objects(1, 2, 4), objects(1, 3, 5)
    flat = new.flat().requires_grad_()
    got = select(old, new.with_flat(flat, new.id))
    got.flat().sum().backward()
    assert flat.grad is not None
    kept = (flat.grad[0] != 0).all(dim=-1).sum()
    assert kept == (got.flat()[0, :, None] == new.flat()[0]).all(dim=-1).sum()


def test_vectors_split_as_they_are_put_together() -> None:
    o = attributes()
    for name in ("pres", "depth", "hw", "xy", "what"):
        assert torch.equal(getattr(Attributes.split(o.cat()), name), getattr(o, name))
    z = torch.randn(2, 3, SIZES.z_att, generator=generator())
    split = Latents.split(z)
    assert torch.equal(torch.cat([split.depth, split.hw, split.xy, split.what], dim=-1), z)
    all_of = objects()
    assert torch.equal(all_of.with_flat(all_of.flat(), all_of.id).flat(), all_of.flat())
    assert (SIZES.z_att, SIZES.o) == (10, 11)
