"""Static backgrounds: the light of each frame, the source of the image, and motion."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from torch import Tensor

import gswm
from gswm.core.distributions import Bernoulli
from gswm.core.errors import UserError
from gswm.core.networks import per_object
from gswm.core.records import tensors
from gswm.core.settings import from_dict, to_dict
from gswm.data.background import Light, match_light, static_background
from gswm.data.batches.batch import Batch
from gswm.models.gswm import objective
from gswm.models.gswm.gswm import GSWM, GSWMConfig
from gswm.models.gswm.rendering import DRAWN
from gswm.models.layers import StaticContext
from gswm.models.recipe import DataConfig, Recipe

SIZE = 64


def still(**changes: object) -> GSWM:
    """A small model of a fixed camera."""
    return tiny.lively("clips", image_size=SIZE, **changes)


def picture(batch: int = 2, seed: int = 0) -> Tensor:
    """Patches of color."""
    few = torch.rand(batch, 3, 8, 8, generator=tiny.generator(seed)) * 0.6 + 0.2
    return torch.nn.functional.interpolate(few, size=SIZE, mode="nearest")


def crossing(behind: Tensor) -> Tensor:
    """A video in which a white box crosses the picture."""
    video = behind[:, None].repeat(1, 9, 1, 1, 1)
    for t in range(9):
        video[:, t, :, 20:30, 6 * t : 6 * t + 8] = 1.0
    return video


def lit(behind: Tensor, gains: list[float], offsets: list[float]) -> Tensor:
    """A video of a background whose light changes."""
    frames = [gain * behind + offset for gain, offset in zip(gains, offsets, strict=True)]
    return torch.stack(frames, dim=1)


def test_the_background_is_in_the_light_of_each_frame() -> None:
    behind = picture()
    video = lit(behind, [1.0, 0.8, 1.1], [0.0, 0.1, -0.05])
    context = StaticContext()
    found = context.infer(context.start(2, behind), torch.zeros(2, 3, 1), video)
    torch.testing.assert_close(found.mu_bg, video, atol=1e-3, rtol=0)


def test_imagined_frames_keep_the_last_light() -> None:
    behind = picture()
    video = lit(behind, [1.0, 0.7], [0.0, 0.2])
    context = StaticContext()
    last = context.infer(context.start(2, behind), torch.zeros(2, 2, 1), video).states[-1]
    dark = context.imagine(last, torch.zeros(2, 4, 1)).mu_bg
    torch.testing.assert_close(dark, video[:, -1:].expand(2, 4, -1, -1, -1), atol=1e-3, rtol=0)


def test_an_object_does_not_change_the_light() -> None:
    behind = picture(1)
    frame = behind.clone() * 0.9
    frame[..., 10:40, 10:40] = 0.95
    light = match_light(behind, frame)
    torch.testing.assert_close(light.gain, torch.full((1, 3, 1, 1), 0.9), atol=0.02, rtol=0)
    torch.testing.assert_close(light.offset, torch.zeros(1, 3, 1, 1), atol=0.01, rtol=0)


def test_black_bars_do_not_change_the_light() -> None:
    behind = picture(1)
    frame = 0.8 * behind + 0.1
    for each in (behind, frame):
        each[..., :20, :] = 0
        each[..., -20:, :] = 0
    light = match_light(behind, frame)
    torch.testing.assert_close(light.offset, torch.full((1, 3, 1, 1), 0.1), atol=0.01, rtol=0)


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_a_plain_picture_has_a_light(level: float) -> None:
    behind = torch.full((1, 3, SIZE, SIZE), level)
    light = match_light(behind, behind)
    torch.testing.assert_close(light.on(behind), behind)


def test_objects_that_move_are_not_in_the_background() -> None:
    behind = picture(1)
    video = lit(behind, [1.0] * 9, [0.0, 0.1, 0.0, -0.1, 0.0, 0.05, 0.0, 0.0, 0.0])
    for t in range(9):
        video[:, t, :, 20:30, 6 * t : 6 * t + 8] = 1.0
    torch.testing.assert_close(static_background(video), behind, atol=0.01, rtol=0)


def test_light_off_undoes_light_on() -> None:
    light = Light(torch.full((1, 3, 1, 1), 0.7), torch.full((1, 3, 1, 1), 0.1))
    behind = picture(1)
    torch.testing.assert_close(light.off(light.on(behind)), behind)


# -- which picture a model takes


def test_without_a_picture_it_is_the_scene_of_the_frames_that_are_given() -> None:
    model, video = still().eval(), crossing(picture())
    given = model.infer(video, background=picture())
    torch.testing.assert_close(model.infer(video).background, given.background, atol=0.01, rtol=0)


def test_a_saved_picture_is_taken_where_it_shows_the_scene() -> None:
    model, (one, other) = still().eval(), picture()
    model.context.picture = one
    found = model.background_for(
        torch.stack([0.8 * crossing(one[None])[0], crossing(other[None])[0]])
    )
    assert found is not None
    assert torch.equal(found[0], one)
    torch.testing.assert_close(found[1], other, atol=0.01, rtol=0)
    assert tiny.lively().background_for(tiny.video()) is None


def test_frames_that_are_to_be_predicted_are_not_looked_at() -> None:
    model, video = still().eval(), tiny.video(1, 8)
    other = video.clone()
    other[:, 4:] = 1 - other[:, 4:]
    first, second = (model.imagine(v, 4, 3).reconstruction for v in (video, other))
    assert torch.equal(first, second)


def test_a_saved_picture_comes_with_the_weights(tmp_path: Path) -> None:
    model = still()
    model.context.picture = picture(1)[0]
    recipe = Recipe("mine", DataConfig("clips"), model.cfg)
    full = GSWM(model.cfg)
    full.context.picture = model.context.picture
    gswm.save(tmp_path / "mine.safetensors", full, recipe)
    again = gswm.load(tmp_path / "mine.safetensors")
    torch.testing.assert_close(again.saved_background, model.context.picture)
    seen = again.infer(tiny.video(2, 2), background=None).background
    assert seen is not None
    without = GSWM(model.cfg)
    gswm.save(tmp_path / "none.safetensors", without, recipe)
    assert gswm.load(tmp_path / "none.safetensors").saved_background is None


def test_a_picture_of_another_shape_is_refused() -> None:
    with pytest.raises(UserError, match=r"a background must have shape"):
        still().infer(tiny.video(1, 2), background=torch.zeros(1, 3, 8, 8))


def test_to_go_on_from_a_state_is_to_infer_it_all() -> None:
    model, video = still().eval(), tiny.video(2, 5)
    behind = picture()
    whole = model.infer(video, background=behind)
    first = model.infer(video[:, :2], background=behind)
    rest = model.infer_after(first.state_at(-1), video[:, 2:], discover="always")
    torch.testing.assert_close(rest.reconstruction, whole.reconstruction[:, 2:])
    for ours, theirs in zip(tensors(rest.state_at(-1)), tensors(whole.state_at(-1)), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_video_of_the_background_alone_is_drawn_exactly_without_objects() -> None:
    model = still()
    with torch.no_grad():
        model.discovery.mlp_disc[-1].bias[0] = -30
    behind = picture()
    video = lit(behind, [1.0, 0.9], [0.0, 0.05])
    track = model.eval().infer(video, background=behind)
    torch.testing.assert_close(track.reconstruction, video, atol=1e-3, rtol=1e-3)


# -- settings


def test_settings_of_version_0_1_0_are_read() -> None:
    for said, means in ((True, "learned"), (False, "black")):
        saved = to_dict(replace(tiny.config("two-layer"), sizes=tiny.SIZES))
        saved["background"] = said
        saved["discovery"]["pres_prior"] = 0.01
        del saved["schedule"]["pres_prior"]
        read = from_dict(GSWMConfig, saved)
        assert read.background == means
        assert read.schedule.pres_prior.start == read.schedule.pres_prior.end == 0.01


def test_motion_teaches_only_where_there_is_a_static_background() -> None:
    schedule = tiny.config("clips").schedule
    with pytest.raises(UserError, match="static background"):
        GSWM(replace(tiny.config("two-layer"), schedule=schedule))


# -- the first steps


def test_discovery_starts_at_its_prior() -> None:
    cfg = tiny.config("clips", image_size=SIZE)
    model = tiny.build(cfg)
    e_img = model.discovery.look(
        torch.cat([tiny.video(1, 1)], dim=0),
        tiny.video(1, 1, seed=1),
        torch.ones(1, 1, dtype=torch.bool),
        1,
    )
    noise = model.noise_shape.none(1, 1, torch.ones(1, dtype=torch.bool), 1)
    _, found = model.discover(model.empty(1), e_img[:, 0], noise.frames()[0])
    torch.testing.assert_close(
        found.pres.rho,
        torch.full_like(found.pres.rho, cfg.schedule.pres_prior.start),
        atol=0.03,
        rtol=0,
    )
    prior = model.discovery.prior_att(torch.tensor(cfg.schedule.hw_prior_mean.start))
    assert found.q_att.kl(prior).mean().item() < 0.02


def test_peaks_are_the_cells_of_the_middles_of_what_moves() -> None:
    moves = torch.zeros(2, 1, 64, 64)
    moves[0, 0, 10:18, 34:42] = 1  # its middle is at row 14, column 38
    moves[0, 0, 50:58, 2:10] = 1
    found = objective.peaks(moves, 8 / 64, grid=8)[..., 0]
    want = torch.zeros(2, 64)
    want[0, 1 * 8 + 4] = 1
    want[0, 6 * 8 + 0] = 1
    assert torch.equal(found, want)


def test_presence_taught_by_motion_is_right_where_something_moves_and_nowhere_else() -> None:
    moves = torch.zeros(1, 2, 1, 64, 64)
    moves[:, :, :, 10:18, 34:42] = 1
    there = objective.peaks(moves[:, 0], 8 / 64, 8)
    right = Bernoulli(40 * there - 20)
    assert float(objective.motion_pres(right, moves[:, 0], 8 / 64)) < 1e-5
    assert float(objective.motion_pres(Bernoulli(-right.logit), moves[:, 0], 8 / 64)) > 100


def test_a_static_model_learns_from_a_batch_with_its_background() -> None:
    model, behind = still().train(), picture()
    video = lit(behind, [1.0, 0.9, 1.0], [0.0, 0.0, 0.1])
    stage = model.cfg.schedule.steady(3).stage(0)
    noise = model.noise(2, stage, tiny.generator())
    loss = model.loss(Batch(video, background=behind), noise, torch.tensor(0), stage)
    loss.total.backward()
    assert {"motion", "motion_pres"} <= loss.terms.keys()
    assert model.discovery.mlp_disc[-1].weight.grad is not None


# -- tight boxes


def start(alpha: Tensor) -> float:
    """The place, in pixels, at which a line through the pixels' middles first reaches `DRAWN`."""
    values = alpha.tolist()
    first = next(i for i, value in enumerate(values) if value > DRAWN)
    before = values[first - 1] if first else 0.0
    return max(0.0, first + 0.5 - (values[first] - DRAWN) / (values[first] - before))


