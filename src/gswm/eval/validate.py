"""Validation during training: a few scores of short rollouts."""

import math
from dataclasses import replace
from typing import Any

import torch

from gswm.core.errors import UserError
from gswm.core.records import regroup
from gswm.data.episode import Episodes
from gswm.eval.baselines import known
from gswm.eval.evaluate import MOST, ONLY_PIXELS, cut, imagine, whole
from gswm.eval.metrics.boxes import Boxes
from gswm.eval.metrics.counts import counts
from gswm.eval.metrics.distance import center_errors
from gswm.eval.metrics.futures import futures as of_futures
from gswm.eval.metrics.pixels import decibels, squared_error
from gswm.eval.protocols import Protocol as Rules
from gswm.models.base import Discover, WorldModel, as_float

VALIDATED = ("strict_error", "center_error", "objects", "true_objects", "count_right")
"""Scores reported in every validation."""
SAMPLED = 10
"""Sampled futures per episode in validation, in worlds with several futures."""


def validate(
    model: WorldModel[Any],
    episodes: Episodes,
    given: int,
    steps: int = 10,
    futures: int = 1,
    discover: Discover = "first",
) -> dict[str, float]:
    """Validate a model during training: center errors and object counts of the mean rollout.

    The best weights are chosen by `error`. It is the strict error, which missed objects cannot
    lower; with several `futures`, the distance between sampled and true futures in both directions;
    for videos without ground truth, and for models not trained to have boxes, an error of pixels
    (see `validate_pixels`). `episodes` are on the model's device and stay there; only positions are
    copied to the CPU. If no object is found in any episode, there is no center error.
    """
    if episodes.truth is None:
        return validate_pixels(model, episodes, given, steps, discover)
    rules = Rules("validation", given, steps, ("center",), discover=discover)
    episodes = cut(episodes, rules)
    true = Boxes.of_truth(known(episodes), episodes.video.shape[-1])
    predicted = whole(imagine(model, episodes, rules, torch.Generator()))
    errors = center_errors(predicted.frames(given), true.frames(given)).scores()
    number = counts(predicted.frames(given), true.frames(given)).scores()
    scores = {name: (errors | number)[name] for name in VALIDATED}
    scores = {"error": scores["strict_error"], **scores}
    if futures > 1:
        scores |= chances(model, episodes, replace(rules, sample=True, futures=futures), true)
    if model.boxes_from == "masks":
        scores |= validate_pixels(model, episodes, given, steps, discover)
    return {name: value for name, value in scores.items() if math.isfinite(value)}


def validate_pixels(
    model: WorldModel[Any], episodes: Episodes, given: int, steps: int, discover: Discover
) -> dict[str, float]:
    """Validate by pixels: `error` is the mean squared error of imagined frames."""
    rules = Rules("validation", given, steps, ONLY_PIXELS, discover=discover)
    parts = []
    for batch in regroup([cut(episodes, rules)], MOST):
        drawn = imagine(model, batch, rules, torch.Generator()).reconstruction
        if drawn is None:
            raise UserError("the model does not render imagined frames: `reconstruction` is None")
        frames = drawn[:, 0].float().clamp(0, 1)
        parts.append(squared_error(frames, as_float(batch.video[:, given:])))
    errors = torch.cat(parts).double()
    scores = {"error": errors.mean().item(), "psnr": decibels(errors).mean().item()}
    return {name: value for name, value in scores.items() if math.isfinite(value)}


def chances(
    model: WorldModel[Any], episodes: Episodes, rules: Rules, true: Boxes
) -> dict[str, float]:
    """Distances between sampled and true futures."""
    generator = torch.Generator(episodes.video.device).manual_seed(0)
    predicted = whole(imagine(model, episodes, rules, generator))
    number = rules.futures
    scores = of_futures(predicted, true.each(number), rules.given, number).scores()
    kept = {name: scores[name] for name in ("on_mode", "end_error") if name in scores}
    best = {f"min_ade_{number}": scores[f"min_ade_{number}"]}
    return {"error": kept.get("end_error", 0.0) + sum(best.values()), **kept, **best}
