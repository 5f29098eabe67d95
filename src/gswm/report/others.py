"""The table of results that belong to no table of the paper's worlds."""

from itertools import chain

from gswm.eval.protocols import PROTOCOLS
from gswm.report.cells import NOTHING, Columns, N, Table, cell
from gswm.report.figures import ABLATIONS, RULES, SINGLE_BALL, SOLID_RULES
from gswm.report.paper import BALLS, MODELS, OTHER_TESTS, SOLIDS
from gswm.report.results import ResultFile, Results, recipe_of
from gswm.report.space import PROTOCOL

SCORES: Columns = {
    **{"center error": ("center_error", 3), "strict error": ("strict_error", 3)},
    **{"MOTA": ("mota", 4), "in the corridor": ("in_corridor", "%")},
    **{"within 3 pixels of a true end": ("on_mode", "%"), "min ADE of 10": ("min_ade_10", 4)},
    **{"PSNR": ("psnr", 2), "SSIM": ("ssim", 3), "LPIPS": ("lpips", 3)},
    **{"objects found": ("objects", 2), "true objects": ("true_objects", 2)},
}
HEAD = ("", "recipe", "world", "protocol", "episodes", "scores")


def others(results: Results) -> dict[str, Table]:
    """The table by its name, with a row for each result; empty if there are no such results."""
    shown = shown_elsewhere(results)
    rows = [row(m) for m in results.all if m not in shown and not m.is_own]
    text = (
        "Results that appear in no other table: evaluations on your own files, in other worlds "
        "than the model was trained on, or with another protocol or split. If one model was "
        "evaluated several times, the other tables use the evaluation with the most episodes, and "
        "the rest are listed here."
    )
    table = Table("Other results", text, HEAD, tuple(dict.fromkeys(rows)))
    return {"others": table} if rows else {}


def own(results: Results) -> dict[str, Table]:
    """The table of the user's models by its name; empty if there are none."""
    rows = [row(m) for m in results.all if m.is_own]
    text = (
        "Results of your own models. The other tables compare them with the paper's, unless they "
        "have results of the shipped weights."
    )
    table = Table("Your results", text, HEAD, tuple(dict.fromkeys(rows)))
    return {"own": table} if rows else {}


def row(measured: ResultFile) -> tuple[str, ...]:
    """A result in one row."""
    m = measured
    episodes = (N if m.is_partial else "") + str(m.episodes)
    recipe = NOTHING if m.is_rule else m.recipe
    return named(m), recipe, m.world, measured_by(m), episodes, in_words(m)


def shown_elsewhere(results: Results) -> list[ResultFile]:
    """The results in the tables of the paper's worlds."""
    worlds = (*BALLS, *SOLIDS, *OTHER_TESTS, "maze")
    which = [(model, recipe_of(model, world)) for model in MODELS for world in worlds]
    which += [(rule, world) for rule in RULES for world in BALLS]
    which += [*SINGLE_BALL.values(), *(("G-SWM", recipe) for recipe in ABLATIONS)]
    which += [(rule, world) for rule in SOLID_RULES for world in SOLIDS]
    which = list(dict.fromkeys(which))
    by_pixels = (results.models(world, PROTOCOL).values() for world in SOLIDS)
    by_pixels = [*results.of("stay", "obj3d", PROTOCOL), *chain(*chain(*by_pixels))]
    drawn = [
        m
        for model in MODELS
        for world in BALLS
        for m in results.of(model, recipe_of(model, world), posterior="sample")
    ]
    return [*(m for each in which for m in results.of(*each)), *by_pixels, *drawn]


def named(measured: ResultFile) -> str:
    """The name of a model in the tables of its world."""
    which = measured.model, measured.recipe
    if measured.is_rule:
        return (RULES | SOLID_RULES).get(which[0], which[0])
    if which[0] == "G-SWM" and ABLATIONS.get(which[1], "G-SWM") != "G-SWM":
        return f"G-SWM, {ABLATIONS[which[1]]}"
    return next((name for name, ours in SINGLE_BALL.items() if ours == which), measured.model)


def measured_by(measured: ResultFile) -> str:
    """The protocol, the split if it is not the protocol's own, and whether z was sampled."""
    rules = PROTOCOLS.get(measured.protocol)
    usual = rules is not None and rules.split == measured.split
    split = "" if usual else f", {measured.split}"
    return measured.protocol + split + (", given sampled" if measured.posterior != "mean" else "")


def in_words(measured: ResultFile) -> str:
    """The main scores that were measured, separated by commas."""
    made = {name: cell([measured], *score) for name, score in SCORES.items()}
    cells = {name: each.partition(f", {N}")[0] for name, each in made.items()}
    return ", ".join(f"{name} {c}" for name, c in cells.items() if c != NOTHING) or NOTHING
