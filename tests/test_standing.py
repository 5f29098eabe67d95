"""The empty scene of videos in which objects stand for long, compared with the true scene."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from synthetic_videos import make
from torch import Tensor

from gswm.data.background import match_light, static_background
from gswm.data.standing import (
    comes_back,
    emptier_of,
    empty_scene,
    jump,
    usual_jump,
    without_standing,
)

HEIGHT, WIDTH, TIME = 48, 64, 60
RED = (0.9, 0.2, 0.1)


def slow(*cases: str | tuple[float, ...]) -> list[Any]:
    """Cases for the slow tests."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=pytest.mark.slow) for each in values]


def ground(texture: float, seed: int = 3) -> np.ndarray:
    """A smooth scene with a given amount of texture."""
    rng = np.random.default_rng(seed)
    coarse, fine = (
        ndimage.gaussian_filter(rng.normal(size=(HEIGHT, WIDTH, 3)), (width, width, 0))
        for width in (8, 1)
    )
    return (0.45 + 0.05 * coarse / coarse.std() + texture * fine / fine.std()).clip(0.05, 0.95)


def gravel(seed: int = 3) -> np.ndarray:
    """A larger scene of stones of a few pixels, from dark to bright."""
    rng = np.random.default_rng(seed)
    stones = rng.uniform(size=(800, 2)) * [2 * HEIGHT, 2 * WIDTH]
    pixels = np.moveaxis(np.mgrid[: 2 * HEIGHT, : 2 * WIDTH], 0, -1)[:, :, None]
    nearest = np.hypot(*np.moveaxis(pixels - stones, -1, 0)).argmin(axis=-1)
    grey = rng.uniform(0.2, 0.7, len(stones))[nearest]
    return np.repeat(ndimage.gaussian_filter(grey, 0.5)[..., None], 3, axis=-1)


def film(
    scene: np.ndarray,
    places: list[tuple[int, int] | None],
    *,
    color: tuple[float, float, float] = RED,
    light: float = 0.0,
    noise: float = 0.008,
) -> Tensor:
    """A video of a box, 14 pixels high and 10 wide, with its top left corner at each place."""
    rng = np.random.default_rng(0)
    frames = np.repeat(scene[None], len(places), 0)
    for frame, place in zip(frames, places, strict=True):
        if place is not None:
            top, left = place
            frame[max(top, 0) : top + 14, max(left, 0) : left + 10] = color
    frames *= 1 + light * np.sin(np.arange(len(places)) / 9)[:, None, None, None]
    frames += noise * rng.normal(size=frames.shape)
    return torch.from_numpy(frames.clip(0, 1)).float().permute(0, 3, 1, 2)


def way(start: tuple[int, int], end: tuple[int, int], steps: int) -> list[tuple[int, int] | None]:
    """A straight way."""
    rows, columns = (np.linspace(a, b, steps).astype(int) for a, b in zip(start, end, strict=True))
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def ghosts(found: Tensor, scene: np.ndarray) -> int:
    """Pixels of a background that do not show the scene."""
    true = torch.from_numpy(scene).float().permute(2, 0, 1)
    away = (match_light(true, found).off(found) - true).abs().amax(dim=0)
    return int((away > 0.06).sum())


BOX = 14 * 10
HERE, THERE = (12, 20), (28, 46)


@pytest.mark.parametrize(
    ("share", "texture"),
    [
        *((0.3, 0.0), (0.5, 0.05), (0.7, 0.0), (0.85, 0.05)),
        *slow((0.3, 0.05), (0.5, 0.0), (0.7, 0.05), (0.85, 0.0)),
    ],
)
def test_an_object_that_rests_and_then_leaves_is_not_background(
    share: float, texture: float
) -> None:
    scene = ground(texture)
    still = round(share * TIME)
    out = way(HERE, (-14, 20), min(8, TIME - still))
    video = film(scene, [HERE] * still + out + [None] * (TIME - still - len(out)))
    median = static_background(video)
    assert (ghosts(median, scene) > BOX / 2) == (share >= 0.5)
    assert ghosts(without_standing(median, video), scene) < 0.05 * BOX


def test_an_object_that_arrives_and_stays_is_not_background() -> None:
    scene = ground(0.02)
    video = film(scene, [None] * 12 + way((12, -10), HERE, 8) + [HERE] * 40)
    assert ghosts(static_background(video), scene) > BOX / 2
    assert ghosts(empty_scene(video), scene) < 0.05 * BOX


def test_an_object_that_stands_here_and_there_is_not_background_anywhere() -> None:
    scene = ground(0.02)
    video = film(scene, [HERE] * 26 + way(HERE, THERE, 8) + [THERE] * 26)
    assert ghosts(empty_scene(video), scene) < 0.05 * BOX


