"""Supervision by labels: slots follow one object, and terms equal those of naive loops."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.errors import UserError
from gswm.core.records import map_tensors
from gswm.core.shapes import NOBODY
from gswm.data.batches.loader import Pool, open_loader
from gswm.data.episode import Episodes
from gswm.data.labels import UNCLEAR, Labels
from gswm.data.storage.hdf5 import open_file
from gswm.data.storage.writer import Writer
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.world import Clips
from gswm.models.gswm import labels as teaching
from gswm.models.objects import Attributes, LSTMState, Objects, Sizes

SIZE = 64
WORLD = Clips("few", SIZE, settings=ClipSettings(num_frames=6))


def labels(
    xy: list[list[tuple[float, float]]], side: float = 0.2, hidden: tuple[tuple[int, int], ...] = ()
) -> Labels:
    """One video: `xy[t][n]`; an object outside the frame is not present."""
    places = torch.tensor(xy, dtype=torch.float32)[None]
    present = (places.abs() < 1).all(dim=-1)
    visibility = present.float()
    for t, n in hidden:
        visibility[0, t, n] = 0
    return Labels(present, visibility, places, torch.full_like(places, side))


def slots(xy: list[tuple[float, float]], ids: list[int], pres: float = 0.9) -> Objects:
    """One frame of one video."""
    sizes = Sizes(what=2, state=2, hidden=2)
    k = len(ids)
    there = torch.tensor([[[pres if i != NOBODY else 0.0] for i in ids]])
    o = Attributes(
        *(there, torch.zeros(1, k, 1), torch.full((1, k, 2), 0.2)),
        *(torch.tensor(xy)[None], torch.zeros(1, k, sizes.what)),
    )
    h = LSTMState(torch.zeros(1, k, 2), torch.zeros(1, k, 2))
    return Objects(o, torch.zeros(1, k, 2), h, h, torch.tensor([ids]), torch.tensor([max(ids) + 1]))


def which(found: teaching.Matches) -> list[list[int]]:
    return found.which[0].tolist()


def test_a_slot_follows_the_object_it_was_found_in_through_a_crossing() -> None:
    true = labels([[(-0.5, 0.0), (0.5, 0.0)], [(0.0, 0.0), (0.02, 0.0)], [(0.5, 0.0), (-0.5, 0.0)]])
    swapped = [
        slots([(-0.5, 0.0), (0.5, 0.0)], [0, 1]),
        slots([(0.0, 0.0), (0.02, 0.0)], [0, 1]),
        slots([(-0.5, 0.0), (0.5, 0.0)], [0, 1]),  # each now in the other's box
    ]
    assert which(teaching.match(swapped, true)) == [[0, 1]] * 3


def test_a_new_id_in_a_slot_is_matched_anew_and_empty_slots_are_not() -> None:
    true = labels([[(-0.5, 0.0), (0.5, 0.0)]] * 2)
    frames = [
        slots([(-0.5, 0.0), (0.9, 0.9)], [0, NOBODY]),
        slots([(0.5, 0.05), (0.5, 0.0)], [3, NOBODY]),
    ]
    assert which(teaching.match(frames, true)) == [[0, NOBODY], [1, NOBODY]]


def test_of_two_slots_in_one_box_the_older_one_learns() -> None:
    true = labels([[(0.0, 0.0)]])
    found = teaching.match([slots([(0.0, 0.0), (0.05, 0.0)], [4, 2])], true)
    assert which(found) == [[0, 0]]
    assert found.first[0, 0].tolist() == [False, True]


def test_a_slot_outside_all_boxes_or_in_a_hidden_one_has_no_object() -> None:
    true = labels([[(0.0, 0.0), (0.5, 0.0)]], hidden=((0, 1),))
    found = teaching.match([slots([(0.0, 0.3), (0.5, 0.0)], [0, 1])], true)
    assert which(found) == [[NOBODY, NOBODY]]


def naive_apart(xy: Tensor, hw: Tensor, true_xy: Tensor, true_hw: Tensor) -> float:
    def huber(x: float) -> float:
        beta = teaching.BETA
        return 0.5 * x * x / beta if abs(x) < beta else abs(x) - beta / 2

    total = 0.0
    for axis in range(2):
        total += huber(float((xy[axis] - true_xy[axis]) / true_hw[1 - axis]))
        total += huber(math.log(float(hw[axis]) / float(true_hw[axis])))
    return total


def test_the_box_term_is_a_sum_over_slots_that_are_there_and_matched() -> None:
    true = labels([[(-0.5, 0.1), (0.5, 0.0)], [(-0.45, 0.1), (2.0, 0.0)]])
    frames = [
        slots([(-0.45, 0.1), (0.52, 0.0), (0.0, 0.9)], [0, 1, 2]),
        slots([(-0.3, 0.12), (0.9, 0.0), (0.0, 0.9)], [0, 1, 2]),  # the second has left
    ]
    matches = teaching.match(frames, true)
    box, _ = teaching.slot_terms(frames, None, matches, true)
    counted = [(0, 0, 0), (0, 1, 1), (1, 0, 0)]  # frame, slot, object
    want = sum(
        naive_apart(
            *(frames[t].o.xy[0, k], frames[t].o.hw[0, k]),
            *(true.xy[0, t, n], true.hw[0, t, n]),
        )
        for t, k, n in counted
    )
    assert float(box) == pytest.approx(want, rel=1e-5)


def test_presence_is_taught_by_what_became_of_the_objects_of_the_last_frame() -> None:
    true = labels([[(-0.5, 0.0), (0.5, 0.0)], [(-0.5, 0.0), (2.0, 0.0)]])
    frames = [
        slots([(-0.5, 0.0), (0.5, 0.0), (0.0, 0.9), (-0.5, 0.05)], [0, 1, 2, 3]),
        slots([(-0.5, 0.0), (0.5, 0.0), (0.0, 0.9), (-0.5, 0.05)], [0, 1, 2, 3]),
    ]
    logits = torch.tensor([0.3, -0.2, 1.1, 0.7])
    matches = teaching.match(frames, true)
    _, pres = teaching.slot_terms(frames, Bernoulli(logits[None, None, :, None]), matches, true)
    stays = [1, 0, 0, 0]  # there; left; found in no box; found in the box of an older slot
    want = -sum(math.log(torch.sigmoid(x if s else -x)) for x, s in zip(logits, stays, strict=True))
    assert float(pres) == pytest.approx(want, rel=1e-5)


def test_a_cell_finds_new_objects_and_learns_the_boxes_of_all_near_it() -> None:
    grid = 4
    true = labels([[(-0.7, -0.7), (0.3, 0.3), (0.04, -0.72)]] * 2, side=0.6)
    frames = [slots([(-0.7, -0.7)], [0]), slots([(-0.7, -0.7)], [0])]
    held = teaching.held(frames, teaching.match(frames, true), true)
    assert held[0].tolist() == [[False] * 3, [True, False, False]]
    logit = torch.linspace(-2, 2, 2 * grid * grid).view(1, 2, grid * grid, 1)
    mean = torch.randn(1, 2, grid * grid, 7)
    q_att = Gaussian(mean, torch.ones_like(mean))
    keep = torch.ones(1, 2, dtype=torch.bool)
    box, pres = teaching.cell_terms(Bernoulli(logit), q_att, keep, held, true)
    loss, far = 0.0, 0.0
    for t, cell in itertools.product(range(2), range(grid * grid)):
        x, at = logit[0, t, cell, 0], mean[0, t, cell]
        center = torch.tensor([2 * (cell % grid) + 1, 2 * (cell // grid) + 1]) / grid - 1
        away = [(true.xy[0, t, n] - center).abs().max().item() for n in range(3)]
        here = [n for n in range(3) if away[n] < 1 / grid]
        near = [n for n in range(3) if away[n] < min(0.5 * 0.6, 0.75 * 2 / grid)]
        new = [n for n in near + here if not held[0, t, n]]
        if any(n in here for n in new):
            loss -= teaching.MISSED * math.log(torch.sigmoid(x))
        elif not new:
            loss -= math.log(torch.sigmoid(-x))
        for n in (here or near)[:1]:
            xy = center + 2 / grid * at[3:5].tanh()
            far += naive_apart(xy, at[1:3].sigmoid(), true.xy[0, t, n], true.hw[0, t, n])
    assert float(pres) == pytest.approx(loss, rel=1e-5)
    assert float(box) == pytest.approx(far, rel=1e-5)


def test_of_two_objects_in_a_cell_the_new_one_gives_the_box() -> None:
    true = labels([[(0.3, 0.3), (0.2, 0.2)]])
    held = torch.tensor([[[True, False]]])
    z = torch.zeros(1, 1, 16, 7)
    z[..., 1:3] = torch.tensor(0.2).logit()
    z[..., 3:5] = torch.tensor(-0.05 * 4 / 2).atanh()  # from the cell's center to the second
    keep, logit = torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 1, 16, 1)
    box, _ = teaching.cell_terms(
        *(Bernoulli(logit), Gaussian(z, torch.ones_like(z))), keep, held, true
    )
    assert float(box) == pytest.approx(0, abs=1e-5)


def test_pixels_outside_of_true_boxes_are_the_backgrounds() -> None:
    true = labels([[(0.0, 0.5)]], side=0.25)
    video, behind = torch.ones(1, 1, 3, 8, 8), torch.zeros(1, 1, 3, 8, 8)
    got = teaching.explicable(video, behind, true)[0, 0, 0]
    want = torch.zeros(8, 8)
    want[5:7, 3:5] = 1  # a quarter of the side, around row 6 and column 4
    assert torch.equal(got, want)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_cut_boxes_cover_the_pixels_of_whole_boxes(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    xy, hw = 3 * torch.rand(1, 2, 3, 2, generator=generator) - 1.5, torch.rand(1, 2, 3, 2)
    ones = torch.ones(1, 2, 3)
    whole = Labels(ones > 0, ones, xy, hw)
    cut, share = whole.cut()
    assert torch.equal(teaching.inside(cut, SIZE, ones > 0), teaching.inside(whole, SIZE, ones > 0))
    assert (cut.xy.abs() + cut.hw.flip(-1) <= 1 + 1e-6).all()
    assert torch.allclose(share, cut.hw.prod(dim=-1) / whole.hw.prod(dim=-1), atol=1e-5)


def test_an_object_that_enters_is_labelled_by_its_part_in_the_frame() -> None:
    made = next(iter(WORLD.episodes(3, 64)))
    assert made.truth is not None
    got, truth = made.truth.labels(SIZE), made.truth
    assert truth.visibility is not None
    entering = got.present & ~truth.present
    assert entering.any()
    assert (got.present >= truth.present).float().mean() > 0.999
    assert (got.visibility[entering] >= truth.visibility[entering].float()).all()
    assert not got.present[truth.ids == 0].any()


@pytest.mark.parametrize("fresh", [None, Pool(4, 2)])
def test_a_world_gives_the_boxes_of_its_windows(fresh: Pool | None) -> None:
    loader = open_loader(*(WORLD,), batch=3, length=4, episodes=4, labels=True, fresh=fresh, seed=5)
    batch = loader.batch(2)
    got = batch.labels
    assert got is not None
    assert got.present.shape[:2] == (3, 4)
    plain = open_loader(WORLD, batch=3, length=4, episodes=4, fresh=fresh, seed=5).batch(2)
    assert plain.labels is None
    assert torch.equal(plain.video, batch.video)
    if fresh is not None:
        return
    made = next(iter(WORLD.episodes(WORLD.splits["train"].seed, 4)))
    assert made.truth is not None
    true = made.truth.labels(SIZE)
    episode, start = loader.windows.at(2, 4)
    for row, (e, s) in enumerate(zip(episode.tolist(), start.tolist(), strict=True)):
        assert torch.equal(batch.video[row], made.video[e, s : s + 4])
        assert torch.equal(got.xy[row], true.xy[e, s : s + 4])
        assert torch.equal(got.present[row], true.present[e, s : s + 4])


def test_unclear_boxes_teach_nothing() -> None:
    true = labels([[(-0.5, 0.0), (0.5, 0.0)]] * 2)
    open_ones = replace(
        true, present=torch.zeros_like(true.present), visibility=0 * true.visibility + UNCLEAR
    )
    frames = [slots([(-0.5, 0.0), (0.5, 0.0), (0.5, 0.05)], [0, 1, 2])] * 2
    matches = teaching.match(frames, open_ones)
    assert which(matches) == [[0, 1, 1]] * 2
    logits = torch.tensor([0.3, -0.2, 1.1])[None, None, :, None]
    terms = teaching.slot_terms(frames, Bernoulli(logits), matches, open_ones)
    assert [float(term) for term in terms] == [0, 0]
    held = torch.zeros(1, 2, 2, dtype=torch.bool)
    keep, mean = torch.ones(1, 2, dtype=torch.bool), torch.randn(1, 2, 16, 7)
    cells = Bernoulli(torch.randn(1, 2, 16, 1)), Gaussian(mean, torch.ones_like(mean)), keep, held
    whole = replace(open_ones, hw=torch.full_like(open_ones.hw, 2.0), xy=0 * open_ones.xy)
    assert [float(term) for term in teaching.cell_terms(*cells, whole)] == [0, 0]
    assert float(teaching.cell_terms(*cells, open_ones)[1]) > 0  # cells outside of the boxes count


def test_an_object_is_preferred_to_an_unclear_box_around_it() -> None:
    true = labels([[(0.0, 0.0), (0.1, 0.0)]], side=0.4)
    present = torch.tensor([[[False, True]]])
    mixed = replace(true, present=present, visibility=torch.tensor([[[UNCLEAR, 1.0]]]))
    assert which(teaching.match([slots([(0.0, 0.0)], [0])], mixed)) == [[1]]


def test_a_file_gives_the_boxes_that_it_has(tmp_path: Path) -> None:
    made = next(iter(WORLD.episodes(WORLD.splits["train"].seed, 4)))
    assert made.truth is not None
    boxes = made.truth.labels(SIZE)
    with Writer(tmp_path / "with.hdf5", "video") as writer:
        writer.append(Episodes(made.video, labels=boxes))
    with Writer(tmp_path / "later.hdf5", "video") as writer:
        writer.append(Episodes(made.video))
        assert np.array_equal(writer.video(1), made.video[1].permute(0, 2, 3, 1).numpy())
        writer.add_labels(boxes.packed().numpy())
    for name in ("with.hdf5", "later.hdf5"):
        with open_file(tmp_path / name) as file:
            back = file.read([2]).labels
            assert back is not None
            assert torch.equal(back.packed(), boxes.packed()[2:3])
        common = {"batch": 3, "length": 4, "seed": 5}
        loader = open_loader(tmp_path / name, labels=True, **common)
        got = loader.batch(2).labels
        assert got is not None
        episode, start = loader.windows.at(2, 4)
        for row, (e, s) in enumerate(zip(episode.tolist(), start.tolist(), strict=True)):
            assert torch.equal(got.hw[row], boxes.hw[e, s : s + 4])
        assert open_loader(tmp_path / name, **common).batch(2).labels is None


def test_a_file_without_boxes_cannot_teach(tmp_path: Path) -> None:
    path = tmp_path / "videos.hdf5"
    with Writer(path, "video") as writer:
        writer.append(Episodes(torch.zeros(1, 4, 3, 8, 8, dtype=torch.uint8)))
    with pytest.raises(UserError, match="label-weight"):
        open_loader(path, batch=1, length=2, labels=True)


def test_the_likelihood_does_not_move_boxes_that_labels_teach() -> None:
    true = labels([[(-0.5, 0.0), (0.5, 0.0)]])
    now = slots([(-0.5, 0.0), (0.0, 0.9), (-0.45, 0.0)], ids=[0, 1, 2])
    places, sides = now.o.xy.clone().requires_grad_(), now.o.hw.clone().requires_grad_()
    o = map_tensors(lambda x: x[:, None], replace(now.o, xy=places, hw=sides))
    shown = teaching.anchored(o, teaching.match([now], true), true)

    torch.testing.assert_close(shown.cat(), o.cat(), rtol=0, atol=0)
    moved = torch.autograd.grad((shown.xy.sum() + shown.hw.sum()), (places, sides))
    # The second is in no box, and the third in that of an older slot.
    for grad in moved:
        assert grad[0, :, 0].tolist() == [0.0, 1.0, 1.0]
