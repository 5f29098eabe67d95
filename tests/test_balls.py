"""The ball worlds: values of the paper's own data, and laws of episodes."""

import itertools

import numpy as np
import pytest
import torch

from gswm.core.errors import UserError
from gswm.core.records import concatenate, map_tensors
from gswm.data.episode import Episodes
from gswm.data.worlds.balls import (
    INTERACTION,
    OCCLUSION,
    TWO_LAYER,
    TWO_LAYER_DENSE,
    Balls,
    episode_seeds,
)
from gswm.data.worlds.base import World
from gswm.data.worlds.registry import WORLDS, world

BALLS = [INTERACTION, OCCLUSION, TWO_LAYER, TWO_LAYER_DENSE]
BLUE, RED, YELLOW, AQUA = [0.0, 0, 1], [1.0, 0, 0], [1.0, 1, 0], [0.0, 1, 1]
every_world = pytest.mark.parametrize("balls", BALLS, ids=lambda balls: balls.name)


def first(balls: Balls, n: int, split: str = "test", **settings) -> Episodes:
    return concatenate(list(balls.episodes(balls.splits[split].seed, n, **settings)))


def equal(a: Episodes, b: Episodes) -> bool:
    same = []
    map_tensors(lambda x, y: same.append(torch.equal(x, y)) or x, a, b)
    return all(same)


@pytest.mark.parametrize(
    ("balls", "seed", "start", "velocity", "end", "colors", "mean"),
    [
        (INTERACTION, 44556670, (40.7926, 43.4790), (-1.8828, 2.3356), (28.1897, 11.2448),
         [RED, AQUA, YELLOW], 18.44),
        (OCCLUSION, 2365658986, (37.0737, 51.2013), (2.9172, -0.6999), (40.5744, 34.1238),
         [RED, BLUE, YELLOW], 14.02),
        (TWO_LAYER, 3645644232, (43.4599, 27.6018), (-2.7356, -1.2314), (35.0509, 15.5279),
         3 * [BLUE] + 3 * [RED], 20.23),
        (TWO_LAYER_DENSE, 209271753, (51.5964, 26.7288), (-2.8917, -0.7986), (38.5492, 11.5251),
         8 * [BLUE] + 8 * [RED] + 4 * [[0.0, 0, 0]], 21.17),
    ],
    ids=lambda value: value.name if isinstance(value, Balls) else "",
)  # fmt: skip
def test_the_first_test_episode_is_the_papers(
    balls: Balls, seed: int, start, velocity, end, colors, mean: float
) -> None:
    assert next(episode_seeds(balls.splits["test"].seed, 1, 1)).tolist() == [seed]
    episode = first(balls, 1)
    truth = episode.truth
    assert truth is not None
    digits = {"atol": 5.01e-5, "rtol": 0.0}
    torch.testing.assert_close(truth.positions[0, 0, 0], torch.tensor(start).double(), **digits)
    torch.testing.assert_close(truth.velocities[0, 0, 0], torch.tensor(velocity).double(), **digits)
    torch.testing.assert_close(truth.positions[0, 99, 0], torch.tensor(end).double(), **digits)
    assert truth.colors[0, 50].tolist() == colors
    assert abs(episode.video.double().mean() - mean) < 0.03


@every_world
def test_what_a_seed_draws_is_what_randomstate_draws(balls: Balls) -> None:
    seeds = next(episode_seeds(balls.splits["val"].seed, 5, 5))
    start = balls.start(seeds)
    for i, seed in enumerate(seeds):
        state, count = np.random.RandomState(seed), len(balls.layers)
        state.choice((1,), count)
        state.choice((balls.radius,), count)
        if balls.colors == "any":
            state.choice(5, count)
        elif balls.colors == "distinct":
            state.choice(5, count, replace=False)
        direction = state.randn(count, 2)
        velocities = direction / np.linalg.norm(direction, axis=1, keepdims=True) * 3
        places: list[np.ndarray] = []
        while len(places) < count:
            place = state.uniform(balls.radius, 64 - balls.radius, size=2)
            near = [np.linalg.norm(place - other) < 2 * balls.radius for other in places]
            if not (balls.apart and any(near)):
                places.append(place)
        np.testing.assert_array_equal(start.velocities[i], velocities)
        np.testing.assert_array_equal(start.positions[i], places)


