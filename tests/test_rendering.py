"""Rendering compared with A.4, one object and one pixel at a time."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tiny import SIZES, attributes, generator

from gswm.core.records import map_tensors, stack
from gswm.models.extents import edges
from gswm.models.gswm.rendering import DRAWN, EPS, Renderer, compose
from gswm.models.layers import Foreground
from gswm.models.objects import Attributes

SEEDS = st.integers(0, 2**32 - 1)


def renderer(image_size: int = 20) -> Renderer:
    torch.manual_seed(0)
    return Renderer(SIZES.what, image_size)


def test_composition_follows_the_paper_pixel_by_pixel() -> None:
    g = generator()
    alpha = torch.rand(2, 3, 1, 4, 5, generator=g)
    y = alpha * torch.rand(2, 3, 3, 4, 5, generator=g)
    depth = 2 * torch.randn(2, 3, 1, generator=g)
    got = compose(y, alpha, depth)
    for b in range(2):
        for i in range(4):
            for j in range(5):
                a = [float(alpha[b, k, 0, i, j]) for k in range(3)]
                near = [a[k] / (1 + math.exp(-float(depth[b, k, 0]))) for k in range(3)]
                w = [n / (sum(near) + EPS) for n in near]
                for c in range(3):
                    mu = sum(w[k] * float(y[b, k, c, i, j]) for k in range(3))
                    assert float(got.mu_fg[b, c, i, j]) == pytest.approx(mu, abs=1e-6)
                want = sum(w[k] * a[k] for k in range(3))
                assert float(got.alpha[b, 0, i, j]) == pytest.approx(want, abs=1e-6)


def test_a_frame_follows_the_paper_object_by_object() -> None:
    """From o_what to μ, with the paper's ST⁻¹ for each object."""
    net, o, mu_bg = renderer(), attributes(), torch.rand(2, 3, 20, 20, generator=generator(1))
    got = net(o).over(mu_bg)
    at = [-1 + (2 * i + 1) / 20 for i in range(20)]
    for b in range(2):
        y, alpha = [], []
        for k in range(3):
            glimpse = net.deconv_what(o.what[b, k][None])[0].sigmoid()
            alpha_att = glimpse[3:] * o.pres[b, k, 0]
            y_att = alpha_att * glimpse[:3]
            (x0, y0), (h, w) = o.xy[b, k].tolist(), o.hw[b, k].tolist()
            grid = torch.tensor([[[(u - x0) / w, (v - y0) / h] for u in at] for v in at])
            pasted = F.grid_sample(
                torch.cat([y_att, alpha_att])[None], grid[None], align_corners=False
            )
            y.append(pasted[0, :3])
            alpha.append(pasted[0, 3:])
        near = [alpha[k] * o.depth[b, k, 0].sigmoid() for k in range(3)]
        share = [n / (sum(near) + EPS) for n in near]
        mu_fg = sum(share[k] * y[k] for k in range(3))
        mask = sum(share[k] * alpha[k] for k in range(3))
        torch.testing.assert_close(got[b], mu_fg + (1 - mask) * mu_bg[b], atol=1e-5, rtol=1e-4)


@given(SEEDS)
def test_objects_have_no_order(seed: int) -> None:
    net, o = renderer(), attributes(seed=seed)
    order = torch.randperm(3, generator=generator(seed))
    a, b = net(o), net(map_tensors(lambda x: x[:, order], o))
    torch.testing.assert_close(a.mu_fg, b.mu_fg)
    torch.testing.assert_close(a.alpha, b.alpha)


@given(SEEDS)
def test_an_absent_object_leaves_no_trace(seed: int) -> None:
    net, o = renderer(), attributes(seed=seed)
    gone = replace(o, pres=o.pres * torch.tensor([1.0, 0.0, 1.0])[None, :, None])
    without = map_tensors(lambda x: x[:, [0, 2]], o)
    torch.testing.assert_close(net(gone).mu_fg, net(without).mu_fg)
    torch.testing.assert_close(net(gone).alpha, net(without).alpha)


@given(SEEDS)
def test_batch_elements_do_not_meet(seed: int) -> None:
    net, o = renderer(), attributes(seed=seed)
    alone = net(map_tensors(lambda x: x[1:], o))
    torch.testing.assert_close(net(o).mu_fg[1:], alone.mu_fg)


def test_the_larger_depth_is_in_front() -> None:
    y = torch.rand(1, 2, 3, 2, 2, generator=generator())
    got = compose(y, torch.ones(1, 2, 1, 2, 2), torch.tensor([[[12.0], [-12.0]]]))
    torch.testing.assert_close(got.mu_fg, y[:, 0], atol=1e-4, rtol=0)


def test_where_no_object_is_the_background_is_seen() -> None:
    mu_bg = torch.rand(1, 3, 20, 20, generator=generator())
    far = replace(attributes(1, 2), xy=torch.full((1, 2, 2), 9.0))
    assert torch.equal(renderer()(far).over(mu_bg), mu_bg)
    opaque = Foreground(torch.zeros(1, 3, 20, 20), torch.ones(1, 1, 20, 20))
    assert opaque.over(mu_bg).abs().max() == 0


def test_all_frames_at_once_are_each_frame_by_itself() -> None:
    """At once with gradients, and in parts without."""
    net, frames = renderer(), [attributes(seed=i) for i in range(5)]
    mu_bg = torch.rand(2, 5, 3, 20, 20, generator=generator())
    want = torch.stack([net(o).over(mu_bg[:, t]) for t, o in enumerate(frames)], dim=1)
    o = stack(frames, dim=1)
    torch.testing.assert_close(net.draw(o, mu_bg), want, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(net.draw(o, mu_bg), want, atol=1e-5, rtol=1e-5)


def test_a_picture_has_a_gradient_to_every_attribute() -> None:
    o = map_tensors(lambda x: x.requires_grad_(), attributes())
    renderer()(o).mu_fg.square().sum().backward()
    for name in Attributes.__dataclass_fields__:
        assert (getattr(o, name).grad != 0).any(), name


def naive_edges(alpha: list[float]) -> tuple[float, float]:
    """The first and last of many close points at which the line through all pixels is high."""
    n, fine = len(alpha), 4_000

    def at(x: float) -> float:
        index = (x + 1) * n / 2 - 0.5
        low = math.floor(index)
        ends = [alpha[i] if 0 <= i < n else 0.0 for i in (low, low + 1)]
        return ends[0] + (index - low) * (ends[1] - ends[0])

    high = [x for x in (2 * i / fine - 1 for i in range(fine + 1)) if at(x) > DRAWN]
    return (min(high), max(high)) if high else (1.0, -1.0)


@given(SEEDS)
def test_edges_are_where_the_line_through_the_pixels_crosses(seed: int) -> None:
    alpha = torch.rand(1, 3, 6, generator=generator(seed))
    alpha[0, 0] *= DRAWN  # nothing is drawn
    low, high = edges(alpha, DRAWN)
    for k, row in enumerate(alpha[0].tolist()):
        assert (float(low[0, k]), float(high[0, k])) == pytest.approx(naive_edges(row), abs=2e-3)


def test_a_drawing_that_moves_by_less_than_a_pixel_moves_its_edges() -> None:
    pixels = torch.arange(16.0)
    middles = torch.linspace(6, 8, 41)
    alpha = (1.5 - (pixels - middles[:, None]).abs() / 3).clamp(0, 1)
    low, high = edges(alpha[None], DRAWN)
    expected = (middles + 0.5) / 8 - 1
    torch.testing.assert_close((low + high)[0] / 2, expected, atol=0.01, rtol=0)
