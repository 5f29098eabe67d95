"""V-Prop compared with §3.3 and A.2, one object at a time."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import SIZES, generator, objects, slots, video
from torch import Tensor

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.records import map_tensors, tensors
from gswm.core.shapes import NOBODY
from gswm.models.gswm.propagation import (
    ALIKE,
    FADING,
    Drawn,
    NoStateLatent,
    Propagation,
    PropagationConfig,
    PropagationNoise,
    StateLatent,
    UpdateScales,
    fade_twins,
    rescaled,
)
from gswm.models.objects import Attributes, Objects, Sizes

SEEDS = st.integers(0, 2**32 - 1)
CFG = PropagationConfig(
    proposal_range=(0.1, 0.3),
    update=UpdateScales(depth=0.9, xy=0.5, hw=0.2, what=0.3),
    tau=0.7,
    position_scale=3.0,
)
STATELESS = replace(SIZES, state=0)


def propagation(cfg: PropagationConfig = CFG, sizes: Sizes = SIZES) -> Propagation:
    torch.manual_seed(0)
    return Propagation(cfg, sizes, 64)


def noise(num: int = 3, seed: int = 5, sizes: Sizes = SIZES) -> PropagationNoise:
    g = generator(seed)
    return PropagationNoise(
        *(torch.randn(2, num, n, generator=g) for n in (sizes.state, sizes.z_att, 1))
    )


def gaussian(params: Tensor) -> tuple[Tensor, Tensor]:
    mean, std = params.chunk(2)
    return mean, F.softplus(std) + 1e-4


def naive_rnn(net: Propagation, which: str, prev: Objects, mu_bg: Tensor, b: int, k: int):
    """h of object k after RNN_os, from its input [o, z_state, e_ctx, e_rel], xy scaled."""
    rnn = getattr(net, f"rnn_{which}")
    state = getattr(prev, f"h_{which}")
    o, scale = prev.o, net.cfg.position_scale
    own = [
        torch.cat([o.pres[b, j], o.depth[b, j], o.hw[b, j], scale * o.xy[b, j], o.what[b, j]])
        for j in range(o.pres.shape[1])
    ]
    own = [torch.cat([own[j], prev.z_state[b, j]]) for j in range(len(own))]
    u = torch.stack([torch.cat([own[j], state.h[b, j]]) for j in range(len(own))])
    e_rel = rnn.interaction(u[None], o.pres[b][None])[0, k]
    at = [-1 + (2 * i + 1) / 16 for i in range(16)]
    (x, y), (h, w) = o.xy[b, k].tolist(), o.hw[b, k].tolist()
    s_ctx = net.cfg.situation_size
    grid = [[[x + (w + s_ctx) * right, y + (h + s_ctx) * down] for right in at] for down in at]
    g_ctx = F.grid_sample(mu_bg[b][None], torch.tensor([grid]), align_corners=False)
    e_ctx = net.situation.conv_ctx_att(g_ctx)[0]
    x_os = rnn.mlp_os(torch.cat([own[k], e_ctx, e_rel]))
    return rnn.rnn_os(x_os, (state.h[b, k], state.c[b, k]))


def naive_prop(net: Propagation, prev: Objects, frame: Tensor, h: Tensor, b: int, k: int) -> Tensor:
    """e_prop: the frame around where object k was."""
    low, high = net.cfg.proposal_range
    (x, y), hw = prev.o.xy[b, k].tolist(), prev.o.hw[b, k]
    s_prop = hw + low + (high - low) * net.mlp_prop(h).sigmoid()
    at = [-1 + (2 * i + 1) / 16 for i in range(16)]
    sh, sw = s_prop.tolist()
    grid = [[[x + sw * right, y + sh * down] for right in at] for down in at]
    glimpse = F.grid_sample(frame[b][None], torch.tensor([grid]), align_corners=False)
    return net.conv_prop(glimpse)[0]


def naive_move(prev: Objects, z: Tensor, gate: Tensor, z_pres: Tensor, b: int, k: int) -> Tensor:
    """The five updates of A.2, on one object."""
    o, c = prev.o, CFG.update
    return torch.cat(
        [
            o.pres[b, k] * z_pres,
            o.depth[b, k] + c.depth * gate[:1] * z[:1],
            o.hw[b, k] + c.hw * gate[1:3] * torch.tanh(z[1:3]),
            o.xy[b, k] + c.xy * gate[3:5] * torch.tanh(z[3:5]),
            o.what[b, k] + c.what * gate[5:] * torch.tanh(z[5:]),
        ]
    )


@torch.no_grad()
@pytest.mark.parametrize("scale", [1.0, 32.0])
def test_rescaled_weights_are_the_same_function_of_positions(scale: float) -> None:
    net, other = propagation(), propagation(replace(CFG, position_scale=scale))
    named = {f"of.{name}": weight for name, weight in net.state_dict().items()}
    changed = rescaled(named, CFG.position_scale / scale, "of.")
    other.load_state_dict({name[3:]: weight for name, weight in changed.items()})
    assert all(torch.equal(weight, named[f"of.{n}"]) for n, weight in net.state_dict().items())
    frame, mu_bg = video().unbind(1)[:2]
    got, want = (tensors(each.infer(objects(), mu_bg, frame, noise())) for each in (other, net))
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_the_posterior_follows_the_paper() -> None:
    net, prev, eps = propagation(), objects(), noise()
    frame, mu_bg = video().unbind(1)[:2]
    got, evidence = net.infer(prev, mu_bg, frame, eps)
    latent, att = net.latent, SIZES.z_att
    assert isinstance(latent, StateLatent)
    for b in range(2):
        for k in range(3):
            h_prior, c_prior = naive_rnn(net, "prior", prev, mu_bg, b, k)
            h_post, c_post = naive_rnn(net, "post", prev, mu_bg, b, k)
            e_prop = naive_prop(net, prev, frame, h_post, b, k)
            mean, std = gaussian(latent.mlp_state_post(torch.cat([h_post, e_prop])))
            z_state = mean + std * eps.state[b, k]
            params = latent.mlp_att(z_state)
            z_pres = ((params[:1] + eps.pres[b, k]) / CFG.tau).sigmoid()
            z_mean, z_std = gaussian(params[1 : 1 + 2 * att])
            gate = params[1 + 2 * att :].sigmoid()
            o = naive_move(prev, z_mean + z_std * eps.att[b, k], gate, z_pres, b, k)

            close = {"atol": 1e-4, "rtol": 1e-3}
            torch.testing.assert_close(got.h_prior.h[b, k], h_prior, **close)
            torch.testing.assert_close(got.h_prior.c[b, k], c_prior, **close)
            torch.testing.assert_close(got.h_post.h[b, k], h_post, **close)
            torch.testing.assert_close(got.h_post.c[b, k], c_post, **close)
            torch.testing.assert_close(evidence.q.mean[b, k], mean, **close)
            torch.testing.assert_close(evidence.q.std[b, k], std, **close)
            torch.testing.assert_close(got.z_state[b, k], z_state, **close)
            torch.testing.assert_close(evidence.pres.logit[b, k], params[:1], **close)
            torch.testing.assert_close(got.o.cat()[b, k], o, **close)
            p_mean, p_std = gaussian(latent.mlp_state_prior(h_prior))
            p = latent.prior(evidence.h_prior)
            torch.testing.assert_close(p.mean[b, k], p_mean, **close)
            torch.testing.assert_close(p.std[b, k], p_std, **close)
    assert torch.equal(evidence.weight, prev.o.pres)


@torch.no_grad()
def test_the_prior_follows_the_paper_and_nobody_leaves() -> None:
    net, prev, eps = propagation(), objects(), noise()
    mu_bg = video()[:, 1]
    got = net.imagine(prev, mu_bg, eps)
    latent, att = net.latent, SIZES.z_att
    assert isinstance(latent, StateLatent)
    for b in range(2):
        for k in range(3):
            h, c = naive_rnn(net, "prior", prev, mu_bg, b, k)
            mean, std = gaussian(latent.mlp_state_prior(h))
            z_state = mean + std * eps.state[b, k]
            params = latent.mlp_att(z_state)
            z_mean, z_std = gaussian(params[1 : 1 + 2 * att])
            gate = params[1 + 2 * att :].sigmoid()
            z_att = z_mean + z_std * eps.att[b, k]
            o = naive_move(prev, z_att, gate, torch.ones(1), b, k)
            torch.testing.assert_close(got.o.cat()[b, k], o, atol=1e-4, rtol=1e-3)
            torch.testing.assert_close(got.h_prior.h[b, k], h, atol=1e-4, rtol=1e-3)
            torch.testing.assert_close(got.h_post.c[b, k], c, atol=1e-4, rtol=1e-3)
    assert torch.equal(got.o.pres, prev.o.pres)


@torch.no_grad()
def test_without_z_state_the_attributes_latents_come_from_h() -> None:
    """G-SWM-D: ungated; the depth too is scaled, not shifted; presence is the posterior's own."""
    net = propagation(replace(CFG, multimodal=False), STATELESS)
    prev, eps = objects(sizes=STATELESS), noise(sizes=STATELESS)
    frame, mu_bg = video().unbind(1)[:2]
    got, evidence = net.infer(prev, mu_bg, frame, eps)
    imagined = net.imagine(prev, mu_bg, eps)
    latent = net.latent
    assert isinstance(latent, NoStateLatent)
    ones = torch.ones(STATELESS.z_att)
    for b in range(2):
        for k in range(3):
            h_prior, _ = naive_rnn(net, "prior", prev, mu_bg, b, k)
            h_post, _ = naive_rnn(net, "post", prev, mu_bg, b, k)
            e_prop = naive_prop(net, prev, frame, h_post, b, k)
            params = latent.mlp_att_post(torch.cat([h_post, e_prop]))
            mean, std = gaussian(params[1:])
            z_pres = ((params[:1] + eps.pres[b, k]) / CFG.tau).sigmoid()
            o = naive_move(prev, mean + std * eps.att[b, k], ones, z_pres, b, k)
            torch.testing.assert_close(got.o.cat()[b, k], o, atol=1e-4, rtol=1e-3)
            torch.testing.assert_close(evidence.pres.logit[b, k], params[:1], atol=1e-4, rtol=1e-3)
            p_mean, p_std = gaussian(latent.mlp_att_prior(h_prior))
            o = naive_move(prev, p_mean + p_std * eps.att[b, k], ones, torch.ones(1), b, k)
            torch.testing.assert_close(imagined.o.cat()[b, k], o, atol=1e-4, rtol=1e-3)
    assert evidence.q.mean.shape == (2, 3, STATELESS.z_att)


