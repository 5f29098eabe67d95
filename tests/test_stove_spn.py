"""Sum-product networks compared with explicit sums and products, and with integrals."""

import itertools
import math

import pytest
import torch
from tiny import generator
from torch import Tensor

from gswm.models.stove.spn import RandomSPN, SPNConfig
from gswm.models.stove.supair import ImagesConfig

SMALL = SPNConfig(depth=2, repetitions=2, leaves=3, sums=4, variance=(0.12, 0.35))
FLAT = SPNConfig(depth=1, repetitions=3, leaves=2, sums=4, variance=(0.12, 0.35))


def network(cfg: SPNConfig, num_variables: int, seed: int = 0) -> RandomSPN:
    """A network with weights that are large enough to matter."""
    torch.manual_seed(seed)
    spn = RandomSPN(cfg, num_variables)
    with torch.no_grad():
        for param in spn.parameters():
            param.copy_(torch.randn(param.shape, generator=generator(seed)))
    return spn.requires_grad_(False)


def shares(weights: Tensor) -> list[float]:
    """A softmax, in plain numbers."""
    powers = [math.exp(w) for w in weights.flatten().tolist()]
    return [p / sum(powers) for p in powers]


def leaf(spn: RandomSPN, x: list[float], counts: list[float], r: int, region: int, g: int) -> float:
    low, high = spn.cfg.variance
    product = 1.0
    for d in range(len(x)):
        if int(spn.region[d, r]) == region:
            rho, mean = float(spn.rho[d, r, g]), float(spn.mean[d, r, g])
            variance = low + (high - low) / (1 + math.exp(-rho))
            density = math.exp(-((x[d] - mean) ** 2) / (2 * variance))
            product *= (density / math.sqrt(2 * math.pi * variance)) ** counts[d]
    return product


def node(
    spn: RandomSPN, x: list[float], counts: list[float], r: int, where: tuple[int, int], n: int
) -> float:
    """A node of a region: by its level, from the leaves up, and its number there."""
    level, region = where
    if level == 0:
        return leaf(spn, x, counts, r, region, n)
    weight = spn.inner[level - 1][r, region, :, :, n]
    of_pairs, total = shares(weight), 0.0
    for i, (a, b) in enumerate(itertools.product(*map(range, weight.shape))):
        left = node(spn, x, counts, r, (level - 1, 2 * region), a)
        total += of_pairs[i] * left * node(spn, x, counts, r, (level - 1, 2 * region + 1), b)
    return total


def root(spn: RandomSPN, x: list[float], counts: list[float]) -> float:
    of_all, total, top = shares(spn.root), 0.0, len(spn.inner)
    for i, (r, a, b) in enumerate(itertools.product(*map(range, spn.root.shape))):
        left = node(spn, x, counts, r, (top, 0), a)
        total += of_all[i] * left * node(spn, x, counts, r, (top, 1), b)
    return math.log(total)


@pytest.mark.parametrize(("cfg", "number"), [(SMALL, 4), (SMALL, 7), (FLAT, 5)])
def test_it_is_the_sum_of_products_that_it_says(cfg: SPNConfig, number: int) -> None:
    spn, g = network(cfg, number), generator(1)
    x, counts = torch.randn(2, number, generator=g), torch.rand(2, number, generator=g)
    counts[1, 0], counts[1, 1] = 0, 1
    want = [root(spn, *rows) for rows in zip(x.tolist(), counts.tolist(), strict=True)]
    torch.testing.assert_close(spn(x, counts), torch.tensor(want), rtol=1e-5, atol=1e-5)


def test_three_levels_are_joined_in_pairs() -> None:
    cfg = SPNConfig(depth=3, repetitions=1, leaves=2, sums=2, variance=(0.12, 0.35))
    spn, x = network(cfg, 9), torch.randn(1, 9, generator=generator())
    want = root(spn, x[0].tolist(), [1.0] * 9)
    torch.testing.assert_close(spn(x, torch.ones_like(x)), torch.tensor([want]))