def test_places_that_overlap_are_all_emptied() -> None:
    """The median mixes them."""
    scene = ground(0.02)
    gone: list[tuple[int, int] | None] = [None] * 5
    places = [(12, 20), (14, 23), (11, 18)]
    video = film(scene, [each for place in places for each in [place] * 15 + gone])
    assert ghosts(static_background(video), scene) > BOX / 2
    assert ghosts(empty_scene(video), scene) < 0.05 * BOX


@pytest.mark.parametrize(("light", "noise"), [(0.15, 0.008), (0.0, 0.03), (0.1, 0.02)])
def test_light_and_noise_leave_no_ghosts(light: float, noise: float) -> None:
    scene = ground(0.02)
    video = film(scene, [HERE] * 40 + [None] * 20, light=light, noise=noise)
    assert ghosts(static_background(video), scene) > BOX / 2
    assert ghosts(empty_scene(video), scene) < 0.1 * BOX


@settings(max_examples=6)
@given(
    seed=st.integers(0, 99),
    share=st.floats(0.2, 0.85),
    color=st.sampled_from([RED, (0.05, 0.05, 0.05), (0.95, 0.95, 0.95), (0.1, 0.3, 0.9)]),
    first=st.booleans(),
)
def test_any_distinct_object_is_taken_out(
    seed: int, share: float, color: tuple[float, float, float], first: bool
) -> None:
    scene = ground(0.02, seed)
    still = round(share * TIME)
    places: list[tuple[int, int] | None] = [HERE] * still + [None] * (TIME - still)
    video = film(scene, places if first else places[::-1], color=color)
    assert ghosts(empty_scene(video), scene) < 0.05 * BOX


def test_an_object_that_never_leaves_is_background() -> None:
    video = film(ground(0.0), [HERE] * TIME)
    median = static_background(video)
    assert torch.equal(without_standing(median, video), median)


GREY = (0.47, 0.45, 0.42)


@pytest.mark.parametrize("seed", [0, *slow(*[(i,) for i in range(1, 4)])])
@pytest.mark.parametrize("first", [0, 14])
def test_an_object_of_the_color_of_coarse_ground_does_not_replace_it(seed: int, first: int) -> None:
    """Stones have larger jumps than the object, but come back after it."""
    scene = gravel(seed)
    stops = [HERE] * 14 + way(HERE, THERE, 6) + [THERE] * 14 + way(THERE, (100, 46), 12)
    before: list[tuple[int, int] | None] = [None] * first
    video = film(scene, before + stops + [None] * (70 - len(stops) - first), color=GREY)
    median = static_background(video)
    assert ghosts(median, scene) < 0.05 * BOX
    assert ghosts(without_standing(median, video), scene) < 0.05 * BOX


def test_an_object_on_coarse_ground_is_taken_out_if_the_ground_comes_back() -> None:
    scene = gravel()
    video = film(scene, [None] * 12 + [HERE] * 36 + [None] * 12)
    assert ghosts(static_background(video), scene) > BOX / 2
    assert ghosts(empty_scene(video), scene) < 0.05 * BOX


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=9))
def test_what_comes_back_is_there_before_and_after(seen: list[tuple[bool, bool]]) -> None:
    one, other = np.array(seen, bool).reshape(-1, 2).T
    inner = (other[b] and one[:b].any() and one[b + 1 :].any() for b in range(len(seen)))
    assert comes_back(one, other) == any(inner)


