"""Physics of a batch compared with one episode, one ball and one pair at a time."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.data.worlds.balls import INTERACTION, OCCLUSION, TWO_LAYER, TWO_LAYER_DENSE, Balls
from gswm.data.worlds.physics import Pairs, fused, meeting, simulate, step


def exact(a: float, b: float, c: float) -> float:
    """The sum a · b + c of fractions, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def naive(positions, velocities, radii, layers, frames: int, side: float, collide: bool):
    """One episode, as lists."""
    x, v = [list(p) for p in positions], [list(p) for p in velocities]
    path = [([list(p) for p in x], [list(p) for p in v])]
    for _ in range(frames - 1):
        for _ in range(10):
            for i, r in enumerate(radii):
                for c in (0, 1):
                    trial = x[i][c] + 0.1 * v[i][c]
                    if trial - r < 0:
                        v[i][c] = abs(v[i][c])
                    if trial + r > side:
                        v[i][c] = -abs(v[i][c])
            trial = [[x[i][c] + 0.1 * v[i][c] for c in (0, 1)] for i in range(len(x))]
            for i in range(len(x)):
                for j in range(i):
                    if not collide or layers[i] != layers[j]:
                        continue
                    dx, dy = trial[i][0] - trial[j][0], trial[i][1] - trial[j][1]
                    square = dx * dx + dy * dy
                    if square < (radii[i] + radii[j]) ** 2:
                        distance = math.sqrt(exact(dy, dy, dx * dx))
                        nx, ny = dx / distance, dy / distance
                        vi = exact(ny, v[i][1], nx * v[i][0])
                        vj = exact(ny, v[j][1], nx * v[j][0])
                        v[i] = [v[i][0] + nx * (vj - vi), v[i][1] + ny * (vj - vi)]
                        v[j] = [v[j][0] + nx * (vi - vj), v[j][1] + ny * (vi - vj)]
            for i in range(len(x)):
                for c in (0, 1):
                    x[i][c] = x[i][c] + 0.1 * v[i][c]
        path.append(([list(p) for p in x], [list(p) for p in v]))
    return path


def assert_same(positions, velocities, radii, layers, frames, side, collide) -> int:
    """Compare bit by bit; how often a velocity changed."""
    where, how_fast = simulate(positions, velocities, radii, layers, frames, side, collide)
    for e in range(len(positions)):
        row = 0 if len(radii) == 1 else e
        start = (positions[e].tolist(), velocities[e].tolist())
        path = naive(*start, radii[row].tolist(), layers[row].tolist(), frames, side, collide)
        assert where[e].tolist() == [x for x, _ in path]
        assert how_fast[e].tolist() == [v for _, v in path]
    return int((how_fast[:, 1:] != how_fast[:, :-1]).any(-1).sum())


def test_a_fused_product_is_rounded_once() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, c = torch.randn(3, 2000, generator=generator, dtype=torch.float64)
    c = torch.where(torch.arange(2000) % 2 == 0, c, -a * b * (1 + 1e-15 * c))  # cancels almost all
    want = [exact(*abc) for abc in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    assert fused(a, b, c).tolist() == want
    assert (a * b + c).tolist() != want


@pytest.mark.parametrize("balls", [INTERACTION, OCCLUSION, TWO_LAYER, TWO_LAYER_DENSE])
def test_the_worlds_move_as_one_ball_at_a_time(balls: Balls) -> None:
    start = balls.start(torch.arange(4).numpy())
    count = len(balls.layers)
    radii = torch.full((1, count), balls.radius, dtype=torch.float64)
    layers = torch.tensor([balls.layers])
    settings = (radii, layers, 40, 64.0, balls.collide)
    assert assert_same(start.positions, start.velocities, *settings) > 30


@given(st.integers(0, 2**32), st.integers(1, 6), st.booleans())
def test_crowded_boxes_resolve_pairs_in_order(seed: int, count: int, collide: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    positions = torch.rand(3, count, 2, generator=generator, dtype=torch.float64) * 20
    velocities = torch.randn(3, count, 2, generator=generator, dtype=torch.float64) * 3
    radii = torch.rand(3, count, generator=generator, dtype=torch.float64) * 4 + 1
    layers = torch.randint(0, 2, (3, count), generator=generator)
    assert_same(positions, velocities, radii, layers, 12, 20.0, collide)


def test_a_ball_passes_through_an_empty_slot() -> None:
    positions = torch.tensor([[[5.0, 5.0], [0.0, 0.0]]]).double()
    velocities = torch.tensor([[[-1.0, -1.0], [0.0, 0.0]]]).double()
    radii, layers = torch.tensor([[2.0, 0.0]]).double(), torch.zeros(1, 2, dtype=torch.int64)
    both = simulate(positions, velocities, radii, layers, 9, 64.0)
    alone = simulate(positions[:, :1], velocities[:, :1], radii[:, :1], layers[:, :1], 9, 64.0)
    assert torch.equal(both[0][:, :, :1], alone[0])
    assert not both[0][:, :, 1].any()


def test_going_on_from_any_frame_is_the_same_path() -> None:
    start = TWO_LAYER.start(torch.arange(3).numpy())
    where, how_fast = TWO_LAYER.path(start, "cpu")
    radii = torch.full((1, 6), 8.0, dtype=torch.float64)
    layers = torch.tensor([TWO_LAYER.layers])
    on = simulate(where[:, 9], how_fast[:, 9], radii, layers, 91, 64.0)
    assert torch.equal(on[0], where[:, 9:])


def test_a_step_of_tensors_is_a_step_of_arrays() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 9, 50, generator=generator, dtype=torch.float64) * 20
    v = torch.randn(2, 9, 50, generator=generator, dtype=torch.float64) * 3
    radius = torch.full((9, 50), 2.0, dtype=torch.float64)
    pairs = meeting(radius.T, torch.zeros(50, 9, dtype=torch.int64))
    assert pairs is not None
    got = step(x.numpy(), v.numpy(), radius.numpy(), 20.0, pairs)
    pairs = Pairs(torch.as_tensor(pairs.ends), torch.as_tensor(pairs.reach))
    for array, tensor in zip(got, step(x, v, radius, 20.0, pairs), strict=True):
        torch.testing.assert_close(torch.from_numpy(array), tensor, rtol=0, atol=1e-12)
    assert (got[1] != v.numpy()).mean() > 0.5