@given(SEEDS, st.floats(1, 1e4))
def test_a_step_moves_no_further_than_its_scale(seed: int, large: float) -> None:
    prev, c, g = objects(seed=seed), CFG.update, generator(seed)
    z = large * torch.randn(2, 3, SIZES.z_att, generator=g)
    pres = Bernoulli(large * torch.randn(2, 3, 1, generator=g))
    gate = torch.rand(2, 3, SIZES.z_att, generator=g)
    drawn = Drawn(Gaussian(z, z), prev.z_state, pres, z, gate)
    o = propagation().move(prev.o, drawn, torch.zeros(2, 3, 1))
    for name in ("xy", "hw", "what"):
        step = (getattr(o, name) - getattr(prev.o, name)).abs().max()
        assert step <= getattr(c, name) + 1e-5, name
    assert (o.pres <= prev.o.pres).all()
    assert (o.pres >= 0).all()


@pytest.mark.parametrize("name", ["depth", "what"])
@given(seed=SEEDS)
def test_a_limit_bounds_an_attribute_and_changes_nothing_else(name: str, seed: int) -> None:
    prev, g = objects(seed=seed), generator(seed)
    z = 5 * torch.randn(2, 3, SIZES.z_att, generator=g)
    drawn = Drawn(
        Gaussian(z, z), prev.z_state, Bernoulli(z[..., :1]), z, torch.ones(2, 3, SIZES.z_att)
    )
    free, limited = (
        propagation(replace(CFG, **{f"{name}_limit": limit})).move(
            prev.o, drawn, torch.zeros(2, 3, 1)
        )
        for limit in (None, 0.5)
    )
    whole = getattr(free, name)
    assert whole.abs().max() > 0.5
    torch.testing.assert_close(getattr(limited, name), whole.clamp(-0.5, 0.5))
    assert torch.equal(replace(limited, **{name: whole}).cat(), free.cat())


