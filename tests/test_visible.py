"""Boxes in which the object can no longer be seen."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gswm.models.track import Track
from gswm.tracking.visible import MEMORY, SHARE, STRONGEST, Usual, Visibility, contrasts

SIZE = 64


def still(places: list[tuple[float, float]], side: float = 0.25, id: int = 3) -> Track:
    """A track of one object with a square box, in one window."""
    xy = torch.tensor(places)[None, :, None]
    ones = torch.ones(1, len(places), 1)
    hw = torch.full_like(xy, side)
    return Track(xy, hw, 0 * ones, ones, id * ones.long(), None, None)


def scene(places: list[tuple[int, int] | None], light: float = 0.0) -> tuple[Tensor, Tensor]:
    """Frames with a square of 16 pixels at these corners, and the background."""
    behind = torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0)) / 2
    video = behind[:, None].repeat(1, len(places), 1, 1, 1) + light
    for t, place in enumerate(places):
        if place is not None:
            x, y = place
            video[:, t, :, y : y + 16, x : x + 16] += 0.3
    return video, behind


def test_a_box_that_its_object_has_left_is_dropped_until_it_comes_back() -> None:
    here = (16, 24)
    video, behind = scene([here, here, None, None, here])
    middle = tuple((corner + 8) / SIZE * 2 - 1 for corner in here)
    track = still([(middle[0], middle[1])] * 5)
    seen = Visibility().only_visible(track, video, behind)
    assert seen.pres[0, :, 0].tolist() == [1, 1, 0, 0, 1]
    assert torch.equal(seen.xy, track.xy)


def test_a_change_of_light_hides_nothing() -> None:
    here = (16, 24)
    usual, behind = scene([here, here])
    bright, _ = scene([here, None], light=0.2)
    middle = tuple((corner + 8) / SIZE * 2 - 1 for corner in here)
    track = still([(middle[0], middle[1])] * 4)
    seen = Visibility().only_visible(track, torch.cat([usual, bright], dim=1), behind)
    assert seen.pres.bool().all()


def test_contrast_is_a_quantile_of_the_differences_in_the_box() -> None:
    video, behind = scene([(16, 24)])
    pixels = (video[0, 0] - behind[0]).abs().amax(dim=0)
    for x, y, side in ((16, 24, 16), (8, 16, 32), (40, 40, 16)):
        center = ((x + side / 2) / SIZE * 2 - 1, (y + side / 2) / SIZE * 2 - 1)
        found = contrasts(still([center], side / SIZE), video, behind)
        wanted = pixels[y : y + side, x : x + side].quantile(STRONGEST)
        assert found.shape == (1, 1, 1)
        assert float(found[0, 0, 0]) == pytest.approx(float(wanted), abs=0.02)


def test_frames_of_bytes_are_those_of_floats() -> None:
    video, behind = scene([(16, 24), None])
    track = still([(-0.25, 0.0)] * 2)
    as_bytes = (video * 255).round().to(torch.uint8)
    same = contrasts(track, as_bytes, (behind * 255).round().to(torch.uint8))
    np.testing.assert_allclose(same, contrasts(track, video, behind), atol=0.01)


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=2 * MEMORY))
def test_each_contrast_is_compared_with_the_mean_of_those_seen_before(values: list[float]) -> None:
    track = still([(0.0, 0.0)] * len(values))
    seen = Visibility().seen(track, np.array(values, np.float32)[None, :, None])[0, :, 0]
    mean, frames = 0.0, 0
    for value, there in zip(values, seen.tolist(), strict=True):
        if abs(value - SHARE * mean) > 1e-6:
            assert there == (value >= SHARE * mean)
        if there:
            frames = min(frames + 1, MEMORY)
            mean = mean * (1 - 1 / frames) + value / frames


@given(st.integers(0, 1000), st.integers(1, 9))
def test_chunks_do_not_matter(seed: int, at: int) -> None:
    values = np.random.default_rng(seed).uniform(0, 1, (2, 10, 3)).astype(np.float32)
    whole = torch.zeros(2, 10, 3)
    ids = torch.arange(3).expand(2, 10, 3)
    track = Track(
        whole[..., None].repeat(1, 1, 1, 2),
        whole[..., None].repeat(1, 1, 1, 2),
        whole,
        whole + 1,
        ids,
        None,
        None,
    )
    once = Visibility().seen(track, values)
    twice, visibility = [], Visibility()
    for part in (slice(0, at), slice(at, 10)):
        piece = Track(
            track.xy[:, part],
            track.hw[:, part],
            track.depth[:, part],
            track.pres[:, part],
            track.id[:, part],
            None,
            None,
        )
        twice.append(visibility.seen(piece, values[:, part]))
    assert np.array_equal(once, np.concatenate(twice, axis=1))


def test_the_usual_contrast_forgets() -> None:
    usual = Usual()
    for _ in range(10 * MEMORY):
        usual = usual.after(1.0)
    for _ in range(10 * MEMORY):
        usual = usual.after(0.5)
    assert usual.contrast == pytest.approx(0.5, abs=1e-3)
