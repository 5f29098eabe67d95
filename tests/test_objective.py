"""Every term of the objective (§3.4.2), summed in plain loops."""

import math
from dataclasses import replace

import pytest
import torch
from tiny import attributes, build, config, generator, loss, video
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from gswm.core.distributions import Bernoulli, Gaussian
from gswm.core.records import map_tensors, stack
from gswm.data.batches.batch import Batch
from gswm.models.elbo import context_terms, likelihood_terms
from gswm.models.gswm.discovery import DiscoveryEvidence
from gswm.models.gswm.objective import discovery_terms, propagation_terms, slack
from gswm.models.gswm.propagation import PropagationEvidence
from gswm.models.layers import Contexts

B, T, K, CELLS = 2, 3, 4, 5
SMALL = Bernoulli(torch.tensor(1e-10).logit())


def gaussian(seed: int, *shape: int) -> Gaussian:
    g = generator(seed)
    return Gaussian(torch.randn(*shape, generator=g), 0.3 + torch.rand(*shape, generator=g))


def uniform(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator(seed))


def naive_kl(q: Gaussian, p: Gaussian, at: tuple[int, ...]) -> float:
    """Over the last axis, by torch.distributions."""
    theirs = kl_divergence(Normal(q.mean[at], q.std[at]), Normal(p.mean[at], p.std[at]))
    return float(theirs.sum())


def naive_bernoulli_kl(logit: float, p: float) -> float:
    rho = 1 / (1 + math.exp(-logit))
    return rho * math.log(rho / p) + (1 - rho) * math.log((1 - rho) / (1 - p))


def test_the_likelihood_is_a_normals() -> None:
    x, mu = uniform(0, B, T, 3, 6, 6), uniform(1, B, T, 3, 6, 6)
    got = likelihood_terms(x, mu, torch.tensor(0.2))
    for b in range(B):
        want = -Normal(mu[b], 0.2).log_prob(x[b]).sum()
        torch.testing.assert_close(got["nll"][b], want, rtol=1e-4, atol=1e-2)


def test_the_likelihood_of_a_perfect_frame_is_known() -> None:
    """+8,485 nats for 64 × 64 × 3 values at σ = 0.2."""
    x = torch.zeros(1, 1, 3, 64, 64)
    assert float(likelihood_terms(x, x, torch.tensor(0.2))["nll"]) == pytest.approx(-8485, abs=1)


def test_the_contexts_kl_counts_every_frame() -> None:
    q, p = gaussian(0, B, T, 3), gaussian(1, B, T, 3)
    got = context_terms(Contexts([], torch.zeros(B, T, 3, 2, 2), q, p))
    for b in range(B):
        want = sum(naive_kl(q, p, (b, t)) for t in range(T))
        assert float(got["kl_context"][b]) == pytest.approx(want, rel=1e-4)


def evidence() -> PropagationEvidence:
    return PropagationEvidence(
        gaussian(0, B, T, K, 7),
        torch.zeros(B, T, K, 6),
        Bernoulli(4 * uniform(2, B, T, K, 1) - 2),
        uniform(3, B, T, K, 1),
    )


def test_propagation_counts_an_object_by_the_presence_it_had() -> None:
    known, p = evidence(), gaussian(1, B, T, K, 7)
    got = propagation_terms(known, p, SMALL)
    for b in range(B):
        state = aux = 0.0
        for t in range(T):
            for k in range(K):
                weight = float(known.weight[b, t, k])
                state += weight * naive_kl(known.q, p, (b, t, k))
                aux += weight * naive_bernoulli_kl(float(known.pres.logit[b, t, k]), 1e-10)
        assert float(got["kl_state"][b]) == pytest.approx(state, rel=1e-4)
        assert float(got["aux_pres"][b]) == pytest.approx(aux, rel=1e-4)


def test_the_auxiliary_loss_can_be_off() -> None:
    known, p = evidence(), gaussian(1, B, T, K, 7)
    assert list(propagation_terms(known, p, None)) == ["kl_state"]


def test_a_slot_that_was_empty_costs_nothing() -> None:
    known, p = evidence(), gaussian(1, B, T, K, 7)
    weight = known.weight.clone()
    weight[:, :, 2:] = 0
    known = replace(known, weight=weight)
    few = map_tensors(lambda x: x[:, :, :2], known)
    want = propagation_terms(few, map_tensors(lambda x: x[:, :, :2], p), SMALL)
    for name, term in propagation_terms(known, p, SMALL).items():
        torch.testing.assert_close(term, want[name])


