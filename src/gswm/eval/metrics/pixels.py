"""Pixels: PSNR, SSIM and LPIPS of imagined frames, each frame by itself (SlotFormer, OCVP).

    PSNR   -10 log10 of the mean squared error, values from 0 to 1
    SSIM   Wang et al. (2004): means, variances and covariance under a Gaussian window with
           σ = 1.5 of 11 × 11 pixels, where it fits into the frame; mean over places and channels

SSIM equals skimage's `structural_similarity` with `gaussian_weights=True` and
`use_sample_covariance=False`, and torchmetrics' except at the border, where it pads frames by
reflection. LPIPS is in its own module, and needs weights.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import reduce
from jaxtyping import Float
from torch import Tensor

from gswm.core.errors import UserError
from gswm.eval.metrics.lpips import Frames, Lpips

SIGMA, RADIUS = 1.5, 5
C1, C2 = 0.01**2, 0.03**2
SMALLEST = 1e-10
"""Mean squared error assigned to equal frames: 100 dB."""


@dataclass(frozen=True)
class Pixels:
    """Scores of each imagined frame."""

    psnr: Float[Tensor, "row step"]
    ssim: Float[Tensor, "row step"]
    lpips: Float[Tensor, "row step"] | None = None
    """LPIPS; None without its weights."""

    def values(self) -> dict[str, Float[Tensor, "row step"]]:
        """The measured values by name."""
        named = {"psnr": self.psnr, "ssim": self.ssim, "lpips": self.lpips}
        return {name: value for name, value in named.items() if value is not None}

    def scores(self) -> dict[str, float]:
        """Means over frames and episodes."""
        return {name: value.mean().item() for name, value in self.values().items()}

    def curves(self) -> dict[str, list[float]]:
        """Means at each step."""
        return {name: value.mean(dim=0).tolist() for name, value in self.values().items()}


def pixels(predicted: Frames, true: Frames, lpips: Lpips | None = None) -> Pixels:
    """Measure imagined frames, on the device that they are on."""
    predicted = predicted.float().clamp(0, 1)
    parts = [psnr(predicted, true), ssim(predicted, true)]
    if lpips is not None:
        parts.append(lpips.apart(predicted, true))
    return Pixels(*(part.cpu().double() for part in parts))


def psnr(one: Frames, other: Frames) -> Float[Tensor, "*row"]:
    """PSNR in decibels."""
    return decibels(squared_error(one, other))


def squared_error(one: Frames, other: Frames) -> Float[Tensor, "*row"]:
    """Mean over pixels."""
    return reduce((one - other).square(), "... c h w -> ...", "mean")


def decibels(error: Float[Tensor, "*row"]) -> Float[Tensor, "*row"]:
    """PSNR of frames with this mean squared error."""
    return -10 * error.clamp_min(SMALLEST).log10()


def ssim(one: Frames, other: Frames) -> Float[Tensor, "*row"]:
    """SSIM, from -1 to 1."""
    if min(one.shape[-2:]) <= 2 * RADIUS:
        raise UserError(f"SSIM needs frames of at least {2 * RADIUS + 1} pixels per side")
    mean, other_mean = blur(one), blur(other)
    variance = blur(one * one) - mean * mean
    other_variance = blur(other * other) - other_mean * other_mean
    covariance = blur(one * other) - mean * other_mean
    light = (2 * mean * other_mean + C1) / (mean.square() + other_mean.square() + C1)
    structure = (2 * covariance + C2) / (variance + other_variance + C2)
    return reduce(light * structure, "... c h w -> ...", "mean")


def blur(frames: Frames) -> Float[Tensor, "*row 3 smaller_height smaller_width"]:
    """Convolve with the window, where it lies inside the frame."""
    at = torch.arange(-RADIUS, RADIUS + 1, dtype=frames.dtype, device=frames.device)
    window = (-0.5 * (at / SIGMA).square()).exp()
    window = window / window.sum()
    flat = frames.reshape(-1, 1, *frames.shape[-2:])
    flat = F.conv2d(F.conv2d(flat, window[None, None, :, None]), window[None, None, None, :])
    return flat.reshape(*frames.shape[:-2], *flat.shape[-2:])
