"""Records of tensors: taken apart, and put together again."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gswm.core.records import frames, leaves, map_tensors, regroup, stack, tensors, with_tensors
from gswm.models.objects import LSTMState


@dataclass(frozen=True)
class Nested:
    """A record with a record in it, and with what is no tensor."""

    state: LSTMState
    pair: tuple[Tensor, None]
    number: int


def nested(seed: int = 0) -> Nested:
    generator = torch.Generator().manual_seed(seed)
    h, c, other = (torch.randn(2, 3, n, generator=generator) for n in (4, 4, 6))
    return Nested(LSTMState(h, c), (other, None), 7)


def test_leaves_come_in_order_and_make_the_record_again() -> None:
    record = nested()
    h, c, other, nothing, number = leaves((record,))
    assert (nothing, number) == (None, 7)
    again = with_tensors(record, (h, c, other))
    assert again.number == 7
    assert all(a is b for a, b in zip(tensors(again), tensors(record), strict=True))


def test_frames_are_contiguous_and_stack_to_what_they_came_from() -> None:
    record = nested()
    apart = frames(record)
    assert all(x.is_contiguous() for x in tensors(apart))
    for a, b in zip(tensors(stack(apart, dim=1)), tensors(record), strict=True):
        assert torch.equal(a, b)


def test_gradients_of_frames_are_contiguous_and_those_of_autograd() -> None:
    leaf = map_tensors(Tensor.requires_grad_, nested())
    weight = nested(1)
    apart = frames(leaf)
    reached: list[Tensor] = []
    for each in tensors(apart):
        each.register_hook(reached.append)
    whole = stack(apart, dim=1)
    pairs = zip(tensors(whole), tensors(weight), strict=True)
    torch.cat([(a.sin() * b).flatten() for a, b in pairs]).sum().backward()
    assert len(reached) == 9
    assert all(gradient.is_contiguous() for gradient in reached)
    for x, b in zip(tensors(leaf), tensors(weight), strict=True):
        torch.testing.assert_close(x.grad, x.detach().cos() * b)


def test_what_comes_in_one_part_is_not_copied() -> None:
    whole = torch.arange(5)
    first, second = regroup([whole], 3)
    assert (first.tolist(), second.tolist()) == ([0, 1, 2], [3, 4])
    assert first.data_ptr() == whole.data_ptr()
    assert second.data_ptr() == whole[3:].data_ptr()