def test_discovery_pays_for_presence_and_state_in_every_cell_and_for_the_rest_by_presence() -> None:
    keep = torch.tensor([[True, False, True], [True, True, False]])
    found = DiscoveryEvidence(
        Bernoulli(4 * uniform(2, B, T, CELLS, 1) - 2),
        gaussian(0, B, T, CELLS, 10),
        gaussian(1, B, T, CELLS, 7),
        uniform(3, B, T, CELLS, 1) * keep[:, :, None, None],
    )
    p_att = gaussian(4, 10)
    got = discovery_terms(found, keep, p_att, SMALL)
    standard = Gaussian(torch.zeros(7), torch.ones(7))
    for b in range(B):
        pres = att = state = 0.0
        for t in range(T):
            for cell in range(CELLS):
                if not keep[b, t]:
                    continue
                at = (b, t, cell)
                pres += naive_bernoulli_kl(float(found.pres.logit[at]), 1e-10)
                here = Gaussian(found.q_att.mean[at], found.q_att.std[at])
                att += float(found.weight[at]) * naive_kl(here, p_att, ())
                here = Gaussian(found.q_state.mean[at], found.q_state.std[at])
                state += naive_kl(here, standard, ())
        assert float(got["kl_disc_pres"][b]) == pytest.approx(pres, rel=1e-4)
        assert float(got["kl_disc_att"][b]) == pytest.approx(att, rel=1e-4)
        assert float(got["kl_disc_state"][b]) == pytest.approx(state, rel=1e-4)


@pytest.mark.parametrize("recipe", ["interaction", "single-ball-d", "maze"])
def test_terms_add_up_to_the_total_and_no_kl_is_negative(recipe: str) -> None:
    got = loss(build(config(recipe)), video())
    torch.testing.assert_close(got.total, sum(got.terms.values()), rtol=1e-5, atol=1e-3)
    assert all(v >= -1e-4 for k, v in got.terms.items() if k != "nll")
    terms = {"nll", "kl_context", "kl_disc_pres", "kl_disc_att", "kl_disc_state", "kl_state"}
    assert set(got.terms) == terms | ({"aux_pres"} if recipe != "maze" else set())


def test_the_loss_is_the_mean_of_its_videos() -> None:
    """The loss of a video does not depend on the other videos."""
    model, frames = build(config("maze")), video(2)
    stage = replace(model.stage(10**6), length=3)
    noise = model.noise(2, stage, generator())
    step = torch.tensor(10**6)
    both = model.loss(Batch(frames), noise, step, stage)
    each = [
        model.loss(Batch(frames[b : b + 1]), noise.rows(slice(b, b + 1)), step, stage)
        for b in (0, 1)
    ]
    for name, term in both.terms.items():
        mean = (each[0].terms[name] + each[1].terms[name]) / 2
        torch.testing.assert_close(term, mean, rtol=1e-4, atol=1e-3)


@torch.no_grad()
def test_slots_that_are_never_filled_cost_nothing() -> None:
    """16 cells fill 16 slots in the first frame; 4 slots more change no term."""
    got = []
    for num_objects in (16, 20):
        model = build(config("interaction", num_objects=num_objects))
        stage = replace(model.stage(0), length=3)
        keep = torch.tensor([True, False, False])
        noise = model.noise_shape.none(2, 3, keep, 1)
        got.append(model.loss(Batch(video()), noise, torch.tensor(0), stage))
    assert float(got[0].metrics["objects"]) == float(got[1].metrics["objects"])
    for name, term in got[0].terms.items():
        torch.testing.assert_close(term, got[1].terms[name], rtol=1e-4, atol=1e-2)


def test_slack_is_the_empty_part_of_the_boxes_of_present_objects() -> None:
    frames = [attributes(B, K, seed) for seed in range(T)]
    o = stack(frames, dim=1)
    fill = uniform(9, B, T, K, 1)
    got = slack(o, fill, 64)
    for b in range(B):
        want = 0.0
        for t in range(T):
            for k in range(K):
                h, w = (float(side) * 64 for side in o.hw[b, t, k])
                want += float(o.pres[b, t, k]) * h * w * (1 - float(fill[b, t, k]))
        assert float(got[b]) == pytest.approx(want, rel=1e-4)
