"""Maze: mazelib's mazes without dead ends, and agents that never turn back."""

from collections import Counter
from itertools import islice, pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mazelib.generate.Kruskal import Kruskal

from gswm.core.records import concatenate
from gswm.data.worlds import maze
from gswm.data.worlds.maze import Maze, choose, describe, kruskal, lead_on, uniforms, walk

STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


def beside(grid: np.ndarray, row: int, column: int) -> list[tuple[int, int]]:
    cells = [(row + r, column + c) for r, c in STEPS]
    return [(r, c) for r, c in cells if 0 <= r < grid.shape[0] and 0 <= c < grid.shape[1]]


def neighbor_counts(grid: np.ndarray) -> list[int]:
    return [sum(grid[cell] for cell in beside(grid, *at)) for at in np.argwhere(grid == 1)]


def naive_lead_on(grid: np.ndarray, u: np.ndarray) -> np.ndarray:
    grid = grid.copy()
    for row, column in np.ndindex(*grid.shape):
        cells = beside(grid, row, column)
        blocked = [cell for cell in cells if grid[cell] == 0]
        if grid[row, column] == 1 and len(cells) - len(blocked) <= 1:
            grid[blocked[int(u[row, column] * len(blocked))]] = 1
    return grid


def assert_same_distribution(ours: Counter, theirs: Counter) -> None:
    n, m = ours.total(), theirs.total()
    for value in ours | theirs:
        p = (ours[value] + theirs[value]) / (n + m)
        tolerance = 4 * (p * (1 - p) * (1 / n + 1 / m)) ** 0.5
        assert abs(ours[value] / n - theirs[value] / m) <= tolerance, value


@pytest.fixture(scope="module")
def oracle() -> list[np.ndarray]:
    np.random.seed(0)  # noqa: NPY002
    return [np.array(Kruskal(3, 3).generate(), dtype=int) for _ in range(1500)]


@pytest.fixture(scope="module")
def many():
    u = uniforms(5, 0, 3000)
    grid = lead_on(kruskal(u["edges"], 3, 3), u["ends"])
    return describe(u, grid, walk(grid, u["start"], u["turns"]), 64)


def test_mazes_are_those_of_mazelib(oracle: list[np.ndarray]) -> None:
    ours = kruskal(uniforms(3, 0, 6000)["edges"], 3, 3).numpy()
    assert set(ours.sum(axis=(1, 2))) == {grid.sum() for grid in oracle} == {32}
    for part in (np.s_[1:6, 1:6], np.s_[2:5, 2:5], np.s_[2, :], np.s_[:, 3]):
        assert_same_distribution(
            Counter(g[part].sum() for g in ours), Counter(g[part].sum() for g in oracle)
        )
    for cell in np.ndindex(7, 7):
        assert_same_distribution(Counter(g[cell] for g in ours), Counter(g[cell] for g in oracle))
    assert_same_distribution(
        Counter(n for g in ours[:2000] for n in neighbor_counts(g)),
        Counter(n for g in oracle for n in neighbor_counts(g)),
    )


def test_mazes_without_dead_ends_are_those_of_mazelib(oracle: list[np.ndarray], many) -> None:
    rng = np.random.default_rng(0)
    theirs = [naive_lead_on(grid, rng.random((7, 7))) for grid in oracle]
    ours = many[1].grid.numpy()
    assert_same_distribution(
        Counter(int(g.sum()) for g in ours), Counter(int(g.sum()) for g in theirs)
    )
    assert set(ours.sum(axis=(1, 2))) == {33, 34, 35, 36}
    counts = [Counter(n for g in grids for n in neighbor_counts(g)) for grids in (ours, theirs)]
    assert_same_distribution(*counts)
    assert min(counts[0]) == 2


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 4))
def test_a_maze_is_a_tree_that_spans_the_rooms(seed: int, rows: int, columns: int) -> None:
    edges = rows * (columns - 1) + columns * (rows - 1)
    u = torch.from_numpy(np.random.default_rng(seed).random((3, edges)))
    for grid in kruskal(u, rows, columns).numpy():
        assert (grid[1::2, 1::2] == 0).all()
        assert (grid == 0).sum() == 2 * rows * columns - 1
        reached, ahead = set(), [(1, 1)]
        while ahead:
            at = ahead.pop()
            reached.add(at)
            ahead += [c for c in beside(grid, *at) if grid[c] == 0 and c not in reached]
        assert len(reached) == 2 * rows * columns - 1


