"""Rules instead of models: their scores on the paper's test sets are known."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from gswm.core.errors import UserError
from gswm.core.records import concatenate
from gswm.data.episode import Episodes
from gswm.data.worlds.balls import INTERACTION, OCCLUSION, TWO_LAYER, TWO_LAYER_DENSE
from gswm.data.worlds.single_ball import two_episodes
from gswm.eval.baselines import Baseline, Rule, known
from gswm.eval.evaluate import whole
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.distance import center_errors

WORLDS = {w.name: w for w in (INTERACTION, OCCLUSION, TWO_LAYER, TWO_LAYER_DENSE)}
TABLE: dict[Rule, tuple[float, ...]] = {
    "center": (3.016, 2.870, 3.036, 3.324),
    "stay": (1.771, 2.175, 1.743, 1.622),
    "straight": (1.724, 0.969, 1.733, 1.783),
    "walls": (0.801, 0.000, 0.770, 1.146),
    "simulator": (0.000, 0.000, 0.000, 0.000),
}


@cache
def first_frames(name: str) -> Episodes:
    """The first 20 frames of every test episode."""
    short = replace(WORLDS[name], num_frames=20)
    return concatenate(list(short.episodes(short.splits["test"].seed, 200)))


@pytest.mark.parametrize("rule", TABLE)
@pytest.mark.parametrize("name", WORLDS)
def test_rules_score_what_they_should(name: str, rule: Rule) -> None:
    world, expected = WORLDS[name], TABLE[rule][list(WORLDS).index(name)]
    episodes, baseline = first_frames(name), Baseline(rule, world.collide)

    true = Boxes.of_truth(known(episodes), 64).frames(10)
    predicted = whole(baseline.imagine(episodes, 10, 10)).frames(10)
    apart = (predicted.xy - true.xy).norm(dim=-1)[..., : len(world.layers)]
    assert apart.mean(dim=(0, 2)).sum().item() == pytest.approx(expected, abs=6e-4)

    # Where one ball was is where another may be now: a few are matched the other way round.
    matched = center_errors(predicted, true).scores()["center_error"]
    assert matched == pytest.approx(expected, abs=0.02)


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
