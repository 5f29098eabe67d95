"""Rules instead of models: their scores on the paper's test sets are known."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from gswm.data.balls import INTERACTION, OCCLUSION, TWO_LAYER, TWO_LAYER_DENSE, Balls
from gswm.data.episode import Episodes
from gswm.data.single_ball import two_episodes
from gswm.errors import UserError
from gswm.eval.baselines import Baseline, Rule, known
from gswm.eval.boxes import Boxes
from gswm.eval.evaluate import evaluate, whole
from gswm.eval.protocols import Protocol
from gswm.records import concatenate

TEN = Protocol("10-10", 10, 10, ("center",))
WORLDS = {w.name: w for w in (INTERACTION, OCCLUSION, TWO_LAYER, TWO_LAYER_DENSE)}
TABLE: dict[Rule, tuple[float, ...]] = {
    "center": (3.016, 2.870, 3.036, 3.324),
    "stay": (1.771, 2.175, 1.743, 1.622),
    "straight": (1.724, 0.969, 1.733, 1.783),
    "walls": (0.801, 0.000, 0.770, 1.146),
    "simulator": (0.000, 0.000, 0.000, 0.000),
}


@cache
def first_frames(world: Balls) -> Episodes:
    """The first 20 frames of every test episode."""
    short = replace(world, num_frames=20)
    return concatenate(list(short.episodes(world.splits["test"].seed, 200)))


@pytest.mark.parametrize("rule", TABLE)
@pytest.mark.parametrize("name", WORLDS)
def test_rules_score_what_they_should(name: str, rule: Rule) -> None:
    world, expected = WORLDS[name], TABLE[rule][list(WORLDS).index(name)]
    episodes, baseline = first_frames(world), Baseline(rule, world.collide)

    true = Boxes.of_truth(known(episodes), 64)
    apart = (whole(baseline.imagine(episodes, 10, 10)).xy - true.xy).norm(dim=-1)[:, 10:]
    by_identity = apart[..., : len(world.layers)].mean(dim=(0, 2)).sum().item()
    assert by_identity == pytest.approx(expected, abs=6e-4)

    # Two balls of which one is now where the other will be are matched the wrong way round.
    scores = evaluate(baseline, [episodes], TEN).scores
    assert scores["center_error"] == pytest.approx(expected, abs=0.02)
    assert scores["objects"] == scores["true_objects"] == len(world.layers)


def test_a_track_of_a_rule_is_one_future_with_its_past() -> None:
    episodes = two_episodes()
    track = Baseline("straight").imagine(episodes, 5, 4)
    assert track.xy.shape == (2, 1, 4, 1, 2)
    assert track.past is not None
    truth = known(episodes)
    torch.testing.assert_close(track.past.xy.double(), truth.positions[:, :5] / 32 - 1)
    # In the last given frame it has not turned yet, but its velocity leads to the next one.
    torch.testing.assert_close(track.xy[:, 0].double(), truth.positions[:, 5:] / 32 - 1)


def test_videos_without_truth_are_refused() -> None:
    with pytest.raises(UserError, match="nothing is known"):
        Baseline("stay").imagine(Episodes(two_episodes().video), 5, 4)
