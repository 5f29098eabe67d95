"""The parts of SQAIR compared with their equations."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator, loss
from tiny_sqair import SIZES, WHAT, build, lively, noise, objects, sight
from torch import Tensor, nn

from gswm.core.distributions import Bernoulli
from gswm.core.geometry import crop, paste
from gswm.core.records import map_tensors
from gswm.core.schedule import Anneal, Stage
from gswm.data.batches.batch import Batch
from gswm.models.objects import Attributes, GRUObjects
from gswm.models.sqair.objects import (
    LEAST_STD,
    REACH,
    assembled,
    box,
    choose,
    log_probability,
    thinned,
    where_of,
)
from gswm.models.sqair.sqair import SqairSchedule

seeds = st.integers(0, 2**32 - 1)


def close(got: Tensor, want: object) -> None:
    torch.testing.assert_close(got, torch.as_tensor(want), atol=2e-4, rtol=1e-3)


def log_normal(x: Tensor, mean: Tensor, std: Tensor) -> float:
    each = -0.5 * ((x - mean) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)
    return float(each.sum())


def gaussian(params: Tensor, offset: float = 0.0) -> tuple[Tensor, Tensor]:
    mean, std = params.chunk(2)
    return mean, F.softplus(std + offset) + LEAST_STD


def call(net: nn.Module, *parts: Tensor) -> Tensor:
    return net(torch.cat(parts)[None])[0]


def seen(model: nn.Module, frame: Tensor, where: Tensor, mask: Tensor | None = None) -> Tensor:
    """The glimpse encoder's output for one box."""
    xy, hw = box(where[None, None])
    pixels = crop(frame[None], xy, hw, SIZES.glimpse)[0, 0].flatten(1)
    pixels = pixels if mask is None else pixels * mask
    return model.glimpse.mlp(pixels.flatten()[None])[0]


def boxed(where: Tensor) -> Tensor:
    """Center and size."""
    return torch.stack(box(where[None, None]))[:, 0, 0]


def summary(net: nn.Module, o: Attributes, row: int) -> Tensor:
    z = where_of(o)
    parts = (o.pres[row, k] * call(net.mlp, o.what[row, k], z[row, k]) for k in range(3))
    return torch.stack(list(parts)).sum(dim=0)


# -- boxes and choices


@given(seeds)
def test_a_box_comes_from_where_and_back(seed: int) -> None:
    where = 3 * (2 * torch.rand(1, 2, 4, generator=generator(seed)) - 1)
    xy, hw = box(where)
    for row, at, size in zip(where[0].tolist(), xy[0].tolist(), hw[0].tolist(), strict=True):
        assert size == pytest.approx([1 / (1 + math.exp(-v)) for v in row[:2]], rel=1e-5)
        assert at == pytest.approx([REACH * math.tanh(v) for v in row[2:]], rel=1e-5)
    o = assembled(torch.ones(1, 2, 1), where, torch.zeros(1, 2, WHAT))
    torch.testing.assert_close(where_of(o), where, atol=2e-3, rtol=2e-3)


def test_a_choice_is_0_or_1_as_often_as_it_is_likely() -> None:
    q = Bernoulli(torch.full((20_000,), 0.7))
    uniform = torch.rand(20_000, generator=generator())
    drawn = choose(q, uniform.logit())
    assert set(drawn.tolist()) == {0, 1}
    assert float(drawn.mean()) == pytest.approx(1 / (1 + math.exp(-0.7)), abs=0.02)
    assert choose(q, torch.zeros(20_000)).min() == 1
    both = [
        log_probability(Bernoulli(torch.tensor(0.7)), torch.tensor(d)).exp() for d in (0.0, 1.0)
    ]
    assert float(sum(both)) == pytest.approx(1)


@given(st.floats(-15, 15), st.floats(0, 90))
def test_a_cost_divides_the_probability_and_cannot_be_learned_away(
    logit: float, cost: float
) -> None:
    one = thinned(Bernoulli(torch.tensor(logit).double()), torch.tensor(cost).double())
    assert float(one.rho) == pytest.approx(math.exp(-cost) / (1 + math.exp(-logit)), rel=1e-6)
    both = [log_probability(one, torch.tensor(x).double()) for x in (0.0, 1.0)]
    assert float(both[1]) <= -cost
    assert float(sum(x.exp() for x in both)) == pytest.approx(1)


