"""SCALOR's parts compared with the equations, in loops over objects and pixels."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator
from tiny_scalor import SIZES, WHAT, build, lively, noise, objects, sight
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.geometry import crop, paste
from gswm.core.networks import ConvLSTM, in_parts
from gswm.core.records import map_tensors
from gswm.core.shapes import NOBODY
from gswm.models.objects import Attributes
from gswm.models.scalor.discovery import DiscoveryEvidence
from gswm.models.scalor.networks import glimpse_decoder, glimpse_encoder
from gswm.models.scalor.objective import discovery_terms, propagation_terms
from gswm.models.scalor.objects import BoxConfig, ScalorObjects, admitted, carried, joined
from gswm.models.scalor.propagation import PropagationEvidence
from gswm.models.scalor.rendering import compose
from gswm.models.scalor.schedule import ScalorSchedule, ScalorStage

seeds = st.integers(0, 2**20)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


# -- boxes


@given(seeds)
def test_a_box_is_its_anchor_changed_by_a_bounded_amount(seed: int) -> None:
    boxes = BoxConfig(size=0.3, size_range=0.1, ratio=1.5, ratio_range=0.4, step=0.15)
    g = generator(seed)
    where = 2 * torch.randn(2, 3, 4, generator=g)
    xy, center = 2.2 * torch.rand(2, 3, 2, generator=g) - 1.1, torch.rand(3, 2, generator=g)
    hw, found, moved = boxes.hw(where), boxes.found(where, center, 4), boxes.moved(xy, where)
    for b in range(2):
        for k in range(3):
            w = [math.tanh(v) for v in where[b, k].tolist()]
            s, r = 0.3 + 0.1 * w[0], 1.5 + 0.4 * w[1]
            assert hw[b, k].tolist() == pytest.approx(
                [s * math.sqrt(r), s / math.sqrt(r)], abs=1e-5
            )
            cell = [float(center[k, i]) + w[2 + i] * 2 / 4 for i in range(2)]
            assert found[b, k].tolist() == pytest.approx(cell, abs=1e-5)
            step = [float(xy[b, k, i]) + 0.15 * w[2 + i] for i in range(2)]
            want = [min(max(v, -1.05), 1.05) for v in step]
            assert moved[b, k].tolist() == pytest.approx(want, abs=1e-5)


# -- networks


@torch.no_grad()
def test_a_conv_lstm_has_its_gates_and_peepholes() -> None:
    torch.manual_seed(0)
    num, grid = 2, 3
    layer = ConvLSTM(num, grid)
    layer.peephole.normal_()
    x = torch.randn(1, 3, num, grid, grid)
    out = layer(x)

    def conv(weight: Tensor, image: Tensor, o: int, i: int, j: int) -> float:
        total = 0.0
        for c in range(num):
            for di in range(3):
                for dj in range(3):
                    y, z = i + di - 1, j + dj - 1
                    if 0 <= y < grid and 0 <= z < grid:
                        total += float(weight[o, c, di, dj]) * float(image[c, y, z])
        return total

    h, c = torch.zeros(num, grid, grid), torch.zeros(num, grid, grid)
    for t in range(3):
        new_h, new_c = torch.zeros_like(h), torch.zeros_like(c)
        for n in range(num):
            for i in range(grid):
                for j in range(grid):
                    gates = [
                        conv(layer.conv_x.weight, x[0, t], q * num + n, i, j)
                        + float(layer.conv_x.bias[q * num + n])
                        + conv(layer.conv_h.weight, h, q * num + n, i, j)
                        for q in range(4)
                    ]
                    w_ci, w_cf, w_co = (float(w[n, i, j]) for w in layer.peephole)
                    was = float(c[n, i, j])
                    now = sigmoid(gates[1] + w_cf * was) * was
                    now += sigmoid(gates[0] + w_ci * was) * math.tanh(gates[2])
                    new_c[n, i, j] = now
                    new_h[n, i, j] = sigmoid(gates[3] + w_co * now) * math.tanh(now)
        h, c = new_h, new_c
        torch.testing.assert_close(out[0, t], h, atol=1e-5, rtol=1e-4)


def test_a_glimpse_is_32_pixels_high_and_wide() -> None:
    assert glimpse_decoder(5)(torch.zeros(2, 5)).shape == (2, 4, 32, 32)
    assert glimpse_encoder(7)(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


@pytest.mark.parametrize("size", [2, 7, 8])
def test_parts_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    net, x, seen = torch.nn.Linear(3, 2), torch.randn(7, 3), []

    def counted(part: Tensor) -> Tensor:
        seen.append(len(part))
        return net(part)

    monkeypatch.setattr("gswm.core.networks.CACHED", size)
    parts, whole = in_parts(counted, x), net(x)
    torch.testing.assert_close(parts, whole)
    for ours, theirs in zip(*(grad(y, net) for y in (parts, whole)), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert seen == ([2, 2, 2, 1] if size == 2 else [7])


def grad(y: Tensor, net: torch.nn.Module) -> tuple[Tensor, ...]:
    """Gradients of a sum of squares with respect to the weights."""
    return torch.autograd.grad(y.square().sum(), list(net.parameters()))


# -- rendering


@given(seeds)
def test_layers_are_composed_as_the_paper_says(seed: int) -> None:
    g = generator(seed)
    y, alpha = torch.rand(1, 3, 3, 2, 2, generator=g), torch.rand(1, 3, 1, 2, 2, generator=g)
    alpha[:, :, :, 0, 0] = 0
    depth = torch.randn(1, 3, 1, generator=g)
    mu_fg, covered = compose(y, alpha, depth)
    for i in range(2):
        for j in range(2):
            a = [float(alpha[0, k, 0, i, j]) for k in range(3)]
            w = [a[k] * sigmoid(float(depth[0, k, 0])) for k in range(3)]
            for c in range(3):
                total = sum(w[k] * float(y[0, k, c, i, j]) for k in range(3))
                want = total / sum(w) if sum(w) else 0.0
                assert float(mu_fg[0, c, i, j]) == pytest.approx(want, abs=1e-5)
            assert float(covered[0, 0, i, j]) == pytest.approx(sum(a), abs=1e-6)


def test_a_mask_is_at_most_1_and_still_passes_a_gradient() -> None:
    """Two fully present objects cover the same pixels."""
    model, o = build(), objects(1, 2).o
    with torch.no_grad():
        model.appearance.deconv_what[0].bias[48:] = 20
    o.hw[:], o.xy[:] = 1, 0
    pres = torch.ones(1, 2, 1, requires_grad=True)
    alpha = model.appearance(replace(o, pres=pres)).alpha
    assert torch.allclose(alpha, torch.ones_like(alpha))
    alpha.mean().backward()
    assert pres.grad is not None
    assert pres.grad.flatten().tolist() == pytest.approx([1, 1], rel=0.05)


@given(seeds)
def test_an_absent_object_leaves_no_trace(seed: int) -> None:
    model, o = build(), objects(seed=seed).o
    o.pres[:, 1] = 0
    without = map_tensors(lambda v: v[:, [0, 2]], o)
    a, b = model.appearance(o), model.appearance(without)
    torch.testing.assert_close(a.mu_fg, b.mu_fg)
    torch.testing.assert_close(a.alpha, b.alpha)


# -- propagation


def mlp(net: torch.nn.Module, *parts: Tensor) -> Tensor:
    return net(torch.cat(parts)[None])[0]


@torch.no_grad()
def test_the_posterior_follows_its_equations_object_by_object() -> None:
    model, prev, seen, drawn = build(), objects(), sight(), noise()
    net, boxes = model.propagation, model.cfg.boxes
    got, evidence = net.infer(prev, seen, model.appearance, drawn)
    for b in range(2):
        for k in range(3):
            o = SimpleNamespace(**{n: v[b, k] for n, v in vars(prev.o).items()})
            one = map_tensors(lambda v, b=b, k=k: v[b : b + 1, k : k + 1], prev.o)
            size = torch.full((1, 1, 2), 0.5)
            around = crop(seen.features[b : b + 1], one.xy, size, 2)[0]
            e = net.attend(around)[0]
            bias, where = prev.bias[b, k], torch.cat([o.hw, o.xy])
            x = mlp(net.linear_post, where, o.pres, o.what, bias, e)
            h = net.rnn_post(x[None], prev.h_post[b, k][None])[0]
            mean, std = mlp(net.mlp_bias, h, o.what, where, bias, e).split(4)
            std = torch.tensor([softplus(float(s) - 2) + 1e-4 for s in std])
            new = mean + std * drawn.where[b, k]
            hw, xy = boxes.hw(new[None, None]), boxes.moved(one.xy, new[None, None])
            glimpse = crop(seen.frame[b : b + 1], xy, hw, 32)[0]
            m_seen, s_seen = model.appearance.conv_what(glimpse)[0].split(WHAT)
            m_kept, s_kept = mlp(net.mlp_what, h).split(WHAT)
            forget, take = (sigmoid(float(v)) for v in mlp(net.mlp_gate, h, e))
            what = torch.zeros(WHAT)
            for n in range(WHAT):
                s = take * (softplus(float(s_seen[n])) + 1e-4)
                s = softplus(s + forget * (softplus(float(s_kept[n])) + 1e-4))
                m = take * float(m_seen[n]) + forget * float(m_kept[n])
                what[n] = m + s * float(drawn.what[b, k, n])
            m, s = (float(v) for v in mlp(net.mlp_depth, h, what, e))
            depth = m + (softplus(s) + 1e-4) * float(drawn.depth[b, k, 0])
            u = float(mlp(net.mlp_pres, h, hw[0, 0], xy[0, 0], new, what))
            logit = 8.8 * math.tanh(u + 2)
            pres = sigmoid((logit + float(drawn.pres[b, k, 0])) / 0.7)
            assert float(evidence.pres.logit[b, k, 0]) == pytest.approx(logit, rel=1e-4)
            absence = float(prev.absence[b, k, 0]) + 1 - pres
            assert float(got.absence[b, k, 0]) == pytest.approx(absence, abs=1e-4)
            want = [pres * (absence < 0.6), depth]
            assert [float(got.o.pres[b, k]), float(got.o.depth[b, k])] == pytest.approx(
                want, abs=1e-4
            )
            torch.testing.assert_close(got.bias[b, k], new, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got.o.what[b, k], what, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got.o.xy[b, k], xy[0, 0], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got.h_post[b, k], h, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_the_prior_is_an_lstm_of_the_objects_own_past() -> None:
    model, prev, drawn = build(), objects(), noise()
    net = model.propagation
    got = net.imagine(prev, drawn)
    for b in range(2):
        for k in range(3):
            o = SimpleNamespace(**{n: v[b, k] for n, v in vars(prev.o).items()})
            told = (o.hw, o.xy, o.pres, o.what, prev.bias[b, k], o.depth)
            state = (prev.h_prior.h[b, k][None], prev.h_prior.c[b, k][None])
            h, _ = net.rnn_prior(mlp(net.linear_prior, *told)[None], state)
            params = net.head_prior(h)[0]
            mean, std = params[1:].split(5 + WHAT)
            eps = torch.cat([drawn.where[b, k], drawn.depth[b, k], drawn.what[b, k]])
            z = torch.tensor([
                float(m) + (softplus(float(s)) + 1e-4) * float(n)
                for m, s, n in zip(mean, std, eps, strict=True)
            ])  # fmt: skip
            torch.testing.assert_close(got.bias[b, k], z[:4], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got.o.depth[b, k], z[4:5], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got.o.what[b, k], z[5:], atol=1e-5, rtol=1e-4)
            logit = float(net.prior(h)[1].logit)
            assert logit == pytest.approx(float(params[0]) + 5, abs=1e-5)
    assert torch.equal(got.o.pres, prev.o.pres)


@torch.no_grad()
def test_an_object_ends_when_it_has_lacked_too_much_of_its_presence() -> None:
    """Not at one low value: at the sum of all that was lacking."""
    model, prev, seen = build(), objects(1, 1), sight(1)
    prev.absence[:] = 0
    last = model.propagation.mlp_pres[-1]
    last.weight.zero_()
    last.bias.fill_(math.atanh(math.log(0.75 / 0.25) * 0.7 / 8.8) - 2)
    still = map_tensors(torch.zeros_like, noise(1, 1))
    alive = []
    for t in range(4):
        prev, evidence = model.propagation.infer(prev, seen, model.appearance, still)
        alive.append(int(prev.id[0, 0]))
        gone = t >= 2
        assert float(prev.o.pres[0, 0, 0]) == pytest.approx(0 if gone else 0.75, abs=1e-4)
        assert float(evidence.weight[0, 0, 0]) == float(prev.o.pres[0, 0, 0])
        assert float(evidence.held[0, 0, 0]) == (0 if t == 3 else 1)
    assert alive == [0, 0, NOBODY, NOBODY]


# -- discovery


@given(seeds)
def test_a_proposal_is_rejected_for_what_is_explained_already(seed: int) -> None:
    model, g = build(), generator(seed)
    masks = (
        torch.rand(1, 5, 1, 4, 4, generator=g)
        * torch.tensor([1, 1, 1, 0.2, 0.5])[:, None, None, None]
    )
    explained = torch.rand(1, 1, 4, 4, generator=g) * (torch.rand(1, 1, 4, 4, generator=g) < 0.4)
    pres = torch.rand(1, 5, 1, generator=g).mul(4).round().div(4)
    masks[0, 4] = masks[0, 0]
    got = model.discovery.rejected(masks, explained, pres)
    of = [
        {(i, j) for i in range(4) for j in range(4) if float(masks[0, k, 0, i, j]) > 0.3}
        for k in range(5)
    ]
    known = {(i, j) for i in range(4) for j in range(4) if float(explained[0, 0, i, j]) > 0.1}
    p = pres[0, :, 0].tolist()
    for k in range(5):
        stronger = [j for j in range(5) if p[j] > 0.5 and (p[j], -j) > (p[k], -k)]
        rival = any(len(of[k] & of[j]) > 0.8 * len(of[k]) for j in stronger if of[k])
        old = bool(of[k]) and len(of[k] & known) >= 0.3 * len(of[k])
        assert bool(got[0, k, 0]) == (old or rival)


@given(seeds, st.integers(0, 6))
def test_as_many_are_admitted_as_there_are_slots_free(seed: int, free: int) -> None:
    pres = torch.rand(1, 5, 1, generator=generator(seed)).mul(4).round().div(4)
    got = admitted(pres, torch.tensor([free]))[0, :, 0].tolist()
    order = sorted(range(5), key=lambda c: (-float(pres[0, c, 0]), c))
    assert got == [1.0 if c in order[:free] else 0.0 for c in range(5)]


def some_of_a_frame(seed: int, batch: int, cells: int) -> tuple[ScalorObjects, Attributes, Tensor]:
    """Four slots, some of them empty; what the cells found; and which of that is kept."""
    g = generator(seed)
    known, found = objects(batch, 4, seed), objects(batch, cells, seed + 1).o
    alive = torch.rand(batch, 4, generator=g) < 0.5
    known = known.with_flat(known.flat(), torch.where(alive, known.id, NOBODY))
    found.pres[:] = torch.rand(batch, cells, 1, generator=g)
    return known, found, admitted(found.pres, (~alive).sum(dim=1))


@given(seeds)
def test_new_objects_take_free_slots_and_nobody_else_moves(seed: int) -> None:
    known, found, kept = some_of_a_frame(seed, 1, 5)
    alive, got = known.alive, joined(known, found, kept)
    rows, ids = [known.flat()[0, k] for k in range(4)], known.id[0].tolist()
    free = [k for k in range(4) if not alive[0, k]]
    born = 4
    for c in range(5):
        if kept[0, c, 0]:
            k, o = free.pop(0), found.cat()[0, c]
            rows[k] = torch.cat([o, torch.zeros(len(rows[k]) - len(o))])
            if float(found.pres[0, c, 0]) > 0.7:
                ids[k], born = born, born + 1
    torch.testing.assert_close(got.flat()[0], torch.stack(rows))
    assert got.id[0].tolist() == ids
    assert got.born.tolist() == [born]
    on = carried(got)
    assert on.id is got.id
    assert on.o.pres[0, :, 0].tolist() == [
        float(row[0]) if i != NOBODY else 0 for row, i in zip(rows, ids, strict=True)
    ]


@given(seeds)
def test_a_frame_shows_all_that_is_there_whatever_the_slots(seed: int) -> None:
    """All K objects are drawn, and no others: no presence is lost."""
    known, proposed, kept = some_of_a_frame(seed, 2, 6)
    known.o.pres[:] *= known.alive[..., None]
    shown = joined(known, proposed, kept).o
    for b in range(2):
        rows = [*known.o.cat()[b], *proposed.cat()[b]]
        there = [*known.o.pres[b, :, 0].tolist(), *(kept * proposed.pres)[b, :, 0].tolist()]
        want = sorted(row.tolist() for row, p in zip(rows, there, strict=True) if p > 0)
        got = sorted(row.tolist() for row in shown.cat()[b] if row[0] > 0)
        assert got == want


@torch.no_grad()
def test_cells_propose_by_their_equations() -> None:
    model, explained, seen, drawn = lively(), torch.zeros(2, 1, 64, 64), sight(), noise(2, 16)
    found = model.propose(explained, seen, drawn)
    net = model.discovery
    mask = net.conv_mask(explained)
    maps = net.conv_disc(torch.cat([seen.features, mask], dim=1))
    for b in range(2):
        for i in range(4):
            for j in range(4):
                c, params = 4 * i + j, maps[b, :, i, j].tolist()
                logit = 8.8 * math.tanh(params[0])
                there = sigmoid((logit + float(drawn.pres[b, c, 0])) / 0.7)
                assert float(found.o.pres[b, c, 0]) == pytest.approx(there, abs=1e-4)
                z = [
                    params[1 + n] + (softplus(params[5 + n]) + 1e-4) * float(drawn.where[b, c, n])
                    for n in range(4)
                ]
                center = [
                    (2 * at + 1) / 4 - 1 + math.tanh(z[2 + n]) / 2 for n, at in enumerate((j, i))
                ]
                assert found.o.xy[b, c].tolist() == pytest.approx(center, abs=1e-4)
                depth = params[9] + (softplus(params[10]) + 1e-4) * float(drawn.depth[b, c, 0])
                assert float(found.o.depth[b, c, 0]) == pytest.approx(depth, abs=1e-4)
    glimpses = crop(seen.frame, found.o.xy, found.o.hw, 32)
    mean, std = (
        model.appearance.conv_what(glimpses.flatten(0, 1)).unflatten(0, (2, 16)).chunk(2, -1)
    )
    what = mean + (torch.nn.functional.softplus(std) + 1e-4) * drawn.what
    torch.testing.assert_close(found.o.what, what, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_what_is_explained_is_not_found_again() -> None:
    """Proposals on top of known objects are not kept."""
    model, seen, still = (
        lively(num_objects=20),
        sight(),
        map_tensors(torch.zeros_like, noise(2, 16)),
    )
    nobody = ScalorObjects.none(SIZES, 2, 20, seen.frame)
    first = model.propose(model.explain(nobody.o), seen, still).o
    model.appearance.deconv_what[0].bias[48:] = 3
    there = torch.ones_like(first.pres)
    known = joined(nobody, replace(first, pres=there), there)
    explained = model.explain(known.o)
    again = model.propose(explained, seen, still).o
    rejected, kept = model.judge(again, explained, known.id)
    masks = paste(torch.ones(2, 16, 1, 32, 32), again.xy, again.hw, 64)
    inside = (masks > 0.3).sum(dim=(-2, -1)) > 0
    assert rejected[inside].float().mean() > 0.9
    assert (kept[rejected] == 0).all()


# -- objective


def kl_bernoulli(q: float, p: float) -> float:
    return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))


def kl_gaussian(m: float, s: float, n: float, t: float) -> float:
    return math.log(t / s) + (s * s + (m - n) ** 2) / (2 * t * t) - 0.5


def test_the_divergences_are_weighted_as_the_objective_says() -> None:
    g = generator()
    lead = (2, 2, 3)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*lead, *shape, generator=g) + 0.1

    q, p = Gaussian(rand(4), rand(4)), Gaussian(rand(4), rand(4))
    q_pres, p_pres = Bernoulli(rand(1) - 1), Bernoulli(rand(1) + 1)
    weight, held = rand(1), (rand(1) > 0.6).float()
    rejected, looked = rand(1) > 0.6, torch.tensor([[1.0, 0.0], [1.0, 1.0]])[..., None, None]
    known = propagation_terms(PropagationEvidence(q, q_pres, rand(2), weight, held), p, p_pres)
    found = discovery_terms(
        DiscoveryEvidence(q, q_pres, weight, rejected, looked), torch.tensor(0.05)
    )
    for b in range(2):
        want = dict.fromkeys(("kl_prop", "kl_prop_pres", "kl_disc", "kl_disc_pres"), 0.0)
        for t in range(2):
            for k in range(3):
                at = (b, t, k)
                rho, prior = (sigmoid(float(x.logit[at])) for x in (q_pres, p_pres))
                want["kl_prop_pres"] += float(held[at]) * kl_bernoulli(rho, prior)
                rare = 1e-8 if bool(rejected[at]) else 0.05
                want["kl_disc_pres"] += float(looked[b, t]) * kl_bernoulli(rho, rare)
                for n in range(4):
                    m, s = float(q.mean[(*at, n)]), float(q.std[(*at, n)])
                    theirs = (float(p.mean[(*at, n)]), float(p.std[(*at, n)]))
                    want["kl_prop"] += float(weight[at]) * kl_gaussian(m, s, *theirs)
                    want["kl_disc"] += float(weight[at]) * kl_gaussian(m, s, 0, 1)
        for name, value in want.items():
            assert float((known | found)[name][b]) == pytest.approx(value, rel=1e-4), name


def test_the_temperature_falls_and_the_first_steps_are_detached() -> None:
    schedule = ScalorSchedule(lengths=((0, 4), (100, 9)), detached=50, tau_end=0.25, tau_steps=200)
    taus = [float(schedule.tau(torch.tensor(step))) for step in (0, 100, 200, 999)]
    assert taus == pytest.approx([1, 0.5, 0.25, 0.25])
    stages = [schedule.stage(step) for step in (0, 49, 50, 100)]
    assert [s.detached for s in stages] == [True, True, False, False]
    assert [s.length for s in stages] == [4, 4, 4, 9]
    assert all(s.through_frames for s in stages)


def test_the_prior_learns_alone_at_last_and_is_not_compiled_for() -> None:
    schedule = ScalorSchedule(lengths=((0, 4), (100, 9)), prior_only=150, prior_repeats=7)
    stages = [schedule.stage(step) for step in (100, 149, 150, 999)]
    assert [s.prior_only for s in stages] == [False, False, True, True]
    assert [s.through_frames for s in stages] == [True, True, False, False]
    assert [s.repeats for s in stages] == [0, 0, 7, 7]
    usual = schedule.steady(7)
    assert (usual.stage(10**9), usual.prior_repeats) == (ScalorStage(7), 0)