def test_the_usual_jump_is_that_of_other_places() -> None:
    region = np.zeros((20, 20), bool)
    region[6:14, 6:14] = True
    stripes = np.where(np.arange(120) // 8 % 2, 0.7, 0.3)
    picture = np.broadcast_to(stripes, (3, 120, 120)).astype(np.float32)
    with_box = picture.copy()
    with_box[:, 56:64, 56:64] = 0.0
    box = slice(50, 70), slice(50, 70)
    assert usual_jump(with_box, box, region) == pytest.approx(
        usual_jump(picture, box, region), rel=0.3
    )
    assert usual_jump(np.full_like(picture, 0.5), box, region) == pytest.approx(0, abs=1e-4)


def test_without_room_for_other_places_no_jump_is_usual() -> None:
    region = np.ones((40, 40), bool)
    picture = np.random.default_rng(0).uniform(size=(3, 60, 60)).astype(np.float32)
    assert usual_jump(picture, (slice(10, 50), slice(10, 50)), region) == 0


@pytest.mark.parametrize("kind", slow("cars", "insects", "crossing", "swaying"))
def test_a_background_without_objects_stays_as_it_is(kind: str) -> None:
    made = make(kind)
    video = torch.from_numpy(made.video).permute(0, 3, 1, 2)
    median = static_background(video)
    assert (without_standing(median, video) - median).abs().mean() < 0.003


def test_a_patch_of_light_without_an_outline_is_not_taken_for_an_object() -> None:
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    patch = 0.2 * np.exp(-(((rows - 24) / 18) ** 2) - ((columns - 32) / 18) ** 2)[..., None]
    scene = ground(0.0)
    video = torch.cat([film(scene + patch, [None] * 40), film(scene, [None] * 20)])
    median = static_background(video)
    assert torch.equal(without_standing(median, video), median)


def test_an_edge_that_trembles_by_a_pixel_stays() -> None:
    scene = ground(0.0)
    scene[:, 30:33] = 0.9
    shifted = np.roll(scene, 1, axis=1)
    video = torch.cat([film(scene, [None] * 40), film(shifted, [None] * 20)])
    median = static_background(video)
    assert torch.equal(without_standing(median, video), median)


@pytest.mark.slow
def test_large_pictures_are_compared_on_smaller_ones() -> None:
    scene = ground(0.02)
    video = film(scene, [HERE] * 40 + [None] * 20)
    large = video.repeat_interleave(6, -1).repeat_interleave(6, -2)[..., :-1, :-2]
    found = empty_scene(large)
    assert found.shape == large.shape[1:]
    assert ghosts(found[:, 2::6, 2::6], scene) < 0.05 * BOX


@pytest.mark.parametrize("repeats", [1, 5])
def test_long_videos_are_sampled(repeats: int) -> None:
    scene = ground(0.02)
    video = film(scene, [HERE] * 42 + [None] * 18)
    assert ghosts(empty_scene(video.repeat_interleave(repeats, 0)), scene) < 0.05 * BOX


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_short_videos_have_a_background_too(frames: int) -> None:
    video = film(ground(0.02), [None] * frames)
    assert (empty_scene(video) - video.median(dim=0).values).abs().max() < 0.05


def test_the_jump_is_the_contrast_of_a_plain_region() -> None:
    region = np.zeros((30, 30), bool)
    region[10:20, 8:22] = True
    picture = np.where(region, 0.7, 0.3).astype(np.float32)[None].repeat(3, 0)
    assert jump(picture, region) == pytest.approx(0.4, abs=1e-3)
    assert jump(np.full_like(picture, 0.5), region) == pytest.approx(0, abs=1e-3)


def test_the_jump_is_the_naive_one() -> None:
    rng = np.random.default_rng(0)
    picture = rng.uniform(size=(3, 16, 18)).astype(np.float32)
    region = ndimage.binary_dilation(rng.uniform(size=(16, 18)) > 0.97, iterations=2)
    region[[0, -1]] = region[:, [0, -1]] = False
    padded = np.pad(region, 9, mode="symmetric")
    wide = np.pad(picture, ((0, 0), (9, 9), (9, 9)), mode="symmetric")
    total, count = 0.0, 0
    for y in range(16):
        for x in range(18):
            near = [(y + dy, x + dx) for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))]
            around = [region[p] for p in near if 0 <= p[0] < 16 and 0 <= p[1] < 18]
            if all(around) == region[y, x] and any(around) == region[y, x]:
                continue
            sums, weights = np.zeros((2, 3)), np.zeros(2)
            for dy in range(-8, 9):
                for dx in range(-8, 9):
                    side = int(padded[y + 9 + dy, x + 9 + dx])
                    weight = np.exp(-(dy**2 + dx**2) / 8)
                    sums[side] += weight * wide[:, y + 9 + dy, x + 9 + dx]
                    weights[side] += weight
            means = sums / weights[:, None]
            total, count = total + float(np.abs(means[1] - means[0]).mean()), count + 1
    assert jump(picture, region) == pytest.approx(total / count, abs=1e-3)


# -- two backgrounds


@pytest.mark.parametrize("light", [0.7, 1.0, 1.2])
def test_of_two_backgrounds_each_region_comes_from_the_emptier(light: float) -> None:
    scene = ground(0.02)
    here, there = (film(scene, [place], noise=0.002)[0] for place in (HERE, THERE))
    for one, other in ((here, there), (there, here)):
        found = emptier_of(one, (light * other).clamp(0, 1))
        assert ghosts(one, scene) > BOX / 2
        assert ghosts(found, scene) < 0.05 * BOX


def test_a_background_that_is_nowhere_clearly_emptier_changes_nothing() -> None:
    one, other = (film(ground(0.02), [HERE], noise=noise)[0] for noise in (0.0, 0.01))
    assert torch.equal(emptier_of(one, other), one)
    lit = other * torch.linspace(0.9, 1.1, WIDTH)  # a soft shadow
    assert torch.equal(emptier_of(one, lit), one)


def test_backgrounds_of_any_resolution_are_compared() -> None:
    scene = ground(0.02)
    with_box, empty = (
        F.interpolate(film(scene, [place], noise=0.0), size=(289, 385))[0] for place in (HERE, None)
    )
    found = emptier_of(with_box, empty)
    assert ((found - empty).abs().amax(dim=0) > 0.06).float().mean() < 1e-3
    assert torch.equal(emptier_of(empty, with_box), empty)
