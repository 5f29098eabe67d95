"""Networks compared with the layers in the paper's tables."""

import torch
import torch.nn.functional as F
from tiny import generator
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from gswm.core.networks import (
    MLP,
    Encoder,
    FrameDecoder,
    GlimpseDecoder,
    Residual,
    Trunk,
    group_norm,
    recomputed,
)


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator())


def test_an_mlp_has_celu_between_its_layers_and_none_at_its_end() -> None:
    net, x = MLP(3, [4, 5], 2), rand(7, 3)
    want = x
    for i in (0, 2):
        want = F.celu(F.linear(want, net[i].weight, net[i].bias))
    torch.testing.assert_close(net(x), F.linear(want, net[4].weight, net[4].bias))


def test_a_linear_layer_onto_one_pixel_is_a_convolution() -> None:
    """A 3 × 3 convolution with stride 2 and padding 1, on 2 × 2 pixels."""
    net, x = Encoder(4, [3, 16, 32], 5), rand(2, 3, 4, 4)
    linear = net[4]
    assert isinstance(linear, nn.Linear)
    kernel = torch.randn(32, 16, 3, 3, generator=generator(1))
    kernel[:, :, 1:, 1:] = linear.weight.detach().unflatten(1, (16, 2, 2))
    inside = nn.Sequential(*list(net)[:3])(x)
    want = F.conv2d(inside, kernel, linear.bias, stride=2, padding=1)
    torch.testing.assert_close(linear(inside.flatten(1)), want[:, :, 0, 0])


def test_a_linear_layer_on_one_pixel_is_a_sub_pixel_convolution() -> None:
    net, x = GlimpseDecoder(5, 4), rand(2, 5)
    linear = net[2]
    assert isinstance(linear, nn.Linear)
    kernel = torch.randn(256, 128, 3, 3, generator=generator(1))
    kernel[:, :, 1, 1] = linear.weight.detach()
    inside = nn.Sequential(*list(net)[:2])(x)
    want = F.pixel_shuffle(F.conv2d(inside[..., None, None], kernel, linear.bias, padding=1), 2)
    torch.testing.assert_close(nn.Sequential(*list(net)[2:4])(inside), want)


def test_a_residual_block_is_two_convolutions_beside_a_short_cut() -> None:
    for block in (Residual(16, 16, 1), Residual(16, 32, 2)):
        x = rand(2, 16, 8, 8)
        y = block.norm_2(block.conv_2(F.relu(block.norm_1(block.conv_1(x)))))
        if block.conv_1.stride == (2, 2):
            want = F.relu(y + block.short[1](block.short[0](x)))
        else:
            want = F.relu(y + x)
        torch.testing.assert_close(block(x), want)


def test_sizes_are_those_of_the_tables() -> None:
    assert GlimpseDecoder(5, 4)(rand(2, 5)).shape == (2, 4, 16, 16)
    assert GlimpseDecoder(5, 4, 32)(rand(2, 5)).shape == (2, 4, 32, 32)
    assert GlimpseDecoder(5, 4, 64)(rand(2, 5)).shape == (2, 4, 64, 64)
    assert FrameDecoder(5, 64)(rand(2, 5)).shape == (2, 3, 64, 64)
    for size in (16, 32, 64):
        assert Encoder(size, (3, 16, 32, 64, 128), 7)(rand(2, 3, size, size)).shape == (2, 7)
    assert Trunk(3, 9, 2)(rand(1, 3, 64, 64)).shape == (1, 9, 4, 4)
    assert group_norm(64).num_groups == 4
    assert group_norm(8).num_groups == 1


def test_a_recomputed_network_stores_its_input_alone_and_has_the_same_gradients() -> None:
    net, x = Encoder(32, [3, 8, 16], 5), rand(4, 3, 32, 32)
    own = {each.untyped_storage().data_ptr() for each in (x, *net.parameters())}
    found, stored = [], []
    for apply in (lambda: net(x), lambda: recomputed(net, x)):
        kept: list[Tensor] = []
        with saved_tensors_hooks(lambda t, kept=kept: kept.append(t) or t, lambda t: t):
            y = apply()
        stored.append([t for t in kept if t.untyped_storage().data_ptr() not in own])
        found.append(torch.autograd.grad(y.square().sum(), list(net.parameters())))
    assert stored[0]
    assert not stored[1]
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
