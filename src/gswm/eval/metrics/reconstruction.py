"""Reconstruction of given frames, compared with a single still picture.

    PSNR of the mean squared error, over all given frames of all episodes
    gain        dB above the mean image, the best constant picture for these frames
    sharpness   mean |difference of neighboring pixels|, relative to that of the true frames

The mean image is computed from the measured frames themselves, so no constant picture does better:
its error is mean(x²) - mean(x)² at each pixel. A gain of 6 dB is a quarter of its error. Blurry
reconstructions have a sharpness below 1, and may still have a high PSNR.
"""

from dataclasses import dataclass

import torch
from einops import reduce
from jaxtyping import Float
from torch import Tensor

from gswm.eval.metrics.lpips import Frames
from gswm.eval.metrics.pixels import decibels, squared_error


@dataclass(frozen=True)
class Reconstruction:
    """Sums over the given frames of each episode."""

    error: Float[Tensor, "row time"]
    mean: Float[Tensor, "row 3 height width"]
    """Mean of the true frames."""
    square: Float[Tensor, "row 3 height width"]
    """Mean of the squared true frames."""
    edges: Float[Tensor, "row 2"]
    """Mean difference of neighboring pixels, for drawn and true frames."""

    def scores(self) -> dict[str, float]:
        """Scores over all episodes."""
        psnr = decibels(self.error.mean()).item()
        still = decibels((self.square.mean(dim=0) - self.mean.mean(dim=0).square()).mean()).item()
        drawn, true = self.edges.mean(dim=0).tolist()
        return {
            "reconstruction_psnr": psnr,
            "reconstruction_gain": psnr - still,
            "sharpness": drawn / true if true else torch.nan,
        }

    def curves(self) -> dict[str, list[float]]:
        """PSNR at each given frame."""
        return {"reconstruction_psnr": decibels(self.error.mean(dim=0)).tolist()}


def reconstruction(drawn: Frames, true: Frames) -> Reconstruction:
    """Measure given frames, on the device that they are on."""
    drawn, exact = drawn.float().clamp(0, 1), true.double()
    parts = (
        squared_error(drawn, true),
        *(reduce(x, "row time c h w -> row c h w", "mean") for x in (exact, exact.square())),
        torch.stack([edges(drawn), edges(true)], dim=-1),
    )
    return Reconstruction(*(part.cpu().double() for part in parts))


def edges(frames: Frames) -> Float[Tensor, " row"]:
    """Mean difference between horizontal and vertical neighbors."""
    across, down = (frames.diff(dim=axis).abs() for axis in (-1, -2))
    return (across.mean(dim=(1, 2, 3, 4)) + down.mean(dim=(1, 2, 3, 4))) / 2
