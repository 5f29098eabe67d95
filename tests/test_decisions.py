"""Settings derived from measurements: their units, and their reasons."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic_videos import facts_with

from gswm.core.errors import UserError
from gswm.core.geometry import crop, paste
from gswm.data.looking.facts import Quantiles
from gswm.fitting.decisions import (
    FASTEST,
    MARGIN,
    PRESENT,
    SLOTS,
    STDS,
    logit,
    settings_for,
    sigmoid,
)
from gswm.models.gswm.gswm import GSWM


def all_at(value: float) -> Quantiles:
    return Quantiles(value, value, value, value)


@pytest.mark.parametrize(("pixels", "size"), [(16, 64), (20, 64), (24, 128)])
def test_a_box_of_so_many_pixels_is_drawn_so_large(pixels: int, size: int) -> None:
    """The prior is of logit(hw), and hw is the whole side of a box as a share of the image."""
    hw = torch.full((1, 1, 2), sigmoid(logit(pixels / size)))
    drawn = paste(torch.ones(1, 1, 1, 16, 16), torch.zeros(1, 1, 2), hw, size)
    assert drawn.sum().sqrt().item() == pytest.approx(pixels, rel=0.02)


def test_the_size_prior_is_the_size_of_the_objects_with_a_margin() -> None:
    facts = facts_with(width=100, heights=all_at(15.0), widths=all_at(15.0))
    found = settings_for(facts)
    assert sigmoid(found.hw_prior_mean.value) == pytest.approx(MARGIN * 0.15, rel=0.02)
    assert found.hw_std.value == 0.1


@given(st.floats(4, 40), st.floats(1, 2), st.floats(1, 2))
def test_most_objects_are_within_two_deviations_of_the_size_prior(
    side: float, spread: float, longer: float
) -> None:
    sizes = Quantiles(side / spread, side, side * spread, side * spread)
    facts = facts_with(width=100, heights=sizes, widths=sizes * (1 / longer))
    found = settings_for(facts)
    mean, std = found.hw_prior_mean.value, found.hw_std.value
    for value in (side / spread / longer, side * spread):
        assert abs(logit(MARGIN * value / 100) - mean) <= 2.6 * std + 0.02


@given(st.floats(0.05, 15), st.floats(1, 4))
def test_a_step_is_within_reach_of_propagation(speed: float, faster: float) -> None:
    """A step of share v changes xy by 2 v; c_xy · tanh and the region looked at must reach it."""
    facts = facts_with(
        width=100, frames=5000, speeds=Quantiles(speed, speed, speed, faster * speed)
    )
    found = settings_for(facts)
    step = found.stride.value * faster * speed / 100
    if found.stride.value > 1:
        assert step <= FASTEST + 1e-6
    if step <= 0.2:
        assert 2 * step <= 0.77 * found.update_xy.value  # tanh(1) reaches it
        assert 2 * step <= found.proposal_range.value[1]
    low, high = found.proposal_range.value
    assert 0 <= low < high


def test_the_region_that_propagation_looks_at_shows_an_object_after_its_step() -> None:
    facts = facts_with(width=100, speeds=Quantiles(5.0, 5.0, 5.0, 8.0))
    _, margin = settings_for(facts).proposal_range.value
    hw, step = 0.12, 0.08
    image = paste(torch.ones(1, 1, 1, 16, 16), torch.tensor([[[2 * step, 0.0]]]),
                  torch.full((1, 1, 2), hw), 64)[:, 0]  # fmt: skip
    seen = crop(image, torch.zeros(1, 1, 2), torch.full((1, 1, 2), hw + margin), 64)
    share = seen.sum() * (hw + margin) ** 2 / image.sum()
    assert share.item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("low", "median", "size"), [(5.0, 13.0, 128), (7.0, 13.0, 64), (7.0, 12.0, 128)]
)
def test_64_pixels_if_they_show_the_objects(low: float, median: float, size: int) -> None:
    sizes = Quantiles(low, median, 2 * median, 2 * median)
    facts = facts_with(width=100, heights=sizes, widths=sizes)
    assert settings_for(facts).image_size.value == size


@pytest.mark.parametrize(
    ("side", "count", "grid"), [(25.0, 2.0, 4), (12.0, 3.0, 8), (4.0, 3.0, 16), (20.0, 9.0, 8)]
)
def test_a_cell_is_about_as_large_as_a_small_object(side: float, count: float, grid: int) -> None:
    facts = facts_with(width=100, heights=all_at(side), widths=all_at(side), counts=all_at(count))
    assert settings_for(facts).grid.value == grid


def test_the_grid_fits_a_size_that_the_user_chose() -> None:
    facts = facts_with(width=100, heights=all_at(4.0), widths=all_at(4.0))
    chosen, asked = settings_for(facts), settings_for(facts, image_size=64)
    assert (chosen.image_size.value, chosen.grid.value) == (128, 16)
    assert (asked.image_size.value, asked.grid.value) == (64, 8)
    assert "no smaller cells" in asked.grid.reason
    asked.model().check()


@given(st.floats(3, 60), st.floats(0, 40), st.floats(0.01, 20), st.floats(0.03, 0.9), st.booleans())
def test_settings_of_any_video_fit_together(
    side: float, count: float, speed: float, contrast: float, square: bool
) -> None:
    facts = facts_with(
        width=100 if square else 180,
        heights=all_at(side),
        widths=all_at(side),
        counts=all_at(count),
        speeds=all_at(speed),
        contrast=contrast,
    )
    found = settings_for(facts)
    found.model().check()
    least, most = SLOTS
    assert max(least, min(count, most)) <= found.num_objects.value <= most
    assert found.grid.value**2 >= 2 * found.num_objects.value or found.image_size.value == 64
    assert STDS[0] <= found.likelihood_std.value <= STDS[1]
    assert PRESENT[0] <= found.pres_prior.value <= PRESENT[1]
    assert all(each.reason for _, each in found.items())


def test_decisions_become_the_settings_of_a_model() -> None:
    found = settings_for(facts_with())
    model = found.model()
    assert model.num_objects == found.num_objects.value
    assert model.discovery.grid == found.grid.value
    assert model.schedule.hw_prior_mean.end == found.hw_prior_mean.value
    assert model.propagation.update.xy == found.update_xy.value
    assert model.background == "static"
    assert model.motion_threshold == found.motion_threshold.value
    assert GSWM(model).cfg.image_size == found.image_size.value


def test_frames_are_left_out_if_objects_are_slow_and_never_added() -> None:
    slow = facts_with(frames=10_000, speeds=Quantiles(0.1, 0.2, 0.3, 0.4))
    found = settings_for(slow)
    assert found.stride.value == 3  # of 25 a second: no more than 0.13 s
    assert found.fps.value == pytest.approx(25 / found.stride.value, abs=1e-3)
    assert "every 3rd frame" in found.fps.reason
    assert settings_for(replace(slow, frames=300)).stride.value == 1
    fast = settings_for(facts_with(speeds=all_at(30.0)))
    assert (fast.stride.value, fast.fps.value) == (1, None)
    assert "no frames in between" in fast.stride.reason
    assert settings_for(replace(slow, fps=None)).fps.value is None


def test_sizes_are_shares_of_the_longer_side() -> None:
    square, wide = (settings_for(facts_with(width=width, height=100)) for width in (100, 200))
    ratio = sigmoid(square.hw_prior_mean.value) / sigmoid(wide.hw_prior_mean.value)
    assert ratio == pytest.approx(2, rel=0.03)


def test_motion_is_told_from_noise_and_not_from_contrast_alone() -> None:
    quiet = settings_for(facts_with(contrast=0.3, noise=0.005)).motion_threshold.value
    noisy = settings_for(facts_with(contrast=0.3, noise=0.035)).motion_threshold.value
    assert 0.005 < quiet < 0.3
    assert noisy > quiet


def test_a_video_without_objects_is_refused_with_its_verdict() -> None:
    with pytest.raises(UserError, match="Nothing moves"):
        settings_for(facts_with(heights=Quantiles(), widths=Quantiles()))


@given(st.floats(0.01, 0.94))
def test_logit_is_the_inverse_of_sigmoid(share: float) -> None:
    assert sigmoid(logit(share)) == pytest.approx(share)
    assert math.isfinite(logit(0.0))