def grid(number: int) -> tuple[Tensor, float]:
    """Points all over the space of so many variables, and the volume of each."""
    line = torch.linspace(-6, 6, 81)
    return torch.cartesian_prod(*[line] * number).view(-1, number), (12 / 80) ** number


def test_it_sums_to_one() -> None:
    spn = network(FLAT, 2)
    points, volume = grid(2)
    total = spn(points, torch.ones_like(points)).double().exp().sum() * volume
    assert total.item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("left_out", [(0,), (2,), (0, 1), (1, 2)])
def test_a_variable_that_does_not_count_is_integrated_out(left_out: tuple[int, ...]) -> None:
    spn, x = network(FLAT, 3), torch.tensor([0.3, -0.4, 1.1])
    points, volume = grid(len(left_out))
    everywhere = x.expand(len(points), 3).clone()
    everywhere[:, list(left_out)] = points
    total = spn(everywhere, torch.ones_like(everywhere)).double().exp().sum() * volume
    counts = torch.ones(1, 3)
    counts[0, list(left_out)] = 0
    torch.testing.assert_close(spn(x[None], counts).double()[0], total.log(), rtol=0, atol=1e-4)


def test_of_nothing_the_density_is_one() -> None:
    spn = network(SMALL, 7)
    assert spn(torch.randn(3, 7), torch.zeros(3, 7)).abs().max() < 1e-6


def test_how_far_a_variable_counts_has_a_gradient() -> None:
    spn, counts = network(SMALL, 7), torch.rand(1, 7, requires_grad=True)
    spn(torch.randn(1, 7), counts).sum().backward()
    assert counts.grad is not None
    assert (counts.grad != 0).all()


@pytest.mark.parametrize("number", [4, 7, 100, 101])
def test_regions_are_of_equal_size_and_differ_between_repetitions(number: int) -> None:
    region = network(SMALL, number).region
    for r in range(SMALL.repetitions):
        sizes = torch.bincount(region[:, r], minlength=4)
        assert sizes.sum() == number
        assert sizes.max() - sizes.min() <= 1
    assert number < 100 or not torch.equal(region[:, 0], region[:, 1])


def test_a_background_is_exact_to_a_thousandth_of_a_nat() -> None:
    """The log-density is in the thousands; with variances of 0.002, its coefficients cancel."""
    torch.manual_seed(0)
    spn = RandomSPN(ImagesConfig().background, 1024)
    with torch.no_grad():
        spn.rho.fill_(-8)
    x, counts = torch.rand(2, 1024), torch.rand(2, 1024)
    exact = RandomSPN(ImagesConfig().background, 1024).double()
    exact.load_state_dict(spn.double().state_dict())
    want = exact(x.double(), counts.double())
    got = spn.float()(x, counts).double()
    assert want.abs().min() > 10_000
    assert ((got - want).abs() / want.abs()).max() < 1e-6


def most_probable(spn: RandomSPN) -> list[float]:
    """Down from the root along the largest weights, one region after the other."""
    widths, best = spn.root.shape, int(spn.root.argmax())
    r, a, b = best // (widths[1] * widths[2]), best // widths[2] % widths[1], best % widths[2]
    picture = [0.0] * len(spn.mean)

    def descend(level: int, region: int, n: int) -> None:
        if level == 0:
            for d in range(len(picture)):
                if int(spn.region[d, r]) == region:
                    picture[d] = float(spn.mean[d, r, n])
            return
        weight = spn.inner[level - 1][r, region, :, :, n]
        pair = int(weight.argmax())
        descend(level - 1, 2 * region, pair // weight.shape[1])
        descend(level - 1, 2 * region + 1, pair % weight.shape[1])

    descend(len(spn.inner), 0, a)
    descend(len(spn.inner), 1, b)
    return picture


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cfg", [SMALL, FLAT])
def test_the_most_probable_picture_follows_the_largest_weights(cfg: SPNConfig, seed: int) -> None:
    spn = network(cfg, 8, seed)
    torch.testing.assert_close(spn.most_probable(), torch.tensor(most_probable(spn)))


def test_every_parameter_begins_small() -> None:
    for param in RandomSPN(SMALL, 100).parameters():
        assert 0.12 < param.abs().max() <= 0.2