def test_every_maze_comes_as_often_as_kruskal_makes_it() -> None:
    rooms, n = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)], 20_000
    edges = [(a, b) for a in rooms for b in rooms if (b[0] - a[0], b[1] - a[1]) in ((0, 1), (1, 0))]
    expected: Counter = Counter()
    for order in permutations(edges):
        tree = {room: room for room in rooms}
        opened = set()
        for a, b in order:
            if tree[a] != tree[b]:
                opened.add((a[0] + b[0] + 1, a[1] + b[1] + 1))
                tree = {room: tree[a] if t == tree[b] else t for room, t in tree.items()}
        expected[frozenset(opened)] += 1 / 5040
    assert len(expected) == 15

    u = torch.from_numpy(np.random.default_rng(1).random((n, len(edges))))
    found = Counter(
        frozenset((r, c) for r, c in np.argwhere(grid == 0).tolist() if r % 2 == 0 or c % 2 == 0)
        for grid in kruskal(u, 2, 3).numpy()
    )
    assert set(found) == set(expected)
    square = sum((found[m] - n * p) ** 2 / (n * p) for m, p in expected.items())
    assert (
        square < 36.1
    )  # chi square with 14 degrees of freedom; 160 would be that of uniform trees


@given(st.integers(0, 2**32 - 1))
def test_dead_ends_are_led_on_in_reading_order(seed: int) -> None:
    u = uniforms(seed, 0, 4)
    before = kruskal(u["edges"], 3, 3)
    after = lead_on(before, u["ends"])
    for one, other, numbers in zip(before.numpy(), after.numpy(), u["ends"].numpy(), strict=True):
        np.testing.assert_array_equal(naive_lead_on(one, numbers), other)


@given(st.lists(st.booleans(), min_size=1, max_size=6).filter(any), st.floats(0, 1 - 1e-9))
def test_a_choice_is_one_of_the_allowed(allowed: list[bool], u: float) -> None:
    options = [i for i, a in enumerate(allowed) if a]
    chosen = choose(torch.tensor(allowed), torch.tensor(u, dtype=torch.float64))
    assert chosen == options[int(u * len(options))]


def test_agents_stay_in_the_corridors_and_never_turn_back(many) -> None:
    truth, corridors = many
    cells, grid = corridors.cells, corridors.grid
    here = truth.present[:, ::2]
    episode = torch.arange(len(grid))[:, None, None]
    inside = grid[episode, cells[..., 0], cells[..., 1]] == 1
    assert inside[here].all()
    step = cells.diff(dim=1)
    assert (step.abs().sum(dim=-1)[here[:, 1:]] == 1).all()
    assert not ((step[:, 1:] == -step[:, :-1]).all(dim=-1) & here[:, 2:]).any()


def test_agents_choose_all_ways_alike(many) -> None:
    truth, corridors = many
    start, first, later = Counter(), Counter(), Counter()
    expected_start, expected_first, expected_later = Counter(), Counter(), Counter()
    for grid, cells, number in zip(
        corridors.grid.numpy()[:600],
        corridors.cells.numpy()[:600],
        truth.present[:600, 0].sum(dim=1).tolist(),
        strict=True,
    ):
        corridor = [tuple(cell) for cell in np.argwhere(grid == 1).tolist()]
        for k in range(number):
            path = [tuple(cell) for cell in cells[:, k].tolist()]
            start[path[0]] += 1
            expected_start.update(dict.fromkeys(corridor, 1 / len(corridor)))
            for t, (at, to) in enumerate(pairwise(path)):
                ways = [
                    c for c in beside(grid, *at) if grid[c] == 1 and (not t or c != path[t - 1])
                ]
                into, even = (first, expected_first) if t == 0 else (later, expected_later)
                if len(ways) > 1:
                    turn = [(c[0] - at[0], c[1] - at[1]) for c in (to, *ways)]
                    into[turn[0]] += 1
                    even.update(dict.fromkeys(turn[1:], 1 / len(ways)))
    for found, even in ((start, expected_start), (first, expected_first), (later, expected_later)):
        n = found.total()
        for value, mean in even.items():
            assert abs(found[value] - mean) < 4 * (mean * (1 - mean / n)) ** 0.5, value


def test_a_way_is_what_the_numbers_say() -> None:
    grid = torch.tensor([[[1, 1, 1], [1, 0, 1], [1, 1, 1]]])
    u_turn = torch.zeros(1, 4, 1, dtype=torch.float64)
    u_turn[0, 0] = 0.9
    path = walk(grid, torch.tensor([[0.5]], dtype=torch.float64), u_turn)
    assert path[0, :, 0].tolist() == [[1, 2], [2, 2], [2, 1], [2, 0], [1, 0]]


