"""Maze: agents that wander in corridors and never turn back (App. C).

Kruskal's algorithm joins 3 × 3 rooms, the odd cells of a grid of 7 × 7, by opening cells between
them until one tree spans all rooms. The agents walk on the cells that remain closed: the walls of
that maze, including the outer ring, are the corridors here. A dead end is extended through one of
the cells beside it, so an agent never has to turn back.

Every choice uses one uniform number of the episode: episode i of a seed is block i of a
counter-based generator, independent of all others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from gswm.core.devices import find_device
from gswm.core.limits import check_seed
from gswm.data.episode import Corridors, Episodes, Truth
from gswm.data.worlds.base import MEMORY, Procedural, Split, SplitName, splits
from gswm.data.worlds.maze_drawing import draw_mazes

ROOMS = 3
SIDE = 2 * ROOMS + 1
NUM_STEPS = 50
NUM_FRAMES = 2 * NUM_STEPS - 1
NUM_SLOTS = 5
MIN_AGENTS, MAX_AGENTS = 3, 4
COLORS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1))
"""Red, lime, blue, yellow, cyan, magenta."""
DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down, left: (row, column) of one step. The reverse direction is two further on."""

AT_ONCE = 1024
"""Number of episodes simulated at once."""
DRAWING = 8 * NUM_FRAMES * 3
"""Bytes that drawing takes per pixel of an episode."""

DRAWS = {
    "edges": (2 * ROOMS * (ROOMS - 1),),
    "ends": (SIDE, SIDE),
    "number": (),
    "colors": (len(COLORS),),
    "start": (MAX_AGENTS,),
    "turns": (NUM_STEPS - 1, MAX_AGENTS),
}
"""The uniform numbers of an episode, in order."""


