"""The fused object-state RNNs compared with the modules, interpreted if there is no GPU."""

import pytest
import torch
from tiny import generator
from torch import Tensor

from gswm.fast.kernels.os_rnn import os_rnn
from gswm.fast.kernels.os_rnn_weights import OSRNNWeights
from gswm.models.gswm.propagation import ObjectStateRNN
from gswm.models.objects import Attributes, LSTMState, Objects, Sizes

SIZES = Sizes(what=5, state=9, hidden=32, encoding=16)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WITH_CTX, WITHOUT = SIZES.encoding, 0


def rnns(num_ctx: int, seed: int = 0) -> list[ObjectStateRNN]:
    """The prior's and the posterior's."""
    torch.manual_seed(seed)
    return [ObjectStateRNN(SIZES, num_ctx).to(DEVICE) for _ in range(2)]


def inputs(slots: int, num_ctx: int, batch: int = 1) -> dict[str, Tensor]:
    """Some objects are there, some in part, and in the last video some are absent."""
    g = generator()

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g)

    pres = torch.rand(batch, slots, 1, generator=g)
    pres[:, ::3] = 1
    pres[-1, 1::2] = 0
    tensors = {
        "own": torch.cat([pres, randn(batch, slots, SIZES.o + SIZES.state - 1)], dim=-1),
        "e_ctx": randn(batch, slots, num_ctx),
        "pres": pres,
        "h": randn(2, batch, slots, SIZES.hidden),
        "c": randn(2, batch, slots, SIZES.hidden),
    }
    return {name: tensor.to(DEVICE).requires_grad_() for name, tensor in tensors.items()}


def plain(sides: list[ObjectStateRNN], given: dict[str, Tensor]) -> list[Tensor]:
    """h and c as the modules give them."""
    own, pres = given["own"], given["pres"]
    o, z_state = own.split([SIZES.o, SIZES.state], dim=-1)
    ids = torch.zeros(own.shape[:2], dtype=torch.int64, device=own.device)
    out = []
    for rnn, *hc in zip(sides, given["h"], given["c"], strict=True):
        state = LSTMState(*hc)
        prev = Objects(Attributes.split(o), z_state, state, state, ids, ids[:, 0])
        # Presence is an attribute and it is a weight; here each has a gradient of its own.
        rnn.interaction.register_forward_pre_hook(lambda _, args: (args[0], pres))
        new = rnn(prev, given["e_ctx"], state)
        out.append([new.h, new.c])
    return [torch.stack(v) for v in zip(*out, strict=True)]


def assert_same(given: dict[str, Tensor], num_ctx: int) -> None:
    """Values and all gradients are those of the modules."""
    sides = rnns(num_ctx)
    want = plain(sides, given)
    got = os_rnn(**given, weights=OSRNNWeights(*sides))
    torch.testing.assert_close(list(got), want, atol=1e-5, rtol=1e-5)

    g = generator(1)
    d_out = [torch.randn(v.shape, generator=g).to(DEVICE) for v in want]
    d_want = torch.autograd.grad(want, list(given.values()), d_out)
    d_got = torch.autograd.grad(got, list(given.values()), d_out)
    for name, one, other in zip(given, d_got, d_want, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4, msg=lambda m, n=name: n + m)


@pytest.mark.parametrize("slots", [1, 3, 10, 17])
def test_it_is_the_modules_and_so_are_its_gradients(slots: int) -> None:
    assert_same(inputs(slots, WITH_CTX), WITH_CTX)


def test_there_need_be_no_context_and_may_be_more_videos() -> None:
    assert_same(inputs(3, WITHOUT, batch=2), WITHOUT)


def test_nobody_may_be_there() -> None:
    given = inputs(3, WITHOUT)
    given["pres"] = torch.zeros_like(given["pres"], requires_grad=True)
    assert_same(given, WITHOUT)


def test_a_gradient_of_h_alone_is_enough() -> None:
    given, sides = inputs(3, WITHOUT), rnns(WITHOUT)
    h, _ = os_rnn(**given, weights=OSRNNWeights(*sides))
    (got,) = torch.autograd.grad(h.sum(), given["own"])
    (want,) = torch.autograd.grad(plain(sides, given)[0].sum(), given["own"])
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_refreshed_weights_are_those_of_the_modules_now() -> None:
    sides, others = rnns(WITH_CTX, seed=0), rnns(WITH_CTX, seed=1)
    weights, want = OSRNNWeights(*sides), OSRNNWeights(*others)
    places = {name: tensor.data_ptr() for name, tensor in weights.made.items()}
    for rnn, other in zip(sides, others, strict=True):
        rnn.load_state_dict(other.state_dict())
    assert not weights.gates.equal(want.gates)
    weights.refresh()
    for name, tensor in weights.made.items():
        assert getattr(weights, name) is tensor
        assert tensor.equal(want.made[name]), name
        assert tensor.data_ptr() == places[name]


def of_pairs(slots: int) -> tuple[Tensor, ...]:
    """The inputs of the kernel of all pairs."""
    g, e = generator(), SIZES.encoding
    shapes = [(2, 1, slots, 5 * e), (1, slots), (2, 3, e, e), (2, 3, e), (2, e)]
    tensors = [torch.randn(shape, generator=g).to(DEVICE) for shape in shapes]
    return tensors[0].requires_grad_(), tensors[1].requires_grad_(), *tensors[2:]


def test_the_operator_is_what_it_says() -> None:
    torch.library.opcheck(
        torch.ops.gswm.pairs,
        of_pairs(2),
        test_utils=["test_schema", "test_autograd_registration", "test_faketensor"],
    )


@pytest.mark.slow
def test_a_compiled_caller_gets_the_same() -> None:
    given = of_pairs(2)

    def caller(*tensors: Tensor) -> Tensor:
        heard, own = torch.ops.gswm.pairs(*tensors)
        return (heard * own).sum()

    compiled = torch.compile(caller, backend="aot_eager", fullgraph=True)
    want, got = (torch.autograd.grad(f(*given), given[:2]) for f in (caller, compiled))
    torch.testing.assert_close(got, want)
