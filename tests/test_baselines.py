"""Non-learned baselines: their scores on the paper's test sets are known."""

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
from gswm.eval.evaluate import evaluate, whole
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.distance import center_errors
from gswm.eval.protocols import Protocol

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


def test_only_the_rule_that_repeats_a_frame_takes_videos_without_truth() -> None:
    alone = Episodes(two_episodes().video)
    with pytest.raises(UserError, match="no ground truth"):
        Baseline("straight").imagine(alone, 5, 4)
    track = Baseline("stay").imagine(alone, 5, 4)
    assert track.pres.shape == (2, 1, 4, 0)
    assert track.reconstruction is not None
    assert torch.equal(track.reconstruction[:, 0, 3], alone.video[:, 4] / 255)


def test_what_stays_has_psnr_and_ssim_of_its_last_frame() -> None:
    rules = Protocol("short", 5, 4, ("pixels",))
    video = two_episodes().video
    errors = (video[:, 5:].double() - video[:, 4:5].double()).div(255).square().mean(dim=(2, 3, 4))
    expected = (-10 * errors.log10()).mean().item()
    for episodes in (two_episodes(), Episodes(video)):
        scores = evaluate(Baseline("stay"), [episodes], rules).scores
        assert scores["psnr"] == pytest.approx(expected, abs=1e-4)
        assert 0 < scores["ssim"] < 1
    assert "psnr" not in evaluate(Baseline("straight"), [two_episodes()], rules).scores
