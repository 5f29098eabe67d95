"""Tables of the paper's numbers beside ours, and of the commands that produced ours."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gswm.eval.protocols import Posterior
from gswm.report.abilities import abilities, failures, step_times
from gswm.report.cells import (
    FAILED,
    HERE,
    NOTHING,
    UNMEASURED,
    Table,
    cell,
    cells,
    judged,
    number,
    partial,
    seeds,
)
from gswm.report.figures import ABLATIONS, RULES, SINGLE_BALL
from gswm.report.others import named, others, own
from gswm.report.paper import BALLS, CENTER_ERROR, FAILS, MODELS, MOTA, TABULATED, Said
from gswm.report.results import (
    FAIL,
    SMALL,
    ResultFile,
    Results,
    mean_and_spread,
    recipe_of,
    standard_error,
)
from gswm.report.space import collisions, slotformer, solids

STEPS = (10, 25, 50, 94)
SAME = "within the error"
MARKED = " †"
"""Marks scores that the text of their table explains."""
SAMPLED = (
    "In columns named *sampled*, models draw samples of the posterior in given frames, as the "
    "release of G-SWM does; elsewhere, they use its mean."
)
BY_MEANS = (
    "In given frames, our models use the mean of the posterior. The release of G-SWM samples it; "
    "`gswm eval --given sample` does the same."
)
OVER_SEEDS = "If we trained several seeds, ours are means and standard deviations too."
BOUNDED = (
    "† SCALOR's recipes limit the size of boxes to within 25 % of the true size of the balls, "
    "which they take from the ground truth. MOTA depends on this limit: a box at the upper limit "
    "has an IoU of 0.64 with its ball, and with a wider limit boxes grow until every IoU is below "
    "0.5."
)
EXTRA = (
    "Training ended with extra steps of the prior alone: for SCALOR those listed under "
    "*Trainings*, for SILOT those from step 11,000 of its recipe on."
)


def tables(results: Results) -> dict[str, Table]:
    """All tables, by name."""
    return {
        **own(results),
        "abilities": abilities(results),
        "error": against_paper(
            results,
            "Center error, summed over the first 10 imagined frames",
            "Models see 10 frames. The unit is the side of the frame. The paper's numbers are "
            f"means and standard deviations over 5 seeds. {OVER_SEEDS} We mark a model as *{FAILED}"
            f"* if its MOTA is below {FAIL:g}; the paper leaves STOVE's cells empty where it does "
            "not find the objects.",
            ("center_error", CENTER_ERROR, 3),
            {f"† {EXTRA}": had_extra_training},
        ),
        "gaps": gaps(results),
        "strict": strict(results),
        "rules": rules(results),
        "mota": against_paper(
            results,
            "Tracking: MOTA",
            "Models see all frames. A box matches an object if their IoU is at least 0.5.",
            ("mota", MOTA, 4),
            {
                BOUNDED: lambda m: m.model == "SCALOR",
                f"{EXTRA} Tracking does not depend on the prior.": had_extra_training,
            },
        ),
        "tracking": tracking(results),
        "futures": single_ball(results),
        "corridor": maze(results),
        "obj3d": solids(results),
        "collisions": collisions(results),
        "slotformer": slotformer(results),
        "digits": digits(results),
        **others(results),
        "steps": step_times(results),
        "failures": failures(results),
        "trainings": trainings(results),
        "evaluations": evaluations(results),
    }


def against_paper(
    results: Results,
    title: str,
    text: str,
    score: tuple[str, Mapping[tuple[str, str], Said], int],
    notes: Mapping[str, Callable[[ResultFile], bool]],
) -> Table:
    """A table of the paper, with our column beside each of the paper's.

    `notes` maps sentences to the results they are about, whose scores are marked.
    """
    name, said, digits = score
    columns = {model: columns_of(results, model) for model in MODELS}
    head = [""]
    for model in MODELS:
        theirs = [f"{model}, paper"] if model in TABULATED else []
        head += [*theirs, *(column + HERE for column in columns[model])]
    rows, told = [], dict[str, None]()
    for world in BALLS:
        row = [world]
        for model in MODELS:
            if model in TABULATED:
                theirs = None if (world, model) in FAILS else said[world, model]
                row.append(FAILED if theirs is None else number(theirs.mean, theirs.spread, digits))
            ours = {
                posterior: results.of(model, recipe_of(model, world), posterior=posterior)
                for posterior in columns[model].values()
            }
            for measured in ours.values():
                about = [note for note, holds in notes.items() if any(map(holds, measured))]
                told |= dict.fromkeys(about)
                shown = judged(measured, name, digits) + (MARKED if about else "")
                otherwise = not measured and any(ours.values())
                row.append(UNMEASURED if otherwise else shown)
        rows.append(tuple(row))
    drawn = any(len(ways) > 1 for ways in columns.values())
    about = [SAMPLED if drawn else BY_MEANS, *(note for note in notes if note in told)]
    text = " ".join([text, *about])
    return Table(title, text, tuple(head), tuple(rows))


def columns_of(results: Results, model: str) -> dict[str, Posterior]:
    """Our columns of a model; if posterior samples were evaluated, they come first."""
    recipes = [recipe_of(model, world) for world in BALLS]
    drawn = any(results.of(model, recipe, posterior="sample") for recipe in recipes)
    columns: dict[str, Posterior] = {f"{model}, sampled": "sample", model: "mean"}
    return columns if drawn else {model: "mean"}


def had_extra_training(measured: ResultFile) -> bool:
    """Whether training ended with the prior alone, as SILOT's recipes do."""
    alone = "prior_only" in measured.train.replace("-", "_")
    return measured.model == "SILOT" or (measured.model == "SCALOR" and alone)


