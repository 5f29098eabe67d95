"""The parts of SILOT compared with their equations."""

import math
from dataclasses import replace
from itertools import product
from math import comb
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator
from tiny_silot import SIZES, WHAT, build, noise, objects, sight
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian, steered
from gswm.core.geometry import crop, paste
from gswm.core.records import map_tensors
from gswm.core.schedule import PriorStage
from gswm.models.objects import Attributes, accept
from gswm.models.silot.conditioning import CellConditioning, ObjectConditioning
from gswm.models.silot.discovery import DiscoveryEvidence
from gswm.models.silot.networks import CELL, GLIMPSE, Backbone, centers_of_cells, grid_of
from gswm.models.silot.objective import (
    CountPrior,
    FixedPriors,
    color_terms,
    count_terms,
    fixed_terms,
    learned_terms,
)
from gswm.models.silot.objects import AnchorConfig, bounded
from gswm.models.silot.propagation import PropagationEvidence
from gswm.models.silot.rendering import sprites_of
from gswm.models.silot.schedule import CountOdds, SilotSchedule

seeds = st.integers(0, 2**32 - 1)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def std_of(param: float) -> float:
    return 2 * sigmoid(min(max(param, -10), 10)) + 1e-4


def mlp(net: torch.nn.Module, *parts: Tensor) -> Tensor:
    return net(torch.cat(parts)[None])[0]


def close(got: Tensor, want: object) -> None:
    torch.testing.assert_close(got, torch.as_tensor(want), atol=1e-5, rtol=1e-4)


# -- cells and boxes