@pytest.mark.slow
@every_world
def test_fewer_episodes_are_the_first_of_more_however_they_are_chunked(balls: Balls) -> None:
    ten = first(balls, 10)
    assert equal(first(balls, 3), ten[:3])
    assert equal(first(balls, 10, memory=8 << 20), ten)
    endless = balls.episodes(balls.splits["test"].seed, None, memory=8 << 20)
    assert equal(concatenate([*itertools.islice(endless, 4)])[:4], ten[:4])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if "3d" in n else ())
        for n in WORLDS
        if not n.startswith("obj3d-")  # made as obj3d is
    ],
)
def test_a_later_episode_is_made_alone(name: str) -> None:
    three = concatenate(list(world(name).episodes(5, 3)))
    assert equal(next(world(name).episodes(5, 1, first=2)), three[2:])
    some = world(name).episodes(5, 2, memory=8 << 20, first=1)
    assert equal(concatenate(list(some)), three[1:])


@every_world
def test_a_chunk_is_within_the_memory_given(balls: Balls) -> None:
    chunks = list(balls.episodes(0, 5, memory=10 << 20))
    assert len(chunks) > 1
    assert all(chunk.video.numel() <= 5 << 20 for chunk in chunks)


@every_world
def test_an_episode_does_not_depend_on_those_beside_it(balls: Balls) -> None:
    seeds = next(episode_seeds(balls.splits["train"].seed, 3, 3))
    forth, back = (balls.path(balls.start(s), "cpu") for s in (seeds, seeds[::-1].copy()))
    assert torch.equal(forth[0], back[0].flip(0))
    assert torch.equal(forth[1], back[1].flip(0))


@every_world
def test_energy_is_kept_and_balls_stay_in_the_frame(balls: Balls) -> None:
    truth = first(balls, 4).truth
    assert truth is not None
    energy = (truth.velocities**2).sum((-1, -2))
    torch.testing.assert_close(
        energy, torch.full_like(energy, 9.0 * len(balls.layers)), rtol=1e-12, atol=0
    )
    inside = truth.positions[truth.present]
    assert inside.min() > balls.radius - 0.3
    assert inside.max() < 64 - balls.radius + 0.3


@every_world
def test_the_first_frame_overlaps_only_where_the_world_says_so(balls: Balls) -> None:
    start = balls.start(next(episode_seeds(5, 50, 50)))
    i, j = torch.tril_indices(len(balls.layers), len(balls.layers), -1)
    nearest = (start.positions[:, i] - start.positions[:, j]).norm(dim=-1).min()
    assert (nearest >= 2 * balls.radius) == balls.apart


@every_world
def test_the_truth_names_balls_and_empty_slots(balls: Balls) -> None:
    truth = first(balls, 2).truth
    assert truth is not None
    used, slots = len(balls.layers), balls.num_objects
    assert truth.ids[1, 7].tolist() == [*range(1, used + 1)] + (slots - used) * [0]
    assert truth.present.tolist() == (truth.ids > 0).tolist()
    assert truth.layers[0, 99, :used].tolist() == list(balls.layers)
    assert truth.order[0, 3, :used].tolist() == list(range(used))
    assert truth.sizes[0, 0].tolist() == used * [balls.radius] + (slots - used) * [0.0]
    assert not truth.positions[~truth.present].any()
    assert not truth.velocities[~truth.present].any()


def test_occlusion_never_repeats_a_color() -> None:
    colors = OCCLUSION.start(next(episode_seeds(1, 100, 100))).colors
    assert all(len(set(map(tuple, row))) == 3 for row in colors.tolist())


def test_a_world_is_found_by_its_name_or_the_names_are_listed() -> None:
    found: World = world("two-layer")
    assert found is TWO_LAYER
    with pytest.raises(UserError, match="no world 'three-layer': did you mean two-layer"):
        world("three-layer")
    with pytest.raises(UserError, match=r"no world 'garden'.*interaction.*two-layer-dense"):
        world("garden")