def test_without_a_cost_nothing_changes_and_gradients_pass() -> None:
    logit = torch.tensor([-30.0, 0.0, 4.0, 60.0], requires_grad=True)
    free = thinned(Bernoulli(logit), torch.zeros(4)).logit
    torch.testing.assert_close(free, logit)
    free.sum().backward()
    torch.testing.assert_close(logit.grad, torch.ones(4))


# -- rendering


@given(seeds)
def test_objects_are_drawn_as_their_sum(seed: int) -> None:
    model, o = lively(), objects(seed=seed).o
    with torch.no_grad():
        got = model.renderer(o)
        want = torch.zeros(2, 3, 64, 64)
        for row, k in product(range(2), (0, 2)):
            glimpse = model.renderer.decoder(o.what[row, k][None]).view(1, 1, 3, 6, 6)
            at = (o.xy[row, k][None, None], o.hw[row, k][None, None])
            want[row] += model.renderer.scale * paste(glimpse, *at, 64)[0, 0]
    close(got.mu_fg, want)
    behind = torch.rand(2, 3, 64, 64)
    close(got.over(behind), want + behind)


# -- discovery


def networks(model: nn.Module) -> tuple[object, ...]:
    """The parts of the model that discovery uses."""
    return model.encoder, model.glimpse, model.renderer, model.propagation.start()


@torch.no_grad()
def test_an_object_that_explains_the_frame_leaves_nothing_to_find() -> None:
    """Discovery sees a black frame, as if the video were empty."""
    model, known = lively(), objects()
    look, black = replace(sight(), frame=model.renderer(known.o).mu_fg), torch.zeros(2, 3, 64, 64)
    seen_by = []
    model.encoder.register_forward_pre_hook(lambda _, x: seen_by.append(x[0]))
    model.discovery.infer(known, look, noise(), *networks(model))
    close(seen_by[0], black)


