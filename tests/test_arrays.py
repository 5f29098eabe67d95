"""Windows of pictures, compared with pixel-by-pixel loops."""

import pytest
import torch

from gswm.data.worlds.arrays import every_window, new_bytes, put, shift, take

TYPES = [torch.float32, torch.int16]
FRAMES, HEIGHT, WIDTH, SIDE = 3, 6, 7, 3


def pictures(dtype: torch.dtype) -> torch.Tensor:
    count = FRAMES * HEIGHT * WIDTH * 2
    return torch.arange(count, dtype=dtype).view(FRAMES, HEIGHT, WIDTH, 2)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_window_starts_at_its_pixel(dtype: torch.dtype) -> None:
    canvas = pictures(dtype)
    corners = [(0, 0, 0), (1, 2, 4), (2, 3, 4), (1, 0, 1)]
    at = torch.tensor([(f * HEIGHT + y) * WIDTH + x for f, y, x in corners])
    windows = take(every_window(canvas, SIDE), at)
    for window, (f, y, x) in zip(windows, corners, strict=True):
        assert torch.equal(window, canvas[f, y : y + SIDE, x : x + SIDE].flatten(1))


def test_the_last_window_ends_with_the_last_pixel() -> None:
    canvas = pictures(torch.float32)
    assert torch.equal(every_window(canvas, SIDE)[-1], canvas[-1, -SIDE:, -SIDE:].flatten(1))


@pytest.mark.parametrize("dtype", TYPES)
def test_windows_are_written_where_they_are_taken(dtype: torch.dtype) -> None:
    canvas = pictures(dtype)
    expected = canvas.clone()
    corners = [(0, 1, 2), (1, 3, 4), (2, 0, 0)]
    at = torch.tensor([(f * HEIGHT + y) * WIDTH + x for f, y, x in corners])
    values = -torch.arange(len(at) * SIDE * SIDE * 2).to(dtype).view(len(at), SIDE, 2 * SIDE)
    put(every_window(canvas, SIDE), at, values)
    for value, (f, y, x) in zip(values, corners, strict=True):
        expected[f, y : y + SIDE, x : x + SIDE] = value.view(SIDE, SIDE, 2)
    assert torch.equal(canvas, expected)


def test_bytes_are_what_a_part_of_a_canvas_holds_without_its_last_bits() -> None:
    full = 255 * 128 + 127
    values = torch.tensor([[9, 0, 127, 128], [9, full, full - 127, full - 128]], dtype=torch.int16)
    out = new_bytes((2, 3), values.device)
    shift(values[:, 1:], 7, out)
    assert out.tolist() == [[0, 0, 1], [255, 255, 254]]
