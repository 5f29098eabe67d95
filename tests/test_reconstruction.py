"""Scores of reconstruction and motion, compared with their definitions and with baselines."""

import math

import pytest
import torch
from test_evaluate import SHORT, Puppet, marked

from gswm.core.records import concatenate
from gswm.eval.baselines import Baseline
from gswm.eval.evaluate import evaluate
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.motion import motion
from gswm.eval.metrics.reconstruction import reconstruction
from gswm.eval.protocols import Protocol
from gswm.eval.validate import validate


def videos(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_gain_is_over_the_mean_of_all_frames_of_all_episodes() -> None:
    true, drawn = videos(0, 3, 4, 3, 5, 6), videos(1, 3, 4, 3, 5, 6)
    parts = [reconstruction(drawn[i : i + 1], true[i : i + 1]) for i in range(3)]
    scores = concatenate(parts).scores()
    error = ((drawn - true) ** 2).mean().item()
    still = ((true - true.mean(dim=(0, 1))) ** 2).mean().item()
    assert scores["reconstruction_psnr"] == pytest.approx(-10 * math.log10(error), abs=1e-4)
    assert scores["reconstruction_gain"] == pytest.approx(10 * math.log10(still / error), abs=1e-3)


def test_the_mean_image_gains_nothing_and_has_its_own_sharpness() -> None:
    true = videos(0, 2, 3, 3, 8, 8)
    mean = true.mean(dim=(0, 1)).expand_as(true)
    scores = reconstruction(mean, true).scores()
    assert scores["reconstruction_gain"] == pytest.approx(0, abs=1e-4)

    def edges(x: torch.Tensor) -> float:
        across, down = x[..., 1:] - x[..., :-1], x[..., 1:, :] - x[..., :-1, :]
        return (across.abs().mean().item() + down.abs().mean().item()) / 2

    assert scores["sharpness"] == pytest.approx(edges(mean) / edges(true), rel=1e-4)
    assert reconstruction(true, true).scores()["sharpness"] == 1
    assert math.isnan(reconstruction(true, torch.zeros_like(true)).scores()["sharpness"])


def test_rules_move_as_their_names_say() -> None:
    episodes = marked(4, 20)
    rules = Protocol("x", 10, 10, ("center",))
    scores = {
        name: evaluate(Baseline(name), [episodes], rules).scores
        for name in ("stay", "straight", "simulator")
    }
    assert scores["stay"]["moved"] == scores["stay"]["moved_along"] == 0
    assert scores["simulator"]["moved"] == pytest.approx(1, abs=1e-4)
    assert scores["simulator"]["moved_along"] == pytest.approx(1, abs=1e-4)
    assert scores["straight"]["moved"] > 1  # through walls


def test_motion_is_of_pairs_that_are_there_from_the_first_to_the_last_frame() -> None:
    xy = torch.tensor([[[[0.1, 0.1], [0.5, 0.5]], [[0.2, 0.1], [0.5, 0.9]]]], dtype=torch.float64)
    id = torch.tensor([[[0, 1], [0, 1]]])
    true = Boxes(xy, torch.full_like(xy, 0.1), id, torch.tensor([[[True, True], [True, False]]]))
    back = xy.flip(1) + 0.01
    predicted = Boxes(back[:, :, [1, 0]], true.hw, id, torch.ones_like(id, dtype=torch.bool))
    scores = motion(predicted, true).scores()
    assert scores["moved"] == pytest.approx(1)
    assert scores["moved_along"] == pytest.approx(-1)
    nobody = Boxes(xy, true.hw, id, torch.zeros_like(true.there))
    assert math.isnan(motion(nobody, true).scores()["moved"])


def test_a_result_says_where_boxes_come_from() -> None:
    episodes = marked(2, 20)
    model = Puppet(episodes, "simulator")
    found = evaluate(model, [episodes], SHORT)
    assert found.boxes_from == "latents"
    model.boxes_from = "masks"  # type: ignore[misc]
    assert evaluate(model, [episodes], SHORT).to_json()["boxes_from"] == "masks"
    rule = evaluate(Baseline("stay"), [episodes], Protocol("x", 10, 10, ("center",)))
    assert rule.boxes_from == "truth"


def test_weights_of_a_model_without_boxes_of_its_own_are_chosen_by_pixels() -> None:
    episodes = marked(3, 20)
    model = Puppet(episodes, "straight")
    by_boxes = validate(model, episodes, given=10)
    model.boxes_from = "masks"  # type: ignore[misc]
    by_pixels = validate(model, episodes, given=10)
    assert by_boxes["error"] == by_boxes["strict_error"] == by_pixels["strict_error"] > 0
    assert by_pixels["error"] == 0  # it draws the true frames