def test_reported_boxes_are_as_large_as_what_is_drawn() -> None:
    model, behind = still(boxes_by_label=False).eval(), picture()
    track = model.infer(tiny.video(2, 2), background=behind)
    for t in range(2):
        o = track.states[t].objects.o
        alpha = per_object(model.renderer.deconv_what, o.what).sigmoid()[:, :, 3]
        size = alpha.shape[-1]
        for b in range(2):
            for k in range(o.xy.shape[1]):
                rows, columns = alpha[b, k].amax(dim=1), alpha[b, k].amax(dim=0)
                box = [(0.0, size), (0.0, size)]
                if (alpha[b, k] > DRAWN).any():
                    box = [(start(each), size - start(each.flip(0))) for each in (rows, columns)]
                for axis, (low, high) in enumerate(box):
                    whole = float(o.hw[b, k, axis].clamp_min(0.02))
                    middle = float(o.xy[b, k, 1 - axis]) + whole * ((low + high) / size - 1)
                    assert float(track.hw[b, t, k, axis]) == pytest.approx(
                        whole * (high - low) / size, abs=1e-5
                    )
                    assert float(track.xy[b, t, k, 1 - axis]) == pytest.approx(middle, abs=1e-5)


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        (torch.full((3, SIZE, SIZE), torch.nan), "the background has NaN"),
        (torch.full((3, SIZE, SIZE), 200.0), "divide it by 255"),
    ],
)
def test_a_background_that_is_no_picture_is_refused(behind: Tensor, said: str) -> None:
    with pytest.raises(UserError, match=said):
        still().infer(crossing(picture(1)), background=behind)


def test_a_background_has_any_precision() -> None:
    model, behind = still(), picture(1)
    tracks = [
        model.infer(crossing(behind), background=behind.to(kind))
        for kind in (torch.float32, torch.float64)
    ]
    assert torch.equal(tracks[0].xy, tracks[1].xy)
