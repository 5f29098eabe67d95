"""Tables: the paper's, with its numbers and ours side by side, and how each of ours was made."""

from collections.abc import Mapping
from typing import Any

from gswm.report.cells import (
    FAILED,
    HERE,
    NOTHING,
    UNMEASURED,
    Columns,
    Table,
    cell,
    cells,
    judged,
    number,
)
from gswm.report.figures import ABLATIONS, RULES, SINGLE_BALL, SOLID_RULES
from gswm.report.others import named, others
from gswm.report.paper import BALLS, CENTER_ERROR, FAILS, MODELS, MOTA, SLOTFORMER, Said
from gswm.report.results import FAIL, Results, mean_and_spread, recipe_of

STEPS = (10, 25, 50, 94)


def tables(results: Results) -> dict[str, Table]:
    """All of them, by name."""
    return {
        "error": against_paper(
            results,
            "Center error, summed over the first 10 imagined frames",
            "10 frames are given; the unit is the side of the frame. The paper's numbers are means "
            "and standard deviations of 5 seeds. Where its tables are empty, STOVE does not even "
            f"find the objects; of ours, a model *{FAILED}* whose MOTA is below {FAIL:g}.",
            ("center_error", CENTER_ERROR, 3),
        ),
        "gaps": gaps(results),
        "strict": strict(results),
        "rules": rules(results),
        "mota": against_paper(
            results,
            "Tracking: MOTA",
            "All frames are given; boxes that overlap by a half are the same object.",
            ("mota", MOTA, 4),
        ),
        "tracking": tracking(results),
        "futures": single_ball(results),
        "corridor": maze(results),
        "obj3d": solids(results),
        "collisions": collisions(results),
        "slotformer": slotformer(results),
        **others(results),
        "trainings": trainings(results),
        "evaluations": evaluations(results),
    }


def against_paper(
    results: Results,
    title: str,
    text: str,
    score: tuple[str, Mapping[tuple[str, str], Said], int],
) -> Table:
    """A table of the paper, each of its columns beside one of ours."""
    name, said, digits = score
    head = ["", *(word for model in MODELS for word in (f"{model}, paper", model + HERE))]
    rows = []
    for world in BALLS:
        row = [world]
        for model in MODELS:
            theirs = None if (world, model) in FAILS else said[world, model]
            row.append(FAILED if theirs is None else number(theirs.mean, theirs.spread, digits))
            row.append(judged(results.of(model, recipe_of(model, world)), name, digits))
        rows.append(tuple(row))
    return Table(title, text, tuple(head), tuple(rows))


def gaps(results: Results) -> Table:
    """How far our errors are from the paper's."""

    def gap(world: str, model: str) -> str:
        theirs = CENTER_ERROR.get((world, model))
        measured = results.of(model, recipe_of(model, world))
        found = mean_and_spread([m.scores.get("center_error") for m in measured])
        if not measured or theirs is None or found is None:
            return NOTHING
        return f"{100 * (found[0] / theirs.mean - 1):+.0f} %"

    rows = tuple((world, *(gap(world, model) for model in MODELS)) for world in BALLS)
    text = (
        "Center errors, relative to the paper's means; below 0 is better. What is within its "
        "deviations, in the table above, is no difference."
    )
    return Table("Center error, against the paper", text, ("", *MODELS), rows)


def strict(results: Results) -> Table:
    """What the paper's error does not charge for."""
    columns = {
        "center error": ("center_error", 3),
        "strict error": ("strict_error", 3),
        "mean over all frames": ("center_error_mean", 3),
        "objects found": ("objects", 2),
        "right number": ("count_right", 3),
    }
    rows = [
        (world, model, *cells(measured, columns), str(BALLS[world]))
        for world in BALLS
        for model, measured in (results.models(world) or {"G-SWM": []}).items()
    ]
    text = (
        "The paper's error leaves out objects that were missed, or that are not there. The strict "
        "one charges a frame's side for each, in each frame. *Right number* is the share of frames."
    )
    head = ("", "model", *columns, "true objects")
    return Table("Strict error and object counts", text, head, tuple(rows))


def rules(results: Results) -> Table:
    """What the errors of simple rules are."""
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
        (world, model, *cells(measured, columns))
        for world in BALLS
        for model, measured in (results.models(world) or {"G-SWM": []}).items()
    ]
    text = "MOTP is the mean overlap of the pairs. Misses and the rest are counts over all frames."
    return Table("Tracking: more", text, ("", "model", *columns), tuple(rows))