def gaps(results: Results) -> Table:
    """Relative differences between our center errors and the paper's."""
    columns = {model: columns_of(results, model) for model in TABULATED}
    rows = []
    for world in BALLS:
        row = [world]
        for model in TABULATED:
            for posterior in columns[model].values():
                measured = results.of(model, recipe_of(model, world), posterior=posterior)
                row.append(gap(measured, CENTER_ERROR.get((world, model))))
        rows.append(tuple(row))
    text = (
        "Difference between our center error and the paper's mean, relative to the latter; "
        "negative is better. ± is the standard error of our mean over test episodes and seeds; "
        "older result files lack the scores of single episodes that it needs. Do not read "
        f"anything into differences *{SAME}* or within the paper's standard deviations above."
    )
    head = ("", *(name for ours in columns.values() for name in ours))
    drawn = len(head) > 1 + len(TABULATED)
    text += f" {SAMPLED} Compare the columns *sampled* with the paper." if drawn else f" {BY_MEANS}"
    return Table("Center error relative to the paper", text, head, tuple(rows))


def gap(measured: Sequence[ResultFile], theirs: Said | None) -> str:
    """The relative difference in one world, with its standard error."""
    found = mean_and_spread([m.scores.get("center_error") for m in measured])
    if theirs is None or found is None:
        return NOTHING
    apart, error = found[0] - theirs.mean, standard_error(measured, "center_error")
    shown = f"{100 * apart / theirs.mean:+.0f} %"
    if error is None:
        return shown + partial(measured)
    same = f", {SAME}" if abs(apart) <= error else ""
    return f"{shown} ± {100 * error / theirs.mean:.0f} %{same}{partial(measured)}"