@torch.no_grad()
@pytest.mark.parametrize("later", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_discovery_goes_object_by_object(seed: int, later: float) -> None:
    """Against a loop over videos and objects; one slot of three is free, then all are."""
    model, d = lively(), lively().discovery
    model.discovery.mlp_pres[-1].bias[0] = d.mlp_pres[-1].bias[0] = 0.5
    known, eps, look = objects(seed=seed), noise(seed=seed), sight(seed=seed, later=later)
    if seed == 1:
        known = replace(known, o=replace(known.o, pres=torch.zeros_like(known.o.pres)))
    got, ratios = model.discovery.infer(known, look, eps, *networks(model))
    for row in range(2):
        kept = known.o.pres[row].sum()
        rest = look.frame[row] - model.renderer(known.o).mu_fg[row]
        told = summary(d.summary, known.o, row)
        given_to_prior = torch.cat([summary(d.prior.summary, known.o, row), kept[None]])
        r, where, what, pres = d.r_0, torch.zeros(4), torch.zeros(WHAT), torch.ones(1)
        paid = dict.fromkeys(("where", "what", "pres", "log_q"), 0.0)
        for i in range(3):
            code = model.encoder(rest[None])[0]
            r = d.rnn(torch.cat([code, told, what, where, pres])[None], r[None])[0]
            before = where
            mean, std = gaussian(call(d.mlp_where, r), -2.0)
            where = mean + std * eps.where[row, i]
            m, s = gaussian(seen(model, rest, where))
            what = m + s * eps.what[row, i]
            logit = float(call(d.mlp_pres, r, what, where))
            rho = 1 / (1 + math.exp(-logit))
            if float(pres) == 1 and i < 3 - float(kept):
                found = logit + float(eps.pres[row, i]) > 0
                paid["log_q"] += math.log(rho if found else 1 - rho)
                known_to_prior = torch.tensor([float(i), float(kept), later])
                more = float((call(d.prior.mlp_n, known_to_prior) - 4 * later).sigmoid())
                more *= math.exp(-0.3)
                paid["pres"] += math.log(rho if found else 1 - rho)
                paid["pres"] -= math.log(more if found else 1 - more)
                pres = torch.tensor([float(found)])
            else:
                pres = torch.zeros(1)
            if float(pres) == 1:
                prior = call(d.prior.mlp_where, before, given_to_prior)
                paid["where"] += log_normal(where, mean, std) - log_normal(where, *gaussian(prior))
                zero = torch.zeros(WHAT)
                paid["what"] += log_normal(what, m, s) - log_normal(what, zero, zero + 1)
                alone = assembled(*(x[None, None] for x in (pres, where, what)))
                rest = rest - model.renderer(alone).mu_fg[0]
            close(got.o.pres[row, i], pres)
            close(torch.stack([got.o.xy, got.o.hw])[:, row, i], boxed(where))
            close(got.o.what[row, i], what)
        for name, value in paid.items():
            assert float(getattr(ratios, name)[row]) == pytest.approx(value, rel=1e-3, abs=1e-3)


@torch.no_grad()
@given(seeds, st.integers(0, 3))
def test_the_probabilities_of_all_numbers_add_up_to_1(seed: int, kept: int) -> None:
    """In the posterior: noise forces every pattern of choices."""
    model, known = lively(), objects(1, seed=seed)
    pres = (torch.arange(3) < kept).float()[None, :, None]
    known = replace(known, o=replace(known.o, pres=pres))
    room, total_q, total_p, numbers = 3 - kept, 0.0, 0.0, set()
    for number in range(room + 1):
        eps = noise(1, seed=seed)
        forced = torch.where(torch.arange(3) < number, 1e6, -1e6)[None, :, None]
        eps = replace(eps, pres=forced)
        got, ratios = model.discovery.infer(known, sight(1, seed), eps, *networks(model))
        numbers.add(int(got.o.pres.sum()))
        total_q += math.exp(float(ratios.log_q))
        total_p += math.exp(float(ratios.log_q - ratios.pres))
    assert numbers == set(range(room + 1))
    assert (total_q, total_p) == (pytest.approx(1, abs=1e-4), pytest.approx(1, abs=1e-4))


@torch.no_grad()
def test_where_nobody_looks_nothing_is_found_and_nothing_paid() -> None:
    model, look = lively(), sight()
    look = replace(look, looks=torch.tensor([[0.0], [1.0]]))
    known = map_tensors(torch.clone, objects())
    got, ratios = model.discovery.infer(known, look, noise(), *networks(model))
    assert float(got.o.pres[0].sum()) == 0
    assert [float(x[0]) for x in vars(ratios).values()] == [0, 0, 0, 0]
    assert all(float(x[1]) != 0 for x in (ratios.pres, ratios.log_q))


@torch.no_grad()
@pytest.mark.parametrize("later", [0.0, 1.0])
def test_with_training_wheels_only_the_first_frame_has_a_new_object(later: float) -> None:
    """It is certain, whatever the networks say; without wheels these find nothing."""
    model = lively()
    model.discovery.mlp_pres[-1].bias[0] = -50
    look = replace(sight(later=later), learns=torch.tensor([[0.0], [1.0]]))
    known = objects()
    known = replace(known, o=replace(known.o, pres=torch.zeros_like(known.o.pres)))
    got, ratios = model.discovery.infer(known, look, noise(), *networks(model))
    assert got.o.pres.sum(dim=(1, 2)).tolist() == [1 - later, 0]
    assert float(ratios.log_q[0]) == float(ratios.pres[0]) == 0


@torch.no_grad()
@given(seeds)
def test_with_training_wheels_known_objects_stay(seed: int) -> None:
    model, prev = lively(), objects(seed=seed)
    model.propagation.mlp_pres[-1].bias[0] = -50
    look = replace(sight(seed=seed), learns=torch.tensor([[0.0], [1.0]]))
    got, ratios = model.propagation.infer(prev, look, noise(seed=seed), model.glimpse)
    assert torch.equal(got.o.pres[0], prev.o.pres[0])
    assert not got.o.pres[1].any()
    assert float(ratios.log_q[0]) == float(ratios.pres[0]) == 0
    assert float(ratios.where[0]) != 0


# -- propagation


@torch.no_grad()
@pytest.mark.parametrize("seed", range(3))
def test_propagation_goes_object_by_object(seed: int) -> None:
    """Against a loop over videos and the objects that are there."""
    model = lively()
    p = model.propagation
    p.mlp_pres[-1].bias[0] = 0.5
    prev, eps, look = objects(seed=seed), noise(seed=seed), sight(seed=seed)
    got, ratios = p.infer(prev, look, eps, model.glimpse)
    z = where_of(prev.o)
    for row in range(2):
        r, last = p.r_0, torch.zeros(WHAT + 4 + 1)
        paid = dict.fromkeys(("where", "what", "pres", "log_q"), 0.0)
        for k in (0, 2):
            was, h = prev.o.what[row, k], prev.h_post[row, k]
            mask = call(p.mlp_mask, h).sigmoid()
            near = seen(model, look.frame[row], z[row, k] + 0.1 * call(p.mlp_near, h), mask)
            x = torch.cat([near[:WHAT], was, z[row, k], h, last])
            r = p.rnn(x[None], r[None])[0]
            mean, std = gaussian(call(p.mlp_where, r), -3.0)
            mean = mean + z[row, k]
            where = mean + std * eps.where[row, k]
            m, s = gaussian(seen(model, look.frame[row], where, mask))
            h = p.gru(torch.cat([r, where, m, s])[None], h[None])[0]
            m_h, s_h = gaussian(call(p.temporal, h))
            f, i, t = (0.9999 * call(p.gates, h).sigmoid()).chunk(3)
            loc, scale = f * was + (1 - i) * m + (1 - t) * m_h, (1 - i) * s + (1 - t) * s_h
            what = loc + scale * eps.what[row, k]
            logit = call(p.mlp_pres, h, what, where)
            choice = float(logit + eps.pres[row, k] > 0)
            if choice:
                last = torch.cat([what, where, torch.ones(1)])
            close(got.o.pres[row, k], [choice])
            close(torch.stack([got.o.xy, got.o.hw])[:, row, k], boxed(where))
            close(got.o.what[row, k], what)
            close(got.h_post[row, k], h)

            h_prior = p.prior.rnn(torch.cat([was, z[row, k]])[None], prev.h_prior[row, k][None])[0]
            close(got.h_prior[row, k], h_prior)
            params = call(p.prior.readout, h_prior)
            of_where, of_what, p_logit = params.split([8, 2 * WHAT, 1])
            (dz, p_std), (dw, w_std) = gaussian(of_where, -3.0), gaussian(of_what, -1.0)
            log_q = float(F.logsigmoid(logit if choice else -logit))
            stays = math.exp(-0.2) * float(p_logit.sigmoid())
            paid["log_q"] += log_q
            paid["pres"] += log_q - math.log(stays if choice else 1 - stays)
            if choice:
                paid["where"] += log_normal(where, mean, std)
                paid["where"] -= log_normal(where, z[row, k] + dz, p_std)
                paid["what"] += log_normal(what, loc, scale) - log_normal(what, was + dw, w_std)
        assert float(got.o.pres[row, 1]) == 0
        for name, value in paid.items():
            assert float(getattr(ratios, name)[row]) == pytest.approx(value, rel=1e-3, abs=1e-3)


def there(prev: GRUObjects) -> Tensor:
    return prev.o.pres[..., 0] > 0


@torch.no_grad()
@given(seeds)
def test_an_empty_slot_changes_nothing(seed: int) -> None:
    """Regardless of the values that a removed object left in it."""
    model, prev = lively(), objects(seed=seed)
    flat, junk = prev.flat(), torch.randn(prev.flat().shape, generator=generator(seed))
    keep = there(prev)[..., None] | (torch.arange(flat.shape[-1]) == 0)
    other = prev.with_flat(torch.where(keep, flat, junk), prev.id)
    told = (sight(seed=seed), noise(seed=seed), model.glimpse)
    (a, paid_a), (b, paid_b) = (model.propagation.infer(each, *told) for each in (prev, other))
    for x, y in zip(vars(paid_a).values(), vars(paid_b).values(), strict=True):
        close(x, y)
    close(a.flat()[there(prev)], b.flat()[there(prev)])
    assert not b.o.pres[~there(prev)].any()


@torch.no_grad()
def test_an_object_knows_those_before_it_and_not_those_after() -> None:
    model, prev = lively(), objects()
    first = prev.with_flat(prev.flat() * (1 + 0.3 * (torch.arange(3) == 0)[:, None]), prev.id)
    last = prev.with_flat(prev.flat() * (1 + 0.3 * (torch.arange(3) == 2)[:, None]), prev.id)
    first, last = (replace(each, o=replace(each.o, pres=prev.o.pres)) for each in (first, last))
    told = (sight(), noise(), model.glimpse)
    plain, one, two = (model.propagation.infer(x, *told)[0].o.xy for x in (prev, first, last))
    assert (plain[:, 2] - one[:, 2]).abs().max() > 1e-3
    close(plain[:, 0], two[:, 0])


@torch.no_grad()
def test_imagination_is_the_prior() -> None:
    model, prev, eps = lively(), objects(), noise()
    p_where, p_what, _, h = model.propagation.prior(prev.o, prev.h_prior)
    got = model.propagation.imagine(prev, eps)
    close(where_of(got.o), p_where.mean + p_where.std * eps.where)
    close(got.o.what, p_what.mean + p_what.std * eps.what)
    close(got.h_prior, h)
    assert torch.equal(got.o.pres, prev.o.pres)


# -- all of it


@torch.no_grad()
def test_the_loss_is_the_bound_of_what_was_drawn() -> None:
    """Without wheels and costs: the weight of each sample of each video, term by term."""
    model = lively(schedule=SqairSchedule().steady(3), likelihood_std=0.8)
    video, stage = torch.rand(2, 3, 3, 64, 64, generator=generator()), model.stage(0)
    eps = model.noise(2, stage, generator(1))
    got = model.loss(Batch(video), eps, torch.tensor(0), stage)
    total = 0.0
    for row in range(2):
        log_w = []
        for sample in range(3):
            one = map_tensors(lambda x, at=(row, sample): x[at][None], eps)
            tracked = model.track(None, video[row][None], one, torch.ones(3))
            value = 0.0
            for t, each in enumerate(tracked):
                mu = model.renderer(each.objects.o).mu_fg[0]
                value += log_normal(video[row, t], mu, torch.full_like(mu, 0.8))
                for ratios in (each.known, each.found):
                    value -= float(ratios.where + ratios.what + ratios.pres)
            log_w.append(value)
        total += float(torch.tensor(log_w).double().logsumexp(0)) - math.log(3)
    assert float(got.total) == pytest.approx(-total / 2 / 3, rel=1e-5)


def test_the_schedule_takes_the_wheels_off_and_changes_the_costs() -> None:
    costs = {"cost": Anneal(80.0, 60.0, 20, 40), "upkeep": Anneal(0.0, 40.0, 10, 30)}
    schedule = SqairSchedule(wheels=10, **costs)
    now = [[float(x) for x in schedule.now(torch.tensor(step))] for step in (0, 10, 20, 30, 99)]
    assert now == [[0, 80, 0], [1, 80, 0], [1, 80, 20], [1, 70, 40], [1, 60, 40]]
    assert [float(x) for x in schedule.steady(3).now(torch.tensor(0))] == [1, 0, 0]


@torch.no_grad()
def test_costs_lower_the_bound_by_themselves_for_each_object() -> None:
    """Exactly so while objects are certain: one is found in the first frame and stays."""
    free = lively(schedule=SqairSchedule().steady(3), num_objects=1)
    free.discovery.mlp_pres[-1].bias[0] = free.propagation.mlp_pres[-1].bias[0] = 60
    costs = {"cost": Anneal(7.0, 7.0), "upkeep": Anneal(2.0, 2.0)}
    dear = lively(schedule=replace(free.cfg.schedule, **costs), num_objects=1)
    dear.load_state_dict(free.state_dict())
    video = torch.rand(2, 3, 3, 64, 64, generator=generator())
    terms = [loss(model, video).terms["kl_pres"] for model in (free, dear)]
    assert float(terms[1] - terms[0]) == pytest.approx((7 + 2 + 2) / 3, rel=1e-4)


@torch.no_grad()
def test_with_training_wheels_a_video_has_one_object_throughout() -> None:
    model, video = lively(), torch.rand(2, 4, 3, 64, 64, generator=generator())
    eps = map_tensors(lambda x: x.flatten(0, 1), model.noise(2, Stage(4), generator(1)))
    now = model.cfg.schedule.now(torch.tensor(0))
    tracked = model.track(None, video, eps, torch.ones(4), now, samples=3)
    for each in tracked:
        assert each.objects.o.pres.sum(dim=(1, 2)).tolist() == [1] * 6
        assert each.objects.born.tolist() == [1] * 6
        assert not torch.stack([each.known.log_q, each.found.log_q]).any()


def test_gradients_of_presences_wait_for_the_wheels_to_come_off() -> None:
    model = build()
    video = torch.rand(2, 3, 3, 64, 64, generator=generator())
    for step, learns in ((0, False), (model.cfg.schedule.wheels, True)):
        model.zero_grad()
        loss(model, video, step=step).total.backward()
        for head in (model.discovery.mlp_pres, model.propagation.mlp_pres):
            assert bool((head[-1].weight.grad != 0).any()) == learns
