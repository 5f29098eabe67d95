"""Drawing compared with the closed form, one pixel at a time."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.data.worlds import sprites
from gswm.data.worlds.sprites import draw


def sprite(row: int, column: int) -> float:
    inside = 0 <= row < 17 and 0 <= column < 17
    return min(max(8.5 - math.hypot(row - 8, column - 8), 0), 1) if inside else 0.0


def alpha(px: int, py: int, x: float, y: float, s: float) -> float:
    """The sprite, stretched to 2s, at a pixel: between four of its own."""
    u, v = (px - (x - s)) * 17 / (2 * s), (py - (y - s)) * 17 / (2 * s)
    i, j = math.floor(v), math.floor(u)
    f, g = v - i, u - j
    top = (1 - g) * sprite(i, j) + g * sprite(i, j + 1)
    bottom = (1 - g) * sprite(i + 1, j) + g * sprite(i + 1, j + 1)
    return (1 - f) * top + f * bottom


def naive(positions, sizes, colors, image_size: int, background=None) -> torch.Tensor:
    """Every frame, as it is before truncation."""
    frames = torch.zeros(len(positions), image_size, image_size, 3, dtype=torch.float64)
    frames = frames if background is None else background.double().clone()
    for frame, where, size, color in zip(frames, positions, sizes, colors, strict=True):
        for (x, y), s, c in zip(where.tolist(), size.tolist(), color, strict=True):
            for py in range(image_size if s > 0 else 0):
                for px in range(image_size):
                    if abs(px - x) < s + 2 and abs(py - y) < s + 2:
                        a = alpha(px, py, x, y, s)
                        frame[py, px] = frame[py, px] * (1 - a) + c * a
    return frames.permute(0, 3, 1, 2) * 255


def assert_same(*scene, **settings) -> None:
    drawn, expected = draw(*scene, **settings), naive(*scene, **settings)
    error = drawn.double() - expected.floor()
    assert error.abs().max() <= 1
    assert (error != 0).double().mean() < 1e-3


def scene(seed: int, frames: int, objects: int, side: int, sizes: list[float]):
    generator = torch.Generator().manual_seed(seed)
    positions = torch.rand(frames, objects, 2, generator=generator, dtype=torch.float64)
    chosen = torch.randint(len(sizes), (frames, objects), generator=generator)
    # Far from whole numbers of grey levels, where all of a ball is one level up or down.
    colors = (torch.randint(255, (frames, objects, 3), generator=generator) + 0.5).double() / 255
    return (positions * 1.4 - 0.2) * side, torch.tensor(sizes).double()[chosen], colors


@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from([0.0, 1.0, 64 / 14, 5.0, 7.0, 8.0]), min_size=1, max_size=3),
)
def test_pictures_are_the_closed_form(seed: int, sizes: list[float]) -> None:
    positions, size, colors = scene(seed, 2, 4, 24, sizes)
    assert_same(positions, size, colors, 24)


@given(st.integers(0, 2**32), st.floats(0.3, 12))
def test_any_size_is_the_closed_form(seed: int, size: float) -> None:
    assert_same(*scene(seed, 1, 2, 20, [size]), 20)


def test_objects_cover_a_background() -> None:
    positions, sizes, colors = scene(3, 2, 3, 20, [4.0])
    background = torch.rand(2, 20, 20, 3, generator=torch.Generator().manual_seed(0))
    assert_same(positions, sizes, colors, 20, background=background)


@pytest.mark.parametrize("frames", [1, 5, 21])
def test_frames_do_not_depend_on_how_they_are_grouped(
    frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = scene(frames, frames, 3, 24, [5.0, 3.0])
    together = draw(*settings, 24)
    monkeypatch.setattr(sprites, "GROUP", 4)
    assert torch.equal(draw(*settings, 24), together)


def test_the_later_object_is_in_front_and_solid() -> None:
    positions = torch.tensor([[[12.0, 12.0], [12.0, 12.0]]]).double()
    colors = torch.tensor([[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]).double()
    picture = draw(positions, torch.full((1, 2), 5.0).double(), colors, 24)
    assert picture[0, :, 12, 12].tolist() == [0, 0, 255]


@pytest.mark.parametrize(("frames", "objects"), [(0, 2), (2, 0), (2, 2)])
def test_no_frame_no_object_and_objects_elsewhere_are_black(frames: int, objects: int) -> None:
    positions = torch.full((frames, objects, 2), 1e6).double()
    sizes, colors = torch.ones(frames, objects).double(), torch.ones(frames, objects, 3).double()
    picture = draw(positions, sizes, colors, 16)
    assert picture.shape == (frames, 3, 16, 16)
    assert not picture.any()
