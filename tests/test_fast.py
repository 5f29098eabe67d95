"""The deferred backward pass gives the gradients of plain autograd."""

import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest
import tiny
import torch
from torch import Tensor

import gswm
from gswm.core.records import tensors
from gswm.data.batches.batch import Batch
from gswm.fast.deferred import Deferred, LossFunction
from gswm.fast.selftest import plain
from gswm.models.base import Loss, Method
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.gswm.noise import GSWMNoise
from gswm.models.gswm.propagation import PropagationConfig
from gswm.models.objects import Sizes

VARIANTS = [
    *("interaction", "single-ball", "single-ball-d", "maze", "maze-no-aoe", "obj3d"),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("two-layer-dense", "maze-no-mu", "maze-no-sa")
    ),
]
VIDEOS, TIME, STEP = 2, 4, 10_000_000
COMPILED = """
import sys
from dataclasses import replace

import torch

from gswm.data.batches.batch import Batch
from gswm.fast.deferred import Deferred
from gswm.fast.selftest import small
from gswm.models.registry import build, recipe

real, graphs = torch.compile, []

def count(graph, inputs):
    graphs.append(graph)
    return graph.forward

torch.compile = lambda method, **options: real(method, backend=count, **options)
model = build(small(recipe(sys.argv[1])))
deferred = Deferred(model).compile()
for method in deferred.methods:
    method.whole = method.own
generator = torch.Generator().manual_seed(0)
for length in (3, 4, 6):
    stage = replace(model.stage(0), length=length)
    if hasattr(stage, "detached"):
        stage = replace(stage, detached=length == 3)
    noise, video = model.noise(2, stage, generator), torch.rand(2, length, 3, 64, 64)
    deferred(lambda: model.loss(Batch(video), noise, torch.tensor(0), stage))
    print(len(graphs))
"""


def twins(cfg: GSWMConfig) -> tuple[GSWM, GSWM]:
    """Two equal models, whose weights are large enough that everything matters."""
    one, other = tiny.build(cfg), tiny.build(cfg)
    with torch.no_grad():
        for param in one.parameters():
            param.mul_(1.5)
    other.load_state_dict(one.state_dict())
    return one, other


def draw(model: GSWM, seed: int) -> tuple[Tensor, GSWMNoise]:
    stage = replace(model.stage(STEP), length=TIME)
    video = tiny.video(VIDEOS, TIME, seed=seed)
    return video, model.noise(VIDEOS, stage, tiny.generator(seed))


def loss(model: GSWM, seed: int = 0) -> Loss:
    video, noise = draw(model, seed)
    stage = replace(model.stage(STEP), length=TIME)
    return model.loss(Batch(video), noise, torch.tensor(STEP), stage)


def assert_equal_gradients(ours: GSWM, theirs: GSWM) -> None:
    """To float tolerance, of the largest element of each gradient, and a little of that of all."""
    want = {name: param.grad for name, param in theirs.named_parameters()}
    least = 1e-7 * max(grad.abs().max().item() for grad in want.values() if grad is not None)
    for name, param in ours.named_parameters():
        expected = want[name]
        if expected is None:
            assert param.grad is None or not param.grad.any(), name
            continue
        assert param.grad is not None, name
        atol = 1e-4 * expected.abs().max().item() + 1e-5 + least
        assert torch.allclose(param.grad, expected, rtol=1e-3, atol=atol), name


@pytest.mark.parametrize("recipe", VARIANTS)
def test_loss_and_every_gradient_are_those_of_autograd(recipe: str) -> None:
    ours, theirs = twins(tiny.config(recipe))
    a, b = Deferred(ours)(lambda: loss(ours)), plain(lambda: loss(theirs))
    torch.testing.assert_close(a.total, b.total)
    for name in b.terms:
        torch.testing.assert_close(a.terms[name], b.terms[name])
    assert_equal_gradients(ours, theirs)
    weights = [theirs.propagation.mlp_prop, theirs.discovery.mlp_disc]
    assert all(p.grad is not None and p.grad.any() for net in weights for p in net.parameters())


