"""SuPAIR, matching and dynamics of STOVE, each compared with a plain reference."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from tiny import generator
from torch import Tensor, nn
from torch.distributions import Normal

from gswm.core.distributions import Gaussian
from gswm.core.geometry import crop, paste
from gswm.models.stove.dynamics import Dynamics, DynamicsConfig
from gswm.models.stove.matching import Matching, greedy, in_order, with_velocities
from gswm.models.stove.scene import as_hw
from gswm.models.stove.spn import SPNConfig
from gswm.models.stove.supair import (
    EncoderConfig,
    ImageModel,
    ImagesConfig,
    SupairEncoder,
    as_grey,
    hues,
)

SIZE = 16
SPN = SPNConfig(depth=2, repetitions=2, leaves=3, sums=2, variance=(0.1, 0.3))
IMAGES = ImagesConfig(patch=4, overlap_rate=7.0, patch_weight=3.0, object=SPN, background=SPN)


def rand(*shape: int, seed: int = 0, low: float = 0, high: float = 1) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=generator(seed))


def lively(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module with weights that are large enough to matter."""
    with torch.no_grad():
        for param in module.parameters():
            param.copy_(0.5 * torch.randn(param.shape, generator=generator(seed)))
    return module.requires_grad_(False)


# -- SuPAIR: images


@pytest.mark.parametrize("channels", [1, 3])
def test_a_frame_is_as_likely_as_its_boxes_one_after_the_other_say(channels: int) -> None:
    model = lively(ImageModel(IMAGES, SIZE, channels))
    images, xy = rand(2, channels, SIZE, SIZE), rand(2, 3, 2, seed=1, low=-0.8, high=0.8)
    hw = rand(2, 3, 2, seed=2, low=0.2, high=0.6)
    got = model(images, xy, hw)
    for n in range(2):
        mask, patches, overlap = torch.zeros(1, 1, SIZE, SIZE), 0.0, 0.0
        for k in range(3):
            box = (xy[n : n + 1, k : k + 1], hw[n : n + 1, k : k + 1])
            covered = 1 - crop(1 - mask, *box, 4)[0, 0]
            patch = crop(images[n : n + 1], *box, 4)[0, 0]
            counts = (1 - covered).expand(channels, 4, 4)
            log_p = model.spn_object(patch.reshape(1, -1), counts.reshape(1, -1))
            patches += 3.0 * float(hw[n, k, 0] * hw[n, k, 1] * log_p)
            overlap += math.log(7.0) - 7.0 * float(covered.mean())
            torch.testing.assert_close(got.hidden[n, k], covered.mean(), atol=1e-5, rtol=0)
            mask = (mask + paste(torch.ones(1, 1, 1, 4, 4), *box, SIZE)[:, 0]).clamp(0, 1)
        left = (1 - mask).expand(1, channels, SIZE, SIZE)
        background = model.spn_background(images[n].reshape(1, -1), left.reshape(1, -1))
        torch.testing.assert_close(got.background[n], background[0])
        assert got.patches[n].item() == pytest.approx(patches, rel=1e-4)
        assert got.overlap[n].item() == pytest.approx(overlap, rel=1e-4)


@pytest.mark.parametrize(
    ("places", "hidden"),
    [
        ([(-0.5, -0.5), (0.5, 0.5)], (0, 0)),
        ([(0.2, 0.1), (0.2, 0.1)], (0, 1)),
        ([(0.0, 0.0), (1.0, 0.0)], (0, 0.5)),
        ([(0.0, 0.0), (0.25, 0.0)], (0, 0.5)),
    ],
    ids=["apart", "one over the other", "half outside", "half over the other"],
)
def test_what_is_hidden_is_what_others_cover_and_what_is_outside(
    places: Sequence[tuple[float, float]], hidden: tuple[float, float]
) -> None:
    model = ImageModel(ImagesConfig(), 64, 1)
    xy, hw = torch.tensor([places]), torch.full((1, 2, 2), 0.25)
    got = model(rand(1, 1, 64, 64), xy, hw).hidden[0]
    assert got.tolist() == pytest.approx(hidden, abs=0.06)


