"""`kernels.compose` compared with plain torch: `paste`, and then `compose`."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny import generator
from torch import Tensor

from gswm.core.geometry import SMALLEST, paste
from gswm.fast.kernels.compose import EPS, draw
from gswm.models.gswm import rendering
from gswm.models.scalor import rendering as scalor

SEEDS = st.integers(0, 2**32 - 1)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]
Outputs = tuple[Tensor, Tensor]


def twin(glimpses: Tensor, xy: Tensor, hw: Tensor, depth: Tensor, size: int) -> Outputs:
    y, alpha = paste(glimpses, xy, hw, size).split([3, 1], dim=2)
    foreground = rendering.compose(y, alpha, depth)
    return foreground.mu_fg, foreground.alpha


def scene(seed: int, batch: int = 1, slots: int = 3, glimpse: int = 16) -> Inputs:
    """Random objects, in the image and beyond its edges, also too small and inside out."""
    g = generator(seed)

    def rand(*shape: int, low: float = 0, high: float = 1) -> Tensor:
        return low + (high - low) * torch.rand(batch, slots, *shape, generator=g).to(DEVICE)

    alpha = rand(1, glimpse, glimpse) * (rand(1, 1, 1) < 0.8)
    glimpses = torch.cat([alpha * rand(3, glimpse, glimpse), alpha], dim=2)
    return glimpses, rand(2, low=-1.5, high=1.5), rand(2, low=-0.1), rand(1, low=-3, high=3)


def both(inputs: Inputs, size: int, seed: int, exact: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and all gradients, the kernel's and the twin's; the twin's in double precision."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    twins = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    if exact:
        twins = [tensor.detach().double().requires_grad_() for tensor in twins]
    got, want = draw(*leaves, size), twin(*twins, size)
    directions = [torch.randn(out.shape, generator=generator(seed)).to(DEVICE) for out in got]
    d_got = torch.autograd.grad(got, leaves, directions)
    d_want = torch.autograd.grad(want, twins, [d.to(want[0].dtype) for d in directions])
    return [*got, *d_got], [*want, *d_want]


def check(inputs: Inputs, size: int, seed: int = 0, *, exact: bool = True) -> list[Tensor]:
    """Compare the kernel with its twin; give its gradients."""
    got, want = both(inputs, size, seed, exact)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, check_dtype=False, atol=2e-4, rtol=1e-4)
    return got[2:]


@settings(max_examples=3)
@given(SEEDS, st.sampled_from([(16, 16), (16, 24), (5, 17), (20, 16)]))
@example(0, (32, 32))
def test_the_kernel_is_its_twin(seed: int, sizes: tuple[int, int]) -> None:
    glimpse, size = sizes
    check(scene(seed, glimpse=glimpse), size, seed)


def test_images_of_a_batch_are_drawn_apart() -> None:
    check(scene(3, batch=3, slots=2), 16)


def test_on_a_kink_of_the_weights_the_slope_is_autograds() -> None:
    """Pixels of the image lie on the middles of pixels of the glimpse, and on its edges."""
    glimpses, _, _, depth = scene(1)
    xy = torch.tensor([[[0.0, 0.0], [0.5, -0.25], [1.0, 1.0]]], device=DEVICE)
    hw = torch.tensor([[[0.5, 0.25], [1.0, 0.5], [0.25, 2.0]]], device=DEVICE)
    _, d_xy, d_hw, _ = check((glimpses, xy, hw, depth), 16)
    shifted = check((glimpses, xy + 1e-3, hw, depth), 16)
    assert (d_xy - shifted[1]).abs().max() > 0.1  # or there was no kink
    assert (d_hw - shifted[2]).abs().max() > 0.1


def test_a_box_below_the_smallest_has_no_gradient_of_size() -> None:
    glimpses, _, _, depth = scene(1)
    xy = torch.tensor([[[0.03, -0.1], [0.4, 0.35], [-0.5, 0.5]]], device=DEVICE)
    hw = torch.tensor([[[SMALLEST, 0.5], [0.01, 0.3], [0.4, -0.3]]], device=DEVICE)
    _, _, d_hw, _ = check((glimpses, xy, hw, depth), 48, exact=False)
    assert d_hw[0, 1, 0] == d_hw[0, 2, 1] == 0
    assert (d_hw != 0).sum() == 4


def test_objects_beyond_the_edges_are_nowhere_and_have_no_gradient() -> None:
    glimpses, _, hw, depth = scene(0)
    xy = torch.tensor([[[5.0, 0.0], [0.0, -1e9], [-3.0, 1e30]]], device=DEVICE)
    for tensor in draw(glimpses, xy, hw, depth, 16):
        assert not tensor.any()
    for gradient in check((glimpses, xy, hw, depth), 16):
        assert not gradient.any()


def test_absent_objects_leave_the_image_empty() -> None:
    glimpses, xy, hw, depth = scene(0)
    mu_fg, alpha = draw(0 * glimpses, xy / 2, hw, depth, 16)
    assert not mu_fg.any()
    assert not alpha.any()
    check((0 * glimpses, xy / 2, hw, depth), 16)


def test_a_position_that_is_no_number_shows() -> None:
    glimpses, xy, hw, depth = scene(0)
    xy[0, 1, 0] = torch.nan
    mu_fg, _ = draw(glimpses, xy, hw, depth, 16)
    assert mu_fg.isnan().any()


@settings(max_examples=3)
@given(SEEDS, st.permutations(range(3)))
def test_the_order_of_objects_does_not_matter(seed: int, order: list[int]) -> None:
    inputs = scene(seed)
    moved = tuple(tensor[:, order] for tensor in inputs)
    for a, b in zip(draw(*inputs, 16), draw(*moved, 16), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_glimpses_may_be_of_half_precision() -> None:
    glimpses, xy, hw, depth = scene(2)
    half = glimpses.bfloat16()
    for a, b in zip(draw(half, xy, hw, depth, 16), twin(half, xy, hw, depth, 16), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_views_are_read_as_they_are() -> None:
    glimpses, xy, hw, depth = scene(2)
    views = (glimpses.transpose(0, 1), xy.mT.contiguous().mT, hw.mT.contiguous().mT, depth)
    check((views[0].contiguous().transpose(0, 1), *views[1:]), 16)


def test_the_constant_of_both_is_one() -> None:
    assert EPS == rendering.EPS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_compiler_takes_the_operation_whole() -> None:
    inputs = [tensor.requires_grad_() for tensor in scene(4, slots=2)]
    torch.library.opcheck(torch.ops.gswm.draw.default, (*inputs, 16, True, EPS))


# -- SCALOR's: α is a sum


@pytest.mark.parametrize(
    ("glimpse", "size"), [(32, 24), (5, 17), pytest.param(16, 16, marks=pytest.mark.slow)]
)
def test_with_a_sum_for_alpha_it_is_the_twin_of_scalors(glimpse: int, size: int) -> None:
    """Gradients that are large are where an object is all but gone; there σ has them all."""
    glimpses, xy, hw, depth = scene(5, batch=2, glimpse=glimpse)
    leaves = [x.clone().requires_grad_() for x in (glimpses, xy / 2, hw + 0.3, depth)]
    twins = [x.detach().double().requires_grad_() for x in leaves]
    layers = paste(*twins[:3], size).split([3, 1], dim=2)
    got = draw(*leaves, size, summed=True, eps=scalor.EPS)
    want = scalor.compose(*layers, twins[3])
    directions = [torch.randn(out.shape, generator=generator(6)).to(DEVICE) for out in got]
    d_got = torch.autograd.grad(got, leaves, directions)
    d_want = torch.autograd.grad(want, twins, [d.double() for d in directions])
    for a, b in zip([*got, *d_got], [*want, *d_want], strict=True):
        torch.testing.assert_close(a, b, check_dtype=False, atol=2e-4, rtol=1e-3)