def test_truth_says_what_the_frames_show(many) -> None:
    truth, corridors = many
    number = truth.present[:, 0].sum(dim=1)
    assert set(number.tolist()) == {3, 4}
    assert abs((number == 4).double().mean() - 0.5) < 0.04
    slot = torch.arange(5)
    assert (truth.present == (slot < number[:, None, None])).all()
    assert (truth.ids == torch.where(truth.present, slot + 1, 0)).all()
    for part in (truth.positions, truth.velocities, truth.colors, truth.sizes[..., None]):
        assert (part[~truth.present] == 0).all()
    assert (truth.sizes[truth.present] == 64 / 14).all()
    assert (corridors.cells[~truth.present[:, ::2]] == 0).all()

    cells = corridors.cells.double()
    center = (cells.flip(-1) + 0.5) * 64 / 7 * truth.present[:, ::2, :, None]
    torch.testing.assert_close(truth.positions[:, ::2], center)
    torch.testing.assert_close(truth.positions[:, 1::2], (center[:, 1:] + center[:, :-1]) / 2)
    moved = truth.positions[:, :-1] + truth.velocities[:, :-1]
    torch.testing.assert_close(moved, truth.positions[:, 1:])
    speed = truth.velocities.norm(dim=-1)[truth.present]
    torch.testing.assert_close(speed, torch.full_like(speed, 64 / 14))

    colors = truth.colors[:, 0]
    assert torch.equal(truth.colors, colors[:, None].expand_as(truth.colors))
    seen = Counter()
    for episode, count in zip(colors.tolist(), number.tolist(), strict=True):
        drawn = [tuple(color) for color in episode[:count]]
        assert len(set(drawn)) == count
        seen.update(drawn)
    assert set(seen) == set(maze.COLORS)
    mean = seen.total() / 6
    assert all(abs(times - mean) < 4 * mean**0.5 for times in seen.values())


def naive_frame(grid: np.ndarray, positions: list, colors: list) -> np.ndarray:
    """One frame, pixel by pixel."""
    size = 64 / 14
    canvas = np.zeros((64, 64, 3))
    for y, x in np.ndindex(64, 64):
        canvas[y, x] = 1 - grid[int((y + 0.5) * 7 / 64), int((x + 0.5) * 7 / 64)]
        for (px, py), color in zip(positions, colors, strict=True):
            i, j = (y - (py - size)) * 17 / (2 * size), (x - (px - size)) * 17 / (2 * size)
            alpha = 0.0
            for a, b in ((np.floor(i) + da, np.floor(j) + db) for da in (0, 1) for db in (0, 1)):
                if 0 <= a < 17 and 0 <= b < 17:
                    disk = min(max(8.5 - np.hypot(a - 8, b - 8), 0), 1)
                    alpha += disk * (1 - abs(i - a)) * (1 - abs(j - b))
            canvas[y, x] = canvas[y, x] * (1 - alpha) + np.array(color) * alpha
    return np.floor(canvas * 255)


def test_frames_are_corridors_and_agents() -> None:
    episodes = next(Maze().episodes(2, 2))
    assert episodes.truth is not None
    assert episodes.corridors is not None
    for e, t in ((0, 0), (1, 37)):
        n = int(episodes.truth.present[e, t].sum())
        expected = naive_frame(
            episodes.corridors.grid[e].numpy(),
            episodes.truth.positions[e, t, :n].tolist(),
            episodes.truth.colors[e, t, :n].tolist(),
        )
        drawn = episodes.video[e, t].permute(1, 2, 0).numpy().astype(int)
        assert np.abs(drawn - expected).max() <= 1


@given(st.integers(0, 2**63), st.integers(0, 50), st.integers(1, 5))
def test_the_numbers_of_an_episode_are_its_own(seed: int, start: int, n: int) -> None:
    alone = uniforms(seed, start, n)
    among = uniforms(seed, 0, start + n + 2)
    for name, numbers in alone.items():
        assert torch.equal(numbers, among[name][start : start + n])
    assert not torch.equal(alone["turns"], uniforms(seed + 1, start, n)["turns"])


def test_an_episode_does_not_depend_on_how_many_are_made_or_how(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Maze()
    whole = next(world.episodes(7, 5))
    one_by_one = list(islice(world.episodes(7, memory=1), 4))
    assert [len(part) for part in one_by_one] == [1, 1, 1, 1]
    monkeypatch.setattr(maze, "AT_ONCE", 2)
    few = concatenate(list(world.episodes(7, 3)))
    assert len(whole) == 5
    assert len(few) == 3
    for made in (concatenate(one_by_one), few):
        expected = whole[: len(made)]
        assert torch.equal(made.video, expected.video)
        assert made.truth is not None
        assert expected.truth is not None
        assert torch.equal(made.truth.positions, expected.truth.positions)
        assert torch.equal(made.truth.colors, expected.truth.colors)


def test_the_splits_are_the_papers() -> None:
    splits = Maze().splits
    assert [splits[name].episodes for name in ("train", "val", "test")] == [10_000, 100, 100]
    assert len({split.seed for split in splits.values()}) == 3