def test_an_earlier_box_owns_its_pixels() -> None:
    """Pixels under it do not count for later objects or for the background."""
    model = lively(ImageModel(IMAGES, SIZE, 1))
    xy, hw = torch.zeros(1, 2, 2), torch.tensor([[[0.9, 0.9], [0.3, 0.3]]])
    images = rand(1, 1, SIZE, SIZE)
    other = images.clone()
    other[..., 5:11, 5:11] = 0
    a, b = model(images, xy, hw), model(other, xy, hw)
    assert a.background == b.background
    torch.testing.assert_close(a.hidden[0, 1], torch.tensor(1.0))
    alone = model(other, xy[:, :1], hw[:, :1])
    torch.testing.assert_close(b.patches, alone.patches)
    assert a.patches != b.patches


def test_a_box_learns_from_what_it_uncovers() -> None:
    """Its place and size have gradients through the background alone."""
    model = lively(ImageModel(IMAGES, SIZE, 1))
    xy, hw = (
        torch.full((1, 1, 2), 0.1).requires_grad_(),
        torch.full((1, 1, 2), 0.4).requires_grad_(),
    )
    model(rand(1, 1, SIZE, SIZE), xy, hw).background.sum().backward()
    assert xy.grad is not None
    assert hw.grad is not None
    assert (xy.grad != 0).all()
    assert (hw.grad != 0).all()


def test_the_background_alone_is_that_of_no_boxes() -> None:
    model, images = lively(ImageModel(IMAGES, SIZE, 1)), rand(2, 1, SIZE, SIZE)
    want = model.spn_background(images.flatten(1), torch.ones(2, SIZE**2))
    assert torch.equal(model.log_background(images, None), want)


def test_a_drawn_object_is_in_its_box_and_has_its_hue() -> None:
    model = ImageModel(ImagesConfig(), 64, 1).requires_grad_(False)
    model.spn_object.mean.fill_(1)
    model.spn_background.mean.fill_(0)
    xy, hw = torch.tensor([[[0.5, -0.25]]]), torch.full((1, 1, 2), 0.25)
    red = torch.tensor([[[1.0, 0, 0]]])
    drawn, background = model.draw(xy, hw, torch.ones(1, 1, 1), red)
    assert not background.any()
    assert not drawn[:, 1:].any()
    at = (torch.arange(64) + 0.5) / 32 - 1
    mass = drawn[0, 0].sum()
    assert (drawn[0, 0].sum(0) * at).sum() / mass == pytest.approx(0.5, abs=0.01)
    assert (drawn[0, 0].sum(1) * at).sum() / mass == pytest.approx(-0.25, abs=0.01)
    assert mass.item() == pytest.approx(16 * 16, rel=0.1)
    assert not model.draw(xy, hw, torch.zeros(1, 1, 1), red)[0].any()


def test_a_hue_is_the_color_of_what_is_in_the_box_however_much_that_is() -> None:
    images = torch.zeros(1, 3, 64, 64)
    images[0, 0, 10:20, 10:20] = 1
    images[0, :, 40:60, 40:60] = torch.tensor([0.2, 0.1, 0.6])[:, None, None]
    at = torch.tensor([[[15 / 32 - 1, 15 / 32 - 1], [50 / 32 - 1, 50 / 32 - 1], [0.7, -0.7]]])
    got = hues(images, at, torch.tensor([[[0.25, 0.25], [0.5, 0.4], [0.2, 0.2]]]), 10)
    grey = 0.9
    want = [[1, 0, 0], [0.2 / grey, 0.1 / grey, 0.6 / grey], [0, 0, 0]]
    torch.testing.assert_close(got[0], torch.tensor(want))
    assert as_grey(images).max() == 1


# -- SuPAIR: encoder


