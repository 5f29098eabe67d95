"""Bouncing balls: INTERACTION, OCCLUSION, 2 LAYER and 2 LAYER-D of the paper (App. C.1).

An episode is determined by the draws of its seed: colors if they vary, directions, then positions.
All other choices have one option and draw nothing.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from gswm.core.devices import find_device
from gswm.data.episode import Episodes, Truth
from gswm.data.worlds.base import (
    MEMORY,
    REUSED,
    Procedural,
    Split,
    SplitName,
    random_state,
    splits,
)
from gswm.data.worlds.physics import simulate
from gswm.data.worlds.randomstate import RandomStates
from gswm.data.worlds.sprites import draw

BLUE, RED = (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)
PALETTE = (BLUE, RED, (1.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0))
BOX = 64.0
"""The side of the simulated box, for frames of any size."""
SPEED = 3.0
ATTEMPTS = 1000


@dataclass(frozen=True)
class Start:
    """The first frame of several episodes."""

    positions: Float64[Tensor, "episode object 2"]
    velocities: Float64[Tensor, "episode object 2"]
    colors: Float64[Tensor, "episode object 3"]


@dataclass(frozen=True)
class Balls(Procedural):
    """A world of balls of one size in a box."""

    name: str
    layers: tuple[int, ...]
    """The layer of each ball, the one in front last."""
    radius: float
    """Radius in sides of the box / 64, as for speeds: pixels of a frame of 64."""
    num_objects: int
    """Slots for balls; those beyond the balls stay empty."""
    colors: Literal["any", "distinct", "by layer"]
    """Drawn from five colors, with or without repetition, or blue behind and red in front."""
    apart: bool
    """Whether balls do not overlap in the first frame, even across layers."""
    collide: bool
    """Whether balls of one layer collide."""
    splits: dict[SplitName, Split]
    num_frames: int = 100
    image_size: int = 64
    layout = "balls"

    def episodes(
        self,
        seed: int,
        n: int | None = None,
        device: str | torch.device = "cpu",
        memory: int = MEMORY,
        first: int = 0,
    ) -> Iterator[Episodes]:
        """See `World`."""
        device = find_device(device)
        path_bytes = self.num_frames * len(self.layers) * 4 * 8
        video_bytes = self.num_frames * self.image_size**2 * 3
        for seeds in episode_seeds(seed, n, max(1, memory // 4 // path_bytes), first):
            start = self.start(seeds)
            path = self.path(start, device)
            chunk = min(memory // 4, REUSED if device.type == "cpu" else memory)
            for i in range(0, len(seeds), step := max(1, chunk // video_bytes)):
                positions, velocities = (state[i : i + step] for state in path)
                truth = self.truth(positions, velocities, start.colors[i : i + step].to(device))
                yield Episodes(self.video(truth, memory // 4), truth)

    def start(self, seeds: Int64[np.ndarray, " episode"]) -> Start:
        """Draw initial states from the seeds."""
        balls = len(self.layers)
        states = RandomStates(seeds)
        if self.colors == "any":
            chosen = states.randint(len(PALETTE), balls)
        elif self.colors == "distinct":
            chosen = states.permutation(len(PALETTE))[:, :balls]
        else:
            chosen = np.tile(np.array(self.layers), (len(seeds), 1))
        direction = states.randn(2 * balls).reshape(-1, balls, 2)
        x, y = direction[..., 0], direction[..., 1]
        velocities = direction / np.sqrt(x * x + y * y)[..., None] * SPEED
        positions = self._places(states)
        colors = np.array(PALETTE)[chosen]
        return Start(*(torch.from_numpy(a) for a in (positions, velocities, colors)))

    def _places(self, states: RandomStates) -> Float64[np.ndarray, "episode object 2"]:
        """Uniform positions in the box, drawn again while they overlap earlier ones."""
        places = np.empty((states.n, len(self.layers), 2))
        for ball in range(len(self.layers)):
            which = np.arange(states.n)
            for _ in range(ATTEMPTS):
                place = states.uniform(self.radius, BOX - self.radius, 2, which)
                places[which, ball] = place
                if not self.apart:
                    break
                offset = place[:, None] - places[which, :ball]
                square = offset[..., 0] * offset[..., 0] + offset[..., 1] * offset[..., 1]
                which = which[(square < (2 * self.radius) ** 2).any(1)]
                if not len(which):
                    break
            else:
                raise RuntimeError(f"{self.name}: no room for ball {ball} in {ATTEMPTS} attempts")
        return places

    def path(
        self, start: Start, device: str | torch.device
    ) -> tuple[Float64[Tensor, "episode time object 2"], Float64[Tensor, "episode time object 2"]]:
        """Positions and velocities of every frame, in the units of the simulation."""
        radii = torch.full((1, len(self.layers)), self.radius, dtype=torch.float64, device=device)
        layers = torch.tensor([self.layers], device=device)
        positions, velocities = start.positions.to(device), start.velocities.to(device)
        return simulate(positions, velocities, radii, layers, self.num_frames, BOX, self.collide)

    def truth(
        self,
        positions: Float64[Tensor, "episode time ball 2"],
        velocities: Float64[Tensor, "episode time ball 2"],
        colors: Float64[Tensor, "episode ball 3"],
    ) -> Truth:
        """The ground truth of balls on these paths in pixels, with empty slots after them."""
        scale = self.image_size / BOX
        if scale != 1:
            positions, velocities = positions * scale, velocities * scale
        episodes, time, balls, _ = positions.shape
        empty = self.num_objects - balls
        device = positions.device

        def slots(state: Tensor) -> Tensor:
            """Values per ball as values per slot in every frame, zero for empty slots."""
            padded = F.pad(state, (0, 0) * (state.ndim - 3) + (0, empty))
            return padded.expand(episodes, time, *padded.shape[2:])

        size = torch.full((1, 1, balls), self.radius * scale, dtype=torch.float64, device=device)
        ids = torch.arange(1, balls + 1, device=device)[None, None]
        return Truth(
            positions=slots(positions),
            velocities=slots(velocities),
            sizes=slots(size),
            layers=slots(torch.tensor(self.layers, device=device)[None, None]),
            order=slots(ids - 1),
            colors=slots(colors[:, None]),
            ids=slots(ids),
            present=slots(ids) > 0,
        )

    def video(
        self,
        truth: Truth,
        memory: int = MEMORY,
    ) -> UInt8[Tensor, "episode time 3 height width"]:
        """The frames that show `truth`."""
        positions, sizes, colors = (
            part[:, :, : len(self.layers)].flatten(0, 1)
            for part in (truth.positions, truth.sizes, truth.colors)
        )
        frames = draw(positions, sizes, colors, self.image_size, memory=memory)
        return frames.unflatten(0, truth.ids.shape[:2])


def episode_seeds(
    seed: int, n: int | None, step: int, first: int = 0
) -> Iterator[Int64[np.ndarray, " episode"]]:
    """The seeds of `n` episodes from number `first` on, or of all, in groups of `step`."""
    state = random_state(seed)
    state.randint(0, 2**32 - 1, size=first, dtype=np.int64)
    left = itertools.count(n, -step) if n is not None else itertools.repeat(step)
    for count in itertools.takewhile(lambda left: left > 0, left):
        yield state.randint(0, 2**32 - 1, size=min(step, count), dtype=np.int64)


INTERACTION = Balls(
    name="interaction",
    layers=(0, 0, 0),
    radius=8.0,
    num_objects=3,
    colors="any",
    apart=True,
    collide=True,
    splits=splits(7, train=10_000, others=200),
)
OCCLUSION = Balls(
    name="occlusion",
    layers=(0, 0, 0),
    radius=8.0,
    num_objects=3,
    colors="distinct",
    apart=False,
    collide=False,
    splits=splits(1, train=10_000, others=200),
)
TWO_LAYER = Balls(
    name="two-layer",
    layers=(0, 0, 0, 1, 1, 1),
    radius=8.0,
    num_objects=6,
    colors="by layer",
    apart=True,
    collide=True,
    splits=splits(13, train=10_000, others=200),
)
TWO_LAYER_DENSE = Balls(
    name="two-layer-dense",
    layers=8 * (0,) + 8 * (1,),
    radius=5.0,
    num_objects=20,
    colors="by layer",
    apart=True,
    collide=True,
    splits=splits(19, train=10_000, others=200),
)
