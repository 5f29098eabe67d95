"""The parts of OP3 compared with naive references: loops, plain convolutions, and autograd."""

import math
from dataclasses import replace
from typing import cast

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator
from tiny_op3 import SIZE, SIZES, build, slots
from torch import Tensor, nn

from gswm.core.errors import UserError
from gswm.core.geometry import centers
from gswm.core.networks import MLP
from gswm.data.batches.batch import Batch
from gswm.models.op3.decoder import BroadcastDecoder, SlotPictures
from gswm.models.op3.dynamics import PairDynamics
from gswm.models.op3.masks import MaskConfig, find, main_part
from gswm.models.op3.mixture import Mixture, drawn
from gswm.models.op3.op3 import Op3
from gswm.models.op3.refinement import Look, Standardize
from gswm.models.op3.schedule import Op3Schedule, Op3Stage
from gswm.models.op3.slots import Slots, as_gaussian

STD = 0.2


def picture(batch: int = 2, num: int = 3, size: int = 5, seed: int = 0) -> SlotPictures:
    g = generator(seed)
    return SlotPictures(
        torch.rand(batch, num, 3, size, size, generator=g),
        torch.randn(batch, num, 1, size, size, generator=g),
    )


def frame(batch: int = 2, size: int = 5, seed: int = 9) -> Tensor:
    return torch.rand(batch, 3, size, size, generator=generator(seed))


# -- slots


def test_softplus_gives_the_variance() -> None:
    lam = torch.tensor([[[0.3, -2.0]]])
    gaussian = as_gaussian(lam)
    assert gaussian.mean.item() == pytest.approx(0.3)
    assert gaussian.std.item() == pytest.approx(math.sqrt(math.log1p(math.exp(-2.0)) + 1e-5))


def test_the_first_prior_is_a_standard_normal() -> None:
    model = build()
    prior = as_gaussian(model.start(model.first_noise[None]).prior)
    assert not prior.mean.any()
    torch.testing.assert_close(prior.std, torch.ones_like(prior.std), atol=1e-4, rtol=0)


# -- decoder


def naive_decode(decoder: BroadcastDecoder, z: Tensor, size: int) -> Tensor:
    """The decoder's output, by convolutions of the tiled latents."""
    at = centers(size, z)
    place = torch.stack([at.expand(size, size), at[:, None].expand(size, size)])
    x = torch.cat(
        [z[:, :, None, None].expand(-1, -1, size, size), place.expand(len(z), -1, -1, -1)], 1
    )
    for i, conv in enumerate(decoder.convs):
        x = cast(nn.Conv2d, conv)(F.elu(x) if i else x)
    return x


@pytest.mark.parametrize("size", [8, 11])
def test_the_decoder_is_a_convolution_of_tiled_latents(size: int) -> None:
    torch.manual_seed(0)
    decoder = BroadcastDecoder(6, 4, size)
    nn.init.normal_(cast(Tensor, decoder.convs[0].bias))
    z = torch.randn(2, 3, 6)
    made = decoder(z)
    want = naive_decode(decoder, z.flatten(0, 1), size).unflatten(0, (2, 3))
    torch.testing.assert_close(torch.cat([made.mu, made.logit], dim=2), want, atol=1e-5, rtol=1e-4)


# -- mixture


def naive_nll(x: Tensor, shown: SlotPictures) -> Tensor:
    """Pixel by pixel, in Python's floats."""
    out = []
    batch, num, _, height, width = shown.mu.shape
    for b in range(batch):
        total = 0.0
        for row in range(height):
            for column in range(width):
                logits = [shown.logit[b, k, 0, row, column].item() for k in range(num)]
                norm = sum(map(math.exp, logits))
                mixed = 0.0
                for k in range(num):
                    p = 1.0
                    for c in range(3):
                        e = (x[b, c, row, column] - shown.mu[b, k, c, row, column]).item() / STD
                        p *= math.exp(-e * e / 2) / (STD * math.sqrt(2 * math.pi))
                    mixed += math.exp(logits[k]) / norm * p
                total -= math.log(mixed)
        out.append(total)
    return torch.tensor(out)


def test_the_likelihood_is_a_mixture_at_each_pixel() -> None:
    x, shown = frame(), picture()
    torch.testing.assert_close(Mixture.of(x, shown, STD).nll(), naive_nll(x, shown))


