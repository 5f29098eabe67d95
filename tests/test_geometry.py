"""Boxes compared with F.grid_sample, and with plain loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tiny import attributes, generator
from torch import Tensor

from gswm.core.geometry import (
    SMALLEST,
    cell_centers,
    centers,
    crop,
    gaussian_kernel,
    overlap,
    paste,
)

SEEDS = st.integers(0, 2**32 - 1)


def spatial_transformer(image: Tensor, x: float, y: float, h: float, w: float, size: int) -> Tensor:
    """ST of one image and one box, as the paper has it: an affine grid, sampled bilinearly."""
    at = [-1 + (2 * i + 1) / size for i in range(size)]
    grid = torch.tensor([[[x + w * u, y + h * v] for u in at] for v in at])
    return F.grid_sample(image[None], grid[None], align_corners=False)[0]


@given(SEEDS, st.sampled_from([(16, 5), (9, 16), (64, 16)]))
def test_crop_is_a_spatial_transformer(seed: int, sizes: tuple[int, int]) -> None:
    image_size, size = sizes
    image = torch.randn(2, 3, image_size, image_size, generator=generator(seed))
    o = attributes(seed=seed)
    got = crop(image, o.xy, o.hw, size)
    for b in range(2):
        for k in range(3):
            box = (*o.xy[b, k].tolist(), *o.hw[b, k].tolist())
            want = spatial_transformer(image[b], *box, size)
            torch.testing.assert_close(got[b, k], want, atol=1e-4, rtol=1e-4)


@given(SEEDS)
def test_paste_is_an_inverse_spatial_transformer(seed: int) -> None:
    glimpses = torch.randn(2, 3, 4, 7, 7, generator=generator(seed))
    o = attributes(seed=seed)
    got = paste(glimpses, o.xy, o.hw, 20)
    for b in range(2):
        for k in range(3):
            (x, y), (h, w) = o.xy[b, k].tolist(), o.hw[b, k].tolist()
            want = spatial_transformer(glimpses[b, k], -x / w, -y / h, 1 / h, 1 / w, 20)
            torch.testing.assert_close(got[b, k], want, atol=1e-4, rtol=1e-4)


@given(x=st.floats(-0.5, 0.5), y=st.floats(-0.5, 0.5), h=st.floats(0.2, 0.5), w=st.floats(0.2, 0.5))
def test_crop_undoes_paste(x: float, y: float, h: float, w: float) -> None:
    """Also for non-square boxes; the rim mixes with the empty canvas."""
    down, right = torch.meshgrid(torch.linspace(0, 1, 16), torch.linspace(1, 2, 16), indexing="ij")
    glimpse = torch.stack([down, right])[None, None]
    xy, hw = torch.tensor([[[x, y]]]), torch.tensor([[[h, w]]])
    back = crop(paste(glimpse, xy, hw, 128)[:, 0], xy, hw, 16)
    inner = (..., slice(2, -2), slice(2, -2))
    torch.testing.assert_close(back[inner], glimpse[inner], atol=0.02, rtol=0)


def test_h_is_along_y_and_w_along_x() -> None:
    canvas = paste(
        torch.ones(1, 1, 1, 8, 8), torch.tensor([[[0.25, -0.5]]]), torch.tensor([[[0.25, 0.5]]]), 32
    )
    rows, columns = (canvas[0, 0, 0] > 0.5).nonzero().unbind(1)
    assert (rows.min(), rows.max()) == (4, 11)  # 8 of 32, around 8
    assert (columns.min(), columns.max()) == (12, 27)  # 16 of 32, around 20


def test_beyond_the_image_there_is_nothing() -> None:
    far = torch.tensor([[[3.0, 0.0]]])
    assert crop(torch.ones(1, 1, 8, 8), far, torch.full((1, 1, 2), 0.5), 4).abs().max() == 0


def test_a_box_without_size_is_drawn_at_the_smallest() -> None:
    glimpse, at = torch.ones(1, 1, 1, 4, 4), torch.full((1, 1, 2), 0.1)
    smallest = paste(glimpse, at, torch.full((1, 1, 2), SMALLEST), 64)
    for size in (0.0, -0.3):
        got = paste(glimpse, at, torch.full((1, 1, 2), size), 64)
        assert torch.equal(got, smallest)


def test_cells_are_counted_row_by_row_and_their_middles_fill_the_image() -> None:
    got = cell_centers(4, torch.zeros(()))
    want = [(2 * (j + 0.5) / 4 - 1, 2 * (i + 0.5) / 4 - 1) for i in range(4) for j in range(4)]
    torch.testing.assert_close(got, torch.tensor(want))
    torch.testing.assert_close(centers(2, torch.zeros(())), torch.tensor([-0.5, 0.5]))


@given(st.floats(-1, 1), st.floats(-1, 1), st.sampled_from([0.1, 0.3]))
def test_the_kernel_is_a_density(x: float, y: float, sigma: float) -> None:
    got = float(gaussian_kernel(torch.tensor([x, y]), sigma))
    want = math.exp(-(x**2 + y**2) / (2 * sigma**2)) / (2 * math.pi * sigma**2)
    assert got == pytest.approx(want, rel=1e-3, abs=1e-6)


def iou(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The IoU of two boxes (x, y, h, w), in fractions of the image."""
    sides = []
    for at, size in ((0, 3), (1, 2)):
        low = max(a[at] / 2 - a[size] / 2, b[at] / 2 - b[size] / 2)
        high = min(a[at] / 2 + a[size] / 2, b[at] / 2 + b[size] / 2)
        sides.append(max(0.0, high - low))
    shared = sides[0] * sides[1]
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


@given(SEEDS)
def test_overlap_is_intersection_over_union(seed: int) -> None:
    a, b = attributes(slots=3, seed=seed), attributes(slots=4, seed=seed + 1)
    got = overlap(a.xy, a.hw, b.xy, b.hw)
    for v in range(2):
        for i in range(3):
            for j in range(4):
                box_a = (*a.xy[v, i].tolist(), *a.hw[v, i].tolist())
                box_b = (*b.xy[v, j].tolist(), *b.hw[v, j].tolist())
                assert float(got[v, i, j]) == pytest.approx(iou(box_a, box_b), abs=1e-5)


def test_a_box_overlaps_itself_wholly_and_one_inside_out_not_at_all() -> None:
    o = attributes()
    own = overlap(o.xy, o.hw, o.xy, o.hw).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(own, torch.ones_like(own))
    assert overlap(o.xy, -o.hw, o.xy, -o.hw).abs().max() == 0
