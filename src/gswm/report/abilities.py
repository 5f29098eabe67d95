"""Abilities: the paper's Table 1 from measurements, and how models that lack one were trained.

A model has an ability if its score in a world reaches a threshold, or beats a baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any

from gswm.report.cells import (
    HAS,
    HERE,
    LACKS,
    NOTHING,
    UNMEASURED,
    Digits,
    Table,
    number,
    partial,
    seeds,
)
from gswm.report.paper import ABILITIES, MODELS
from gswm.report.results import ResultFile, Results, StepTime, mean_and_spread, model_of, recipe_of

MOST = 0.9
"""The fraction of objects, frames or futures that must be right."""
FEW, MANY = 2, 16
"""The two numbers of object slots at which training steps are timed."""
GROWTH = MANY / FEW / 2
"""Upper bound on the ratio of the two times: half the ratio of the slots."""


@dataclass(frozen=True)
class Criterion:
    """The score that a model must reach in a world to have an ability."""

    title: str
    """The ability's name in Table 1, if it is there; a detail may follow after a colon."""
    world: str
    score: str
    words: str
    """The score, in words."""
    digits: Digits
    least: float | None = MOST
    """The threshold; None if there is a `rule` instead."""
    rule: str = ""
    """A baseline of `eval.baselines` whose center error in the same world the score must beat."""
    easier: str = ""
    """An easier world with the same criterion, which is not part of the table of abilities."""


CRITERIA = (
    Criterion("Discovery", "digits", "count_right", "right number of objects", "%"),
    Criterion(
        *("Interaction", "interaction", "strict_error", "strict error", 3),
        least=None,
        rule="walls",
    ),
    Criterion("Occlusion", "occlusion", "idf1", "IDF1", 3),
    Criterion(
        *("Interaction behind occlusion", "two-layer", "strict_error", "strict error", 3),
        least=None,
        rule="walls",
    ),
    Criterion("Scalability: tracking", "two-layer-dense", "mota", "MOTA", 3),
    Criterion(
        *("Background", "obj3d", "reconstruction_gain", "dB above the mean image", 1),
        least=6.0,
        easier="obj3d-two",
    ),
    Criterion(
        *("Motion in 3D", "obj3d", "moved_along", "motion along the true path", 2),
        least=0.5,
        easier="obj3d-two",
    ),
    Criterion("Uncertainty", "single-ball", "on_mode", "futures at a true end", "%"),
    Criterion("Situated", "maze", "in_corridor_10", "in the corridor after 10 frames", "%"),
)
COMPARED = set().union(*ABILITIES.values())
"""The models of Table 1."""
NO_BACKGROUND = "no background"
BY_DESIGN = {
    ("Discovery", "STOVE"): "K objects in every frame",
    **{
        (title, model): NO_BACKGROUND
        for title in ("Background", "Situated")
        for model in ("SILOT", "SQAIR")
    },
    **{("Situated", model): "objects do not see the background" for model in ("SCALOR", "STOVE")},
}
"""Abilities that a model cannot have, and why. The table says so where no training was measured."""
TIME = "Scalability: time"
AFTER = "Scalability: tracking"
"""The row before that of the times."""


@dataclass(frozen=True)
class Mark:
    """Whether a model meets a criterion, and by which score."""

    holds: bool
    score: str


def abilities(results: Results) -> Table:
    """Table 1, filled from measurements."""
    head = [""]
    for model in MODELS:
        head += [f"{model}, paper", model + HERE] if model in COMPARED else [model + HERE]
    rows = []
    for criterion in CRITERIA:
        found = {model: verdict(results, criterion, model) for model in MODELS}
        rows.append(ability_row(criterion.title, designed(criterion, found), ruled(criterion)))
        if criterion.title == AFTER:
            times = {model: time_verdict(results.steps, model) for model in MODELS}
            rule = (
                f"a training step with K = {MANY} takes less than {GROWTH:g} times as long as with "
                f"K = {FEW}"
            )
            rows.append(ability_row(TIME, times, rule))
    text = (
        f"A model has an ability ({HAS}) if its score meets the criterion in the last column, and "
        f"lacks it ({LACKS}) otherwise. The number beside the mark is the score; the one in "
        "parentheses is the score of the baseline to beat. Words beside the mark are the reason "
        "why a model cannot have the ability; it was not trained there. The paper's marks are from "
        "its Table 1, which gives neither numbers nor criteria."
    )
    return Table("Abilities", text, (*head, "criterion"), tuple(rows))


def designed(criterion: Criterion, found: dict[str, Mark | None]) -> dict[str, Mark | None]:
    """The marks of a criterion, with those of `BY_DESIGN` if any model was measured."""
    if not any(found.values()):
        return found
    reasons = {model: BY_DESIGN.get((criterion.title, model)) for model in found}
    return {
        model: Mark(holds=False, score=reason) if mark is None and reason else mark
        for (model, mark), reason in zip(found.items(), reasons.values(), strict=True)
    }


def ability_row(title: str, found: dict[str, Mark | None], rule: str) -> tuple[str, ...]:
    """The row of an ability: the paper's mark and ours for each model, and the criterion."""
    row, theirs = [title], ABILITIES.get(title.partition(":")[0], {})
    for model, ours in found.items():
        if model in COMPARED:
            row.append(marked(theirs[model]) if theirs else NOTHING)
        row.append(UNMEASURED if ours is None else f"{marked(ours.holds)} {ours.score}")
    return (*row, rule)


def marked(holds: bool) -> str:
    """The mark for an ability, or for its lack."""
    return HAS if holds else LACKS


