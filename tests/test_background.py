"""The background of a fixed camera and the light of each frame, compared with the true ones."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_videos import make
from torch import Tensor

from gswm.data.background import (
    GAINS,
    Light,
    match_light,
    shows,
    static_background,
)

SHAPE = (3, 48, 64)


def slow(*kinds: str) -> list[Any]:
    """Kinds of videos for the slow tests."""
    return [pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]


def scene(seed: int, contrast: float) -> Tensor:
    """A smooth picture that varies by `contrast`."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(1, 3, 8, 10, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, SHAPE[1:], mode="bilinear")[0]
    return (0.45 + contrast * smooth).clamp(0.05, 0.9)


def naive(background: Tensor, frame: Tensor) -> tuple[float, float]:
    """Least squares of one channel, in Python."""
    b, f = background.flatten().tolist(), frame.flatten().tolist()
    mean_b, mean_f = sum(b) / len(b), sum(f) / len(f)
    both = sum((x - mean_b) * (y - mean_f) for x, y in zip(b, f, strict=True))
    gain = both / sum((x - mean_b) ** 2 for x in b)
    return gain, mean_f - gain * mean_b


def test_without_objects_it_is_the_least_squares_fit_of_each_channel() -> None:
    background = scene(0, 0.2)[:, :24, :32]
    noise = 0.003 * torch.randn(background.shape, generator=torch.Generator().manual_seed(1))
    frame = torch.tensor([0.6, 1.0, 1.3])[:, None, None] * background + 0.05 + noise
    light = match_light(background, frame)
    for channel in range(3):
        gain, offset = naive(background[channel], frame[channel])
        assert light.gain[channel].item() == pytest.approx(gain, abs=0.01)
        assert light.offset[channel].item() == pytest.approx(offset, abs=0.005)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    contrast=st.sampled_from([0.0, 0.02, 0.1, 0.2]),
    covered=st.floats(0, 0.4),
    gain=st.floats(0.6, 1.4),
    offset=st.floats(-0.1, 0.1),
    shade=st.floats(0, 1),
)
def test_an_object_over_two_fifths_of_the_frame_does_not_change_the_fit(
    seed: int, contrast: float, covered: float, gain: float, offset: float, shade: float
) -> None:
    background = scene(seed, contrast)
    lit = gain * background + offset
    frame = lit + 0.005 * torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))
    width = int(covered * SHAPE[2])
    frame[:, :, :width] = shade
    light = match_light(background, frame)
    assert (light.on(background) - lit)[:, :, width:].abs().mean() < 0.01


@settings(max_examples=20, deadline=None)
@given(level=st.floats(0.02, 1), other=st.floats(0, 1), noise=st.sampled_from([0.0, 0.02]))
def test_a_plain_picture_has_a_gain_near_one(level: float, other: float, noise: float) -> None:
    generator = torch.Generator().manual_seed(0)
    frame = other + noise * torch.randn(SHAPE, generator=generator)
    light = match_light(torch.full(SHAPE, level), frame)
    assert light.gain.sub(1).abs().max() < 0.05
    assert (light.on(torch.full(SHAPE, level)) - other).abs().max() < 0.01


def test_turning_a_light_on_and_off_gives_the_picture_back() -> None:
    light = Light(torch.full((3, 1, 1), 0.7), torch.full((3, 1, 1), 0.1))
    assert torch.allclose(light.off(light.on(scene(0, 0.1))), scene(0, 0.1), atol=1e-6)


def test_a_batch_is_fitted_frame_by_frame() -> None:
    backgrounds = torch.stack([scene(0, 0.1), scene(1, 0.1)])
    frames = torch.rand(2, 5, *SHAPE, generator=torch.Generator().manual_seed(0))
    all_at_once = match_light(backgrounds[:, None], frames)
    assert all_at_once.gain.shape == (2, 5, 3, 1, 1)
    for i in range(2):
        for j in range(5):
            alone = match_light(backgrounds[i], frames[i, j])
            assert torch.allclose(all_at_once.gain[i, j], alone.gain, atol=1e-5)
    low, high = GAINS
    assert ((all_at_once.gain >= low) & (all_at_once.gain <= high)).all()


def test_bytes_and_floats_are_one() -> None:
    video = torch.randint(0, 256, (7, *SHAPE), dtype=torch.uint8)
    assert torch.equal(static_background(video), static_background(video.float() / 255))


@pytest.mark.parametrize("kind", ["cars", *slow("insects", "visitors", "crossing")])
def test_the_median_is_the_scene_without_its_objects(kind: str) -> None:
    made = make(kind)
    video = torch.from_numpy(made.video).permute(0, 3, 1, 2)
    found = static_background(video)
    light = match_light(torch.from_numpy(made.background).float().permute(2, 0, 1), found)
    away = light.off(found).permute(1, 2, 0).numpy() - made.background
    assert abs(away).mean() < 0.005
    assert (abs(away).max(axis=-1) > 0.05).mean() < 0.01


def test_a_video_without_light_is_black() -> None:
    assert static_background(torch.zeros(4, *SHAPE)).abs().max() < 1e-3


@settings(max_examples=30)
@given(st.integers(0, 99), st.floats(0.5, 1.6), st.floats(-0.1, 0.15), st.booleans())
def test_a_background_shows_its_own_scene_in_any_light_and_no_other(
    seed: int, gain: float, offset: float, bars: bool
) -> None:
    one, other = scene(seed, 0.2), scene(seed + 100, 0.2)
    video = (gain * one + offset).clamp(0, 1).expand(5, *SHAPE).clone()
    video[1:, :, 10:25, 10:30] = 0.95  # an object in most of the frames
    if bars:
        pad = (0, 0, 30, 30)
        one, other, video = (torch.nn.functional.pad(each, pad) for each in (one, other, video))
    assert shows(one, video)
    assert not shows(other, video)


def test_a_black_background_shows_black_frames_alone() -> None:
    black = torch.zeros(2, *SHAPE)
    assert shows(black[0], black)
    assert not shows(black[0], scene(0, 0.2)[None])
