"""e_rel compared with §3.3.1, pair by pair."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import generator
from torch import Tensor

from gswm.models.gswm.interaction import Interaction

NUM_U = 9
SEEDS = st.integers(0, 2**32 - 1)


def interaction() -> Interaction:
    torch.manual_seed(0)
    return Interaction(NUM_U, 4)


def inputs(seed: int, slots: int, batch: int = 2) -> tuple[Tensor, Tensor]:
    """u, with xy at its place in it, and presences."""
    g = generator(seed)
    u = torch.randn(batch, slots, NUM_U, generator=g)
    return u, torch.rand(batch, slots, 1, generator=g)


def pair(u: Tensor, k: int, j: int) -> Tensor:
    """[u_k, u_j], with the offset xy_k - xy_j in place of xy_j."""
    return torch.cat([u[k], u[j, :4], u[k, 4:6] - u[j, 4:6], u[j, 6:]])


@torch.no_grad()
def test_interaction_follows_the_paper() -> None:
    net = interaction()
    u, pres = inputs(0, slots=5)
    got = net(u, torch.ones_like(pres))
    for b in range(2):
        for k in range(5):
            pairs = torch.stack([pair(u[b], k, j) for j in range(5) if j != k])
            w = net.mlp_weight(pairs).softmax(dim=0)
            want = net.mlp_self(u[b, k]) + (w * net.mlp_rel(pairs)).sum(dim=0)
            torch.testing.assert_close(got[b, k], want, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@given(SEEDS)
def test_an_object_is_heard_by_its_presence(seed: int) -> None:
    """w_kj = pres_j exp(a_kj) / Σ pres exp(a), times how much company there is, at most 1."""
    net = interaction()
    u, pres = inputs(seed, slots=4)
    pres = pres * torch.tensor([1.0, 0.05, 0.0, 0.3])[:, None]
    got = net(u, pres)
    for b in range(2):
        for k in range(4):
            others = [j for j in range(4) if j != k]
            mass = {j: pres[b, j] * net.mlp_weight(pair(u[b], k, j)).exp() for j in others}
            company = min(1.0, float(sum(pres[b, j] for j in others)))
            want = net.mlp_self(u[b, k])
            for j in others:
                w = company * mass[j] / sum(mass.values())
                want = want + w * net.mlp_rel(pair(u[b], k, j))
            torch.testing.assert_close(got[b, k], want, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@given(SEEDS, st.integers(1, 5))
def test_objects_have_no_order(seed: int, slots: int) -> None:
    net = interaction()
    u, pres = inputs(seed, slots)
    order = torch.randperm(slots, generator=generator(seed))
    got = net(u[:, order], pres[:, order])
    torch.testing.assert_close(net(u, pres)[:, order], got, atol=1e-5, rtol=1e-4)


@torch.no_grad()
@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.floats(0, 100))
def test_absent_objects_are_not_heard(seed: int, there: int, empty: int, large: float) -> None:
    """Regardless of their number and of the networks' outputs."""
    net = interaction()
    u, pres = inputs(seed, there + empty)
    u[:, there:] *= large
    pres[:, there:] = 0
    got = net(u, pres)[:, :there]
    want = net(u[:, :there], pres[:, :there])
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_who_is_alone_hears_only_itself() -> None:
    net = interaction()
    u, pres = inputs(0, slots=1)
    torch.testing.assert_close(net(u, pres), net.mlp_self(u))
    u, pres = inputs(0, slots=3)
    pres[:, 1:] = 0
    torch.testing.assert_close(net(u, pres)[:, 0], net.mlp_self(u[:, 0]))


@torch.no_grad()
@given(SEEDS)
def test_an_almost_empty_slot_hardly_disturbs_a_real_neighbor(seed: int) -> None:
    """At most by its share of the softmax: its presence, times e to the gap in logits."""
    net = interaction()
    u, pres = inputs(seed, slots=3)
    tiny = 1e-7
    pres[:, :2], pres[:, 2] = 1, tiny
    got = net(u, pres)[:, 0]
    want = net(u[:, :2], pres[:, :2])[:, 0]
    for b in range(2):
        real, empty = pair(u[b], 0, 1), pair(u[b], 0, 2)
        gap = net.mlp_weight(empty) - net.mlp_weight(real)
        bound = tiny * gap.exp() * (net.mlp_rel(empty) - net.mlp_rel(real)).abs()
        assert ((got[b] - want[b]).abs() <= bound + 1e-5).all()
        assert bound.max() < 1e-3


@torch.no_grad()
@given(SEEDS)
def test_an_almost_empty_slot_is_hardly_heard_by_who_is_alone(seed: int) -> None:
    """A softmax over one would give it all the weight."""
    net = interaction()
    u, pres = inputs(seed, slots=2)
    pres[:, 0], pres[:, 1] = 1, 1e-7
    torch.testing.assert_close(net(u, pres)[:, 0], net.mlp_self(u[:, 0]), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_only_offsets_reach_a_neighbor() -> None:
    """The pair's second half does not change where both are moved alike."""
    net = interaction()
    net.mlp_rel[0].weight[:, 4:6] = 0  # the hearer's own place
    net.mlp_weight[0].weight[:, 4:6] = 0
    net.mlp_self[0].weight[:, 4:6] = 0
    u, pres = inputs(0, slots=3)
    moved = u.clone()
    moved[..., 4:6] += torch.tensor([0.5, -0.25])
    got = net(moved, pres)
    torch.testing.assert_close(got, net(u, pres), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_batch_elements_do_not_meet() -> None:
    net = interaction()
    u, pres = inputs(0, slots=3)
    alone = net(u[1:], pres[1:])
    torch.testing.assert_close(alone, net(u, pres)[1:], atol=1e-6, rtol=1e-5)


def test_gradients_are_finite_where_nobody_is() -> None:
    net = interaction()
    u, pres = inputs(0, slots=3)
    pres = torch.zeros_like(pres).requires_grad_()
    net(u, pres).sum().backward()
    assert pres.grad is not None
    assert torch.isfinite(pres.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)
