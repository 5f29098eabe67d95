"""One video as a tensor, ready for a model."""

import math
from pathlib import Path
from typing import get_args

import torch
from jaxtyping import UInt8
from torch import Tensor

from gswm.core.errors import UserError
from gswm.data.importing.videos import Crop, Cut, whole

LARGEST = 4096
"""Of `size`, in pixels."""


def read_video(
    path: str | Path,
    size: int = 64,
    *,
    fps: float | None = None,
    crop: Crop = "center",
    frames: int | None = None,
) -> UInt8[Tensor, "1 time 3 size size"]:
    """Read a video file, a GIF or a folder of images as a batch of one video.

        video = gswm.read_video("film.mp4", model.image_size)
        track = model.infer(video)

    Args:
        path: The file, or the folder, whose images are taken in the order of the numbers in their
            names.
        size: Height and width of the frames in pixels: `model.image_size`.
        fps: Frames per second to take, by the video's own times; None takes every frame. Images
            in a folder have no times: every one is a frame.
        crop: "center" takes the middle square of each frame, "none" squeezes all of it into a
            square.
        frames: Read at most so many frames, from the first; None reads all.
    """
    if not isinstance(size, int) or not 1 <= size <= LARGEST:
        raise UserError(f"size is {size}; it must be a number of pixels from 1 to {LARGEST}")
    if fps is not None and not 0 < fps < math.inf:
        raise UserError(f"fps is {fps:g}; it must be above 0, or None for every frame")
    if crop not in get_args(Crop):
        raise UserError(f"crop is {crop!r}; it must be one of {', '.join(get_args(Crop))}")
    if frames is not None and frames < 1:
        raise UserError(f"frames is {frames}; it must be at least 1, or None for all")
    pixels = torch.from_numpy(whole(Path(path), Cut(size, fps, crop=crop), frames))
    return pixels.movedim(-1, 1)[None].contiguous()