def ruled(criterion: Criterion) -> str:
    """A criterion in words."""
    score = f"{criterion.words} on {criterion.world}"
    if criterion.least is None:
        return f"{score} below that of a simulator without collisions"
    return f"{score}: at least {number(criterion.least, 0.0, criterion.digits)}"


def verdict(results: Results, criterion: Criterion, model: str, world: str = "") -> Mark | None:
    """Whether a model meets a criterion, in its world or another one; None if not measured."""
    world = world or criterion.world
    measured = results.of(model, recipe_of(model, world))
    found = mean_and_spread([m.scores.get(criterion.score) for m in measured])
    if found is None:
        return None
    shown = number(*found, criterion.digits) + partial(measured) + seeds(measured)
    if criterion.least is not None:
        return Mark(found[0] >= criterion.least, shown)
    rule = mean_and_spread(
        [m.scores.get("center_error") for m in results.of(criterion.rule, world)]
    )
    if rule is None:
        return None
    bound = number(rule[0], 0.0, criterion.digits)
    return Mark(found[0] < rule[0], f"{shown} ({bound})")


def growth(steps: Sequence[StepTime], recipe: str) -> float | None:
    """The ratio of the step times with many and with few slots; None if not measured."""
    times: dict[tuple[Any, ...], dict[int, float]] = {}
    for step in steps:
        if step.recipe == recipe:
            times.setdefault(step.setting, {})[step.slots] = step.ms
    ratios = [ms[MANY] / ms[FEW] for ms in times.values() if {FEW, MANY} <= ms.keys() and ms[FEW]]
    return fmean(ratios) if ratios else None


def time_verdict(steps: Sequence[StepTime], model: str) -> Mark | None:
    """Whether the step time of a model grows slowly with the slots, in the worst of its recipes."""
    recipes = {step.recipe for step in steps if model_of(step.recipe) == model}
    ratios = [ratio for name in recipes if (ratio := growth(steps, name)) is not None]
    return Mark(max(ratios) < GROWTH, f"{max(ratios):.1f} times") if ratios else None


def step_times(results: Results) -> Table:
    """Times of a training step, by the number of slots."""
    slots = sorted({step.slots for step in results.steps})
    cases = dict.fromkeys((step.recipe, step.setting) for step in results.steps)
    rows = []
    for recipe, setting in cases:
        of = [s for s in results.steps if (s.recipe, s.setting) == (recipe, setting)]
        ms = {step.slots: f"{step.ms:,.1f}" for step in of}
        device, path, batch, length = setting
        ratio = growth(of, recipe)
        grown = NOTHING if ratio is None else f"{ratio:.1f} times"
        times = (ms.get(number, NOTHING) for number in slots)
        where = f"{device}, {path}, batch {batch}, T = {length}"
        rows.append((recipe, model_of(recipe), *times, grown, where))
    head = ("", "model", *(f"K = {number}" for number in slots), f"{MANY} over {FEW}", "measured")
    text = (
        "Milliseconds per training step with K object slots, measured by `gswm bench train "
        "--json`. Models that infer objects one after another take longer with each slot."
    )
    return Table("Step time by number of slots", text, head, tuple(rows))


def lacking(results: Results) -> list[tuple[str, Criterion, Mark]]:
    """Models that were trained in the world of a criterion and do not meet it."""
    found = ((m, c, verdict(results, c, m)) for c, m in product(CRITERIA, MODELS))
    return [(m, c, v) for m, c, v in found if v is not None and not v.holds]


def failures(results: Results) -> Table:
    """For each ability that a model lacks: how its training went, and where the model works."""
    rows = []
    for model, criterion, ours in lacking(results):
        measured = results.of(model, recipe_of(model, criterion.world))
        score = f"{LACKS} {criterion.words} {ours.score}"
        works = where_it_works(results, model, criterion)
        rows.append((model, criterion.title, criterion.world, score, *validated(measured), works))
    head = (
        "",
        "lacks",
        "world",
        "score",
        "first validation",
        "first half",
        "second half",
        "works on",
    )
    text = (
        "Would more training help? The columns show the first validation error, and the lowest "
        "one in each half of training. If the second half hardly improves on the first, more steps "
        "are unlikely to help. Validation errors are strict errors; in worlds with several "
        "futures, distances between sampled and true ones; for OP3, mean squared errors per pixel. "
        "*Works on* lists criteria that the same model meets in other worlds. The curves are under "
        "*Trainings*."
    )
    return Table("Missing abilities and training", text, head, tuple(rows))


def validated(measured: Sequence[ResultFile]) -> tuple[str, ...]:
    """The validation errors of a training: the first, and the best of each half."""
    points = next((m.about["curve"] for m in measured if m.about.get("curve")), [])
    if not points:
        return NOTHING, NOTHING, NOTHING
    last = points[-1][0]
    halves = (
        [error for step, _, error in points if (2 * step > last) == later]
        for later in (False, True)
    )
    best = (f"{min(half):.3g}" if half else NOTHING for half in halves)
    return f"{points[0][2]:.3g}", *best


def where_it_works(results: Results, model: str, but: Criterion) -> str:
    """The worlds in which a model meets a criterion, and its scores there."""
    found = []
    for criterion in CRITERIA:
        for world in filter(None, (criterion.world, criterion.easier)):
            if (criterion.score, world) == (but.score, but.world):
                continue
            ours = verdict(results, criterion, model, world)
            if ours is not None and ours.holds:
                found.append(f"{world}: {criterion.words} {ours.score}")
    return "; ".join(found) or "no measured criterion"