def strict(results: Results) -> Table:
    """Errors that count missed and surplus objects, which the paper's error ignores."""
    columns = {
        "center error": ("center_error", 3),
        "strict error": ("strict_error", 3),
        "mean over all frames": ("center_error_mean", 3),
        "one sampled future": ("center_error_sample", 3),
        "objects found": ("objects", 2),
        "right number": ("count_right", 3),
    }
    if not any("center_error_sample" in m.scores for m in results.all):
        del columns["one sampled future"]
    rows = [
        (world, model + seeds(measured), *cells(measured, columns), str(BALLS[world]))
        for world in BALLS
        for model, measured in (results.models(world) or {"G-SWM": []}).items()
    ]
    text = (
        "The paper's error ignores missed and surplus objects. The strict error adds one frame "
        "side for each of them in each frame. *Right number* is the fraction of frames with the "
        "right number of objects."
    )
    if "one sampled future" in columns:
        text += (
            " The first three errors are those of the mean rollout. *One sampled future* is the "
            "center error of a sampled rollout, averaged over several samples."
        )
    head = ("", "model", *columns, "true objects")
    return Table("Strict error and object counts", text, head, tuple(rows))


def rules(results: Results) -> Table:
    """Center errors of the baselines."""
    rows = []
    for world in BALLS:
        found = [results.of(rule, world) for rule in RULES]
        row = (cell(each, "center_error", 3) if each else UNMEASURED for each in found)
        rows.append((world, *row))
    text = "Center error of baselines that know the ground truth of the given frames."
    head = ("", "stationary objects", "simulator without collisions")
    return Table("Non-learned baselines", text, head, tuple(rows))


def tracking(results: Results) -> Table:
    """All tracking metrics."""
    columns = {
        **{"MOTA": ("mota", 4), "MOTP": ("motp", 4), "IDF1": ("idf1", 4), "HOTA": ("hota", 4)},
        **{"misses": ("misses", 0), "false alarms": ("false_alarms", 0)},
        **{"switches": ("switches", 0)},
    }
    rows = [
        (world, model + seeds(measured), *marked(cells(measured, columns), model == "SCALOR"))
        for world in BALLS
        for model, measured in (results.models(world) or {"G-SWM": []}).items()
    ]
    text = (
        "MOTP is the mean IoU of matched pairs. Misses, false alarms and identity switches are "
        "totals over all frames."
    )
    if any(measured.model == "SCALOR" for measured in results.all):
        text += f" {BOUNDED}"
    return Table("Tracking: other metrics", text, ("", "model", *columns), tuple(rows))


def marked(row: list[str], are: bool) -> list[str]:
    """Mark the first cell if `are`."""
    return [row[0] + MARKED, *row[1:]] if are else row


def single_ball(results: Results) -> Table:
    """Sampled futures of the single ball."""
    columns = {
        **{"left": ("share_0", "%"), "right": ("share_1", "%")},
        **{"within 3 pixels of a true end": ("on_mode", "%"), "both ends found": ("coverage", "%")},
        **{"distance to the nearest end": ("end_error", 4), "min ADE of 10": ("min_ade_10", 4)},
    }
    found = {name: results.of(*which) for name, which in SINGLE_BALL.items()}
    rows = [(name + seeds(each), *cells(each, columns)) for name, each in found.items()]
    text = (
        "100 sampled futures of each test episode, after 5 given frames. The paper gives no "
        "numbers: in its pictures, only G-SWM's futures split into the two true paths, and "
        "SCALOR's do in part. Compare the share of futures that end within 3 pixels of a true end. "
        "*Both ends found* says less, because among 100 randomly scattered futures some end near "
        "each."
    )
    return Table("Single ball", text, ("", *columns), tuple(rows))


