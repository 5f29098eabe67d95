"""Batched generators compared with numpy's own, one seed at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.data.worlds.randomstate import RandomStates

SEEDS = np.array([0, 1, 9, 44556670, 2365658986, 2**32 - 1])


def oracles() -> list[np.random.RandomState]:
    return [np.random.RandomState(seed) for seed in SEEDS]


def test_words_go_on_past_the_first_twist() -> None:
    words = RandomStates(SEEDS).words(1500)
    expected = [r.randint(0, 2**32, 1500, dtype=np.uint32) for r in oracles()]
    np.testing.assert_array_equal(words, expected)


def test_uniform_numbers_are_the_same_to_the_last_bit() -> None:
    drawn = RandomStates(SEEDS).uniform(8.0, 56.0, 700)
    np.testing.assert_array_equal(drawn, [r.uniform(8.0, 56.0, 700) for r in oracles()])


@pytest.mark.parametrize("parts", [(600,), (3, 2, 1, 0, 5)])
def test_normal_numbers_are_the_same_to_the_last_bit(parts: tuple[int, ...]) -> None:
    states, expected = RandomStates(SEEDS), oracles()
    for count in parts:
        np.testing.assert_array_equal(states.randn(count), [r.randn(count) for r in expected])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "any", "distinct", "randn", "uniform"]), st.integers(1, 9)
        ),
        min_size=3,
        max_size=8,
    )
)
def test_any_order_of_calls_gives_the_same_numbers(calls: list[tuple[str, int]]) -> None:
    states, expected = RandomStates(SEEDS), oracles()
    for kind, count in calls:
        if kind == "one":
            drawn = states.randint(1, count)
            wanted = [r.choice((0,), count) for r in expected]
        elif kind == "any":
            drawn = states.randint(5, count)
            wanted = [r.choice(5, count) for r in expected]
        elif kind == "distinct":
            drawn = states.permutation(9)[:, :count]
            wanted = [r.choice(9, count, replace=False) for r in expected]
        elif kind == "randn":
            drawn = states.randn(count)
            wanted = [r.randn(count) for r in expected]
        else:
            drawn = states.uniform(5.0, 59.0, count)
            wanted = [r.uniform(5.0, 59.0, count) for r in expected]
        np.testing.assert_array_equal(drawn, wanted)


def test_a_draw_of_some_leaves_the_others_alone() -> None:
    states, expected = RandomStates(SEEDS), oracles()
    np.testing.assert_array_equal(
        states.random(2, np.array([1, 4])), [expected[i].random_sample(2) for i in (1, 4)]
    )
    np.testing.assert_array_equal(states.random(3), [r.random_sample(3) for r in expected])