@given(SEEDS)
def test_the_younger_of_two_twins_fades_as_by_loops(seed: int) -> None:
    """Boxes near two places, with two motions; ids and presences of empty slots too."""
    g = generator(seed)

    def one_of_two(size: float) -> Tensor:
        return size * torch.randint(2, (2, 5, 1), generator=g)

    like = objects(2, 5, seed)
    xy = one_of_two(0.9) + 0.005 * torch.rand(2, 5, 2, generator=g)
    moved = one_of_two(0.05) + 0.001 * torch.rand(2, 5, 2, generator=g)
    pres = torch.randint(0, 5, (2, 5, 1), generator=g) / 4
    ids = torch.stack([torch.randperm(5, generator=g) for _ in range(2)])
    ids = torch.where(torch.rand(2, 5, generator=g) < 0.2, NOBODY, ids)
    before = replace(like, o=replace(like.o, xy=xy - moved), id=ids)
    o = replace(like.o, xy=xy, hw=torch.full_like(xy, 0.3), pres=pres)
    got = fade_twins(before, replace(before, o=o), 0.8)
    for b in range(2):
        for k in range(5):
            twins = [
                j
                for j in range(5)
                if NOBODY != ids[b, j] < ids[b, k]
                and pres[b, j] > 0.5
                and (xy[b, j] - xy[b, k]).norm() < 0.1
                and (moved[b, j] - moved[b, k]).norm() < ALIKE
            ]
            assert got.o.pres[b, k] == pytest.approx((FADING if twins else 1) * pres[b, k])
    assert torch.equal(replace(got.o, pres=pres).cat(), o.cat())
    assert got.id is before.id


