"""The world `clips`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import torch

from gswm.core.devices import find_device
from gswm.data.episode import Episodes
from gswm.data.worlds.base import MEMORY, Procedural, Split, SplitName, check_size, splits
from gswm.data.worlds.clips.plan import make_plan
from gswm.data.worlds.clips.settings import ClipSettings
from gswm.data.worlds.clips.showing import show

AT_ONCE = 64
"""Episodes planned at once."""
FRAME = 160
"""Bytes that drawing takes per pixel of an episode."""
ON_CPU = 8
"""Episodes that a CPU draws at once."""


@dataclass(frozen=True)
class Clips(Procedural):
    """Random objects in front of random backgrounds, filmed by a fixed camera."""

    name: str = "clips"
    image_size: int = 128
    settings: ClipSettings = field(default_factory=ClipSettings)
    num_frames: int = field(init=False, repr=False, compare=False)
    num_objects: int = field(init=False, repr=False, compare=False)
    splits: dict[SplitName, Split] = field(init=False, repr=False, compare=False)
    layout = "clips"
    protocol = "gswm-clips-8-16"
    style = "stills"
    sizes = range(16, 513, 8)
    """Multiples of the 8 × 8 blocks of compression."""

    def __post_init__(self) -> None:
        check_size(self.name, self.image_size, self.sizes)
        object.__setattr__(self, "num_frames", self.settings.num_frames)
        object.__setattr__(self, "num_objects", self.settings.objects[1])
        object.__setattr__(self, "splits", splits(211, train=4_000, others=200))

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        """See `World`. On a GPU, pixels may differ from a CPU's by rounding."""
        device = find_device(device)
        step = max(1, memory // (self.num_frames * self.image_size**2 * FRAME))
        step = min(step, ON_CPU) if device.type == "cpu" else step
        at_once = max(AT_ONCE, step)
        for start in count(0, at_once):
            size = at_once if n is None else min(at_once, n - start)
            if size <= 0:
                return
            plan = make_plan(self.settings, seed, first + start, size)
            for i in range(0, size, step):
                yield show(plan[i : i + step], self.image_size, device)


CLIPS, CLIPS_64 = Clips(), Clips(name="clips-64", image_size=64)
