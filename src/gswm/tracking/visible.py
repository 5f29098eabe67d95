"""Boxes in which the object can no longer be seen.

When an object moves suddenly, its track may stay behind, with a box around the background that the
model keeps for dozens of frames. Such a box is left out: in it, the frame differs from the
background by less than `SHARE` of what is usual for the track. This needs no limit that depends on
noise or on the object's color, and a change of light only makes differences larger.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float32

from gswm.core.geometry import SMALLEST, crop
from gswm.models.base import AnyFrame, AnyVideo, as_float
from gswm.models.track import Track, to_array

SHARE = 0.3
"""Share of a track's usual contrast below which its object cannot be seen."""
STRONGEST = 0.9
"""The contrast of a box is this quantile of its pixels' differences from the background: most of
the box of a thin object shows the background.
"""
GLIMPSE = 12
"""Side of the grid on which a box is sampled."""
MEMORY = 50
"""Number of frames over which the usual contrast is averaged."""


@dataclass(frozen=True)
class Usual:
    """The mean contrast of a track in the frames in which it was seen."""

    contrast: float = 0.0
    frames: int = 0

    def sees(self, contrast: float) -> bool:
        """Whether the object can be seen in a box of this contrast."""
        return contrast >= SHARE * self.contrast

    def after(self, contrast: float) -> "Usual":
        """The mean, with one more frame."""
        frames = min(self.frames + 1, MEMORY)
        return Usual(self.contrast + (contrast - self.contrast) / frames, frames)


class Visibility:
    """Removes boxes in which nothing can be seen, chunk by chunk."""

    def __init__(self) -> None:
        self.usual: dict[tuple[int, int], Usual] = {}
        """By window, and id in the window."""

    def only_visible(self, track: Track, video: AnyVideo, background: AnyFrame) -> Track:
        """The next chunk of a track, without boxes in which its objects cannot be seen.

        Args:
            track: Of the windows of a film.
            video: The windows.
            background: That of each window.
        """
        seen = self.seen(track, contrasts(track, video, background))
        return replace(track, pres=track.pres * torch.from_numpy(seen).to(track.pres))

    def seen(
        self, track: Track, contrast: Float32[np.ndarray, "window time object"]
    ) -> Bool[np.ndarray, "window time object"]:
        """Whether each object can be seen, if it is there."""
        there, ids = to_array(track.present), to_array(track.id)
        seen = np.ones(there.shape, bool)
        for window, time, slot in np.argwhere(there):
            who, now = (int(window), int(ids[window, time, slot])), (window, time, slot)
            usual, value = self.usual.get(who, Usual()), float(contrast[now])
            seen[now] = usual.sees(value)
            if seen[now]:
                self.usual[who] = usual.after(value)
        return seen


def contrasts(
    track: Track, video: AnyVideo, background: AnyFrame
) -> Float32[np.ndarray, "window time object"]:
    """The difference of the frame from the background in each box."""
    behind, found = as_float(background), list[torch.Tensor]()
    for t in range(video.shape[1]):
        apart = (as_float(video[:, t].to(behind.device)) - behind).abs().amax(dim=1, keepdim=True)
        hw = track.hw[:, t].clamp_min(SMALLEST)
        glimpses = crop(apart, track.xy[:, t], hw, GLIMPSE)
        found.append(glimpses.flatten(2).quantile(STRONGEST, dim=-1))
    return to_array(torch.stack(found, dim=1).float())
