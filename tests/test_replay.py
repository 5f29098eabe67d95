"""Replayed frames equal computed ones. Calling the method again stands in for a CUDA graph."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import tiny
import torch

from gswm.core.records import tensors
from gswm.data.batches.batch import Batch
from gswm.fast import replay
from gswm.fast.selftest import small
from gswm.models.gswm.gswm import AT_ONCE
from gswm.models.registry import build, recipe
from gswm.models.track import Track

made: list[str] = []


def do_again(call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Imitate a CUDA graph: read the inputs and write the outputs at their fixed addresses."""
    made.append(call.func.__qualname__)  # type: ignore[attr-defined]
    out = call()

    def again() -> None:
        for old, new in zip(tensors(out), tensors(call()), strict=True):
            old.copy_(new.clone())

    return again, out


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the methods that were recorded, in order."""
    made.clear()
    monkeypatch.setattr(replay, "record", do_again)
    monkeypatch.setattr(replay, "can_be_recorded", lambda _: replay.allowed.get())
    monkeypatch.setattr(replay, "surroundings", lambda: None)
    return made


def assert_equal_tracks(a: Track, b: Track) -> None:
    """To rounding: products may depend on where in memory their factors lie."""
    for ours, theirs in zip(tensors(a), tensors(b), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def both(model: Any, batch: int, **how: Any) -> tuple[Track, Track]:
    """Imagination, replayed and not."""
    given = tiny.video(batch, time=4, size=model.image_size)
    ours = model.imagine(given, 4, 4, generator=tiny.generator(), **how)
    with replay.one_by_one():
        return ours, model.imagine(given, 4, 4, generator=tiny.generator(), **how)


BLACK = ["Recurrence.follow_once", "Propagation.imagine"]
LEARNED = ["Context.step", "Recurrence.follow_once", "Context.step", "Propagation.imagine"]
METHODS = {
    "interaction": BLACK,
    "single-ball-d": BLACK,
    "maze": LEARNED,
    "maze-no-aoe": LEARNED,
}


SLOW = ("single-ball-d", "maze-no-aoe")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in METHODS]
)
def test_what_is_imagined_is_the_same(name: str, recorded: list[str]) -> None:
    model = replay.replay(tiny.build(tiny.config(name)))
    for batch in (2, 1):
        recorded.clear()
        assert_equal_tracks(*both(model, batch))
        assert recorded == METHODS[name]
    recorded.clear()
    assert_equal_tracks(*both(model, 2, sample=False))
    assert recorded == []


@pytest.mark.parametrize(
    "name", ["scalor-interaction", "silot-interaction", "sqair-digits", "stove-interaction"]
)
def test_what_another_model_imagines_is_the_same(name: str, recorded: list[str]) -> None:
    torch.manual_seed(0)
    assert_equal_tracks(*both(replay.replay(build(small(recipe(name)))), 2))
    assert len(recorded) >= 2


def test_many_frames_are_replayed_together(recorded: list[str]) -> None:
    model = replay.replay(tiny.build(tiny.config()))
    given, steps = tiny.video(2, time=2), 2 * AT_ONCE + 2
    ours = model.imagine(given, 2, steps, generator=tiny.generator())
    assert recorded == ["Propagation.imagine_all", "Propagation.imagine"]
    with replay.one_by_one():
        theirs = model.imagine(given, 2, steps, generator=tiny.generator())
    assert_equal_tracks(ours, theirs)


def test_weights_are_read_where_they_are(recorded: list[str]) -> None:
    model = replay.replay(tiny.build(tiny.config()))
    before, _ = both(model, 2)
    recorded.clear()
    with torch.no_grad():
        for param in model.parameters():
            param.mul_(1.1)
    now, want = both(model, 2)
    assert_equal_tracks(now, want)
    assert not torch.equal(now.xy, before.xy)
    assert recorded == []


def test_weights_that_are_elsewhere_are_found(recorded: list[str]) -> None:
    model = replay.replay(tiny.build(tiny.config()))
    both(model, 2)
    recorded.clear()
    others = {name: 1.1 * value for name, value in model.state_dict().items()}
    model.load_state_dict(others, assign=True)
    assert_equal_tracks(*both(model, 2))
    assert recorded == METHODS["interaction"]


class Shift(torch.nn.Module):
    """Without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("by", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.by


@torch.no_grad()
def test_buffers_that_are_elsewhere_are_found(recorded: list[str]) -> None:
    shift = Shift()
    method, x = replay.Replayed(shift, shift.forward), torch.zeros(2)
    for _ in range(3):
        method(x)
    assert recorded == ["Shift.forward"]
    moved = shift.by + 1
    shift.by = moved
    for _ in range(3):
        assert torch.equal(method(x), x + 2)
    assert len(recorded) == 2


def test_a_copy_of_a_model_has_frames_of_its_own() -> None:
    model = replay.replay(tiny.build(tiny.config()))
    both(model, 2)
    other = deepcopy(model)
    with torch.no_grad():
        for param in other.propagation.latent.parameters():
            param.mul_(2)
    assert_equal_tracks(*both(other, 2))
    assert_equal_tracks(*both(model, 2))


def test_what_was_given_out_is_never_written_to() -> None:
    model = replay.replay(tiny.build(tiny.config()))
    first, want = both(model, 2)
    model.imagine(tiny.video(2, time=4, seed=1), 4, 4)
    assert_equal_tracks(first, want)


def test_few_recordings_are_kept(recorded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST", 1)
    model = replay.replay(tiny.build(tiny.config()))
    for batch in (1, 2, 1):
        both(model, batch)
    assert recorded == 3 * METHODS["interaction"]


def test_where_gradients_are_wanted_nothing_is_recorded(recorded: list[str]) -> None:
    model = replay.replay(tiny.build(tiny.config()))
    stage = model.stage(10_000_000)
    noise = model.noise(2, stage, tiny.generator())
    video = tiny.video(time=stage.length)
    model.loss(Batch(video), noise, torch.tensor(10_000_000), stage).total.backward()
    assert recorded == []


def test_hooks_are_called_in_every_frame(recorded: list[str]) -> None:
    model = replay.replay(tiny.build(tiny.config()))
    both(model, 2)
    recorded.clear()
    calls: list[object] = []
    hook = model.propagation.rnn_prior.register_forward_hook(lambda *args: calls.append(args))
    model.imagine(tiny.video(time=4), 4, 4)
    assert len(calls) == 7
    hook.remove()
    assert_equal_tracks(*both(model, 2))
    assert recorded == []