def test_the_encoder_is_an_lstm_that_sees_the_image_once_for_each_object() -> None:
    encoder = lively(SupairEncoder(EncoderConfig(hidden=6, features=5), 4, 3, 3))
    lstm = nn.LSTM(48, 6, batch_first=True).requires_grad_(False)
    for name, param in encoder.lstm.named_parameters():
        getattr(lstm, f"{name}_l0").copy_(param)
    images = rand(2, 3, 4, 4)
    h, _ = lstm(images.flatten(1)[:, None].expand(-1, 3, -1))
    out = encoder.linear_2(encoder.linear_1(h).sigmoid())
    got = encoder(images)
    bounds = [(0.1, 0.4), (0.75, 1.25), (-0.9, 0.9), (-0.9, 0.9)]
    for i, (low, high) in enumerate(bounds):
        mean = low + (high - low) * out[..., i].sigmoid()
        torch.testing.assert_close(got.mean[..., i], mean)
        torch.testing.assert_close(got.std[..., i], 0.3 * out[..., 4 + i].sigmoid())


def test_the_encoders_first_weights_are_those_of_the_release() -> None:
    encoder = SupairEncoder(EncoderConfig(), 8, 1, 3)
    for layer in (encoder.linear_1, encoder.linear_2):
        assert (layer.bias == 0.1).all()
        bound = math.sqrt(6 / (layer.in_features + layer.out_features))
        assert 0.9 * bound < layer.weight.abs().max() <= bound


# -- matching


def followed(features: Tensor) -> Tensor:
    """Frame by frame, with the order of the frame before, by scipy."""
    batch, time, num, _ = features.shape
    orders = torch.zeros(batch, time, num, dtype=torch.long)
    for b in range(batch):
        order = list(range(num))
        orders[b, 0] = torch.tensor(order)
        for t in range(1, time):
            before, after = features[b, t - 1][order], features[b, t]
            cost = (before[:, None] - after[None]).square().sum(-1)
            order = linear_sum_assignment(cost)[1].tolist()
            orders[b, t] = torch.tensor(order)
    return orders


@pytest.mark.parametrize("num", [1, 2, 3, 5])
def test_objects_are_matched_as_cheaply_as_can_be(num: int) -> None:
    features = rand(3, 4, num, 2, seed=num)
    assert torch.equal(Matching(num)(features), followed(features))


def test_many_objects_are_matched_nearest_first() -> None:
    cost = rand(3, 7, 7)
    got = greedy(cost)
    for n in range(3):
        left = {(i, j): float(cost[n, i, j]) for i in range(7) for j in range(7)}
        while left:
            i, j = min(left, key=lambda pair: left[pair])
            assert got[n, i] == j
            left = {(a, b): c for (a, b), c in left.items() if a != i and b != j}


@pytest.mark.parametrize("num", [3, 7])
def test_it_does_not_matter_in_which_order_later_frames_come(num: int) -> None:
    features, g = rand(2, 4, num, 2), generator(5)
    shuffled = features.clone()
    for b in range(2):
        for t in range(1, 4):
            shuffled[b, t] = features[b, t, torch.randperm(num, generator=g)]
    matching = Matching(num)
    ours, theirs = (in_order(x, matching(x)) for x in (features, shuffled))
    assert torch.equal(ours, theirs)


def test_slow_objects_keep_their_slots() -> None:
    places = torch.tensor([[-0.5, 0], [0.5, 0], [0, 0.6]])
    path = torch.stack([places + 0.05 * t for t in range(5)])
    mixed = torch.stack([frame.roll(t, 0) for t, frame in enumerate(path)])[None]
    got = in_order(mixed, Matching(3)(mixed))
    assert torch.equal(got[0], path)


def test_a_velocity_is_what_was_moved_and_as_unsure_as_both_places() -> None:
    where = Gaussian(rand(2, 3, 2, 4), rand(2, 3, 2, 4, seed=1, low=0.1))
    got = with_velocities(where)
    assert torch.equal(got.mean[..., :4], where.mean)
    assert torch.equal(got.std[..., :4], where.std)
    assert not got.mean[:, 0, :, 4:].any()
    for t in (1, 2):
        moved = where.mean[:, t, :, 2:] - where.mean[:, t - 1, :, 2:]
        std = (where.std[:, t, :, 2:] ** 2 + where.std[:, t - 1, :, 2:] ** 2).sqrt()
        torch.testing.assert_close(got.mean[:, t, :, 4:], moved)
        torch.testing.assert_close(got.std[:, t, :, 4:], std)


