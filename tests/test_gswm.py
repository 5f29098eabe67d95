"""G-SWM as a whole, in addition to the laws of every model (test_world_models)."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import build, config, generator, lively, loss, video
from torch import Tensor

from gswm.core.errors import UserError
from gswm.core.geometry import SMALLEST
from gswm.core.records import tensors
from gswm.data.batches.batch import Batch
from gswm.models.base import check_video
from gswm.models.gswm.discovery import DiscoveryConfig
from gswm.models.gswm.gswm import GSWM
from gswm.models.gswm.propagation import FADING, PropagationConfig
from gswm.models.objects import Sizes, select

# -- the factorization of §3.1, one line a factor


@torch.no_grad()
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("recipe", ["interaction", "maze", "maze-no-aoe"])
def test_a_video_is_inferred_frame_by_frame(recipe: str, drawn: bool) -> None:
    """Objects that propagate see the background of the frame before, cells that of their own."""
    model, frames = lively(recipe), video(2, 4)
    noise = model.noise_shape.none(2, 4, torch.ones(4, dtype=torch.bool), 4)
    if drawn:
        noise = model.noise_shape.draw(2, 4, 0.0, generator(3))
        assert noise.keep.all()
    mu_bg = model.context.infer(model.context.start(2), noise.context, frames).mu_bg
    cells = model.cfg.discovery.grid**2
    h_0 = tuple(getattr(model.propagation, f"rnn_{w}").start(2, cells) for w in ("prior", "post"))
    track = model.infer(frames, generator=generator(3) if drawn else None)
    objects = model.empty(2)
    for t in range(4):
        now = noise.frames()[t]
        if t > 0:
            seen = model.propagation.situation.survey(mu_bg[:, t - 1 : t])[:, 0]
            objects, _ = model.propagation.infer(objects, seen, frames[:, t], now.propagation)
        here, every = slice(t, t + 1), torch.ones(2, 1, dtype=torch.bool)
        e_img = model.discovery.look(frames[:, here], mu_bg[:, here], every, 2)[:, 0]
        found, _ = model.discovery.infer(objects, e_img, now.keep, now.discovery, h_0)
        objects = select(objects, found)
        got = track.state_at(t).objects
        torch.testing.assert_close(got.flat(), objects.flat(), atol=1e-6, rtol=1e-5)
        mu = model.renderer(objects.o).over(mu_bg[:, t])
        torch.testing.assert_close(track.reconstruction[:, t], mu, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("recipe", ["interaction", "maze", "maze-no-aoe"])
def test_a_future_is_imagined_frame_by_frame(recipe: str) -> None:
    model, frames = lively(recipe), video(2, 2)
    past = model.infer(frames, discover="first")
    state = past.state_at(-1)
    noise = model.noise_shape.none(2, 3, torch.zeros(3, dtype=torch.bool), 0)
    mu_bg = model.context.imagine(state.context, noise.context).mu_bg
    before = torch.cat([past.background[:, -1:], mu_bg], dim=1)
    future, objects = model.imagine_from(state, 3, sample=False), state.objects
    for t in range(3):
        seen = model.propagation.situation.survey(before[:, t : t + 1])[:, 0]
        objects = model.propagation.imagine(objects, seen, noise.frames()[t].propagation)
        got = future.state_at(t).objects
        torch.testing.assert_close(got.flat(), objects.flat(), atol=1e-6, rtol=1e-5)


# -- what it promises


@pytest.mark.parametrize("name", ["interaction", "maze"])
@torch.no_grad()
def test_without_discovery_frames_are_as_if_it_found_nothing(name: str) -> None:
    model, x = build(config(name)), video(2, 4)
    ours, known, contexts = model.tracked(x, "first", None)
    keep = torch.tensor([True, False, False, False])
    noise = model.noise_shape.none(2, 4, keep, 1)
    theirs, evidence = model.track(x, contexts, noise)
    for a, b in zip(tensors(ours), tensors(theirs), strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(tensors(known), tensors([e.known for e in evidence[1:]]), strict=True):
        torch.testing.assert_close(a, b)


def test_twins_fade_in_inference_alone() -> None:
    model = lively("interaction", propagation=PropagationConfig(twins=0.0))
    slots = model.cfg.num_objects
    like = model.empty(1)
    o = replace(like.o, pres=torch.ones(1, slots, 1), hw=torch.full((1, slots, 2), 0.3))
    before = replace(like, o=o, id=torch.arange(slots)[None])
    now = model.noise_shape.none(1, 1, torch.zeros(1, dtype=torch.bool), 0).frames()[0].propagation
    seen = model.propagation.situation.survey(torch.zeros(1, 1, 3, 64, 64))[:, 0]
    at = before, seen, video(1, 1)[:, 0], now
    kept = model.propagation.infer(*at)[0].o.pres
    with torch.no_grad():
        alone = model.propagation.infer(*at)[0].o.pres
    assert torch.equal(alone[:, :1], kept[:, :1])
    torch.testing.assert_close(alone[:, 1:], FADING * kept[:, 1:])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"discovery": DiscoveryConfig(correction=1.5)}, "discovery.correction is 1.5"),
        ({"discovery": DiscoveryConfig(certainty=-0.1)}, "discovery.certainty is -0.1"),
        ({"discovery": DiscoveryConfig(doubt=0.3)}, "discovery.doubt is 0.3"),
        ({"discovery": DiscoveryConfig(doubt=0.8, certainty=0.7)}, "certainty, which is 0.7"),
        ({"discovery": DiscoveryConfig(doubt=-0.1, certainty=0.7)}, "discovery.doubt is -0.1"),
        ({"propagation": PropagationConfig(what_limit=0.0)}, "propagation.what-limit"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        build(config("interaction", **settings))


def test_the_given_frames_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = lively(), []
    step = model.follow_once

    def counted(objects, *rest):
        calls.append(len(objects.id))
        return step(objects, *rest)

    monkeypatch.setattr(model, "follow_once", counted)
    model.imagine(video(2, 4), 4, 2, futures=5)
    assert calls == [2, 2, 2]


@pytest.mark.parametrize(
    ("size", "grid", "slots"), [(64, 4, 1), (64, 8, 3), (128, 4, 20), (128, 16, 3), (64, 1, 5)]
)
def test_any_grid_that_fits_and_any_number_of_slots(size: int, grid: int, slots: int) -> None:
    discovery = DiscoveryConfig(grid=grid)
    model = lively(image_size=size, discovery=discovery, num_objects=slots)
    frames = video(2, 2, size)
    track = model.infer(frames)
    assert track.reconstruction.shape == frames.shape
    assert track.pres.shape == (2, 2, slots)
    loss(model, frames).total.backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_full_trunk_learns_too() -> None:
    torch.manual_seed(0)
    model = GSWM(config("maze"))
    loss(model, video(1, 2)).total.backward()
    trunk = dict(model.discovery.conv_disc.named_parameters())
    assert [n for n, p in trunk.items() if p.grad is None or not (p.grad != 0).any()] == []


def test_at_first_only_the_background_learns() -> None:
    model, frames = build(config("maze")), video(2, 1)
    stage = model.stage(0)
    got = model.loss(Batch(frames), model.noise(2, stage, generator()), torch.tensor(0), stage)
    assert set(got.terms) == {"nll", "kl_context"}
    got.total.backward()
    learns = {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None}
    assert learns == {"context"}


@pytest.mark.parametrize("recipe", ["interaction", "maze", "single-ball-d"])
def test_bfloat16_agrees_with_float32(recipe: str) -> None:
    """The loss to 1 %, pictures to 0.05 and places to 0.05 of [-1, 1], over three frames.

    There is a slot for every cell: which of many equal cells are kept is up to rounding.
    """
    model = lively(recipe, num_objects=16, discovery=DiscoveryConfig(grid=4))
    frames = video()
    exact, track = loss(model, frames).total, model.infer(frames, discover="first")
    with torch.autocast("cpu", torch.bfloat16):
        rough, rough_track = loss(model, frames).total, model.infer(frames, discover="first")
    rough.backward()
    torch.testing.assert_close(rough, exact, rtol=0.01, atol=0)
    found = track.pres > 0.5
    assert found.any()
    assert torch.equal(found, rough_track.pres > 0.5)
    assert (track.xy - rough_track.xy).abs().max() < 0.05
    assert (track.reconstruction - rough_track.reconstruction).abs().max() < 0.05
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_a_track_is_a_table() -> None:
    track = lively().infer(video(2, 3))
    table = track.to_frame()
    there = (track.pres > 0.5) & (track.id >= 0)
    assert {len(column) for column in table.values()} == {int(there.sum())}
    assert list(table) == ["episode", "frame", "id", "x", "y", "w", "h", "depth", "presence"]
    e, f, i = table["episode"][0], table["frame"][0], table["id"][0]
    slot = track.id[e, f].tolist().index(i)
    assert table["x"][0] == pytest.approx((float(track.xy[e, f, slot, 0]) + 1) / 2, abs=1e-6)
    assert table["y"][0] == pytest.approx((float(track.xy[e, f, slot, 1]) + 1) / 2, abs=1e-6)
    assert table["h"][0] == pytest.approx(float(track.hw[e, f, slot, 0]), abs=1e-6)
    assert table["w"][0] == pytest.approx(float(track.hw[e, f, slot, 1]), abs=1e-6)
    future = lively().imagine(video(2, 2), 2, 2, futures=3).to_frame()
    assert list(future)[:3] == ["episode", "future", "frame"]
    assert set(future["future"]) == {0, 1, 2}


# -- what is refused

BAD: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (lambda v: v[0], "expects videos of shape (batch, time, 3, 64, 64), not (2, 3, 64, 64)"),
    (lambda v: v[:, :, :1], "not (1, 2, 1, 64, 64)"),
    (lambda v: v[..., :32], "not (1, 2, 3, 64, 32); gswm.read_video(path, 64)"),
    (lambda v: v.movedim(2, -1), "its channels come last: use video.movedim(-1, 2)"),
    (lambda v: v[:, :0], "a video of shape (1, 0, 3, 64, 64) has no frames"),
    (lambda v: v.long(), "a video must be uint8, or floats from 0 to 1, not torch.int64"),
    (lambda v: v * 255, "divide it by 255"),
    (lambda v: v - 0.5, "a float video must be from 0 to 1; this one ranges from -0.4"),
    (lambda v: v * torch.nan, "NaN or infinite values"),
    (lambda v: v / 0, "NaN or infinite values"),
]


@pytest.mark.parametrize(("spoil", "said"), BAD)
def test_a_video_that_cannot_be_used_is_refused(
    spoil: Callable[[Tensor], Tensor], said: str
) -> None:
    with pytest.raises(UserError) as error:
        check_video(spoil(video(1, 2)), 64)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_size": 48}, "the image size must be 64, 128 or a larger power of 2, not 48"),
        ({"image_size": 32}, "not 32"),
        ({"discovery": DiscoveryConfig(grid=16)}, "a grid of 16 does not fit images of 64"),
        ({"discovery": DiscoveryConfig(grid=3)}, "it must divide 8"),
        ({"discovery": DiscoveryConfig(grid=0)}, "a grid of 0 does not fit"),
        ({"num_objects": 0}, "there must be at least 1 slot for objects, not 0"),
        ({"sizes": Sizes(glimpse=24)}, "glimpse is 24: it must be 16, 32 or 64"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError) as error:
        GSWM(config("interaction", **changes))
    assert said in str(error.value)


@torch.no_grad()
def test_tight_boxes_are_the_extents_of_what_is_drawn() -> None:
    model = lively("obj3d", tight_boxes=True)
    loose = lively("obj3d", tight_boxes=False)
    loose.load_state_dict(model.state_dict())
    tight, track = model.infer(video(1, 3)), loose.infer(video(1, 3))
    for t, scene in enumerate(track.states):
        o = scene.objects.o
        (drawn,) = model.renderer.extents(o.what[:, None])
        xy, hw = drawn.of(o.xy, o.hw)
        torch.testing.assert_close(tight.xy[:, t], xy)
        torch.testing.assert_close(tight.hw[:, t], hw)
        torch.testing.assert_close(track.xy[:, t], o.xy)
    assert (tight.hw <= track.hw.clamp_min(SMALLEST) + 1e-6).all()
    assert torch.equal(tight.id, track.id)


PLAIN = """
import torch
from tiny import build, config, video
import gswm
from gswm.core.errors import UserError
from gswm.core.geometry import SMALLEST

