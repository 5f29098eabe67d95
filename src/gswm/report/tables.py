"""Tables: the paper's, with its numbers and ours side by side, and how each of ours was made."""

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
    seeds,
)
from gswm.report.figures import ABLATIONS, RULES, SINGLE_BALL
from gswm.report.others import named, others
from gswm.report.paper import BALLS, CENTER_ERROR, FAILS, MODELS, MOTA, TABULATED, Said
from gswm.report.results import (
    FAIL,
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
"""After scores that the text of their table explains."""
SAMPLED = (
    "Under *sampled*, models infer the frames they see by samples of the posterior, as the release "
    "of G-SWM does, and otherwise by its means."
)
BY_MEANS = (
    "Our models infer the frames they see by the means of the posterior; the release of G-SWM "
    "samples it, which `gswm eval --given sample` does."
)
OVER_SEEDS = "Where ours are of several seeds, they are means and standard deviations too."
BOUNDED = (
    "† SCALOR's recipes bound the size of boxes to a quarter more or less than the true size of "
    "the balls, which they take from the ground truth. A box at the upper bound overlaps its ball "
    "by 0.64; with a wider bound boxes grow until none overlaps by a half, so MOTA depends on it."
)
EXTRA = (
    "The prior received extra training: after all else it learned alone, SCALOR's for the steps "
    "listed under *Trainings*, SILOT's from step 11,000 of its recipe on."
)


def tables(results: Results) -> dict[str, Table]:
    """All of them, by name."""
    return {
        "abilities": abilities(results),
        "error": against_paper(
            results,
            "Center error, summed over the first 10 imagined frames",
            "10 frames are given; the unit is the side of the frame. The paper's numbers are means "
            f"and standard deviations of 5 seeds. {OVER_SEEDS} Where its tables are empty, STOVE "
            f"does not even find the objects; of ours, a model *{FAILED}* whose MOTA is below "
            f"{FAIL:g}.",
            ("center_error", CENTER_ERROR, 3),
            {f"† {EXTRA}": had_extra_training},
        ),
        "gaps": gaps(results),
        "strict": strict(results),
        "rules": rules(results),
        "mota": against_paper(
            results,
            "Tracking: MOTA",
            "All frames are given; boxes that overlap by a half are the same object.",
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
    """A table of the paper, each of its columns beside ours.

    `notes` are sentences about some results; scores of these have a mark.
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
    """Our columns of a model beside the paper's: that of the release's protocol first, if any."""
    recipes = [recipe_of(model, world) for world in BALLS]
    drawn = any(results.of(model, recipe, posterior="sample") for recipe in recipes)
    columns: dict[str, Posterior] = {f"{model}, sampled": "sample", model: "mean"}
    return columns if drawn else {model: "mean"}


def had_extra_training(measured: ResultFile) -> bool:
    """Whether the prior learned alone after all else; SILOT's recipes end so."""
    alone = "prior_only" in measured.train.replace("-", "_")
    return measured.model == "SILOT" or (measured.model == "SCALOR" and alone)


def gaps(results: Results) -> Table:
    """Differences between our errors and the paper's."""
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
        "Center errors, relative to the paper's means; below 0 is better. After ± is the standard "
        "error of our mean over the test episodes and, if there are several, over seeds; results "
        f"without scores of single episodes have none. A gap *{SAME}* is no difference, and "
        "neither is one within the paper's deviations in the table above."
    )
    head = ("", *(name for ours in columns.values() for name in ours))
    drawn = len(head) > 1 + len(TABULATED)
    text += f" {SAMPLED} Compare the columns *sampled* with the paper." if drawn else f" {BY_MEANS}"
    return Table("Center error, against the paper", text, head, tuple(rows))


def gap(measured: Sequence[ResultFile], theirs: Said | None) -> str:
    """Differences between our errors in a world and the paper's."""
    found = mean_and_spread([m.scores.get("center_error") for m in measured])
    if theirs is None or found is None:
        return NOTHING
    apart, error = found[0] - theirs.mean, standard_error(measured, "center_error")
    shown = f"{100 * apart / theirs.mean:+.0f} %"
    if error is None:
        return shown
    same = f", {SAME}" if abs(apart) <= error else ""
    return f"{shown} ± {100 * error / theirs.mean:.0f} %{same}"


def strict(results: Results) -> Table:
    """Missed and surplus objects, which the paper's error ignores."""
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
        "The paper's error leaves out objects that were missed, or that are not there. The strict "
        "one charges a frame's side for each, in each frame. *Right number* is the share of frames."
    )
    if "one sampled future" in columns:
        text += (
            " The first three errors are those of the mean rollout; *one sampled future* is the "
            "center error of a sample, as a mean over several."
        )
    head = ("", "model", *columns, "true objects")
    return Table("Strict error and object counts", text, head, tuple(rows))


def rules(results: Results) -> Table:
    """Errors of non-learned baselines."""
    rows = []
    for world in BALLS:
        found = [results.of(rule, world) for rule in RULES]
        row = (cell(each, "center_error", 3) if each else UNMEASURED for each in found)
        rows.append((world, *row))
    text = "Rules that know the truth about the given frames: center error, as above."
    head = ("", "everything stays", "a simulator without collisions")
    return Table("Rules to read it by", text, head, tuple(rows))


def tracking(results: Results) -> Table:
    """More about tracking."""
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
    text = "MOTP is the mean overlap of the pairs. Misses and the rest are counts over all frames."
    if any(measured.model == "SCALOR" for measured in results.all):
        text += f" {BOUNDED}"
    return Table("Tracking: more", text, ("", "model", *columns), tuple(rows))


def marked(row: list[str], are: bool) -> list[str]:
    """Cells of which the first, if it is about something special, has a mark."""
    return [row[0] + MARKED, *row[1:]] if are else row


def single_ball(results: Results) -> Table:
    """Samples of the single ball."""
    columns = {
        **{"left": ("share_0", "%"), "right": ("share_1", "%")},
        **{"within 3 pixels of a true end": ("on_mode", "%"), "both ends found": ("coverage", "%")},
        **{"distance to the nearest end": ("end_error", 4), "min ADE of 10": ("min_ade_10", 4)},
    }
    found = {name: results.of(*which) for name, which in SINGLE_BALL.items()}
    rows = [(name + seeds(each), *cells(each, columns)) for name, each in found.items()]
    text = (
        "100 futures of each of the test episodes, after 5 given frames. The paper gives no "
        "numbers: in its pictures only G-SWM splits into the two ways, and SCALOR in part. What "
        "tells it here is the share that comes out at a true end; of 100 futures that are "
        "scattered anywhere some come near both (*both ends found*)."
    )
    return Table("Single ball", text, ("", *columns), tuple(rows))


def maze(results: Results) -> Table:
    """Agents in the corridor."""
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
        "Share of the true agents still in the corridor after so many imagined frames, mean of 10 "
        "samples. Episodes have 99 frames: 5 are given, so that 94 are imagined. The paper has a "
        "curve of the count of its authors' release, which stays near 3.5 after 500,000 steps. "
        "*Intact* are those whose box is about as large as the true one: of those still in the "
        "corridor, and of all, over all frames. *Pace* is 1 if agents are as fast as the true ones."
    )
    head = ("", *columns, "steps trained")
    return Table("Maze, and what the parts of the model do there", text, head, tuple(rows))


