"""Random single ball: two possible episodes, with equal probability."""

from itertools import islice

import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.core.records import concatenate
from gswm.data.episode import Episodes
from gswm.data.worlds.single_ball import SingleBall, two_episodes

SMALL = 2_000_000


def directions(episodes: Episodes) -> torch.Tensor:
    assert episodes.truth is not None
    return (episodes.truth.positions[:, -1, 0, 0] > 32).long()


def test_the_ball_falls_and_then_goes_to_a_corner() -> None:
    truth = two_episodes().truth
    assert truth is not None
    for way, sign in ((0, -1), (1, 1)):
        for t in range(9):
            x, y = (32 + sign * 6.25 * max(0, t - 4), 7 + 6.25 * t)
            assert truth.positions[way, t, 0].tolist() == [x, y]
            assert truth.velocities[way, t, 0].tolist() == [0 if t < 4 else sign * 6.25, 6.25]
    assert truth.positions[:, -1, 0].tolist() == [[7, 57], [57, 57]]
    assert truth.sizes.unique().tolist() == [7]
    assert truth.colors.flatten(0, 2).unique(dim=0).tolist() == [[1, 0, 0]]
    assert truth.ids.unique().tolist() == [1]
    assert truth.present.all()


def test_the_first_five_frames_do_not_tell_the_way() -> None:
    left, right = two_episodes().video
    assert (left[:5] == right[:5]).all()
    assert ((left[5:] != right[5:]).flatten(1).any(dim=1)).all()


def test_the_ball_is_drawn_where_it_is() -> None:
    episodes = two_episodes()
    assert episodes.truth is not None
    for frame, (x, y) in zip(
        episodes.video.flatten(0, 1), episodes.truth.positions.flatten(0, 2).tolist(), strict=True
    ):
        red, green, blue = frame.long()
        assert green.sum() == blue.sum() == 0
        for i, j in [(0, 0), (-5, 0), (5, 0), (0, -5), (0, 5)]:
            assert red[int(y) + i, int(x) + j] == 255
        pixel = torch.arange(64)
        far = torch.hypot(pixel[:, None] + 0.5 - y, pixel + 0.5 - x) > 8
        assert red[far].sum() == 0


def test_both_ways_are_equally_likely_in_every_split() -> None:
    world = SingleBall()
    assert {k: s.episodes for k, s in world.splits.items()} == {
        "train": 10_000,
        "val": 100,
        "test": 100,
    }
    seeds = [split.seed for split in world.splits.values()]
    assert len(set(seeds)) == 3
    drawn = [directions(next(world.episodes(seed, 1000, memory=SMALL << 8))) for seed in seeds]
    for ways in drawn:
        assert abs(ways.double().mean() - 0.5) < 3 * 0.5 / len(ways) ** 0.5
    assert not torch.equal(drawn[0], drawn[1])


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, SMALL))
def test_an_episode_does_not_depend_on_how_many_are_made_or_how(
    seed: int, n: int, memory: int
) -> None:
    world = SingleBall()
    all_at_once = next(world.episodes(seed, 40))
    parts = concatenate(list(world.episodes(seed, n, memory=memory)))
    endless = concatenate(list(islice(world.episodes(seed, memory=memory), 3)))
    for made in (parts, endless):
        m = min(len(made), 40)
        assert torch.equal(made.video[:m], all_at_once.video[:m])
        assert torch.equal(directions(made)[:m], directions(all_at_once)[:m])
    assert len(parts) == n
