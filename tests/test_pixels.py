"""PSNR and SSIM compared with their definitions, and with torchmetrics."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torchmetrics.functional.image import (
    peak_signal_noise_ratio,
    structural_similarity_index_measure,
)

from gswm.core.errors import UserError
from gswm.eval.metrics.pixels import pixels, psnr, ssim


def images(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def ssim_of_channel(one: np.ndarray, other: np.ndarray) -> float:
    """Wang et al., each place by itself; scipy's Gaussian reaches 5 pixels."""

    def mean(values: np.ndarray) -> np.ndarray:
        return gaussian_filter(values, sigma=1.5, truncate=3.5)[5:-5, 5:-5]

    total, places = 0.0, 0
    parts = (mean(one), mean(other), mean(one**2), mean(other**2), mean(one * other))
    for a, b, aa, bb, ab in zip(*(part.ravel().tolist() for part in parts), strict=True):
        light = (2 * a * b + 0.01**2) / (a**2 + b**2 + 0.01**2)
        structure = (2 * (ab - a * b) + 0.03**2) / (aa - a**2 + bb - b**2 + 0.03**2)
        total, places = total + light * structure, places + 1
    return total / places


def test_ssim_follows_its_definition() -> None:
    one = images(0, 2, 3, 16, 20)
    other = (one + 0.2 * images(1, 2, 3, 16, 20)).clamp(0, 1)
    for value, a, b in zip(ssim(one, other), one, other, strict=True):
        channels = zip(a.double().numpy(), b.double().numpy(), strict=True)
        expected = np.mean([ssim_of_channel(x, y) for x, y in channels])
        assert value.item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_torchmetrics_says_the_same(noise: float) -> None:
    """Its SSIM also counts the border, where its window sees the frame reflected."""
    true = images(0, 4, 3, 40, 33)
    other = (true + noise * (images(1, *true.shape) - 0.5)).clamp(0, 1)
    measured = pixels(other[None], true[None])
    how: Any = {"data_range": 1.0, "reduction": "none", "return_full_image": True}
    _, places = structural_similarity_index_measure(other, true, **how)
    similar = places[..., 5:-5, 5:-5].mean(dim=(1, 2, 3))
    peak = peak_signal_noise_ratio(other, true, 1.0, reduction="none", dim=(1, 2, 3))
    torch.testing.assert_close(measured.ssim[0].float(), similar, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(measured.psnr[0].float(), peak, rtol=1e-5, atol=1e-4)


def test_psnr_of_an_even_error() -> None:
    one = torch.full((1, 3, 12, 12), 0.5)
    assert psnr(one, one + 0.1).item() == pytest.approx(20, abs=1e-4)
    assert psnr(one, one).item() == pytest.approx(100)


def test_a_frame_is_like_itself() -> None:
    one = images(2, 1, 4, 3, 12, 12)
    measured = pixels(one, one)
    assert measured.scores()["ssim"] == pytest.approx(1)
    assert len(measured.curves()["psnr"]) == 4
    assert all(math.isfinite(v) for v in measured.curves()["psnr"])


def test_frames_smaller_than_the_window_are_refused() -> None:
    with pytest.raises(UserError, match="at least 11"):
        ssim(images(0, 1, 3, 10, 10), images(1, 1, 3, 10, 10))