def digits(results: Results) -> Table:
    """Digits that enter and leave."""
    columns = {
        **{"right number": ("count_right", "%"), "objects found": ("objects", 2)},
        **{"true objects": ("true_objects", 2), "MOTA": ("mota", 4), "IDF1": ("idf1", 4)},
        **{"center error": ("center_error", 3), "strict error": ("strict_error", 3)},
    }
    found = results.models("digits")
    rows = tuple((name + seeds(each), *cells(each, columns)) for name, each in found.items())
    text = (
        "The test case of SQAIR, which is not in the paper. Counts and tracking are of frames that "
        "the model sees, errors of the 10 frames that it imagines after the first 10."
    )
    return Table("Digits that enter and leave", text, ("", *columns), rows)


def trainings(results: Results) -> Table:
    """The trainings and their cost."""
    rows = []
    for m in (m for m in results.all if not m.is_rule):
        about = m.about
        minutes = f"{about['minutes']:.1f}" if "minutes" in about else NOTHING
        device, commit = (str(about.get(key, NOTHING)) for key in ("device", "commit"))
        seed = str(m.trained_seed)
        row = (named(m), m.recipe, steps(about), seed, device, minutes, commit[:7], f"`{m.train}`")
        rows.append((*row, runs(about)))
    head = ("", "recipe", "steps", "seed", "device", "minutes", "commit", "command", "runs")
    text = (
        "Steps and minutes are those until these weights, validations included. `RUN` is the "
        "run before, whose weights this one began with: its own steps are counted too."
    )
    return Table("Trainings", text, head, tuple(dict.fromkeys(rows)))


def steps(about: Mapping[str, Any]) -> str:
    """The training time of weights."""
    return f"{about['step']:,}" if "step" in about else NOTHING


def runs(about: Mapping[str, Any]) -> str:
    """In how many runs weights were trained, and whatever else is known of these."""
    if "runs" in about:
        return about["runs"]
    began = about.get("began", {})
    parts = [f"`{run['command']}` to step {run['step']:,}" for run in began.get("runs", [])]
    if not parts and (before := began.get("step", 0)):
        parts = [f"{before:,} steps"]
    return ", then ".join([*parts, "this one"]) if parts else "one"


def evaluations(results: Results) -> Table:
    """The commands that measure each number again."""
    rows = tuple(
        (
            *(f"`{m.command}`", m.world, m.protocol, str(m.episodes), str(m.seed)),
            *(m.device, m.commit or NOTHING),
        )
        for m in results.all
    )
    head = ("command", "world", "protocol", "episodes", "seed", "device", "commit")
    text = (
        "Weights that ship are in half precision; the numbers are theirs. One command is one row."
    )
    return Table("Evaluations", text, head, rows)
