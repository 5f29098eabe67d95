"""Discovery compared with A.3, one cell at a time."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tiny import SIZES, generator, objects, slots, video
from torch import Tensor

from gswm.core.doubt import DOUBTFUL, SURE
from gswm.core.records import map_tensors
from gswm.core.shapes import NOBODY
from gswm.models.gswm.discovery import (
    SAME,
    Discovery,
    DiscoveryConfig,
    DiscoveryNoise,
    confirm,
    correct,
    reappear,
    revive,
)
from gswm.models.objects import Attributes, LSTMState, Objects

SEEDS = st.integers(0, 2**32 - 1)
GRID = 4
CELLS = GRID**2
CFG = DiscoveryConfig(grid=GRID, cond_sigma=0.2, tau=0.7)
KEEP = torch.tensor([True, True])


def discovery(cfg: DiscoveryConfig = CFG, *, background: bool = False) -> Discovery:
    torch.manual_seed(0)
    return Discovery(cfg, SIZES, 64, background=background)


def noise(seed: int = 5) -> DiscoveryNoise:
    g = generator(seed)
    return DiscoveryNoise(
        *(torch.randn(2, CELLS, n, generator=g) for n in (SIZES.state, SIZES.z_att, 1))
    )


def e_img(seed: int = 6) -> Tensor:
    return torch.randn(2, CELLS, SIZES.encoding, generator=generator(seed))


def h_0() -> tuple[LSTMState, LSTMState]:
    g = generator(7)
    h = [torch.randn(2, CELLS, SIZES.hidden, generator=g) for _ in range(4)]
    return LSTMState(*h[:2]), LSTMState(*h[2:])


def cell_center(i: int, j: int) -> list[float]:
    """c of row i and column j, both from 0: x by the column, y by the row."""
    return [2 * (j + 0.5) / GRID - 1, 2 * (i + 0.5) / GRID - 1]


def naive_cond(net: Discovery, b: int, i: int, j: int, propagated) -> Tensor:
    """e_cond of a cell: a Gaussian of the distance, times presence, times what MLP_cond says."""
    total = torch.zeros(SIZES.encoding)
    x, y = cell_center(i, j)
    for k in range(propagated.id.shape[1]):
        px, py = propagated.o.xy[b, k].tolist()
        sigma = net.cfg.cond_sigma
        near = math.exp(-((px - x) ** 2 + (py - y) ** 2) / (2 * sigma**2))
        near /= 2 * math.pi * sigma**2
        said = net.mlp_cond(torch.cat([propagated.o.cat()[b, k], propagated.z_state[b, k]]))
        total = total + near * propagated.o.pres[b, k] * said
    return total


@torch.no_grad()
def test_discovery_follows_the_paper() -> None:
    net, known, eps, image, start = discovery(), objects(), noise(), e_img(), h_0()
    got, evidence = net.infer(known, image, KEEP, eps, start)
    att = SIZES.z_att
    for b in range(2):
        for i in range(GRID):
            for j in range(GRID):
                cell = i * GRID + j
                e_cond = naive_cond(net, b, i, j, known)
                params = net.mlp_disc(torch.cat([image[b, cell], e_cond]))
                z_pres = ((params[:1] + eps.pres[b, cell]) / CFG.tau).sigmoid()
                mean, std = params[1 : 1 + 2 * att].chunk(2)
                z = mean + (F.softplus(std) + 1e-4) * eps.att[b, cell]
                s_mean, s_std = params[1 + 2 * att :].chunk(2)
                z_state = s_mean + (F.softplus(s_std) + 1e-4) * eps.state[b, cell]
                hw = z[1:3].sigmoid()
                xy = torch.tensor(cell_center(i, j)) + 2 * torch.tanh(z[3:5]) / GRID

                close = {"atol": 1e-4, "rtol": 1e-3}
                torch.testing.assert_close(evidence.weight[b, cell], z_pres, **close)
                torch.testing.assert_close(evidence.pres.logit[b, cell], params[:1], **close)
                torch.testing.assert_close(evidence.q_att.mean[b, cell], mean, **close)
                torch.testing.assert_close(evidence.q_state.mean[b, cell], s_mean, **close)
                torch.testing.assert_close(got.o.depth[b, cell], z[:1], **close)
                torch.testing.assert_close(got.o.hw[b, cell], hw, **close)
                torch.testing.assert_close(got.o.xy[b, cell], xy, **close)
                torch.testing.assert_close(got.o.what[b, cell], z[5:], **close)
                torch.testing.assert_close(got.z_state[b, cell], z_state, **close)
    assert torch.equal(got.h_prior.h, start[0].h)
    assert torch.equal(got.h_post.c, start[1].c)
    assert (got.id == NOBODY).all()


def common(a: list[float], b: list[float]) -> float:
    """The area of the intersection of two boxes (x, y, h, w)."""
    shared = 1.0
    for at, size in ((0, 3), (1, 2)):
        low = max(a[at] - a[size], b[at] - b[size])
        shared *= max(0.0, min(a[at] + a[size], b[at] + b[size]) - low)
    return shared


def iou(a: list[float], b: list[float]) -> float:
    shared = common(a, b)
    return shared / (4 * a[2] * a[3] + 4 * b[2] * b[3] - shared)


def naive_accept(
    known: list[list[float]],
    known_pres: list[float],
    cells: list[list[float]],
    pres: list[float],
    i: int,
) -> bool:
    """Whether cell i is new: on no object that is there, and on no cell that is more so."""
    for box, there in zip(known, known_pres, strict=True):
        if there > 0.5 and iou(cells[i], box) > CFG.rejection:
            return False
    for j, box in enumerate(cells):
        ahead = pres[j] > pres[i] or (pres[j] == pres[i] and j < i)
        if ahead and pres[j] > 0.5 and iou(cells[i], box) > CFG.rival_rejection:
            return False
    return True


@given(SEEDS)
def test_rejection_follows_its_rule(seed: int) -> None:
    """Boxes near few places, so that many overlap; presences on few values, so that some tie."""
    g, net = generator(seed), discovery()
    places = torch.rand(2, 3, 2, generator=g)
    index = torch.randint(0, 3, (2, 10), generator=g)
    at = places.gather(1, index[..., None].expand(-1, -1, 2))
    xy = at + 0.06 * torch.randn(2, 10, 2, generator=g)
    hw = torch.full((2, 10, 2), 0.3)
    pres = torch.randint(0, 5, (2, 10, 1), generator=g) / 4
    o = replace(
        objects().o,
        xy=xy[:, :3] + 0.01,
        hw=hw[:, :3],
        pres=torch.randint(0, 3, (2, 3, 1), generator=g) / 2,
    )
    got = net.accept(o, xy, hw, pres)
    for b in range(2):
        known = torch.cat([o.xy[b], o.hw[b]], dim=-1).tolist()
        cells = torch.cat([xy[b], hw[b]], dim=-1).tolist()
        there = (o.pres[b, :, 0].tolist(), pres[b, :, 0].tolist())
        for i in range(10):
            assert bool(got[b, i]) == naive_accept(known, there[0], cells, there[1], i)


@given(SEEDS)
def test_parts_of_known_objects_and_of_more_present_cells_can_be_rejected(seed: int) -> None:
    g, least = generator(seed), 0.7
    net = discovery(replace(CFG, inside=least, rejection=1.0, rival_rejection=1.0))
    xy = 0.2 * torch.rand(1, 8, 2, generator=g)
    hw = 0.05 + 0.25 * torch.rand(1, 8, 2, generator=g)
    pres = torch.rand(1, 8, 1, generator=g)
    o = replace(objects(1).o, xy=0.1 + 0 * xy[:, :3], hw=hw[:, :3], pres=pres[:, :3])
    got = net.accept(o, xy, hw, pres)
    known, cells = (torch.cat(each, dim=-1)[0].tolist() for each in ((o.xy, o.hw), (xy, hw)))
    for i, cell in enumerate(cells):
        boxes = [*zip(known, o.pres[0, :, 0].tolist(), strict=True)]
        boxes += [(cells[j], float(pres[0, j])) for j in range(8) if pres[0, j] > pres[0, i]]
        area = 4 * cell[2] * cell[3]
        part = any(there > 0.5 and common(cell, box) > least * area for box, there in boxes)
        assert bool(got[0, i]) == (not part)


@torch.no_grad()
def test_what_is_rejected_is_not_there_and_nothing_else_of_it_changes() -> None:
    net, eps = discovery(), noise()
    nobody = replace(objects(), o=replace(objects().o, pres=torch.zeros(2, 3, 1)))
    found, _ = net.infer(nobody, e_img(), KEEP, eps, h_0())
    o = found.o
    on_top = replace(
        nobody, o=replace(nobody.o, xy=o.xy[:, :3], hw=o.hw[:, :3], pres=torch.ones(2, 3, 1))
    )
    silent = discovery()
    for layer in (net.mlp_cond[-1], silent.mlp_cond[-1]):
        layer.weight.zero_()
        layer.bias.zero_()
    again, evidence = net.infer(on_top, e_img(), KEEP, eps, h_0())
    free, _ = silent.infer(nobody, e_img(), KEEP, eps, h_0())
    assert again.o.pres[:, :3].abs().max() == 0
    assert evidence.weight[:, :3].min() > 0
    torch.testing.assert_close(again.o.cat()[..., 1:], free.o.cat()[..., 1:])


@torch.no_grad()
def test_cells_can_be_left_to_overlap() -> None:
    net = discovery(replace(CFG, rivals=False))
    xy, hw, pres = torch.zeros(1, 4, 2), torch.full((1, 4, 2), 0.3), torch.ones(1, 4, 1)
    far = replace(objects(1).o, xy=torch.full((1, 3, 2), 5.0))
    assert net.accept(far, xy, hw, pres).sum() == 4
    assert discovery().accept(far, xy, hw, pres)[0, :, 0].tolist() == [1, 0, 0, 0]


@torch.no_grad()
def test_absent_objects_leave_no_trace_in_e_cond() -> None:
    net, known = discovery(), objects(2, 5)
    pres = known.o.pres.clone()
    pres[:, 3:] = 0
    known = replace(known, o=replace(known.o, pres=pres))
    center = torch.rand(7, 2, generator=generator())
    few = net.condition(slots(known, slice(0, 3)), center)
    torch.testing.assert_close(net.condition(known, center), few)
    order = [4, 2, 0, 1, 3]
    torch.testing.assert_close(
        net.condition(slots(known, order), center), few, atol=1e-5, rtol=1e-4
    )


@torch.no_grad()
def test_no_objects_are_found_where_discovery_is_left_out() -> None:
    net = discovery()
    keep = torch.tensor([True, False])
    got, evidence = net.infer(objects(), e_img(), keep, noise(), h_0())
    assert got.o.pres[1].abs().max() == 0
    assert evidence.weight[1].abs().max() == 0
    assert got.o.pres[0].max() > 0


@torch.no_grad()
def test_batch_elements_do_not_meet() -> None:
    net, args = discovery(), (objects(), e_img(), KEEP, noise(), h_0()[0], h_0()[1])
    both, _ = net.infer(*args[:4], args[4:])
    known, image, keep, eps, *start = (
        map_tensors(lambda x: x[1:], a) if not isinstance(a, Tensor) else a[1:] for a in args
    )
    alone, _ = net.infer(known, image, keep, eps, tuple(start))
    torch.testing.assert_close(alone.flat(), both.flat()[1:], atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(("grid", "size"), [(4, 64), (8, 64), (1, 64), (16, 128), (4, 128)])
def test_every_cell_has_an_encoding_in_its_place(grid: int, size: int) -> None:
    """A bright spot in a cell changes that cell's encoding more than that of any far from it."""
    torch.manual_seed(0)
    net = Discovery(DiscoveryConfig(grid=grid), SIZES, size, background=False)
    frame = torch.zeros(1, 1, 3, size, size)
    row, column = grid - 1, grid // 2
    cell = size // grid
    spot = frame.clone()
    middle = slice(cell // 4, cell - cell // 4)
    area = spot[..., row * cell :, column * cell : (column + 1) * cell]
    area[..., middle, middle] = 1
    keep = torch.ones(1, 1, dtype=torch.bool)
    a, b = (net.look(x, frame, keep, 1) for x in (frame, spot))
    assert a.shape == (1, 1, grid**2, SIZES.encoding)
    change = (a - b)[0, 0].norm(dim=-1).reshape(grid, grid)
    at = int(change.argmax())
    assert max(abs(at // grid - row), abs(at % grid - column)) <= 1


@torch.no_grad()
def test_the_difference_from_the_background_is_seen() -> None:
    net, frames, mu_bg = discovery(background=True), video(1, 2), video(1, 2, seed=1)
    got = net.look(frames, mu_bg, torch.ones(1, 2, dtype=torch.bool), 2)
    for t in range(2):
        x = torch.cat([frames[:, t], frames[:, t] - mu_bg[:, t]], dim=1)
        want = net.conv_disc(x)[0].flatten(1).T
        torch.testing.assert_close(got[0, t], want, atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_only_frames_with_discovery_are_looked_at() -> None:
    """Each encoding belongs to its own frame."""
    net, frames = discovery(), video(2, 3)
    keep = torch.tensor([[True, False, True], [True, False, False]])
    got = net.look(frames, frames, keep, 3)
    every = net.look(frames, frames, torch.ones(2, 3, dtype=torch.bool), 6)
    torch.testing.assert_close(got, every * keep[:, :, None, None], atol=1e-4, rtol=1e-3)


def test_the_prior_is_tight_on_sizes_alone() -> None:
    p = discovery().prior_att(torch.tensor(-1.5))
    assert p.mean.tolist() == [0, -1.5, -1.5, 0, 0, *[0] * SIZES.what]
    torch.testing.assert_close(p.std, torch.tensor([1, 0.1, 0.1, 1, 1, *[1] * SIZES.what]))


def boxes(o: Attributes, b: int) -> list[list[float]]:
    return torch.cat([o.xy[b], o.hw[b]], dim=-1).tolist()


@given(SEEDS)
def test_faded_tracks_continue_where_they_are_found_again(seed: int) -> None:
    """Boxes near few places; presences of exactly one half too, which has faded."""
    g = generator(seed)
    known, found = objects(2, 4, seed), objects(2, 6, seed + 1)
    at = torch.rand(2, 2, 2, generator=g)

    def placed(like: Objects, num: int) -> Objects:
        near = at.gather(1, torch.randint(0, 2, (2, num, 1), generator=g).expand(-1, -1, 2))
        o = replace(
            like.o,
            xy=near + 0.1 * torch.randn(2, num, 2, generator=g),
            hw=torch.full((2, num, 2), 0.3),
            pres=torch.randint(0, 5, (2, num, 1), generator=g) / 4,
        )
        return replace(like, o=o, id=torch.randint(NOBODY, 3, (2, num), generator=g))

    known, found = placed(known, 4), placed(found, 6)
    now, rest = revive(known, found, 0.2)
    for b in range(2):
        ours, theirs = boxes(known.o, b), boxes(found.o, b)
        pres = known.o.pres[b, :, 0].tolist(), found.o.pres[b, :, 0].tolist()
        may = [
            [
                iou(theirs[i], ours[k])
                if pres[1][i] > 0.5 and pres[0][k] <= 0.5 and known.id[b, k] != NOBODY
                else 0.0
                for k in range(4)
            ]
            for i in range(6)
        ]
        taken = set()
        for k in range(4):
            column = [row[k] for row in may]
            i = max(range(6), key=column.__getitem__)
            if column[i] > 0.2 and column[i] >= max(may[i]):
                taken.add(i)
                assert boxes(now.o, b)[k] == theirs[i]
                assert now.o.pres[b, k, 0] == pres[1][i]
            else:
                assert boxes(now.o, b)[k] == ours[k]
                assert now.o.pres[b, k, 0] == pres[0][k]
        for i in range(6):
            assert rest.o.pres[b, i, 0] == (0 if i in taken else pres[1][i])


@given(SEEDS)
def test_discovered_objects_continue_hidden_tracks_as_by_loops(seed: int) -> None:
    g = generator(seed)
    places = 0.5 * torch.randint(-1, 2, (2, 10, 2), generator=g)
    places = places + 0.01 * torch.randn(2, 10, 2, generator=g)

    def placed(like: Objects, xy: Tensor) -> Objects:
        pres = torch.randint(0, 5, (2, xy.shape[1], 1), generator=g) / 4
        o = replace(like.o, xy=xy, hw=torch.full_like(xy, 0.3), pres=pres)
        return replace(like, o=o, id=torch.randint(NOBODY, 3, xy.shape[:2], generator=g))

    known = placed(objects(2, 4, seed), places[:, :4])
    found = placed(objects(2, 6, seed + 1), places[:, 4:])
    now, rest = reappear(known, found, 0.5)
    for b in range(2):
        ours, there = boxes(known.o, b), known.o.pres[b, :, 0] > 0.5
        there &= known.id[b] != NOBODY
        depth = known.o.depth[b, :, 0]
        hidden = [
            k
            for k in range(4)
            if there[k]
            and any(
                there[j] and depth[j] > depth[k] and iou(ours[j], ours[k]) > 0.5 for j in range(4)
            )
        ]
        new = [i for i in range(6) if found.o.pres[b, i, 0] > 0.5]

        def away(i: int, k: int, b: int = b) -> float:
            return float((found.o.xy[b, i] - known.o.xy[b, k]).norm())

        taken = {}
        for k in hidden if new else []:
            i = min(new, key=lambda i: away(i, k))
            if k == min(hidden, key=lambda k: away(i, k)):
                taken[k] = i
        for k in range(4):
            source = found.flat()[b, taken[k]] if k in taken else known.flat()[b, k]
            assert torch.equal(now.flat()[b, k], source)
        for i in range(6):
            expected = 0 if i in taken.values() else found.o.pres[b, i, 0]
            assert rest.o.pres[b, i, 0] == expected
    assert torch.equal(now.id, known.id)


def test_a_revived_track_keeps_its_identity_and_history() -> None:
    known = objects()
    known = replace(known, o=replace(known.o, pres=torch.full((2, 3, 1), 0.4)))
    found = replace(known, o=replace(known.o, pres=torch.ones(2, 3, 1)))
    now, rest = revive(known, found, 0.5)
    assert (now.o.pres == 1).all()
    assert (rest.o.pres == 0).all()
    same = ("id", "z_state", "h_prior", "h_post")
    assert all(getattr(now, name) is getattr(known, name) for name in same)
    assert now.o.what is known.o.what


@given(SEEDS)
def test_boxes_move_towards_those_of_their_cells_as_by_loops(seed: int) -> None:
    g, grid = generator(seed), 2
    known, found = objects(2, 3, seed), objects(2, grid**2, seed + 1)

    def placed(like: Objects, ids: bool) -> Objects:
        shape = like.o.xy.shape[:2]
        xy = 0.4 * torch.rand(*shape, 2, generator=g) - 0.2
        hw = 0.3 + 0.3 * torch.rand(*shape, 2, generator=g)
        pres = torch.rand(*shape, 1, generator=g)
        number = torch.arange(shape[1]).expand(shape)
        empty = torch.rand(shape, generator=g) < 0.3
        return replace(
            like,
            o=replace(like.o, xy=xy, hw=hw, pres=pres),
            id=torch.where(empty, NOBODY, number) if ids else torch.full(shape, NOBODY),
        )

    known, found = placed(known, ids=True), placed(found, ids=False)
    keep = torch.tensor([True, False])
    got = correct(known, found, keep, 0.25)
    assert torch.equal(got.o.cat()[1], known.o.cat()[1])
    ours, theirs = boxes(known.o, 0), boxes(found.o, 0)
    there = [k for k in range(3) if known.o.pres[0, k] > 0.5 and known.id[0, k] != NOBODY]
    for k in range(3):
        x, y = known.o.xy[0, k].tolist()
        cell = grid * (y >= 0) + (x >= 0)
        best = max((iou(ours[j], theirs[cell]) for j in there), default=0.0)
        own = iou(ours[k], theirs[cell])
        share = 0.25 if k in there and own > SAME and own >= best else 0.0
        for name in ("xy", "hw"):
            before, cells = getattr(known.o, name)[0, k], getattr(found.o, name)[0, cell]
            want = before + share * (cells - before)
            torch.testing.assert_close(getattr(got.o, name)[0, k], want)
    assert torch.equal(got.o.pres, known.o.pres)
    assert torch.equal(got.id, known.id)


@torch.no_grad()
def test_inference_rejects_cells_that_are_not_certain() -> None:
    known, eps = objects(2, 3), noise()
    plain, evidence = discovery().infer(known, e_img(), KEEP, eps, h_0())
    probability = evidence.pres.logit.sigmoid()
    least = float(probability.median())
    unsure = discovery(replace(CFG, certainty=least, rivals=False, rejection=1.0))
    sure = probability >= least
    got, weighed = unsure.infer(known, e_img(), KEEP, eps, h_0())
    assert sure.any()
    assert not sure.all()
    assert torch.equal(weighed.weight, torch.where(sure, evidence.weight, 0.0))
    assert torch.equal(got.o.pres, weighed.weight)
    with torch.enable_grad():
        trained, _ = discovery(replace(CFG, certainty=least)).infer(
            known, e_img(), KEEP, eps, h_0()
        )
    assert torch.equal(trained.o.pres, plain.o.pres)


@torch.no_grad()
def test_inference_follows_cells_that_it_doubts() -> None:
    known, eps = objects(2, 3), noise()
    known = replace(known, o=replace(known.o, pres=torch.zeros(2, 3, 1)))
    plain, evidence = discovery().infer(known, e_img(), KEEP, eps, h_0())
    probability = evidence.pres.logit.sigmoid()
    low, high = (float(probability.quantile(q)) for q in (0.3, 0.6))
    cfg = replace(CFG, certainty=high, doubt=low, rivals=False, rejection=1.0)
    got, weighed = discovery(cfg).infer(known, e_img(), KEEP, eps, h_0())
    for p, drawn, pres in zip(
        probability.flatten(), evidence.weight.flatten(), weighed.weight.flatten(), strict=True
    ):
        if p >= high:
            expected = max(float(drawn), SURE) if drawn > 0.5 else 0.0
        else:
            expected = DOUBTFUL if p >= low else 0.0
        assert float(pres) == pytest.approx(expected)
    assert torch.equal(got.o.pres, weighed.weight)
    none, _ = discovery(cfg).infer(known, e_img(), torch.tensor([False, True]), eps, h_0())
    assert (none.o.pres[0] == 0).all()
    with torch.enable_grad():
        trained, _ = discovery(cfg).infer(known, e_img(), KEEP, eps, h_0())
    assert torch.equal(trained.o.pres, plain.o.pres)


@torch.no_grad()
def test_discovery_does_not_see_doubtful_objects() -> None:
    known, center = objects(2, 3), torch.zeros(1, 2)
    pres = torch.tensor([0.7, DOUBTFUL, 0.9])[:, None].expand(2, 3, 1)
    known = replace(known, o=replace(known.o, pres=pres))
    plain, hesitant = discovery(), discovery(replace(CFG, certainty=0.9, doubt=0.1))
    seen = hesitant.condition(known, center)
    # The presence of an object is also an input of MLP_cond, so only the weight may differ.
    said = plain.mlp_cond(torch.cat([known.o.cat(), known.z_state], dim=-1))[:, 2]
    x, y = (known.o.xy[:, 2] ** 2).unbind(-1)
    near = torch.exp(-(x + y) / (2 * CFG.cond_sigma**2)) / (2 * math.pi * CFG.cond_sigma**2)
    torch.testing.assert_close(seen[:, 0], near[:, None] * 0.9 * said)
    assert not torch.allclose(seen, plain.condition(known, center))


@given(SEEDS)
def test_certain_cells_confirm_doubtful_objects_as_by_loops(seed: int) -> None:
    g = generator(seed)
    known, found = objects(2, 4, seed), objects(2, 6, seed + 1)
    known, found = (replace(each, o=replace(each.o, xy=each.o.xy * 0.2)) for each in (known, found))
    pres = torch.tensor([0.3, 0.6, DOUBTFUL, 0.9])[torch.randint(4, (2, 4, 1), generator=g)]
    known = replace(known, o=replace(known.o, pres=pres))
    weight = torch.tensor([0.0, DOUBTFUL, SURE])[torch.randint(3, (2, 6, 1), generator=g)]
    got = confirm(known, found, weight)
    for b in range(len(pres)):
        ours, theirs = boxes(known.o, b), boxes(found.o, b)
        for k, own in enumerate(ours):
            before = float(pres[b, k])
            sure = any(
                weight[b, i] > DOUBTFUL and iou(own, box) > SAME for i, box in enumerate(theirs)
            )
            expected = 1.0 if sure and 0.5 < before <= DOUBTFUL else before
            assert float(got.o.pres[b, k]) == pytest.approx(expected)
    assert got.id is known.id
