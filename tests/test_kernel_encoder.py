"""`kernels.encoder` compared with plain torch: `networks.Encoder`."""

import pytest
import torch
from tiny import generator
from torch import Tensor

from gswm.core.networks import Encoder
from gswm.fast.kernels.encoder import encode, first_channels, fits, pack
from gswm.fast.operations import DenseEncoder, FusedEncoder, constants, replace_operations

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CHANNELS = (3, 16, 32, 64, 128)


def encoder(channels: tuple[int, ...] = CHANNELS, num_out: int = 24, size: int = 16) -> Encoder:
    """An encoder whose norms are not the identity."""
    torch.manual_seed(0)
    made = Encoder(size, channels, num_out).to(DEVICE)
    with torch.no_grad():
        for param in made.parameters():
            param.add_(0.2 * torch.randn_like(param))
    return made


def images(number: int, channels: int = 3) -> Tensor:
    """Noise, and an empty one."""
    x = torch.rand(number, channels, 16, 16, generator=generator())
    x[-1] = 0
    return x.to(DEVICE).requires_grad_()


@pytest.mark.parametrize(
    ("channels", "num_out"), [(CHANNELS, 24), ((6, 16, 16, 32, 64), 16)], ids=["usual", "others"]
)
def test_it_is_the_module_and_so_is_its_gradient(channels: tuple[int, ...], num_out: int) -> None:
    twin, x = encoder(channels, num_out), images(2, channels[0])
    want, got = twin(x), encode(x, pack(twin), [*channels, num_out])
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    direction = torch.randn(want.shape, generator=generator(1)).to(DEVICE)
    (d_want,) = torch.autograd.grad(want, x, direction)
    (d_got,) = torch.autograd.grad(got, x, direction)
    torch.testing.assert_close(d_got, d_want, atol=1e-4 * d_want.abs().max().item(), rtol=1e-3)


def test_only_encoders_of_small_images_fit() -> None:
    assert fits(encoder())
    assert first_channels(encoder((6, *CHANNELS[1:]))) == 6
    assert not fits(encoder(size=32))
    assert not fits(encoder((3, 16, 32, 64)))
    assert not fits(encoder((3, 16, 48, 64, 128)))


@pytest.mark.parametrize(
    ("size", "channels", "kind"),
    [(16, CHANNELS, FusedEncoder), (8, (3, 16, 32), DenseEncoder)],
    ids=["kernel", "products"],
)
@torch.no_grad()
def test_a_faster_one_replaces_the_module_and_follows_its_weights(
    size: int, channels: tuple[int, ...], kind: type
) -> None:
    model = torch.nn.Sequential(encoder(channels, size=size))
    x = torch.rand(1, 3, size, size, generator=generator()).to(DEVICE)
    copy = constants(model)
    (fast,) = replace_operations(model, copy)
    assert type(fast) is kind
    for _ in range(2):
        fast.prepare()
        torch.testing.assert_close(copy(x), model(x), atol=1e-4, rtol=1e-4)
        for param in model.parameters():
            param.mul_(1.1)


def test_the_operator_is_what_it_says() -> None:
    torch.library.opcheck(
        torch.ops.gswm.encode,
        (images(1), pack(encoder()).detach(), [*CHANNELS, 24]),
        test_utils=["test_schema", "test_autograd_registration", "test_faketensor"],
    )