def maze(results: Results) -> Table:
    """Agents that stay in the corridor, for the model and its ablations."""
    columns = {
        **{f"after {n}": (f"in_corridor_{n}", "%") for n in STEPS},
        **{"mean": ("in_corridor", "%"), "intact, of these": ("intact_inside", "%")},
        **{"intact": ("intact", "%"), "pace": ("pace", 2)},
        **{"agents found": ("objects", 2), "true agents": ("agents", 2)},
        **{"release's count": ("release_count", 2)},
    }
    rows = []
    for recipe, name in ABLATIONS.items():
        measured = results.of("G-SWM", recipe)
        trained = ", ".join(steps(m.about) for m in measured)
        rows.append((name + seeds(measured), *cells(measured, columns), trained))
    text = (
        "Fraction of the true agents that are still in the corridor after 10, 25, 50 and 94 "
        "imagined frames, as a mean over 10 samples. Episodes have 99 frames, of which 5 are "
        "given. The paper plots the count that its authors' release computes; it stays near 3.5 "
        "after 500,000 training steps. An agent is *intact* if its box is about as large as the "
        "true one; the two columns are fractions of the agents in the corridor and of all agents, "
        "over all frames. *Pace* is the speed of agents relative to the true speed."
    )
    head = ("", *columns, "steps trained")
    return Table("Maze and ablations", text, head, tuple(rows))


def digits(results: Results) -> Table:
    """Counts, tracking and errors for digits that enter and leave."""
    columns = {
        **{"right number": ("count_right", "%"), "objects found": ("objects", 2)},
        **{"true objects": ("true_objects", 2), "MOTA": ("mota", 4), "IDF1": ("idf1", 4)},
        **{"center error": ("center_error", 3), "strict error": ("strict_error", 3)},
    }
    found = results.models("digits")
    rows = tuple(
        (name + variant(each) + seeds(each), *cells(each, columns)) for name, each in found.items()
    )
    text = (
        "SQAIR's test case, which is not in the paper of G-SWM. Counts and tracking are measured "
        "in the 20 frames that the model sees, errors over the 10 frames that it imagines after 10."
    )
    return Table("Digits that enter and leave", text, ("", *columns), rows)


def variant(measured: Sequence[ResultFile]) -> str:
    """The name of the recipe, if it is a variant for a CPU."""
    recipe = measured[0].recipe
    return f" ({recipe})" if recipe.endswith(SMALL) else ""


def trainings(results: Results) -> Table:
    """The training of each model, and its cost."""
    rows = []
    for m in (m for m in results.all if not m.is_rule):
        about = m.about
        minutes = f"{about['minutes']:.1f}" if "minutes" in about else NOTHING
        device, commit = (str(about.get(key) or NOTHING) for key in ("device", "commit"))
        seed = str(m.trained_seed)
        row = (named(m), m.recipe, steps(about), seed, device, minutes, commit[:7], f"`{m.train}`")
        rows.append((*row, runs(about)))
    head = ("", "recipe", "steps", "seed", "device", "minutes", "commit", "command", "runs")
    text = (
        "Steps and minutes up to the weights that were evaluated, including validations. `RUN` "
        "stands for the previous run, whose weights this one started from; its steps are included."
    )
    return Table("Trainings", text, head, tuple(dict.fromkeys(rows)))


def steps(about: Mapping[str, Any]) -> str:
    """The number of training steps, or a placeholder."""
    return f"{about['step']:,}" if "step" in about else NOTHING


def runs(about: Mapping[str, Any]) -> str:
    """The runs that led to the weights, in words."""
    if "runs" in about:
        return about["runs"]
    began = about.get("began", {})
    parts = [f"`{run['command']}` to step {run['step']:,}" for run in began.get("runs", [])]
    if not parts and (before := began.get("step", 0)):
        parts = [f"{before:,} steps"]
    return ", then ".join([*parts, "this one"]) if parts else "one"


def evaluations(results: Results) -> Table:
    """The commands that reproduce the numbers."""
    rows = tuple(
        (
            *(f"`{m.command}`", m.world, m.protocol, str(m.episodes), str(m.seed)),
            *(m.device, m.commit or NOTHING),
        )
        for m in results.all
    )
    head = ("command", "world", "protocol", "episodes", "seed", "device", "commit")
    text = (
        "Each row is one command. Shipped weights are stored in the compact encoding or in half "
        "precision. Some were evaluated before they were encoded; docs/weights.md has the cost."
    )
    return Table("Evaluations", text, head, rows)