@given(st.sampled_from([-9.0, 9.0]))
def test_relative_updates_never_leave_the_numbers(size: float) -> None:
    net, o = propagation(replace(CFG, relative=True)), objects().o
    z = torch.full((2, 3, SIZES.z_att), size)
    drawn = Drawn(Gaussian(z, z), z, Bernoulli(z[..., :1]), z, torch.ones_like(z))
    for _ in range(2_000):
        o = net.move(o, drawn, torch.zeros(2, 3, 1))
    assert o.cat().isfinite().all()
    assert (o.hw > 0).all()


@given(SEEDS, st.floats(0.1, 2))
def test_relative_updates_scale_with_the_object(seed: int, factor: float) -> None:
    def moved(o: Attributes, margin: float) -> Attributes:
        net = propagation(replace(CFG, relative=True, proposal_range=(margin, margin)))
        return net.move(o, drawn, torch.zeros(2, 3, 1))

    prev, g = objects(seed=seed), generator(seed)
    z, gate = (torch.randn(2, 3, SIZES.z_att, generator=g) for _ in range(2))
    pres = Bernoulli(torch.zeros(2, 3, 1))
    drawn = Drawn(Gaussian(z, z), prev.z_state, pres, z, gate.sigmoid())
    one = moved(prev.o, 0.1)
    other = moved(replace(prev.o, hw=factor * prev.o.hw), factor * 0.1)
    torch.testing.assert_close(other.hw, factor * one.hw, atol=1e-6, rtol=1e-4)
    steps = [now.xy - prev.o.xy for now in (one, other)]
    torch.testing.assert_close(steps[1], factor * steps[0], atol=1e-5, rtol=1e-4)
    share = CFG.update.xy * gate.sigmoid()[..., 3:5] * z[..., 3:5].tanh()
    torch.testing.assert_close(steps[0], share * (prev.o.hw + 0.1).flip(-1), atol=1e-5, rtol=1e-4)
    ratio = CFG.update.hw * gate.sigmoid()[..., 1:3] * z[..., 1:3].tanh()
    torch.testing.assert_close(one.hw, prev.o.hw * ratio.exp(), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", ["attend", "whole", "off"])
@torch.no_grad()
def test_objects_have_no_order(kind: str) -> None:
    net, prev, eps = propagation(replace(CFG, situation=kind)), objects(), noise()
    frame, mu_bg = video(time=1)[:, 0], video(seed=1)
    seen = net.situation.survey(mu_bg)[:, 0]
    order = [2, 0, 1]
    got, _ = net.infer(prev, seen, frame, eps)
    other, _ = net.infer(slots(prev, order), seen, frame, map_tensors(lambda x: x[:, order], eps))
    torch.testing.assert_close(other.flat(), got.flat()[:, order], atol=1e-5, rtol=1e-4)
    assert torch.equal(other.id, got.id[:, order])


@torch.no_grad()
@settings(max_examples=5)
@given(SEEDS)
def test_empty_slots_change_nothing_for_the_others(seed: int) -> None:
    net, many, eps = propagation(), objects(2, 5, seed), noise(5)
    frame, mu_bg = video().unbind(1)[:2]
    pres = many.o.pres.clone()
    pres[:, 3:] = 0
    many = replace(many, o=replace(many.o, pres=pres))
    few = slots(many, slice(0, 3))
    got, evidence = net.infer(many, mu_bg, frame, eps)
    want, _ = net.infer(few, mu_bg, frame, map_tensors(lambda x: x[:, :3], eps))
    torch.testing.assert_close(got.flat()[:, :3], want.flat(), atol=1e-5, rtol=1e-4)
    assert got.o.pres[:, 3:].abs().max() == 0
    assert evidence.weight[:, 3:].abs().max() == 0
    imagined = net.imagine(many, mu_bg, eps).flat()[:, :3]
    alone = net.imagine(few, mu_bg, map_tensors(lambda x: x[:, :3], eps)).flat()
    torch.testing.assert_close(imagined, alone, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_batch_elements_do_not_meet() -> None:
    net, prev, eps = propagation(), objects(), noise()
    frame, mu_bg = video().unbind(1)[:2]
    got, _ = net.infer(prev, mu_bg, frame, eps)
    last, last_eps = map_tensors(lambda x: x[1:], prev), map_tensors(lambda x: x[1:], eps)
    alone, _ = net.infer(last, mu_bg[1:], frame[1:], last_eps)
    torch.testing.assert_close(alone.flat(), got.flat()[1:], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_the_prior_does_not_depend_on_the_posteriors_state() -> None:
    net, prev, eps = propagation(), objects(), noise()
    mu_bg = video()[:, 0]
    other = replace(prev, h_post=map_tensors(torch.zeros_like, prev.h_post))
    got = net.imagine(prev, mu_bg, eps).flat()
    assert torch.equal(got, net.imagine(other, mu_bg, eps).flat())


def test_no_gradient_passes_through_the_weight_of_a_slot() -> None:
    net, prev = propagation(), objects()
    pres = prev.o.pres.clone().requires_grad_()
    prev = replace(prev, o=replace(prev.o, pres=pres))
    _, evidence = net.infer(prev, video()[:, 0], video()[:, 1], noise())
    assert not evidence.weight.requires_grad


def test_new_objects_start_from_the_learned_state() -> None:
    rnn = propagation().rnn_prior
    state = rnn.start(2, 3)
    assert torch.equal(state.h, rnn.h_0[0].expand(2, 3, -1))
    assert torch.equal(state.c, rnn.h_0[1].expand(2, 3, -1))


def test_without_a_state_objects_hardly_move_at_first() -> None:
    """There is no gate that could hold them, and who moves at random is of no use."""
    net = propagation(replace(CFG, multimodal=False), STATELESS)
    h, e_prop = torch.randn(2, 3, SIZES.hidden), torch.randn(2, 3, SIZES.encoding)
    drawn = net.latent.post(h, e_prop, noise(sizes=STATELESS))
    for found in (drawn.q, net.latent.prior(h)):
        assert float(found.std.detach().log().mean().exp()) == pytest.approx(0.1, rel=0.5)
        assert float(found.std.detach().max()) < 0.3