try:
    gswm.save("model.safetensors", "two-layer")
except UserError as error:
    assert "expects a model" in str(error)
model = build(config("interaction"))
bad = [[1, 2], torch.zeros(3), video().numpy(), video(1, 2)[0], video(1, 2).movedim(2, -1)]
for wrong in bad:
    for use in (lambda: model.infer(wrong), lambda: model.imagine(wrong, 1, 1)):
        try:
            use()
        except UserError as error:
            assert "\\n" not in str(error) and "(batch, time, 3, 64, 64)" in str(error)
        else:
            raise SystemExit(f"{type(wrong)} was taken")
"""

COMPILED = """
import torch
from tiny import build, config, generator, objects, video

model = build(config("maze"))
noise = model.noise_shape.draw(2, 2, 0.5, generator())
e_img = torch.randn(2, 64, 4)
known = objects()
seen = model.propagation.situation.survey(video(2, 1))[:, 0]
frame = video(2, 1, seed=1)[:, 0]
step = torch.compile(model.step, fullgraph=True, backend="eager")
gradients = []
for run in (model.step, step):
    model.zero_grad()
    after, evidence = run(known, seen, frame, e_img, noise.frames()[1])
    total = after.flat().square().sum() + evidence.found.pres.logit.sum()
    (total + evidence.known.q.mean.sum()).backward()
    gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
plain, compiled = gradients
assert plain.keys() == compiled.keys() and len(plain) > 50
for name in plain:
    torch.testing.assert_close(plain[name], compiled[name], atol=1e-3, rtol=1e-3)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(PLAIN, id="refusals"),
        pytest.param(COMPILED, id="compiled", marks=pytest.mark.slow),
    ],
)
def test_without_shape_checks(code: str) -> None:
    """Wrong input is refused in one sentence; a frame step compiles to one graph with gradients."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
