"""Random single ball: down the middle, then to one of the two lower corners (App. C).

There are only two episodes. Their first five frames are equal, so a model that has seen only these
must imagine both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from gswm.core.devices import find_device
from gswm.data.episode import Episodes, Truth
from gswm.data.worlds.base import (
    MEMORY,
    Procedural,
    Split,
    SplitName,
    random_state,
    splits,
)
from gswm.data.worlds.sprites import draw

NUM_FRAMES = 9
BOX = 64.0
"""The side of the frame in the units of the radius and the speed."""
TURN = 5
"""The first frame that differs between the two episodes."""
RADIUS = 7.0
SPEED = 6.25
RED = (1.0, 0.0, 0.0)


@dataclass(frozen=True)
class SingleBall(Procedural):
    """The world `single-ball`."""

    image_size: int = 64
    splits: dict[SplitName, Split] = field(
        default_factory=lambda: splits(0, train=10_000, others=100), repr=False
    )
    name = "single-ball"
    num_frames = NUM_FRAMES
    num_objects = 1
    layout = "single-ball"
    protocol = "gswm-5-4"

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        """See `World`. Episode i follows number i of `randint(2)` of `RandomState(seed)`."""
        device = find_device(device)
        both = two_episodes(self.image_size).to(device)
        chunk = max(1, memory // (4 * both.video[0].nbytes))
        rng = random_state(seed)
        rng.randint(2, size=first)
        for start in count(0, chunk):
            size = chunk if n is None else min(chunk, n - start)
            if size <= 0:
                return
            directions = torch.from_numpy(rng.randint(2, size=size))
            yield both[directions.to(device)]


def two_episodes(image_size: int = 64) -> Episodes:
    """The episode to the left (0), and the one to the right (1)."""
    scale = image_size / BOX
    time = torch.arange(NUM_FRAMES, dtype=torch.float64)
    sideways = SPEED * (time - (TURN - 1)).clamp_min(0)
    x = BOX / 2 + torch.stack([-sideways, sideways])
    y = (RADIUS + SPEED * time).expand_as(x)
    positions = torch.stack([x, y], dim=-1)[:, :, None] * scale

    sizes = torch.full((2, NUM_FRAMES, 1), RADIUS * scale, dtype=torch.float64)
    colors = torch.tensor(RED, dtype=torch.float64).expand(2, NUM_FRAMES, 1, 3)
    zeros = torch.zeros(2, NUM_FRAMES, 1, dtype=torch.int64)
    truth = Truth(
        positions=positions,
        velocities=velocities(positions),
        sizes=sizes,
        layers=zeros,
        order=zeros,
        colors=colors,
        ids=zeros + 1,
        present=zeros == 0,
    )
    frames = draw(positions.flatten(0, 1), sizes.flatten(0, 1), colors.flatten(0, 1), image_size)
    return Episodes(frames.unflatten(0, (2, NUM_FRAMES)), truth)


def velocities(positions: Tensor) -> Tensor:
    """The step to the next position; in the last frame, that from the previous one."""
    step = positions.diff(dim=1)
    return torch.cat([step, step[:, -1:]], dim=1)
