"""The whole model: its laws over time, and what it promises to those who use it."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import build, config, generator, loss, video
from torch import Tensor

from gswm.errors import UserError
from gswm.model.discovery import DiscoveryConfig
from gswm.model.gswm import GSWM
from gswm.objects import Sizes, select
from gswm.world_model import Track, check_video

NAMES = ("xy", "hw", "depth", "pres", "id", "reconstruction", "background")


def close(a: Track, b: Track, frames: slice = slice(None), of: slice = slice(None)) -> None:
    """Two tracks agree, on some frames of some videos."""
    for name in NAMES:
        left, right = getattr(a, name), getattr(b, name)
        torch.testing.assert_close(left[of][:, frames], right[:, frames], atol=1e-4, rtol=1e-3)


def lively(recipe: str = "maze", **changes: object) -> GSWM:
    """A model that finds objects although it is untrained, and lets them live."""
    model = build(config(recipe, **changes))
    with torch.no_grad():
        model.discovery.mlp_disc[-1].bias[0] = 3
        last = getattr(model.propagation.latent, "mlp_att", None)
        last = model.propagation.latent.mlp_att_post if last is None else last
        last[-1].bias[0] = 6
    return model


# -- laws


@pytest.mark.parametrize("recipe", ["interaction", "maze", "single-ball-d"])
def test_later_frames_change_nothing_before_them(recipe: str) -> None:
    model, frames = lively(recipe), video(2, 4)
    other = frames.clone()
    other[:, 3] = 1 - other[:, 3]
    a, b = model.infer(frames), model.infer(other)
    close(a, b, slice(0, 3))
    assert (a.reconstruction[:, 3] - b.reconstruction[:, 3]).abs().max() > 1e-4


@pytest.mark.parametrize("recipe", ["interaction", "maze", "maze-no-aoe", "maze-no-mu"])
def test_videos_of_a_batch_do_not_meet(recipe: str) -> None:
    model, frames = lively(recipe), video(3, 3)
    close(model.infer(frames), model.infer(frames[1:2]), of=slice(1, 2))


def test_imagination_sees_only_the_given_frames() -> None:
    model, frames = lively(), video(2, 5)
    other = frames.clone()
    other[:, 3:] = 0
    for sample in (True, False):
        a, b = (model.imagine(x, 3, 2, futures=2, sample=sample) for x in (frames, other))
        assert torch.equal(a.reconstruction, b.reconstruction)
        assert torch.equal(a.xy, b.xy)


def test_nobody_comes_or_goes_in_imagination() -> None:
    future = lively().imagine(video(2, 3), 3, 4, futures=2)
    assert future.past is not None
    last = future.past.pres[:, -1, :][:, None, None]
    assert torch.equal(future.pres, last.expand_as(future.pres))
    ids = future.past.id[:, -1, :][:, None, None]
    assert torch.equal(future.id, ids.expand_as(future.id))


def test_after_the_first_frame_imagination_discovers_nothing() -> None:
    model = lively(num_objects=20)
    given, always = model.imagine(video(2, 3), 3, 1).past, model.infer(video(2, 3))
    assert given is not None
    assert (given.id.amax(dim=2) == given.id[:, :1].amax(dim=2)).all()
    assert (always.id[:, -1].amax(dim=1) >= given.id[:, -1].amax(dim=1)).all()


def test_a_state_is_all_that_carries_on() -> None:
    """Imagining 2 frames and then 3 more is imagining 5."""
    model, frames = lively(), video(2, 3)
    whole = model.imagine(frames, 3, 5, sample=False)
    first = model.imagine(frames, 3, 2, sample=False)
    rest = model.imagine_from(first.state_at(-1), 3, sample=False)
    for name in NAMES:
        parts = torch.cat([getattr(first, name), getattr(rest, name)], dim=2)
        torch.testing.assert_close(parts, getattr(whole, name), atol=1e-4, rtol=1e-3)


def test_slots_that_are_empty_change_nothing_that_is_imagined() -> None:
    model, many = lively("interaction"), lively("interaction", num_objects=5)
    many.load_state_dict(model.state_dict())
    scene = model.infer(video(2, 3)).state_at(-1)
    objects = scene.objects
    pad = torch.nn.functional.pad(objects.flat(), (0, 0, 0, 2))
    ids = torch.nn.functional.pad(objects.id, (0, 2), value=-1)
    padded = replace(scene, objects=objects.with_flat(pad, ids))
    a = model.imagine_from(scene, 4, sample=False)
    b = many.imagine_from(padded, 4, sample=False)
    torch.testing.assert_close(a.reconstruction, b.reconstruction, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(a.xy, b.xy[:, :, :, :3], atol=1e-5, rtol=1e-4)


def test_objects_have_no_order_in_imagination() -> None:
    model = lively()
    scene = model.infer(video(2, 3)).state_at(-1)
    order = [2, 0, 1]
    objects = scene.objects.with_flat(scene.objects.flat()[:, order], scene.objects.id[:, order])
    a = model.imagine_from(scene, 4, sample=False)
    b = model.imagine_from(replace(scene, objects=objects), 4, sample=False)
    torch.testing.assert_close(a.reconstruction, b.reconstruction, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(a.xy[..., order, :], b.xy, atol=1e-5, rtol=1e-4)


# -- the factorization of §3.1, one line a factor


@torch.no_grad()
@pytest.mark.parametrize("recipe", ["interaction", "maze", "maze-no-aoe"])
def test_a_video_is_inferred_frame_by_frame(recipe: str) -> None:
    """Objects that propagate see the background of the frame before, cells that of their own."""
    model, frames = lively(recipe), video(2, 4)
    noise = model.noise_shape.none(2, 4, torch.ones(4, dtype=torch.bool), 4)
    mu_bg = model.context.infer(model.context.start(2), noise.context, frames).mu_bg
    cells = model.cfg.discovery.grid**2
    h_0 = tuple(getattr(model.propagation, f"rnn_{w}").start(2, cells) for w in ("prior", "post"))
    track, objects = model.infer(frames), model.empty(2)
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


# -- what imagination promises


def test_the_given_frames_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = lively(), []
    step = model.step

    def counted(objects, *rest):
        calls.append(len(objects.id))
        return step(objects, *rest)

    monkeypatch.setattr(model, "step", counted)
    model.imagine(video(2, 4), 4, 2, futures=5)
    assert calls == [2, 2, 2]


def test_imagining_is_inferring_and_imagining_from_the_last_state() -> None:
    model, frames = lively(), video(2, 4)
    a = model.imagine(frames, 3, 2, futures=3, generator=generator(4))
    state = model.infer(frames[:, :3], discover="first").state_at(-1)
    b = model.imagine_from(state, 2, futures=3, generator=generator(4))
    for name in NAMES:
        assert torch.equal(getattr(a, name), getattr(b, name)), name


def test_futures_differ_where_they_are_sampled_and_only_there() -> None:
    model, frames = lively(), video(2, 2)
    sampled = model.imagine(frames, 2, 3, futures=3)
    assert (sampled.xy[:, 0] - sampled.xy[:, 1]).abs().max() > 1e-3
    mean = model.imagine(frames, 2, 3, futures=3, sample=False)
    for future in (1, 2):
        torch.testing.assert_close(mean.xy[:, 0], mean.xy[:, future], atol=1e-6, rtol=1e-5)
    again = model.imagine(frames, 2, 3, futures=3, sample=False)
    assert torch.equal(mean.reconstruction, again.reconstruction)


def test_the_same_seed_gives_the_same_futures() -> None:
    model, frames = lively(), video(2, 2)
    a, b, c = (model.imagine(frames, 2, 3, generator=generator(s)) for s in (1, 1, 2))
    assert torch.equal(a.reconstruction, b.reconstruction)
    assert not torch.equal(a.xy, c.xy)


def test_pictures_are_drawn_only_if_asked_for() -> None:
    model, frames = lively(), video(2, 2)
    drawn = model.imagine(frames, 2, 2, generator=generator(1))
    plain = model.imagine(frames, 2, 2, generator=generator(1), render=False)
    assert plain.reconstruction is None
    assert plain.background is None
    assert torch.equal(plain.xy, drawn.xy)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("time", [1, 2])
def test_any_batch_and_any_number_of_frames(batch: int, time: int) -> None:
    model, frames = lively(), video(batch, time)
    track = model.infer(frames)
    assert track.reconstruction.shape == frames.shape
    assert track.xy.shape == (batch, time, 3, 2)
    assert len(track.states) == time
    future = model.imagine(frames, 1, 2, futures=2)
    assert future.reconstruction.shape == (batch, 2, 2, 3, 64, 64)
    assert torch.isfinite(loss(model, frames).total)


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


def test_bytes_and_floats_are_the_same_video() -> None:
    model = lively()
    frames = (255 * video(1, 2)).to(torch.uint8)
    close(model.infer(frames), model.infer(frames / 255))
    torch.testing.assert_close(loss(model, frames).total, loss(model, frames / 255).total)


def test_the_full_trunk_learns_too() -> None:
    torch.manual_seed(0)
    model = GSWM(config("maze"))
    loss(model, video(1, 2)).total.backward()
    trunk = dict(model.discovery.conv_disc.named_parameters())
    assert [n for n, p in trunk.items() if p.grad is None or not (p.grad != 0).any()] == []


def test_the_same_seed_gives_the_same_loss() -> None:
    model, frames = build(config("maze")), video()
    a, b, c = (loss(model, frames, seed=s).total for s in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_at_first_only_the_background_learns() -> None:
    model, frames = build(config("maze")), video(2, 1)
    stage = model.stage(0)
    got = model.loss(frames, model.noise(2, stage, generator()), torch.tensor(0), stage)
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


def test_ids_stay_and_are_small() -> None:
    model = lively("interaction", num_objects=5)
    track = model.infer(video(3, 6))
    for b in range(3):
        seen = {i for frame in track.id[b].tolist() for i in frame if i >= 0}
        assert seen == set(range(len(seen)))
        for t in range(1, 6):
            for k in range(5):
                before, now = int(track.id[b, t - 1, k]), int(track.id[b, t, k])
                assert now == before or now not in track.id[b, t - 1].tolist() or now == -1
        for t in range(6):
            there = [i for i in track.id[b, t].tolist() if i >= 0]
            assert len(there) == len(set(there))


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
    (lambda v: v[0], "takes videos of shape (batch, time, 3, 64, 64), not (2, 3, 64, 64)"),
    (lambda v: v[:, :, :1], "not (1, 2, 1, 64, 64)"),
    (lambda v: v[..., :32], "not (1, 2, 3, 64, 32)"),
    (lambda v: v.movedim(2, -1), "its channels come last: use video.movedim(-1, 2)"),
    (lambda v: v[:, :0], "a video of shape (1, 0, 3, 64, 64) has no frames"),
    (lambda v: v.long(), "a video is uint8, or floats from 0 to 1; this one is torch.int64"),
    (lambda v: v * 255, "divide it by 255"),
    (lambda v: v - 0.5, "a float video is from 0 to 1; this goes from -0.4"),
    (lambda v: v * torch.nan, "values that are not finite"),
    (lambda v: v / 0, "values that are not finite"),
]


@pytest.mark.parametrize(("spoil", "said"), BAD)
def test_a_video_that_cannot_be_used_is_refused(
    spoil: Callable[[Tensor], Tensor], said: str
) -> None:
    with pytest.raises(UserError) as error:
        check_video(spoil(video(1, 2)), 64)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("given", [0, -1, 4])
def test_more_frames_than_there_are_cannot_be_given(given: int) -> None:
    with pytest.raises(UserError, match="given must be from 1 to the video's 3 frames"):
        lively().imagine(video(), given, 2)


def test_no_steps_and_no_futures_are_refused() -> None:
    model = lively()
    for steps, futures in ((0, 1), (1, 0)):
        with pytest.raises(UserError, match="steps and futures must be at least 1"):
            model.imagine(video(), 1, steps, futures=futures)
    with pytest.raises(UserError, match="there is no state at frame 7 of 3"):
        model.infer(video()).state_at(7)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_size": 48}, "the image size must be 64, 128 or a larger power of 2, not 48"),
        ({"image_size": 32}, "not 32"),
        ({"discovery": DiscoveryConfig(grid=16)}, "a grid of 16 does not fit images of 64"),
        ({"discovery": DiscoveryConfig(grid=3)}, "it must divide 8"),
        ({"discovery": DiscoveryConfig(grid=0)}, "a grid of 0 does not fit"),
        ({"num_objects": 0}, "there must be at least 1 slot for objects, not 0"),
        ({"sizes": Sizes(glimpse=32)}, "glimpses are of 16 pixels, not 32"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UserError) as error:
        GSWM(config("interaction", **changes))
    assert said in str(error.value)


PLAIN = """
import torch
from tiny import build, config, video
from gswm.errors import UserError

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


@pytest.mark.parametrize("code", [PLAIN, COMPILED], ids=["refusals", "compiled"])
def test_without_shape_checks(code: str) -> None:
    """Wrong input is refused in one sentence; a frame step compiles to one graph with gradients."""
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
