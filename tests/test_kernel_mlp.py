"""The fused MLP kernel compared with the MLP, in Triton's interpreter if there is no GPU."""

import pytest
import torch

from gswm.core.networks import MLP
from gswm.fast.kernels.mlp import mlp

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def constants(net: MLP) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    layers = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
    return [x.weight.detach() for x in layers], [x.bias.detach() for x in layers]


@pytest.mark.parametrize(
    ("rows", "num_in", "hidden", "num_out"),
    [
        *((1, 1, [1, 1], 1), (40, 150, [24, 24], 70), (17, 65, [32, 32], 131)),
        *((1, 1, [1], 1), (40, 150, [24], 70), (17, 65, [32], 2)),
    ],
)
def test_values_and_the_gradient_of_the_input(
    rows: int, num_in: int, hidden: list[int], num_out: int
) -> None:
    torch.manual_seed(rows)
    net = MLP(num_in, hidden, num_out).to(DEVICE)
    x = (2 * torch.randn(rows, num_in, device=DEVICE)).requires_grad_()
    want, got = net(x), mlp(x, *constants(net))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    dy = torch.randn_like(want)
    (dx_want,), (dx_got,) = torch.autograd.grad(want, x, dy), torch.autograd.grad(got, x, dy)
    torch.testing.assert_close(dx_got, dx_want, rtol=1e-4, atol=1e-5)


def test_leading_axes_are_rows() -> None:
    net = MLP(5, [16, 16], 3).to(DEVICE)
    x = torch.randn(2, 4, 5, device=DEVICE)
    torch.testing.assert_close(mlp(x, *constants(net)), net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", [[16], [16, 16]])
@pytest.mark.parametrize("name", ["gswm::mlp", "gswm::mlp_backward"])
def test_torch_takes_it_for_an_operation(name: str, hidden: list[int]) -> None:
    net = MLP(5, hidden, 3).to(DEVICE)
    weights, biases = constants(net)
    x = torch.randn(4, 5, device=DEVICE, requires_grad=True)
    op = getattr(torch.ops.gswm, name.removeprefix("gswm::")).default
    if name == "gswm::mlp":
        torch.library.opcheck(op, (x, weights, biases), raise_exception=True)
    else:
        a = torch.randn(4, 16, device=DEVICE)
        torch.library.opcheck(op, (torch.randn(4, 3, device=DEVICE), a, a, weights))