def single_ball(results: Results) -> Table:
    """Samples of the single ball."""
    columns = {
        **{"left": ("share_0", "%"), "right": ("share_1", "%")},
        **{"within 3 pixels of a true end": ("on_mode", "%"), "both ends found": ("coverage", "%")},
        **{"distance to the nearest end": ("end_error", 4), "min ADE of 10": ("min_ade_10", 4)},
    }
    rows = [
        (name, *cells(results.of(model, recipe), columns))
        for name, (model, recipe) in SINGLE_BALL.items()
    ]
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
        rows.append((name, *cells(measured, columns), ", ".join(steps(m.about) for m in measured)))
    text = (
        "Share of the true agents still in the corridor after so many imagined frames, mean of 10 "
        "samples. Episodes have 99 frames: 5 are given, so that 94 are imagined. The paper has a "
        "curve of the count of its authors' release, which stays near 3.5 after 500,000 steps. "
        "*Intact* are those whose box is about as large as the true one: of those still in the "
        "corridor, and of all, over all frames. *Pace* is 1 if agents are as fast as the true ones."
    )
    head = ("", *columns, "steps trained")
    return Table("Maze, and what the parts of the model do there", text, head, tuple(rows))


def solids(results: Results) -> Table:
    """The 3D world."""
    columns = {
        **{"center error": ("center_error", 3), "strict error": ("strict_error", 3)},
        **{"mean over all frames": ("center_error_mean", 3), "objects found": ("objects", 2)},
        **{"true objects": ("true_objects", 2), "right number": ("count_right", 3)},
        **{"MOTA": ("mota", 4), "PSNR": ("psnr", 2), "SSIM": ("ssim", 3)},
    }
    text = (
        "10 frames are given, before anything touches; 90 are imagined. Errors and counts as "
        "above; PSNR and SSIM are means over all imagined frames. The paper has pictures alone: "
        "of its videos nobody knows where the objects are."
    )
    return Table("3D", text, ("", *columns), solid_rows(results, columns))


def collisions(results: Results) -> Table:
    """Hits in the 3D world."""
    columns = {
        **{"precision": ("collision_precision", 3), "recall": ("collision_recall", 3)},
        **{"F1": ("collision_f1", 3), "frames late": ("collision_delay", 2)},
    }
    text = (
        "Is an imagined object's velocity changed where, and when, the true one is hit? To three "
        "frames: *precision* is of the imagined hits, *recall* of the true ones."
    )
    return Table("3D: collisions", text, ("", *columns), solid_rows(results, columns))


def solid_rows(results: Results, columns: Columns) -> tuple[tuple[str, ...], ...]:
    """A row of the model, and of rules if they were measured."""
    found = {name: results.of(rule, "obj3d") for rule, name in SOLID_RULES.items()}
    found = {"G-SWM": results.of("G-SWM", "obj3d")} | {n: m for n, m in found.items() if m}
    return tuple((name, *cells(measured, columns)) for name, measured in found.items())


def slotformer(results: Results) -> Table:
    """The 3D world, as SlotFormer's authors measure."""
    ours = results.of("G-SWM", "obj3d", "slotformer-6-44")
    columns = {"PSNR": ("psnr", 2), "SSIM": ("ssim", 3)}
    said = [
        (f"{model}, original videos", f"{psnr:.2f}", f"{ssim:.2f}")
        for model, (psnr, ssim) in SLOTFORMER.items()
    ]
    text = (
        "6 frames are given and 44 imagined, of the validation episodes. The other rows are what "
        "SlotFormer's paper says of the original videos, which are not ours: they show what is "
        "usual, and are no comparison."
    )
    rows = (("G-SWM, here", *cells(ours, columns)), *said)
    if stay := results.of("stay", "obj3d", "slotformer-6-44"):
        rows = (rows[0], ("the last given frame, here", *cells(stay, columns)), *rows[1:])
    return Table("3D: by SlotFormer's protocol", text, ("", *columns), rows)


def trainings(results: Results) -> Table:
    """What was trained, and for how long."""
    rows = []
    for m in (m for m in results.all if not m.is_rule):
        about = m.about
        minutes = f"{about['minutes']:.1f}" if "minutes" in about else NOTHING
        known = [str(about.get(key, NOTHING)) for key in ("seed", "device", "commit")]
        seed, device, commit = known
        row = (named(m), m.recipe, steps(about), seed, device, minutes, commit[:7], f"`{m.train}`")
        rows.append((*row, runs(about)))
    head = ("", "recipe", "steps", "seed", "GPU", "GPU minutes", "commit", "command", "runs")
    text = (
        "Steps and GPU minutes are those until these weights, validations included. `RUN` is the "
        "run before, whose weights this one began with: its own steps are counted too."
    )
    return Table("Trainings", text, head, tuple(dict.fromkeys(rows)))


def steps(about: Mapping[str, Any]) -> str:
    """How long weights were trained."""
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
    """How each number can be measured again."""
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