def test_a_pixel_far_from_every_slot_has_a_finite_likelihood_and_a_gradient() -> None:
    shown = picture()
    mu = (shown.mu + 20).requires_grad_()
    mixture = Mixture.of(frame(), replace(shown, mu=mu), 0.05)
    mixture.nll().sum().backward()
    assert mu.grad is not None
    assert torch.isfinite(mixture.nll()).all()
    assert (mu.grad.sum(dim=1) > 0).all()


def test_gradients_by_masks_and_colors_are_those_of_autograd() -> None:
    x, shown = frame(), picture()
    m = shown.logit.softmax(dim=1).requires_grad_()
    mu = shown.mu.clone().requires_grad_()
    p = (-(x[:, None] - mu).square().sum(dim=2, keepdim=True) / (2 * STD**2)).exp()
    p = p / (STD * math.sqrt(2 * math.pi)) ** 3
    by_m, by_mu = torch.autograd.grad(-(m * p).sum(dim=1).log().sum(), (m, mu))
    mixture = Mixture.of(x, shown, STD)
    torch.testing.assert_close(mixture.by_mask(), by_m, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mixture.by_color(), by_mu, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mixture.apart(), p / p.sum(dim=1, keepdim=True))
    torch.testing.assert_close(mixture.mixed(), (m * p).sum(dim=1, keepdim=True).expand_as(p))
    rest = torch.stack(
        [(m * p)[:, [j for j in range(3) if j != k]].sum(dim=1) for k in range(3)], 1
    )
    torch.testing.assert_close(mixture.others(), rest, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(drawn(shown), (m * mu).sum(dim=1))


def test_a_slot_that_explains_a_pixel_but_has_no_mask_there_leaves_refinement_finite() -> None:
    model, known = build(), slots()
    x = frame(size=SIZE)
    look = model.look(x, known)
    mu = torch.stack([x, x + 5, x - 5], dim=1)
    logit = torch.tensor([-500.0, 0, 1])[:, None, None, None].expand_as(look.picture.logit)
    far = Mixture.of(x, SlotPictures(mu, logit), model.cfg.std)
    assert far.by_mask().isfinite().all()
    assert model.refinement.images(replace(look, mixture=far)).isfinite().all()


# -- refinement


def loss_of(model: Op3, x: Tensor, known: Slots, lam: Tensor) -> Tensor:
    """The loss of one step, by plain convolutions."""
    mean, raw = lam.chunk(2, dim=-1)
    std = (F.softplus(raw) + 1e-5).sqrt()
    z = torch.cat([known.d, mean + std * known.eps], dim=-1)
    made = naive_decode(model.decoder, z.flatten(0, 1), SIZE).unflatten(0, z.shape[:2])
    p = (-(x[:, None] - made[:, :, :3]).square() / (2 * model.cfg.std**2)).sum(dim=2).exp()
    p = p / (model.cfg.std * math.sqrt(2 * math.pi)) ** 3
    nll = -(made[:, :, 3].softmax(dim=1) * p).sum(dim=1).log().sum()
    prior_mean, raw = known.prior.chunk(2, dim=-1)
    prior = torch.distributions.Normal(prior_mean, (F.softplus(raw) + 1e-5).sqrt())
    kl = torch.distributions.kl_divergence(torch.distributions.Normal(mean, std), prior)
    return nll + model.cfg.beta * kl.sum()


def normalized(values: Tensor, norm: Standardize) -> Tensor:
    """Slot by slot."""
    out = torch.empty_like(values)
    for b in range(values.shape[0]):
        for k in range(values.shape[1]):
            flat = values[b, k].flatten().double()
            mean = flat.sum() / len(flat)
            std = ((flat - mean).square().sum() / (len(flat) - 1)).sqrt()
            out[b, k] = (values[b, k] - mean) / (std + 1e-6) * norm.gain + norm.shift
    return out


@pytest.mark.parametrize("learning", [True, False])
def test_a_refinement_is_the_networks_of_what_autograd_gives(
    learning: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, known = build(beta=0.5, std=0.5), frame(size=SIZE), slots()
    for norm in (model.refinement.norm_color, model.refinement.norm_mean):
        nn.init.normal_(norm.shift)
    seen: list[tuple[Tensor, ...]] = []
    update = model.refinement.update
    monkeypatch.setattr(model.refinement, "update", lambda *a: seen.append(a[:3]) or update(*a))
    with torch.set_grad_enabled(learning):
        look = model.look(x, known)
        new = model.refine(look, known.eps)
    assert new.lam.requires_grad == learning
    assert torch.equal(new.d, known.d)
    assert torch.equal(new.prior, known.prior)

    lam = known.lam.clone().requires_grad_()
    (by_lam,) = torch.autograd.grad(loss_of(model, x, known, lam), lam)
    net, shown, mixture = model.refinement, look.picture, look.mixture
    m, mix = shown.logit.softmax(dim=1), mixture.log_mix.exp()
    p = mixture.log_p.exp()
    at = centers(SIZE, x)
    images = torch.cat(
        [
            *(x[:, None].expand_as(shown.mu), shown.mu, m, shown.logit, p / p.sum(1, True)),
            normalized(-p / mix, net.norm_mask),
            normalized(mix.expand_as(p), net.norm_mix),
            normalized(mix - m * p, net.norm_others),
            normalized(-m * p / mix * (x[:, None] - shown.mu) / model.cfg.std**2, net.norm_color),
            at.expand(2, 3, 1, SIZE, SIZE),
            at[:, None].expand(2, 3, 1, SIZE, SIZE),
        ],
        dim=2,
    )
    assert images.shape[2] == 17
    features, told, given_lam = seen[0]
    assert torch.equal(given_lam, known.lam)
    want = net.conv(images.flatten(0, 1)).unflatten(0, (2, 3))
    torch.testing.assert_close(features, want, rtol=1e-3, atol=1e-4)
    s = SIZES.state
    for part, norm, mine in (
        (by_lam[..., :s], net.norm_mean, told[..., :s]),
        (by_lam[..., s:], net.norm_variance, told[..., s : 2 * s]),
    ):
        torch.testing.assert_close(mine, normalized(part, norm), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(told[..., 2 * s :], known.s)


def test_an_update_is_an_lstm_of_each_slot() -> None:
    net, known = build().refinement, slots()
    g = generator(3)
    seen = torch.randn(2, 3, 2 * SIZES.channels, generator=g)
    told = torch.randn(2, 3, 3 * SIZES.state, generator=g)
    lam, memory = net.update(seen, told, known.lam, known.memory)
    for b in range(2):
        for k in range(3):
            vector = torch.cat([F.elu(net.linear(seen[b, k])), told[b, k], known.lam[b, k]])
            h, c = net.lstm(vector, (known.memory.h[b, k], known.memory.c[b, k]))
            torch.testing.assert_close(memory.h[b, k], h)
            torch.testing.assert_close(memory.c[b, k], c)
            torch.testing.assert_close(lam[b, k], known.lam[b, k] + net.head(h))


def test_second_derivatives_change_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients that refinement sees are constants: training needs no graph of them."""
    grads, grad = [], torch.autograd.grad
    for graph in (False, True):

        def with_graph(*args: object, graph: bool = graph, **how: object) -> object:
            found = grad(*args, **how, create_graph=graph)  # type: ignore[arg-type]
            return tuple(each.detach() for each in found)

        monkeypatch.setattr(torch.autograd, "grad", with_graph)
        model = build()
        stage = model.stage(0)
        noise = model.noise(2, stage, generator())
        video = torch.rand(2, 3, 3, SIZE, SIZE, generator=generator(1))
        model.loss(Batch(video), noise, torch.tensor(0), stage).total.backward()
        grads.append([param.grad for param in model.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


# -- dynamics


def one(net: MLP, *parts: Tensor) -> Tensor:
    """An MLP with one hidden layer."""
    first, last = cast(nn.Linear, net[0]), cast(nn.Linear, net[2])
    return last(F.elu(first(torch.cat(parts))))


def test_dynamics_are_sums_over_pairs() -> None:
    torch.manual_seed(0)
    net = PairDynamics(SIZES.state, SIZES.hidden, SIZES.effect)
    z = torch.randn(2, 4, 2 * SIZES.state)
    d, lam = net(z)
    for b in range(2):
        e = [F.elu(one(net.encode, z[b, i])) for i in range(4)]
        for i in range(4):
            felt = torch.zeros(SIZES.effect)
            for j in range(4):
                if j != i:
                    w = F.elu(one(net.pair, e[i], e[j]))
                    felt += one(net.gate, w).sigmoid() * F.elu(one(net.effect, w))
            g = F.elu(one(net.gather, e[i], felt))
            torch.testing.assert_close(d[b, i], one(net.next_d, g))
            want = torch.cat([one(net.next_mean, g), one(net.next_variance, g)])
            torch.testing.assert_close(lam[b, i], want)


# -- masks


def naive_part(region: list[list[bool]]) -> set[tuple[int, int]]:
    """The pixels that are connected with the most crowded one, which is the first of equals."""
    size = len(region)
    inside = {(y, x) for y in range(size) for x in range(size) if region[y][x]}
    if not inside:
        return set()
    near = {
        (y, x): sum((y + i, x + j) in inside for i in range(-2, 3) for j in range(-2, 3))
        for y, x in inside
    }
    first = min(inside, key=lambda at: (-near[at], at))
    part, todo = {first}, [first]
    while todo:
        y, x = todo.pop()
        for i in (-1, 0, 1):
            for j in (-1, 0, 1):
                if (at := (y + i, x + j)) in inside - part:
                    part.add(at)
                    todo.append(at)
    return part


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.45, 0.6, 1.0]))
def test_a_box_is_that_of_the_connected_part(seed: int, share: float) -> None:
    size = 12
    masks = torch.rand(2, 2, size, size, generator=generator(seed))
    found, part = find(masks, 1 - share), main_part(masks > 1 - share)
    for b in range(2):
        for k in range(2):
            want = naive_part((masks[b, k] > 1 - share).tolist())
            assert {(y, x) for y, x in part[b, k].nonzero().tolist()} == want
            assert found.share[b, k].item() == pytest.approx(len(want) / size**2)
            if not want:
                assert not found.xy[b, k].any()
                assert not found.hw[b, k].any()
                continue
            ys, xs = zip(*want, strict=True)
            middle = [(min(at) + max(at) + 1) / size - 1 for at in (xs, ys)]
            assert found.xy[b, k].tolist() == pytest.approx(middle)
            extent = [(max(at) + 1 - min(at)) / size for at in (ys, xs)]
            assert found.hw[b, k].tolist() == pytest.approx(extent)


def test_a_part_may_wind_as_long_as_it_likes() -> None:
    size = 15
    region = torch.zeros(1, 1, size, size, dtype=torch.bool)
    region[0, 0, ::2] = True
    for i, row in enumerate(range(1, size, 2)):
        region[0, 0, row, 0 if i % 2 else -1] = True
    assert torch.equal(main_part(region), region)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"smallest": 0.3}, "masks.smallest is 0.3"),
        ({"largest": 1.5}, "masks.largest 1.5"),
        ({"threshold": 1.0}, "masks.threshold is 1.0"),
    ],
)
def test_bounds_between_which_nothing_lies_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        replace(MaskConfig(), **changes).check()


# -- schedule


@pytest.mark.parametrize(
    ("length", "ahead", "order"),
    [(1, 0, "RRR"), (3, 0, "RRRPRRPRR"), (4, 2, "RRRPRRPP"), (2, 5, "RRRP")],
)
def test_refinements_and_predictions_alternate(length: int, ahead: int, order: str) -> None:
    schedule = Op3Schedule(first=3, later=2)
    assert schedule.order(Op3Stage(length, ahead=ahead)) == order


def test_stages_follow_the_step() -> None:
    schedule = Op3Schedule(lengths=((0, 1), (5, 4)), ahead=((0, 0), (7, 2)))
    stages = [(s.length, s.ahead) for s in map(schedule.stage, range(9))]
    assert stages == [(1, 0)] * 5 + [(4, 0)] * 2 + [(4, 2)] * 2
    assert schedule.steady(3).stage(8) == Op3Stage(3)


def test_a_look_has_the_gradient_of_its_own_step_alone() -> None:
    """No hook of λ sees it: those that gather gradients for later are not misled."""
    model, known, seen = build(), slots(), list[Tensor]()
    lam = known.lam.clone().requires_grad_()
    lam.register_hook(seen.append)
    look: Look = model.look(frame(size=SIZE), replace(known, lam=lam))
    model.refine(look, known.eps)
    assert seen == []