@torch.no_grad()
@pytest.mark.parametrize(("size", "grid"), [(24, 2), (48, 4), (64, 6), (96, 8)])
def test_a_cell_sees_31_pixels_around_its_middle(size: int, grid: int) -> None:
    torch.manual_seed(0)
    net = Backbone(4)
    frame = torch.rand(1, 3, size, size)
    plain = net(frame)
    assert plain.shape == (1, 4, grid, grid)
    centers = ((centers_of_cells(size, frame) + 1) / 2 * size).unflatten(0, (grid, grid))
    assert centers[1, 0].tolist() == pytest.approx([CELL / 2, 1.5 * CELL])
    for y, x in ((0, 0), (size // 2, size - 1), (20, 3)):
        other = frame.clone()
        other[:, :, y, x] += 1
        changed = (net(other) - plain).abs().amax(dim=1)[0] > 0
        at = torch.tensor([x + 0.5, y + 0.5])
        assert torch.equal(changed, ((centers - at).abs() < 15.6).all(dim=-1))


@given(seeds)
def test_a_box_is_a_share_of_the_anchor_and_moves_by_a_bounded_step(seed: int) -> None:
    anchors, g = AnchorConfig(size=0.6, step=0.3), generator(seed)
    z = 3 * torch.randn(1, 2, 2, generator=g)
    hw = anchors.hw(z)
    close(hw, [[[0.6 * sigmoid(v) for v in row] for row in z[0].tolist()]])
    close(anchors.z_hw(hw), z)
    xy = torch.rand(1, 2, 2, generator=g)
    moved = anchors.moved(xy, z)
    close(moved - xy, [[[2 * 0.6 * 0.3 * math.tanh(v) for v in row] for row in z[0].tolist()]])
    close(anchors.offset(moved - xy), 0.3 * z.tanh())


def test_a_standard_deviation_is_at_most_2() -> None:
    got = bounded(torch.tensor([[1.0, 2.0, -50.0, 50.0]]))
    assert got.mean.tolist() == [[1, 2]]
    close(got.std, [[std_of(-50), std_of(50)]])


# -- rendering


@given(seeds)
def test_objects_are_drawn_as_the_equations_say(seed: int) -> None:
    """Pixel by pixel: each object over the background, then their mean by importance."""
    model, o = build(), objects(1, 3, seed).o
    o = replace(o, pres=torch.rand(1, 3, 1, generator=generator(seed)))
    logits = model.renderer.decoder(o.what)
    behind = torch.rand(1, 3, 64, 64, generator=generator(seed))
    with torch.no_grad():
        got = model.renderer(o).over(behind)[0]
        y, alpha = logits[:, :, :3].sigmoid(), (logits[:, :, 3:] + 3).sigmoid()
        pres = o.pres[..., None, None]
        importance = pres * torch.maximum(
            alpha * o.depth.sigmoid()[..., None, None] / 0.25, torch.tensor(0.01)
        )
        layers = torch.cat([pres * alpha * y, pres * alpha, importance], dim=2)
        placed = paste(layers, o.xy, o.hw, 64)[0]
    for row, column in product(range(0, 64, 7), repeat=2):
        total, mixed = 0.0, torch.zeros(3)
        for k in range(3):
            *color, a, weight = placed[k, :, row, column].tolist()
            v = torch.tensor(color) + (1 - a) * behind[0, :, row, column]
            total, mixed = total + weight, mixed + weight * v
        want = mixed / total if total > 1e-6 else behind[0, :, row, column]
        torch.testing.assert_close(got[:, row, column], want, atol=1e-4, rtol=1e-3)


@given(seeds)
def test_an_absent_object_leaves_no_trace(seed: int) -> None:
    model, o = build(), objects(seed=seed).o
    o.pres[:, 1] = 0
    without = map_tensors(lambda v: v[:, [0, 2]], o)
    a, b = model.renderer(o), model.renderer(without)
    torch.testing.assert_close(a.mu_fg, b.mu_fg)
    torch.testing.assert_close(a.alpha, b.alpha)


def test_the_nearer_of_two_objects_has_more_weight() -> None:
    logits = torch.zeros(1, 2, 4, 2, 2)
    depth = torch.tensor([[[3.0], [-3.0]]])
    importance = sprites_of(logits, torch.ones(1, 2, 1), depth)[0, :, 4, 0, 0].tolist()
    want = [sigmoid(3) * sigmoid(3) / 0.25, sigmoid(3) * sigmoid(-3) / 0.25]
    assert importance == pytest.approx(want, rel=1e-4)


# -- conditioning


def density(offset: Tensor, sigma: float) -> float:
    square = float(offset.square().sum())
    return math.exp(-square / (2 * sigma**2)) / (2 * math.pi * sigma**2)


@torch.no_grad()
@pytest.mark.parametrize("sigma", [0.15, 0.5])
def test_cells_hear_objects_by_a_gaussian_kernel(sigma: float) -> None:
    torch.manual_seed(0)
    anchors, some = AnchorConfig(size=0.75), objects()
    net, center = CellConditioning(SIZES, anchors, sigma), centers_of_cells(48, some.o.xy)
    got = net(some.o, some.h_post, center)
    assert got.shape == (2, grid_of(48) ** 2, SIZES.encoding)
    for b, r in product(range(2), range(16)):
        want = torch.zeros(SIZES.encoding)
        for j in range(3):
            f = torch.cat([some.o.cat()[b, j], some.h_post[b, j]])
            offset = (some.o.xy[b, j] - center[r]) / 1.5
            said = mlp(net.speak.mlp, f, offset)
            want += some.o.pres[b, j] * density(offset, sigma) * said
        close(got[b, r], want)


@torch.no_grad()
@pytest.mark.parametrize("sigma", [0.15, 0.5])
def test_objects_hear_each_other_and_themselves_by_a_gaussian_kernel(sigma: float) -> None:
    torch.manual_seed(0)
    anchors, some = AnchorConfig(size=0.5), objects()
    net = ObjectConditioning(SIZES, anchors, sigma)
    got = net(some.o, some.h_prior)
    f = torch.cat([some.o.cat(), some.h_prior], dim=-1)
    for b, i in product(range(2), range(3)):
        own = mlp(net.mlp_own, f[b, i])
        want = own.clone()
        for j in range(3):
            offset = some.o.xy[b, j] - some.o.xy[b, i]
            said = mlp(net.speak.mlp, f[b, j], offset, own)
            want += some.o.pres[b, j] * density(offset, sigma) * said
        close(got[b, i], want)


# -- propagation


def what_of(params: Tensor, was: Tensor, seen: Tensor | None) -> tuple[list[float], list[float]]:
    """Mean and standard deviation, number by number; `seen` are m_s and its deviation."""
    means, stds = [], []
    parts = [part.tolist() for part in params.split(WHAT)]
    for n in range(WHAT):
        keep, drop = (0.9999 * sigmoid(parts[2 + g][n] + 1) for g in range(2))
        mean = keep * float(was[n]) + (1 - drop) * parts[0][n]
        std = (1 - drop) * std_of(parts[1][n])
        if seen is not None:
            gate = 0.9999 * sigmoid(parts[4][n] + 1)
            mean += (1 - gate) * float(seen[n])
            std += (1 - gate) * std_of(float(seen[WHAT + n]))
        means.append(mean)
        stds.append(std)
    return means, stds


@torch.no_grad()
def test_the_posterior_follows_its_equations_object_by_object() -> None:
    model, prev, seen, drawn = build(), objects(), sight(), noise()
    net, post, anchors = model.propagation, model.propagation.post, model.cfg.anchors
    got, evidence = net.infer(prev, seen, drawn)
    e = post.hear(prev.o, prev.h_post)
    for b, k in product(range(2), range(3)):
        one = map_tensors(lambda v, b=b, k=k: v[b : b + 1, k : k + 1], prev.o)
        frame, h = seen.frame[b : b + 1], e[b, k]
        near, mask_1, mask_2 = mlp(net.mlp_glimpse, h).split([4, GLIMPSE**2, GLIMPSE**2])
        xy, hw = one.xy + 0.1 * 1.5 * near[:2], one.hw + 0.1 * 0.75 * near[2:]
        first = crop(frame, xy, hw, GLIMPSE)[0, 0].flatten(1) * (mask_1 + 1).sigmoid()
        s_near = mlp(net.encode_near.mlp, first.flatten())

        params = mlp(post.mlp_box, h, s_near)
        was_hw = [math.log(v / (0.75 - v)) for v in one.hw[0, 0].tolist()]
        mean = [
            *params[:2].tolist(),
            *(w + float(p) for w, p in zip(was_hw, params[2:4], strict=True)),
        ]
        std = [std_of(float(p)) for p in params[4:]]
        close(evidence.q.mean[b, k, :4], mean)
        close(evidence.q.std[b, k, :4], std)
        z = torch.tensor(mean) + torch.tensor(std) * drawn.where[b, k]
        close(evidence.shift[b, k], z[:2])
        hw = anchors.hw(z[None, None, 2:])
        xy = one.xy + 2 * 0.75 * 0.25 * z[:2].tanh()
        close(got.o.hw[b, k], hw[0, 0])
        close(got.o.xy[b, k], xy[0, 0])

        second = crop(frame, xy, hw, GLIMPSE)[0, 0].flatten(1) * (mask_2 + 1).sigmoid()
        s = mlp(net.encode.mlp, second.flatten())
        box = torch.cat([xy[0, 0], z])
        params, found = mlp(post.mlp_what, h, box, s), mlp(post.mlp_seen, s)
        mean, std = what_of(params, one.what[0, 0], found)
        what = torch.tensor(mean) + torch.tensor(std) * drawn.what[b, k]
        close(got.o.what[b, k], what)

        m, v = mlp(post.mlp_depth, h, box, what, s).tolist()
        depth = float(one.depth) + m + std_of(v) * float(drawn.depth[b, k])
        close(got.o.depth[b, k], [depth])
        logit = float(mlp(post.mlp_pres, h, box, what, torch.tensor([depth]), s))
        close(evidence.pres.logit[b, k], [logit])
        pres = float(one.pres) * sigmoid(logit + float(drawn.pres[b, k]))
        close(got.o.pres[b, k], [pres])

        told = torch.cat([box, what, torch.tensor([depth, pres])])[None]
        close(got.h_post[b, k], post.rnn(told, prev.h_post[b, k][None])[0])
        close(got.h_prior[b, k], net.prior.rnn(told, prev.h_prior[b, k][None])[0])


@torch.no_grad()
def test_the_prior_is_the_posteriors_twin_without_eyes() -> None:
    model, prev, drawn = build(), objects(), noise()
    net, prior = model.propagation, model.propagation.prior
    got = net.imagine(prev, drawn)
    e = prior.hear(prev.o, prev.h_prior)
    for b, k in product(range(2), range(3)):
        h, was = e[b, k], SimpleNamespace(**{n: v[b, k] for n, v in vars(prev.o).items()})
        params = mlp(prior.mlp_box, h)
        was_hw = [math.log(v / (0.75 - v)) for v in was.hw.tolist()]
        mean = torch.tensor(
            [*params[:2], *(w + float(p) for w, p in zip(was_hw, params[2:4], strict=True))]
        )
        z = mean + torch.tensor([std_of(float(p)) for p in params[4:]]) * drawn.where[b, k]
        xy = was.xy + 2 * 0.75 * 0.25 * z[:2].tanh()
        close(got.o.xy[b, k], xy)
        close(got.o.hw[b, k], 0.75 * z[2:].sigmoid())
        box = torch.cat([xy, z])
        mean, std = what_of(mlp(prior.mlp_what, h, box), was.what, None)
        what = torch.tensor(mean) + torch.tensor(std) * drawn.what[b, k]
        close(got.o.what[b, k], what)
        m, v = mlp(prior.mlp_depth, h, box, what).tolist()
        depth = float(was.depth) + m + std_of(v) * float(drawn.depth[b, k])
        close(got.o.depth[b, k], [depth])
        told = torch.cat([box, what, torch.tensor([depth, float(was.pres)])])[None]
        close(got.h_prior[b, k], prior.rnn(told, prev.h_prior[b, k][None])[0])
    assert torch.equal(got.o.pres, prev.o.pres)


@torch.no_grad()
def test_the_prior_expects_what_it_would_imagine() -> None:
    """Given what it drew itself, its distributions are those that it drew from."""
    model, prev, drawn = build(), objects(), noise()
    net, still = model.propagation, map_tensors(torch.zeros_like, drawn)
    for each in (still, drawn):
        now = net.imagine(prev, each)
        step = (now.o.xy - prev.o.xy) / (2 * model.cfg.anchors.size * model.cfg.anchors.step)
        shift = step.atanh()
        p, _ = net.expect(prev.o, prev.h_prior, now.o, shift)
        z = p.draw(torch.cat([each.where, each.what, each.depth], dim=-1))
        want = torch.cat([shift, model.cfg.anchors.z_hw(now.o.hw), now.o.what, now.o.depth], dim=-1)
        torch.testing.assert_close(z, want, atol=1e-4, rtol=1e-3)


def test_presence_only_falls() -> None:
    got, _ = build().propagation.infer(objects(), sight(), noise())
    assert (got.o.pres < objects().o.pres).all()


@pytest.mark.parametrize("learns", [0.0, 1.0])
def test_training_wheels_stop_gradients_and_change_nothing(learns: float) -> None:
    x = torch.tensor([0.5, -1.0], requires_grad=True)
    got = steered(Gaussian(x, x.exp()), torch.full((1, 1, 1), learns))
    assert got.mean.flatten().tolist() == [0.5, -1.0]
    (got.mean.sum() + got.std.sum()).backward()
    assert (x.grad != 0).tolist() == [learns == 1] * 2


def test_on_training_wheels_only_what_draws_objects_learns() -> None:
    model = build()
    drawn, cells = noise(), noise(2, model.cfg.cells)
    seen = replace(sight(), learns=torch.zeros(2, 1, 1))
    known, of_known = model.propagation.infer(objects(), seen, drawn)
    h_0 = model.propagation.start(2, model.cfg.cells)
    found, of_found = model.discovery.infer(known, seen, cells, h_0)
    fixed = (found.o.xy, found.o.hw, found.o.depth, found.o.pres, known.o.xy, known.o.hw)
    weights = list(model.parameters())
    for part in (*fixed, known.o.depth, known.o.pres):
        if part.requires_grad:
            how = {"retain_graph": True, "allow_unused": True}
            assert not any(
                g is not None and g.any() for g in torch.autograd.grad(part.sum(), weights, **how)
            )
    total = of_known.q.mean.sum() + of_found.q.mean.sum()
    total.backward()
    assert model.discovery.mlp_what[-1].weight.grad.any()
    assert not model.discovery.mlp_box[-1].weight.grad[:8].any()


# -- discovery


@torch.no_grad()
def test_cells_find_objects_by_their_equations() -> None:
    model, known, seen, drawn = build(), objects(), sight(), noise(2, 36)
    net, e = model.discovery, SIZES.encoding
    got, evidence = net.infer(known, seen, drawn, model.propagation.start(2, 36))
    centers = centers_of_cells(64, known.o.xy)
    heard = net.condition(known.o, known.h_post, centers)
    features = torch.cat([seen.features, heard.mT.unflatten(-1, (6, 6))], dim=1)
    fused = net.fuse(features)
    for b, c in product(range(2), range(0, 36, 5)):
        x = fused[b, :, c // 6, c % 6]
        params, more = mlp(net.mlp_box, x).split([8, e])
        std = torch.tensor([std_of(float(p)) for p in params[4:]])
        z = params[:4] + std * drawn.where[b, c]
        cell = torch.tensor([c % 6, c // 6]) * 12
        pixels = cell + 12 * (-0.5 + 2 * z[:2].sigmoid())
        close(got.o.xy[b, c], pixels / 32 - 1)
        close(got.o.hw[b, c], 0.75 * z[2:].sigmoid())
        box = torch.cat([got.o.xy[b, c], got.o.hw[b, c]])
        glimpse = crop(seen.frame[b : b + 1], box[None, None, :2], box[None, None, 2:], GLIMPSE)
        s = mlp(net.encode.mlp, glimpse.flatten())
        params, more = mlp(net.mlp_what, x, more, s, box).split([2 * WHAT, e])
        std = torch.tensor([std_of(float(p)) for p in params[WHAT:]])
        what = params[:WHAT] + std * drawn.what[b, c]
        close(got.o.what[b, c], what)
        params, more = mlp(net.mlp_depth, x, more, box, what).split([2, e])
        depth = params[:1] + std_of(float(params[1])) * drawn.depth[b, c]
        close(got.o.depth[b, c], depth)
        logit = mlp(net.mlp_pres, x, more, box, what, depth)
        close(evidence.pres.logit[b, c], logit)
        close(evidence.there[b, c], (logit + drawn.pres[b, c]).sigmoid())
        close(got.h_prior[b, c], model.propagation.h_0)


def test_nothing_is_found_where_nobody_looks() -> None:
    model, seen = build(), replace(sight(), looks=torch.tensor([0.0, 1.0])[:, None, None])
    h_0 = model.propagation.start(2, 36)
    got, evidence = model.discovery.infer(objects(), seen, noise(2, 36), h_0)
    assert got.o.pres.flatten(1).any(dim=1).tolist() == [False, True]
    assert (got.o.pres <= evidence.there).all()


@given(seeds)
def test_cells_that_overlap_are_rejected_and_pay(seed: int) -> None:
    model, known, drawn = build(), objects(seed=seed), noise(2, 36, seed)
    got, evidence = model.discovery.infer(
        known, sight(seed=seed), drawn, known.h_post[:, :1].expand(-1, 36, -1)
    )
    new = accept(known.o, got.o.xy, got.o.hw, evidence.there, 0.4, 0.6)
    assert torch.equal(got.o.pres, evidence.there * new)
    assert (evidence.there > 0).all()


# -- the count prior


def enumerated(num: int, p: float) -> dict[tuple[int, ...], float]:
    """The probability of each outcome of all variables."""
    outcomes = list(product((0, 1), repeat=num))
    weight = {o: p ** sum(o) / comb(num, sum(o)) for o in outcomes}
    total = sum(weight.values())
    return {o: w / total for o, w in weight.items()}


@pytest.mark.parametrize("num", [1, 2, 5, 8])
@pytest.mark.parametrize("p", [0.0123, 0.3, 0.5, 0.999999])
def test_the_count_prior_is_that_of_all_outcomes(num: int, p: float) -> None:
    """Compares the probability of every outcome: step by step, and jointly."""
    prior, chances = CountPrior(num), enumerated(num, p)
    outcomes = torch.tensor(list(chances))
    got = prior(outcomes == 1, torch.tensor(p).log())
    for row, outcome in enumerate(chances):
        for i in range(num):
            like = {o: c for o, c in chances.items() if o[:i] == outcome[:i]}
            want = sum(c for o, c in like.items() if o[i]) / sum(like.values())
            assert float(got.rho[row, i]) == pytest.approx(want, rel=1e-5)
        signs = 2 * outcomes[row] - 1
        together = float((signs * got.logit[row]).sigmoid().double().prod())
        assert together == pytest.approx(chances[outcome], rel=1e-4)


@pytest.mark.parametrize("p", [0.0125, 0.7])
def test_the_count_is_geometric_and_all_subsets_are_alike(p: float) -> None:
    chances = enumerated(6, p)
    counts = [sum(c for o, c in chances.items() if sum(o) == n) for n in range(7)]
    got = CountPrior(6)(torch.tensor(list(chances)) == 1, torch.tensor(p).log())
    signs = 2 * torch.tensor(list(chances)) - 1
    together = (signs * got.logit).sigmoid().double().prod(dim=1)
    for n in range(7):
        of_n = together[torch.tensor([sum(o) == n for o in chances])]
        assert float(of_n.sum()) == pytest.approx(counts[n], rel=1e-4)
        assert float(of_n.max() / of_n.min()) == pytest.approx(1, rel=1e-4)
        if n:
            assert counts[n] / counts[n - 1] == pytest.approx(p)


@pytest.mark.slow
@given(seeds, st.sampled_from([56, 141]), st.floats(1e-3, 1))
def test_the_count_prior_of_many_is_the_recursion(seed: int, num: int, p: float) -> None:
    """The belief about the count, updated variable by variable, as SPAIR's own algorithm does."""
    ones = torch.rand(num, generator=generator(seed)) < 0.2
    got = CountPrior(num)(ones[None], torch.tensor(p, dtype=torch.double).log())
    belief = torch.tensor(p, dtype=torch.double) ** torch.arange(num + 1)
    k = 0
    for i in range(num):
        belief = belief / belief.sum()
        left = torch.arange(num + 1, dtype=torch.double) - k
        chance = (left / (num - i)).clamp(0, 1)
        want = float((belief * chance).sum())
        assert float(got.rho[0, i]) == pytest.approx(want, rel=1e-4)
        k += int(ones[i])
        belief = belief * (chance if ones[i] else 1 - chance)


@pytest.mark.parametrize(
    ("steps", "step", "odds"), [(1000, 0, 1e6), (1000, 2000, 1e4), (50, 999, 0)]
)
def test_the_odds_of_one_more_object_fall_by_tenths(steps: int, step: int, odds: float) -> None:
    log_p = CountOdds(steps=steps).log_p(torch.tensor(step))
    logit = math.log(odds + 0.0125)
    assert float(log_p) == pytest.approx(math.log(sigmoid(logit)), rel=1e-3, abs=1e-6)


def test_the_wheels_come_off_after_the_first_steps() -> None:
    schedule = SilotSchedule(lengths=((0, 2), (9, 4)), wheels=5)
    assert [float(schedule.learns(torch.tensor(step))) for step in (0, 4, 5, 99)] == [0, 0, 1, 1]
    assert [schedule.stage(step).length for step in (0, 8, 9)] == [2, 2, 4]
    assert float(schedule.steady(3).learns(torch.tensor(0))) == 1


def test_the_prior_learns_alone_at_last_from_windows_that_repeat() -> None:
    how = {"prior_only": 20, "prior_windows": 96, "prior_batch": 32}
    schedule = SilotSchedule(lengths=((0, 2), (9, 4)), **how)
    stages = [schedule.stage(step) for step in (9, 19, 20, 99)]
    assert [s.prior_only for s in stages] == [False, False, True, True]
    assert [s.through_frames for s in stages] == [True, True, False, False]
    assert [(s.length, s.repeats, s.batch) for s in stages[1:3]] == [(4, 0, 0), (4, 3, 32)]
    assert schedule.anew == 20
    assert schedule.steady(3).stage(10**9) == PriorStage(3)


# -- the objective


def kl_bernoulli(q: float, p: float) -> float:
    return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))


def kl_gaussian(m: float, s: float, n: float, t: float) -> float:
    return math.log(t / s) + (s * s + (m - n) ** 2) / (2 * t * t) - 0.5


def evidence(seed: int = 0) -> tuple[PropagationEvidence, DiscoveryEvidence]:
    """Two videos of two frames, with 3 slots, 4 cells and 2 numbers of appearance."""
    g = generator(seed)

    def rand(num: int, n: int) -> Tensor:
        return torch.rand(2, 2, num, n, generator=g) + 0.1

    def some(num: int) -> tuple[Gaussian, Bernoulli]:
        return Gaussian(rand(num, 7) - 0.5, rand(num, 7)), Bernoulli(4 * rand(num, 1) - 2)

    def attributes() -> Attributes:
        return Attributes(rand(3, 1) / 1.1, *(rand(3, n) for n in (1, 2, 2, 2)))

    known = PropagationEvidence(*some(3), attributes(), rand(3, 6), attributes(), rand(3, 2))
    looked = torch.tensor([[1.0, 0.0], [1.0, 1.0]])[..., None, None]
    return known, DiscoveryEvidence(*some(4), rand(4, 1) / 1.1 * looked, looked)


def each(num: int) -> product:
    return product(range(2), range(num))


def test_presence_pays_for_the_count_one_variable_after_the_other() -> None:
    (known, found), log_p = evidence(), torch.tensor(0.2).log()
    got = count_terms(known, found, CountPrior(7), log_p)["kl_count"]
    chances = enumerated(7, 0.2)
    for b in range(2):
        want = 0.0
        for t in range(2):
            there = [*known.now.pres[b, t, :, 0].tolist(), *found.there[b, t, :, 0].tolist()]
            logits = [*known.pres.logit[b, t, :, 0], *found.pres.logit[b, t, :, 0]]
            paid = [*known.was.pres[b, t, :, 0].tolist(), *[float(found.looked[b, t])] * 4]
            before = tuple(int(x > 0.5) for x in there)
            for i in range(7):
                like = {o: c for o, c in chances.items() if o[:i] == before[:i]}
                p = sum(c for o, c in like.items() if o[i]) / sum(like.values())
                want += paid[i] * kl_bernoulli(sigmoid(float(logits[i])), p)
        assert float(got[b]) == pytest.approx(want, rel=1e-4)


def test_the_fixed_priors_are_of_the_change_but_for_size() -> None:
    known, found = evidence()
    priors = FixedPriors(hw_mean=-1.7, hw_std=0.6, shift_std=0.2, what_std=0.4, depth_std=0.9)
    got = fixed_terms(known, found, priors)
    for b in range(2):
        of_cells = of_slots = 0.0
        for t, c in each(4):
            means, stds = found.q.mean[b, t, c].tolist(), found.q.std[b, t, c].tolist()
            prior = [(0, 1)] * 2 + [(-1.7, 0.6)] * 2 + [(0, 1)] * 2 + [(0, 0.9)]
            kl = sum(
                kl_gaussian(*q, *p)
                for q, p in zip(zip(means, stds, strict=True), prior, strict=True)
            )
            of_cells += float(found.there[b, t, c]) * kl
        for t, k in each(3):
            was = [0, 0, 0, 0, *known.was.what[b, t, k].tolist(), float(known.was.depth[b, t, k])]
            means = [m - w for m, w in zip(known.q.mean[b, t, k].tolist(), was, strict=True)]
            stds = known.q.std[b, t, k].tolist()
            prior = [(0, 0.2)] * 2 + [(-1.7, 0.6)] * 2 + [(0, 0.4)] * 2 + [(0, 0.9)]
            kl = sum(
                kl_gaussian(*q, *p)
                for q, p in zip(zip(means, stds, strict=True), prior, strict=True)
            )
            of_slots += float(known.now.pres[b, t, k]) * kl
        assert float(got["kl_disc"][b]) == pytest.approx(of_cells, rel=1e-4)
        assert float(got["kl_fixed"][b]) == pytest.approx(of_slots, rel=1e-4)


def test_propagated_objects_pay_for_the_learned_prior_too() -> None:
    known, _ = evidence()
    other, _ = evidence(seed=1)
    got = learned_terms(known, other.q, other.pres)
    for b in range(2):
        kl = presence = 0.0
        for t, k in each(3):
            parts = [x[b, t, k].tolist() for d in (known.q, other.q) for x in (d.mean, d.std)]
            one = sum(kl_gaussian(*both) for both in zip(*parts, strict=True))
            kl += float(known.now.pres[b, t, k]) * one
            rho, prior = (sigmoid(float(x.logit[b, t, k])) for x in (known.pres, other.pres))
            presence += float(known.was.pres[b, t, k]) * kl_bernoulli(rho, prior)
        assert float(got["kl_prop"][b]) == pytest.approx(kl, rel=1e-4)
        assert float(got["kl_prop_pres"][b]) == pytest.approx(presence, rel=1e-4)


def test_colors_are_probabilities() -> None:
    x = torch.tensor([0.0, 1.0, 0.25]).view(1, 1, 3, 1, 1)
    mu = torch.tensor([0.0, 0.5, 1.0]).view(1, 1, 3, 1, 1)
    want = -(math.log(0.5) + 0.75 * math.log(1e-6))
    got = color_terms(x, mu)["nll"]
    assert float(got) == pytest.approx(want, rel=1e-2)
    assert torch.isfinite(color_terms(x, mu + 1e-6)["nll"]).all()