@pytest.mark.parametrize("seeds", [(0,), pytest.param((0, 1), marks=pytest.mark.slow)])
def test_kernels_give_what_autograd_gives(
    seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with a background uses every kernel.

    Kernels are slow in the interpreter, so there is one video of two frames, each of one tile.
    """
    monkeypatch.setattr("test_fast.VIDEOS", 1)
    monkeypatch.setattr("test_fast.TIME", 2)
    monkeypatch.setattr("gswm.fast.kernels.compose.TILE", (64, 64))
    sizes = Sizes(what=5, state=6, hidden=16, encoding=16, context=4)
    cfg = tiny.config("maze")
    ours, theirs = twins(replace(cfg, sizes=replace(sizes, glimpse=cfg.sizes.glimpse)))
    deferred = Deferred(ours, kernels=True)
    prepared = {type(module).__name__ for module in deferred.prepared}
    assert prepared == {"FusedEncoder", "FastContext", "FastPropagation"}
    for seed in seeds:
        for model, backward in ((ours, deferred), (theirs, plain)):
            model.zero_grad()
            backward(lambda model=model, seed=seed: loss(model, seed))
        assert_equal_gradients(ours, theirs)
        with torch.no_grad():  # the weights of the next step are seen
            for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
                assert a.add_(0.01).equal(b.add_(0.01))


@pytest.mark.parametrize(
    ("recipe", "of_frames", "of_all"),
    [
        pytest.param("interaction", 1, 2, marks=pytest.mark.slow),
        pytest.param("scalor-interaction", 6, 1, marks=pytest.mark.slow),
        pytest.param("silot-interaction", 1, 3, marks=pytest.mark.slow),
        pytest.param("stove-interaction", 1, 2, marks=pytest.mark.slow),
    ],
)
def test_what_is_of_one_frame_is_compiled_once(recipe: str, of_frames: int, of_all: int) -> None:
    """Once for all frames and lengths; methods that see all frames, once for each length.

    Another process runs this, without checks of shapes and without the end of the step.
    SCALOR's first stage is also detached, and its two ConvLSTMs are one method.
    """
    run = [sys.executable, "-c", COMPILED, recipe]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(of_frames + lengths * of_all) for lengths in (1, 2, 3)]


class Walk(gswm.WorldModel[gswm.ModelConfig]):
    """Begins with what the data say, of which no gradient is wanted."""

    def __init__(self) -> None:
        super().__init__(gswm.ModelConfig())
        self.cell, self.features = torch.nn.GRUCell(3, 3), torch.nn.Linear(3, 3)

    def step(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(x, h), self.features(x)

    def recurrent(self) -> list[Method]:
        return [(self, "step")]

    def loss(self, batch: Batch, *_: object) -> Loss:
        colors = batch.video.mean(dim=(3, 4))
        h, terms = colors[:, 0], {}
        for t, x in enumerate(colors[:, 1:].unbind(dim=1)):
            h, features = self.step(h, x)
            terms[f"{t}"] = (h * features).sum(dim=1)
        return Loss.of(terms, {})

    perceive = rollout = loss


def test_states_that_want_no_gradient_lose_none() -> None:
    torch.manual_seed(0)
    theirs, batch = Walk(), Batch(torch.rand(2, 4, 3, 8, 8))
    ours = deepcopy(theirs)
    Deferred(ours)(lambda: ours.loss(batch))
    plain(lambda: theirs.loss(batch))
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name)


def test_gradients_add_up_as_those_of_autograd_do() -> None:
    ours, theirs = twins(tiny.config())
    deferred = Deferred(ours)
    for seed in (0, 1):
        deferred(lambda seed=seed: loss(ours, seed))
        plain(lambda seed=seed: loss(theirs, seed))
    assert_equal_gradients(ours, theirs)


def test_a_model_trained_with_it_is_the_model_trained_without() -> None:
    ours, theirs = twins(tiny.config())

    def train(model: GSWM, backward: Callable[[LossFunction], Loss]) -> list[float]:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        losses = []
        for step in range(3):
            optimizer.zero_grad()
            losses.append(backward(lambda step=step: loss(model, step)).total.item())
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e4)
            optimizer.step()
        return losses

    start = {name: param.detach().clone() for name, param in theirs.named_parameters()}
    assert train(ours, Deferred(ours)) == pytest.approx(train(theirs, plain), rel=1e-5)
    moved = 0
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        way = (b - start[name]).abs().max()
        moved += bool(way > 1e-6)
        assert (a - b).abs().max() <= 1e-2 * way + 1e-7, name
    assert moved > 30


def test_without_gradients_a_model_is_as_it_was() -> None:
    ours, theirs = twins(tiny.config("maze"))
    deferred = Deferred(ours)
    a, b = ours.infer(tiny.video()), theirs.infer(tiny.video())
    assert torch.equal(a.xy, b.xy)
    assert torch.equal(a.pres, b.pres)
    assert a.reconstruction is not None
    assert b.reconstruction is not None
    assert torch.equal(a.reconstruction, b.reconstruction)
    a, b = (model.imagine(tiny.video(), given=2, steps=2) for model in (ours, theirs))
    assert torch.equal(a.xy, b.xy)
    assert not any(method.calls for method in deferred.methods)


def test_after_an_error_the_next_loss_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = twins(tiny.config())
    deferred = Deferred(ours)
    real, calls = deferred.methods[0].frame, []

    def fail(*args: object) -> object:
        calls.append(args)
        if len(calls) == 2:
            raise RuntimeError("in the third frame")
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(deferred.methods[0], "frame", fail)
        with pytest.raises(RuntimeError, match="in the third frame"):
            deferred(lambda: loss(ours))
    deferred(lambda: loss(ours))
    plain(lambda: loss(theirs))
    assert_equal_gradients(ours, theirs)


def test_a_loss_that_was_looked_at_and_not_lowered_does_not_count() -> None:
    """Work deferred to the end of the step is that of the lowered loss only."""
    ours, theirs = twins(tiny.config())
    deferred, rows = Deferred(ours), []
    for method in deferred.methods:

        def counted(*args: object, whole=method.whole) -> object:
            rows.append(len(tensors(args)[0]))
            return whole(*args)

        method.whole = counted
    loss(ours, seed=1)
    deferred(lambda: loss(ours))
    plain(lambda: loss(theirs))
    assert_equal_gradients(ours, theirs)
    assert rows == [2 * (TIME - 1)]


def test_what_a_user_has_frozen_stays_frozen() -> None:
    ours, theirs = twins(tiny.config())
    for model in (ours, theirs):
        model.propagation.mlp_prop.requires_grad_(False)
    Deferred(ours)(lambda: loss(ours))
    plain(lambda: loss(theirs))
    assert not any(p.requires_grad for p in ours.propagation.mlp_prop.parameters())
    assert_equal_gradients(ours, theirs)


def test_a_background_that_learns_alone_needs_no_recurrent_method() -> None:
    ours, theirs = twins(tiny.config("maze"))
    for model, backward in ((ours, Deferred(ours)), (theirs, plain)):
        video, noise = draw(model, 0)
        stage = replace(model.stage(0), length=TIME)
        assert stage.background_only
        args = (Batch(video), noise, torch.tensor(0), stage)
        backward(lambda model=model, args=args: model.loss(*args))
    assert_equal_gradients(ours, theirs)


def test_half_precision_is_near_and_leaves_what_is_inferred_as_it_was() -> None:
    # Positions in pixels would make an untrained network as sensitive as they are large.
    ours, theirs = twins(tiny.config(propagation=PropagationConfig()))
    before = ours.infer(tiny.video()).xy
    half = Deferred(ours, half=True)(lambda: loss(ours))
    full = plain(lambda: loss(theirs))
    assert half.total != full.total
    torch.testing.assert_close(half.total, full.total, rtol=1e-2, atol=0)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if b.grad is not None and b.grad.norm() > 1:
            assert a.grad is not None, name
            assert (a.grad - b.grad).norm() < 0.1 * b.grad.norm(), name
    assert torch.equal(ours.infer(tiny.video()).xy, before)
