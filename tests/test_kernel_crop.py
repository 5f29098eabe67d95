"""`kernels.crop` compared with plain torch: `geometry.crop`."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny import generator
from torch import Tensor

from gswm.core import geometry
from gswm.fast.kernels.crop import crop

SEEDS = st.integers(0, 2**32 - 1)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Inputs = tuple[Tensor, Tensor, Tensor]


def scene(seed: int, batch: int = 2, slots: int = 2, shape: tuple[int, ...] = (3, 9, 12)) -> Inputs:
    """Images and boxes, in them and beyond their edges, also inside out."""
    g = generator(seed)
    image = torch.rand(batch, *shape, generator=g)
    xy = 3 * torch.rand(batch, slots, 2, generator=g) - 1.5
    hw = 1.2 * torch.rand(batch, slots, 2, generator=g) - 0.2
    return image.to(DEVICE), xy.to(DEVICE), hw.to(DEVICE)


def check(inputs: Inputs, size: int, seed: int = 0) -> list[Tensor]:
    """Compare the kernel with its twin in double precision; give its gradients."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    twins = [tensor.detach().double().requires_grad_() for tensor in inputs]
    got, want = crop(*leaves, size), geometry.crop(*twins, size)
    direction = torch.randn(got.shape, generator=generator(seed)).to(DEVICE)
    d_got = torch.autograd.grad(got, leaves, direction)
    d_want = torch.autograd.grad(want, twins, direction.double())
    for a, b in zip([got, *d_got], [want, *d_want], strict=True):
        torch.testing.assert_close(a, b, check_dtype=False, atol=2e-4, rtol=1e-4)
    return list(d_got)


@settings(max_examples=4)
@given(SEEDS, st.sampled_from([16, 5, 18]))
@example(0, 32)
def test_the_kernel_is_its_twin(seed: int, size: int) -> None:
    check(scene(seed, batch=1, shape=(2, 9, 12)), size, seed)


def test_a_glimpse_may_be_larger_than_the_image_and_of_any_channels() -> None:
    check(scene(5, batch=1, slots=1, shape=(5, 4, 7)), 20)


def test_on_a_kink_of_the_weights_the_slope_is_autograds() -> None:
    """Samples lie on the middles of pixels, and on the last place where a pixel is seen."""
    image, _, _ = scene(1, batch=1, shape=(2, 8, 8))
    xy = torch.tensor([[[0.0, 0.0], [0.25, -0.5]]], device=DEVICE)
    hw = torch.tensor([[[1.0, 0.5], [1.0, 1.0]]], device=DEVICE)
    _, d_xy, d_hw = check((image, xy, hw), 8)
    _, shifted, resized = check((image, xy + 1e-3, hw), 8)
    assert (d_xy - shifted).abs().max() > 0.1  # or there was no kink
    assert (d_hw - resized).abs().max() > 0.1


def test_the_whole_image_is_itself() -> None:
    image, _, _ = scene(1, batch=1, shape=(3, 16, 16))
    hw = torch.ones(1, 1, 2, device=DEVICE)
    got = crop(image, 0 * hw, hw, 16)
    torch.testing.assert_close(got[:, 0], image)


@settings(max_examples=5)
@given(x=st.floats(-0.4, 0.4), y=st.floats(-0.4, 0.4), h=st.floats(-0.4, 0.4))
def test_where_an_image_is_flat_a_crop_is_too(x: float, y: float, h: float) -> None:
    image = torch.full((1, 1, 12, 12), 0.7, device=DEVICE)
    xy, hw = torch.tensor([[[[x, y]]], [[[h, 0.3]]]], device=DEVICE)
    got = crop(image, xy, hw, 4)
    torch.testing.assert_close(got, torch.full_like(got, 0.7))


def test_beyond_the_image_there_is_nothing_and_no_gradient() -> None:
    image, _, hw = scene(0)
    xy = torch.tensor([[[4.0, 0.0], [0.0, -1e9]], [[1e30, 0.0], [-3.0, -3.0]]], device=DEVICE)
    assert not crop(image, xy, hw, 5).any()
    for gradient in check((image, xy, hw), 5):
        assert not gradient.any()


def test_a_position_that_is_no_number_shows() -> None:
    image, xy, hw = scene(0)
    xy[0, 1, 0] = torch.nan
    assert crop(image, xy, hw, 5)[0, 1].isnan().all()


def test_only_wanted_gradients_are_given() -> None:
    image, xy, hw = scene(0)
    crop(image, xy.requires_grad_(), hw, 5).sum().backward()
    assert xy.grad is not None
    assert image.grad is None
    assert hw.grad is None


def test_images_may_be_of_half_precision_and_views() -> None:
    image, xy, hw = scene(2)
    half = image.bfloat16().transpose(2, 3)
    got, want = crop(half, xy.flip(-1), hw, 5), geometry.crop(half, xy.flip(-1), hw, 5)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_compiler_takes_the_operation_whole() -> None:
    image, xy, hw = scene(4, batch=1)
    boxes = (xy.requires_grad_(), hw.requires_grad_(), 4)
    torch.library.opcheck(torch.ops.gswm.crop.default, (image, *boxes))
    inputs = (image.requires_grad_(), *boxes)
    static = "test_aot_dispatch_static"
    torch.library.opcheck(torch.ops.gswm.crop.default, inputs, test_utils=static)