# -- dynamics

WIDTH = 12
PLAIN = DynamicsConfig(width=WIDTH)
RICH = DynamicsConfig(width=WIDTH, hue=True, actions=5, rewards=True)
NUM = 3


def dynamics(cfg: DynamicsConfig = PLAIN, num: int = NUM) -> Dynamics:
    module = lively(Dynamics(cfg, num))
    assert isinstance(module, Dynamics)
    return module


def world(cfg: DynamicsConfig, num: int = NUM) -> list[Tensor]:
    """s, pres, hue and action."""
    s, pres = rand(2, num, cfg.width // 2, low=-1), torch.ones(2, num, 1)
    return [s, pres, rand(2, num, 3, seed=1), rand(2, cfg.actions or 1, seed=2)]


@pytest.mark.parametrize("cfg", [PLAIN, RICH], ids=["plain", "with hue, action and reward"])
def test_objects_move_as_the_pairs_one_by_one_say(cfg: DynamicsConfig) -> None:
    net = dynamics(cfg)
    s, pres, hue, action = world(cfg)
    pres[0, 1] = 0.5
    mean, reward = net(s, pres, hue, action)
    leaky = nn.LeakyReLU(0.01)
    for b in range(2):
        e, dyn = [], []
        for i in range(NUM):
            known = [s[b, i]]
            if cfg.hue:
                known += [hue[b, i], net.act(action[b])[4 * i : 4 * i + 4]]
            encoded = net.encode(torch.cat(known))
            e.append(torch.cat([s[b, i, :2], encoded[2:]]))
        for i in range(NUM):
            h = leaky(net.self_1(e[i]))
            total = net.self_2(h) + h
            for j in range(NUM):
                if i != j:
                    apart = (s[b, i, :2] - s[b, j, :2]).square().sum()[None]
                    c = torch.cat([e[i], e[j], apart])
                    r = leaky(net.rel_2(leaky(net.rel_1(c))))
                    a = net.att_3(leaky(net.att_2(leaky(net.att_1(c)))))
                    total = total + pres[b, j] * a.exp() * (net.rel_3(r) + r)
            dyn.append(total)
            f = net.affect_1(total).tanh()
            f = net.affect_3(net.affect_2(f).tanh() + f)
            o = net.out_1(torch.cat([f, e[i]])).tanh()
            out = net.out_2(o) + o
            m, u = 2 * out[:6].sigmoid() - 1, out[6:].sigmoid()
            want = torch.cat([s[b, i, :2] + m[:2], m[2:]])
            std = torch.cat([0.3 * u[:2], 0.04 * u[2:]])
            torch.testing.assert_close(mean.mean[b, i], want, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(mean.std[b, i], std, rtol=1e-4, atol=1e-6)
        if cfg.rewards:
            assert reward is not None
            total = sum(pres[b, i] * net.reward_each(dyn[i]) for i in range(NUM))
            torch.testing.assert_close(reward[b], net.reward_all(total)[0], rtol=1e-4, atol=1e-4)
    assert cfg.rewards or reward is None


@given(order=st.permutations(range(NUM)))
@settings(max_examples=6, deadline=None)
def test_dynamics_do_not_know_the_order_of_objects(order: list[int]) -> None:
    cfg = DynamicsConfig(width=WIDTH, hue=True, rewards=True)
    net = dynamics(cfg)
    s, pres, hue, _ = world(cfg)
    (a, reward), (b, other) = net(s, pres, hue, None), net(s[:, order], pres, hue[:, order], None)
    torch.testing.assert_close(a.mean[:, order], b.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(reward, other, rtol=1e-4, atol=1e-4)


def test_who_is_absent_is_not_felt() -> None:
    net = dynamics()
    s, pres, _, _ = world(PLAIN)
    pres[:, 1] = 0
    other = s.clone()
    other[:, 1] = 0.7
    a, b = (net(x, pres, None, None)[0].mean for x in (s, other))
    torch.testing.assert_close(a[:, [0, 2]], b[:, [0, 2]])
    without, _ = net(s[:, [0, 2]], pres[:, [0, 2]], None, None)
    torch.testing.assert_close(a[:, [0, 2]], without.mean)


def test_one_object_alone_has_dynamics_too() -> None:
    net = dynamics(num=1)
    s, pres, _, _ = world(PLAIN, 1)
    assert net(s, pres, None, None)[0].mean.shape == (2, 1, 6)


def test_an_action_is_for_each_slot_its_own() -> None:
    net = dynamics(RICH)
    s, pres, hue, action = world(RICH)
    same = s[:, :1].expand(-1, NUM, -1)
    moved = net(same, pres, hue[:, :1].expand(-1, NUM, -1), action)[0].mean
    assert (moved[:, 0] - moved[:, 1]).abs().max() > 1e-3
    other = net(s, pres, hue, action + 1)[0].mean
    assert (net(s, pres, hue, action)[0].mean - other).abs().max() > 1e-3


def test_the_posterior_multiplies_what_is_seen_with_what_is_expected() -> None:
    net, num = dynamics(), NUM
    s, pres, _, _ = world(PLAIN)
    seen = Gaussian(rand(2, num, 6, seed=3, low=-1), rand(2, num, 6, seed=4, low=0.05, high=0.3))
    noise = torch.randn(2, num, 8, generator=generator(5))
    z, evidence = net.infer(s, seen, noise, None, None)
    expected, _ = net(s, pres, None, None)
    assert torch.equal(evidence.p, expected.mean)
    torch.testing.assert_close(z, evidence.q.mean + evidence.q.std * noise)
    assert torch.equal(evidence.q.mean[..., :2], seen.mean[..., :2])
    assert torch.equal(evidence.q.std[..., 6:], expected.std[..., 4:])
    line = torch.linspace(-4, 4, 80_001, dtype=torch.double)
    step = line[1] - line[0]
    for d in range(4):
        both = [(seen.mean[0, 1, 2 + d], seen.std[0, 1, 2 + d])]
        both += [(expected.mean[0, 1, d], expected.std[0, 1, d])]
        density = sum(Normal(m.double(), s.double()).log_prob(line) for m, s in both).exp()
        density = density / (density.sum() * step)
        mean = (density * line).sum() * step
        std = ((density * (line - mean) ** 2).sum() * step).sqrt()
        assert evidence.q.mean[0, 1, 2 + d].item() == pytest.approx(mean.item(), abs=1e-4)
        assert evidence.q.std[0, 1, 2 + d].item() == pytest.approx(std.item(), rel=1e-3)


def test_the_surer_of_two_gaussians_wins_the_product() -> None:
    a, b = Gaussian(torch.tensor([1.0]), torch.tensor([0.1])), torch.tensor([-2.0])
    for unsure in (1e3, 1e4):
        both = a.times(Gaussian(b, torch.tensor([unsure])))
        torch.testing.assert_close(both.mean, a.mean, rtol=0, atol=1e-4)
        torch.testing.assert_close(both.std, a.std)
    torch.testing.assert_close(Gaussian(b, a.std).times(a).mean, torch.tensor([-0.5]))


def test_a_log_density_is_that_of_torch() -> None:
    p, at = Gaussian(rand(4, 2), rand(4, 2, seed=1, low=0.01)), rand(4, 2, seed=2)
    torch.testing.assert_close(p.log_density(at), Normal(p.mean, p.std).log_prob(at))


def test_a_box_is_a_width_and_a_ratio() -> None:
    assert as_hw(torch.tensor([0.4, 0.75])).tolist() == pytest.approx([0.3, 0.4])