@dataclass(frozen=True)
class Maze(Procedural):
    """The world `maze`."""

    image_size: int = 64
    splits: dict[SplitName, Split] = field(
        default_factory=lambda: splits(0, train=10_000, others=100), repr=False
    )
    name = "maze"
    num_frames = NUM_FRAMES
    num_objects = NUM_SLOTS
    layout = "maze"
    protocol = "gswm-maze-5"
    style = "maze"

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
        step = max(1, memory // (DRAWING * self.image_size**2))
        for start in count(0, AT_ONCE):
            size = AT_ONCE if n is None else min(AT_ONCE, n - start)
            if size <= 0:
                return
            u = uniforms(seed, first + start, size, device)
            grid = lead_on(kruskal(u["edges"], ROOMS, ROOMS), u["ends"])
            cells = walk(grid, u["start"], u["turns"])
            for i in range(0, size, step):
                part = slice(i, i + step)
                some = {name: numbers[part] for name, numbers in u.items()}
                truth, corridors = describe(some, grid[part], cells[part], self.image_size)
                colors, present = (a[:, 0, :MAX_AGENTS] for a in (truth.colors, truth.present))
                video = draw_mazes(grid[part], cells[part], colors, present, self.image_size)
                yield Episodes(video, truth, corridors)


def uniforms(
    seed: int, start: int, n: int, device: str | torch.device = "cpu"
) -> dict[str, Tensor]:
    """The numbers in [0, 1) that determine episodes start, start + 1, ... of `seed`."""
    check_seed(seed, "seed")
    sizes = [int(np.prod(shape)) for shape in DRAWS.values()]
    blocks = -(-sum(sizes) // 4)  # Philox makes four numbers for each value of its counter
    philox = np.random.Philox(key=seed, counter=start * blocks)
    numbers = np.random.Generator(philox).random((n, 4 * blocks))
    parts = torch.from_numpy(numbers[:, : sum(sizes)]).to(device).split(sizes, dim=1)
    return {
        k: p.unflatten(1, s) if s else p[:, 0]
        for (k, s), p in zip(DRAWS.items(), parts, strict=True)
    }


def describe(
    u: dict[str, Tensor],
    grid: Int[Tensor, "episode row column"],
    cells: Int[Tensor, "episode step agent 2"],
    image_size: int,
) -> tuple[Truth, Corridors]:
    """The ground truth of agents on these paths, with empty slots after them."""
    cell = image_size / SIDE
    n, device = len(grid), grid.device
    agent = torch.arange(MAX_AGENTS, device=device)
    number = MIN_AGENTS + (u["number"] * (MAX_AGENTS - MIN_AGENTS + 1)).long()
    present = agent < number[:, None]
    palette = torch.tensor(COLORS, dtype=torch.float64, device=device)
    colors = palette[u["colors"].argsort(dim=1)[:, :MAX_AGENTS]]

    positions = frames_of((cells.flip(-1).double() + 0.5) * cell)
    step = positions.diff(dim=1)
    velocities = torch.cat([step, step[:, -1:]], dim=1)

    def slots(values: Tensor, time: int = NUM_FRAMES) -> Tensor:
        """Values per agent as values per slot in every frame, zero for empty slots."""
        axes = [1] * (values.ndim - 3)
        values = values * present.reshape(n, 1, MAX_AGENTS, *axes)
        padded = F.pad(values, (0, 0) * len(axes) + (0, NUM_SLOTS - MAX_AGENTS))
        return padded.expand(n, time, *padded.shape[2:])

    ids = slots((agent + 1).expand(n, 1, -1))
    truth = Truth(
        positions=slots(positions),
        velocities=slots(velocities),
        sizes=cell / 2 * (ids > 0).double(),
        layers=torch.zeros_like(ids),
        order=torch.arange(NUM_SLOTS, device=device).expand(ids.shape),
        colors=slots(colors[:, None]),
        ids=ids,
        present=ids > 0,
    )
    return truth, Corridors(grid, slots(cells, NUM_STEPS))


def kruskal(
    u: Float64[Tensor, "episode edge"], rows: int, columns: int
) -> Int[Tensor, "episode height width"]:
    """Mazes of rows × columns rooms: 0 for rooms and opened cells, 1 for closed ones."""
    n, device = len(u), u.device
    room = torch.arange(rows * columns, device=device).reshape(rows, columns)
    ends = torch.cat(
        [
            torch.stack([room[:-1].flatten(), room[1:].flatten()], dim=1),
            torch.stack([room[:, :-1].flatten(), room[:, 1:].flatten()], dim=1),
        ]
    )
    row, column = 1 + 2 * (ends // columns), 1 + 2 * (ends % columns)
    between = row.sum(dim=1) // 2 * (2 * columns + 1) + column.sum(dim=1) // 2

    episode = torch.arange(n, device=device)
    grid = torch.ones(n, 2 * rows + 1, 2 * columns + 1, dtype=torch.int64, device=device)
    grid[:, 1::2, 1::2] = 0
    tree = room.flatten().repeat(n, 1)
    for edge in u.argsort(dim=1).unbind(dim=1):
        one, other = (tree[episode, end] for end in ends[edge].unbind(dim=1))
        grid.view(n, -1)[episode, between[edge]] *= (one == other).long()
        tree = torch.where(tree == other[:, None], one[:, None], tree)
    return grid


def lead_on(
    grid: Int[Tensor, "episode height width"], u: Float64[Tensor, "episode height width"]
) -> Int[Tensor, "episode height width"]:
    """Corridors without dead ends: in reading order, an end opens one of its blocked neighbors."""
    grid = grid.clone()
    _, height, width = grid.shape
    for row in range(height):
        for column in range(width):
            beside = [(row + r, column + c) for r, c in DIRECTIONS]
            beside = [(r, c) for r, c in beside if 0 <= r < height and 0 <= c < width]
            cells = torch.stack([grid[:, r, c] for r, c in beside], dim=1)
            end = (grid[:, row, column] == 1) & (cells.sum(dim=1) <= 1)
            if not end.any():
                continue
            chosen = choose(cells == 0, u[:, row, column])
            for k, (r, c) in enumerate(beside):
                grid[:, r, c] += (end & (chosen == k)).long()
    return grid


def walk(
    grid: Int[Tensor, "episode height width"],
    u_start: Float64[Tensor, "episode agent"],
    u_turn: Float64[Tensor, "episode step agent"],
) -> Int[Tensor, "episode step_plus_1 agent 2"]:
    """(row, column) of every agent: from any corridor cell, in any direction but back."""
    n, height, width = grid.shape
    agents = u_start.shape[1]
    device = grid.device
    direction = torch.tensor(DIRECTIONS, device=device)
    corridor = grid.view(n, 1, -1) == 1
    episode = torch.arange(n, device=device)[:, None]

    padded = F.pad(grid, (1, 1, 1, 1)) == 1
    ways = torch.stack(
        [padded[:, 1 + r : 1 + r + height, 1 + c : 1 + c + width] for r, c in DIRECTIONS], dim=-1
    ).view(n, -1, len(DIRECTIONS))

    at = choose(corridor.expand(n, agents, -1), u_start)
    back = torch.full_like(at, -1)
    path = [at]
    for u in u_turn.unbind(dim=1):
        allowed = ways[episode, at] & (torch.arange(4, device=device) != back[..., None])
        way = choose(allowed, u)
        at = at + (direction[way] * torch.tensor([width, 1], device=device)).sum(dim=-1)
        back = (way + 2) % 4
        path.append(at)
    cells = torch.stack(path, dim=1)
    return torch.stack([cells // width, cells % width], dim=-1)


def choose(
    allowed: Bool[Tensor, "*batch option"], u: Float64[Tensor, "*batch"]
) -> Int[Tensor, "*batch"]:
    """One of the allowed options, with equal probabilities for uniform `u`."""
    rank = allowed.cumsum(dim=-1)
    wanted = (u * rank[..., -1]).long() + 1
    return (rank < wanted[..., None]).sum(dim=-1)


def frames_of(
    steps: Float64[Tensor, "episode step object 2"],
) -> Float64[Tensor, "episode time object 2"]:
    """Every step, and the midpoint of every two."""
    middle = (steps[:, 1:] + steps[:, :-1]) / 2
    both = torch.stack([steps[:, :-1], middle], dim=2).flatten(1, 2)
    return torch.cat([both, steps[:, -1:]], dim=1)
