"""The context compared with A.1, one frame at a time."""

import pytest
import torch
import torch.nn.functional as F
from tiny import SIZES, generator, video
from torch import nn

from gswm.core.records import map_tensors
from gswm.models.gswm.context import Context
from gswm.models.layers import NoContext


def context() -> Context:
    torch.manual_seed(0)
    return Context(SIZES, 64)


def noise(batch: int = 2, time: int = 3) -> torch.Tensor:
    return torch.randn(batch, time, SIZES.context, generator=generator(1))


def gaussian(params: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean, std = params.chunk(2, dim=-1)
    return mean, F.softplus(std) + 1e-4


@torch.no_grad()
def test_inference_follows_the_paper() -> None:
    net, frames, eps = context(), video(), noise()
    got = net.infer(net.start(2), eps, frames)
    for b in range(2):
        (h_prior, c_prior), (h_post, c_post) = net.h_0[0], net.h_0[1]
        for t in range(3):
            p = gaussian(net.mlp_prior(h_prior))
            e_frame = net.conv(frames[b, t][None])[0]
            q = gaussian(net.mlp_post(torch.cat([h_post, e_frame])))
            z_ctx = q[0] + q[1] * eps[b, t]
            mu_bg = net.deconv(z_ctx[None])[0].sigmoid()
            h_prior, c_prior = net.rnn_prior(z_ctx, (h_prior, c_prior))
            h_post, c_post = net.rnn_post(z_ctx, (h_post, c_post))
            torch.testing.assert_close(got.mu_bg[b, t], mu_bg, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(got.q.mean[b, t], q[0], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(got.q.std[b, t], q[1], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(got.p.mean[b, t], p[0], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(got.p.std[b, t], p[1], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(got.states[t].h_prior.h[b], h_prior, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(got.states[t].h_post.c[b], c_post, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_imagination_follows_the_prior() -> None:
    net, eps = context(), noise()
    got = net.imagine(net.start(2), eps)
    h, c = net.h_0[0]
    for t in range(3):
        mean, std = gaussian(net.mlp_prior(h))
        z_ctx = mean + std * eps[0, t]
        torch.testing.assert_close(got.mu_bg[0, t], net.deconv(z_ctx[None])[0].sigmoid())
        h, c = net.rnn_prior(z_ctx, (h, c))
    assert float(got.q.kl(got.p).abs().max()) == 0


@torch.no_grad()
def test_imagination_goes_on_where_inference_stopped() -> None:
    """One frame at a time or all at once, from the state after the last."""
    net, eps = context(), noise()
    given = net.infer(net.start(2), eps, video())
    both = net.imagine(given.states[-1], eps)
    first = net.imagine(given.states[-1], eps[:, :1])
    rest = net.imagine(first.states[-1], eps[:, 1:])
    torch.testing.assert_close(torch.cat([first.mu_bg, rest.mu_bg], dim=1), both.mu_bg)


@torch.no_grad()
def test_later_frames_and_other_videos_are_not_seen() -> None:
    net, eps, frames = context(), noise(), video()
    other = frames.clone()
    other[:, 2] = 0
    a, b = (net.infer(net.start(2), eps, x) for x in (frames, other))
    torch.testing.assert_close(a.mu_bg[:, :2], b.mu_bg[:, :2])
    assert (a.mu_bg[:, 2] - b.mu_bg[:, 2]).abs().max() > 1e-4
    alone = net.infer(net.start(1), eps[1:], frames[1:])
    torch.testing.assert_close(alone.mu_bg, a.mu_bg[1:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [64, 128, 256, 512])
def test_an_image_of_any_size_is_encoded_from_4_by_4(size: int) -> None:
    """One convolution more for each doubling."""
    net = Context(SIZES, size)
    convolutions = [layer for layer in net.conv if isinstance(layer, nn.Conv2d)]
    assert size >> len(convolutions) == 4
    last = net.conv[-1]
    assert isinstance(last, nn.Linear)
    assert last.in_features == 512 * 4 * 4
    upscalings = [layer for layer in net.deconv if isinstance(layer, nn.PixelShuffle)]
    assert 4 << len(upscalings) == size


def test_without_a_context_the_background_is_black_and_costs_nothing() -> None:
    net = NoContext(64)
    got = net.infer(net.start(2), noise(), video())
    assert got.mu_bg.shape == (2, 3, 3, 64, 64)
    assert got.mu_bg.abs().max() == 0
    assert got.q.kl(got.p).shape == (2, 3, 0)
    assert list(net.state_dict()) == []
    assert len(got.states) == 3
    map_tensors(lambda x: x.repeat_interleave(2, dim=0), got.states[0])


def test_large_frames_have_the_gradients_of_their_own_encodings() -> None:
    torch.manual_seed(0)
    net, frames, eps = Context(SIZES, 128), video(size=128), noise()
    e_frame = net.conv(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
    found = [
        torch.autograd.grad(got.q.mean.square().sum(), list(net.conv.parameters()))
        for got in (net.infer(net.start(2), eps, frames), net.run(net.start(2), eps, e_frame))
    ]
    torch.testing.assert_close(found[0], found[1])
