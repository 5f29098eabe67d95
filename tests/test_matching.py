"""Assignment compared with all possible assignments."""

from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.eval.metrics.matching import best_pairs, least_pairs

sizes = st.integers(1, 4)
seeds = st.integers(0, 2**32 - 1)


def every_choice(left: int, right: int) -> list[list[tuple[int, int]]]:
    """Every set of pairs, one to one."""
    return [
        list(zip(some, others, strict=True))
        for number in range(min(left, right) + 1)
        for some in combinations(range(left), number)
        for others in permutations(range(right), number)
    ]


def drawn(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


@given(seeds, sizes, sizes)
def test_no_choice_gains_more(seed: int, left: int, right: int) -> None:
    gain = drawn(seed, 3, left, right) - 0.3
    pairs = best_pairs(gain)
    for row, chosen in zip(gain.tolist(), pairs, strict=True):
        best = max(sum(max(row[i][j], 0) for i, j in c) for c in every_choice(left, right))
        made = [row[i][j] for i, j in chosen.nonzero().tolist()]
        assert sum(made) == pytest.approx(best)
        assert all(value > 0 for value in made)


@given(seeds, sizes, sizes)
def test_as_many_pairs_as_can_be_and_of_these_the_cheapest(
    seed: int, left: int, right: int
) -> None:
    cost, allowed = drawn(seed, left, right), drawn(seed + 1, left, right) < 0.6
    pairs = least_pairs(cost[None], allowed[None])[0]
    possible = [c for c in every_choice(left, right) if all(allowed[i, j] for i, j in c)]
    best = min((-len(c), sum(cost[i, j].item() for i, j in c)) for c in possible)
    assert (-int(pairs.sum()), cost[pairs].sum().item()) == pytest.approx(best)
    assert not (pairs & ~allowed).any()


@given(seeds, sizes, sizes)
def test_nobody_has_two_partners(seed: int, left: int, right: int) -> None:
    pairs = best_pairs(drawn(seed, 5, left, right).round(decimals=1))
    assert pairs.sum(dim=1).max() <= 1
    assert pairs.sum(dim=2).max() <= 1
