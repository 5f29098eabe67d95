"""The paper's figures, drawn from result files. Figures without results are left out."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gswm.eval.metrics.distance import LIMIT
from gswm.eval.stills import STEPS
from gswm.report import trajectories
from gswm.report.abilities import lacking
from gswm.report.cells import FAILED
from gswm.report.charts import BLUE, GREEN, PURPLE, SKY, VERMILION, Chart, Charts, Series
from gswm.report.drawing import Drawing, Label, rows
from gswm.report.filmstrips import digits, other_stills, solids, tracking
from gswm.report.paper import BALLS, CENTER_ERROR, MODELS, OTHER_TESTS, SOLIDS
from gswm.report.results import ResultFile, Results, curve, fails, recipe_of, style_of
from gswm.viz.pictures import Picture

ORANGE = "#e69f00"
"""From the same palette as the colors in `charts`."""
COLORS = {
    **{"G-SWM": BLUE, "SCALOR": VERMILION, "STOVE": GREEN},
    **{"SILOT": PURPLE, "SQAIR": SKY, "OP3": ORANGE},
    **{"maze": BLUE, "maze-no-mu": VERMILION, "maze-no-aoe": GREEN, "maze-no-sa": PURPLE},
    **dict(zip(BALLS, (BLUE, GREEN, PURPLE, VERMILION), strict=True)),
    **{"obj3d": SKY, "obj3d-128": ORANGE, "obj3d-two": ORANGE, "digits": ORANGE},
}
RULES = {"stay": "stationary", "walls": "no collisions"}
SOLID_RULES = {"stay": "stationary", "straight": "constant velocity"}
"""Baselines of the ball worlds and of the 3D worlds, with their labels; the second is dashed."""
ABLATIONS = {
    **{"maze": "G-SWM", "maze-no-mu": "without MU"},
    **{"maze-no-aoe": "without AOE", "maze-no-sa": "without SA"},
}
SINGLE_BALL = {
    **{"G-SWM": ("G-SWM", "single-ball"), "G-SWM-D": ("G-SWM", "single-ball-d")},
    **{model: (model, recipe_of(model, "single-ball")) for model in MODELS[1:]},
}
PANELS, WIDE, GAP = 6, 990, 18
"""Maximum number of panels in a row, the width of a row, and the gap between panels."""
SHOWN, FEWER, MANY = 20, 8, 10
"""Imagined frames drawn (Fig. 2), and the number of balls drawn in worlds with `MANY` or more."""
UNTRAINED = 4.0
"""Strict errors above this are not drawn: the model has hardly learned yet."""
ROLLOUTS = ("G-SWM", "SILOT")
"""The models whose rollouts are drawn frame by frame, as in the paper's appendix."""
GIVEN, STEPS_AHEAD, LABELS, CLOSE = (5, 10), (1, 5, 10, 15, 20, 30, 40), 104, 6
"""Given and imagined frames of that figure, the width of its labels, and the gap between frames."""
SAMPLES = 4
AHEAD = 14
"""Imagined frames drawn in a maze (Fig. 4)."""

CAPTIONS = {
    "error": "Center error at each imagined frame, averaged over the test episodes, as a fraction "
    "of the frame's side. Thin lines show the strict error, which also counts missed and surplus "
    "objects. Gray lines show baselines: stationary objects (solid) and a simulator without "
    f"collisions (dashed). Values above {LIMIT:g}, and strict errors above all center errors, are "
    "not drawn.",
    "ways": f"Ground truth and rollouts: the {SHOWN} frames after the given ones (faint). In "
    f"worlds with {MANY} or more balls, only the first {FEWER} are drawn. Each dot is one frame; "
    "circles mark the final positions.",
    "silot": f"Given frames {' and '.join(map(str, GIVEN))}, then ground truth and rollouts at the "
    "given steps, as in the paper's figure of SILOT. Disks have the true sizes and colors.",
    "futures": "All sampled futures of one single-ball episode. The ball can turn left or right.",
    "maze": f"Maze: the given frames, all sampled futures superimposed, and {SAMPLES} single "
    f"samples, {AHEAD} imagined frames each.",
    "corridor": "Maze: fraction of the true agents that are still in the corridor, matched by "
    "identity, and the count of the authors' release, which goes by slot.",
    "learning": "Validation during training: strict error, summed over the first 10 imagined "
    "frames, against training time; one line for each seed. Several trainings may have shared the "
    "GPU. Dashed lines show the paper's center error in the same world, which ignores missed and "
    f"surplus objects. Values above {UNTRAINED:g} are not drawn. For OP3, the curve is the mean "
    "squared error per pixel. A world is labeled *fails* if the model lacks an ability there; see "
    "the table of missing abilities.",
    "obj3d": "Rollouts of 90 frames after 10 given frames, at steps "
    f"{', '.join(map(str, STEPS[:-1]))} and {STEPS[-1]}. Imagined frames have a border. Each "
    "imagined object carries the id of the true object it was matched to in the last given frame.",
    "obj3d-128": "The same in frames of 128 × 128 pixels.",
    "obj3d-two": "The same with two objects per scene.",
    "obj3d-curves": "The 3D world: scores at each imagined frame, averaged over the test episodes. "
    "Thin lines show the strict error. Gray lines show baselines: stationary objects (solid) and "
    "constant velocity (dashed).",
    "tracking": "Tracking in given frames. Boxes with the same id belong to the same object.",
    "digits": "Tracking of digits that enter and leave. Boxes with the same id belong to the same "
    "object.",
    "own": "Your results: ground truth and rollout of one episode for each model.",
    "own-stills": "Your results: ground truth, and rollouts (with a border).",
    "others": "Other worlds: ground truth and rollout of one episode for each model.",
    "others-stills": "Other worlds: ground truth, and rollouts (with a border).",
}


def figures(results: Results) -> dict[str, Drawing | Charts | Picture]:
    """All figures that can be drawn from these results, by name."""
    makers: dict[str, Callable[[Results], Drawing | Charts | Picture | None]] = {
        **{"error": error, "ways": ball_ways, "silot": rollouts, "tracking": tracking},
        **{"digits": digits, "learning": learning},
        **{"futures": single_ball, "maze": maze, "corridor": corridor},
        **{world: partial(solids, world=world) for world in SOLIDS},
        "obj3d-curves": solid_curves,
        "own": lambda results: other_ways(results.own()),
        "own-stills": lambda results: other_stills(results.own()),
        "others": lambda results: other_ways(results.of_other_worlds()),
        "others-stills": lambda results: other_stills(results.of_other_worlds()),
    }
    made = {name: maker(results) for name, maker in makers.items()}
    return {name: figure for name, figure in made.items() if figure is not None}


def error(results: Results) -> Charts | None:
    """Center error at each imagined frame (Fig. 5)."""
    panels = []
    for world in BALLS:
        series = errors(results, world, results.models(world))
        sides = "imagined frame", "frame sides"
        panels.append(Chart(world, series, *sides, top=0.5, roof=LIMIT))
    return Charts.of(panels)


def errors(results: Results, world: str, models: dict[str, list[ResultFile]]) -> list[Series]:
    """Curves of the baselines and the models, with thin lines for the strict error.

    In the ball worlds, strict errors above all center errors are left out, and the labels of failed
    models say so.
    """
    series = []
    flat = style_of(world) == "paths"
    for i, (rule, name) in enumerate((RULES if flat else SOLID_RULES).items()):
        values, _ = curve(results.of(rule, world), "center_error")
        series.append(Series(name, values, "faint", width=1.0, dash=i > 0))
    for model, measured in models.items():
        values, spread = curve(measured, "center_error")
        name = f"{model} fails" if flat and fails(measured) else model
        series.append(Series(name, values, COLORS[model], spread=spread))
    known = (v for s in series for v in s.values if v is not None)
    high = min(LIMIT, max(known, default=LIMIT)) if flat else LIMIT
    for model, measured in models.items():
        strict, _ = curve(measured, "strict_error")
        inside = [None if v is None or v > high else v for v in strict]
        series.insert(0, Series("", inside, COLORS[model], width=0.7))
    return series


def solid_curves(results: Results) -> Charts | None:
    """Errors and pixels of the 3D world over the imagined frames."""
    if not (models := results.models("obj3d")):
        return None
    lines = errors(results, "obj3d", models)
    sides = "imagined frame", "frame sides"
    panels = [Chart("center error", lines, *sides, top=0.2, roof=LIMIT)]
    pixels = {model: curve(measured, "psnr") for model, measured in models.items()}
    lines = [Series(m, each[0], COLORS[m], spread=each[1]) for m, each in pixels.items()]
    panels.append(Chart("PSNR", lines, "imagined frame", "dB", top=30))
    return Charts.of(panels)


def ball_ways(results: Results) -> Drawing | None:
    """Paths of balls, true and imagined by each model (Fig. 2)."""
    found = {world: results.models(world) for world in BALLS}
    columns = 1 + max(len(models) for models in found.values())
    episodes = max(1, PANELS // columns)
    lines = []
    for world, models in found.items():
        panels = []
        for number in range(episodes):
            examples = {n: m[0].examples for n, m in models.items()}
            shown = {n: each[number] for n, each in examples.items() if len(each) > number}
            for i, (model, example) in enumerate(shown.items()):
                given, title = example["given"], f"{world} {example['episode']}"
                side = side_of(episodes * columns)
                steps = SHOWN if len(example["colors"]) < MANY else FEWER
                if i == 0:
                    true = example["true"][given : given + steps]
                    panels.append(trajectories.ways(example, true, f"{title}: true", side))
                imagined = example["futures"][0][:steps]
                panels.append(trajectories.ways(example, imagined, f"{title}: {model}", side))
        lines += [rows(panels, columns=len(panels), gap=GAP)] if panels else []
    return rows(lines, columns=1) if lines else None


def rollouts(results: Results) -> Drawing | None:
    """Frames of the ball worlds: given and true, and as G-SWM and SILOT imagine them (App. E)."""
    columns = len(GIVEN) + len(STEPS_AHEAD)
    side = (WIDE - LABELS) / columns - CLOSE
    lines = []
    for world in BALLS:
        found = {model: measured[0].examples for model, measured in results.models(world).items()}
        shown = {model: found[model][0] for model in ROLLOUTS if found.get(model)}
        if "SILOT" not in shown:
            continue
        example = shown["SILOT"]
        true, given = example["true"], example["given"]
        at = {f"given, t = {t}": t - 1 for t in GIVEN}
        at |= {f"step {step}": given + step - 1 for step in STEPS_AHEAD}
        panels = [label(f"{world}: true", side)]
        panels += [
            trajectories.frame(example, true[time : time + 1], name, side)
            for name, time in at.items()
        ]
        for model, example in shown.items():
            future = example["futures"][0]
            panels += [label(model, side), *[Drawing(side, 0, ())] * len(GIVEN)]
            panels += [
                trajectories.frame(example, future[step - 1 : step], "", side)
                for step in STEPS_AHEAD
            ]
        lines.append(rows(panels, columns=1 + columns, gap=CLOSE))
    return rows(lines, columns=1) if lines else None


def label(text: str, side: float) -> Drawing:
    """A label to the left of a row of frames."""
    return Drawing(LABELS, 0, (Label((0, trajectories.HEAD + side / 2), text, "ink", 10.5),))


def side_of(number: int) -> float:
    """The side of each of this many panels that fill a row."""
    return (WIDE - GAP * (number - 1)) / number


def single_ball(results: Results) -> Drawing | None:
    """Many futures of the single ball (Fig. 3)."""
    found = {name: results.of(*which) for name, which in SINGLE_BALL.items()}
    measured = {name: each[0].examples for name, each in found.items() if each}
    examples = {name: each for name, each in measured.items() if each}
    if not examples:
        return None
    side = side_of(max(4, 1 + len(examples)))
    ends = {str(e["true"][-1]): e for each in examples.values() for e in each}
    true = [e["true"][e["given"] :] for e in ends.values()]
    panels = [trajectories.many_ways(next(iter(ends.values())), true, "true", side)]
    for name, (example, *_) in examples.items():
        title = f"{name}: {len(example['futures'])} futures"
        panels.append(trajectories.many_ways(example, example["futures"], title, side))
    return rows(panels, columns=len(panels), gap=GAP)


def maze(results: Results) -> Drawing | None:
    """Mazes: given frames, all futures, and some single futures (Fig. 4)."""
    examples = [e for m in results.of("G-SWM", "maze")[:1] for e in m.examples]
    panels = [panel for example in examples for panel in maze_panels(example)]
    return rows(panels, columns=2 + SAMPLES, gap=14) if panels else None


def maze_panels(example: dict[str, Any]) -> list[Drawing]:
    """One maze: given frames, all futures, and some single futures."""
    futures = [future[:AHEAD] for future in example["futures"]]
    given = example["true"][: example["given"]]
    return [
        trajectories.maze(example, given, "given", start=False),
        trajectories.many_ways(example, futures, f"{len(futures)} futures"),
        *(
            trajectories.maze(example, each, f"sample {i + 1}")
            for i, each in enumerate(futures[:SAMPLES])
        ),
    ]


def path_panels(example: dict[str, Any]) -> list[Drawing]:
    """Objects on a dark square: their true paths, and the imagined ones."""
    given, futures = example["given"], example["futures"]
    true = example["true"][given : given + SHOWN]
    if len(futures) > 1:
        return [
            trajectories.many_ways(example, [true], "true"),
            trajectories.many_ways(
                example, [each[:SHOWN] for each in futures], f"{len(futures)} futures"
            ),
        ]
    imagined = trajectories.ways(example, futures[0][:SHOWN], "imagined")
    return [trajectories.ways(example, true, "true"), imagined]


def other_ways(measured: Sequence[ResultFile]) -> Drawing | None:
    """The first example of each result, in the style of its world."""
    lines = []
    for m in measured:
        if m.style != "stills":
            panels = maze_panels if m.style == "maze" else path_panels
            title = Label((0, 10), f"{m.of}: {m.model}", size=10.5)
            lines += [Drawing(WIDE, 14, (title,)), rows(panels(m.examples[0]), PANELS, GAP)]
    return rows(lines, columns=1, gap=6) if lines else None


def corridor(results: Results) -> Charts | None:
    """Agents in the corridor, for the model and its ablations (Fig. 6)."""
    measured = {r: results.of("G-SWM", r) for r in ABLATIONS}
    if not any(measured.values()):
        return None
    panels = []
    for name, title in (("in_corridor", "share in the corridor"), ("release_count", "agents")):
        series = []
        for recipe, results_of in measured.items():
            if results_of:
                values, spread = curve(results_of, name)
                start = 1 if name == "in_corridor" else 1 - results_of[0].given
                color = COLORS[recipe]
                series.append(Series(ABLATIONS[recipe], values, color, start, spread=spread))
        panels.append(Chart(title, series, "imagined frame", top=1.0))
    return Charts.of(panels)


def learning(results: Results) -> Charts | None:
    """Validation errors during training."""
    panels = [learned(results, model) for model in MODELS]
    return Charts.of([panel for panel in panels if panel is not None])


def learned(results: Results, model: str) -> Chart | None:
    """A model's validation errors over training time; worlds where it fails are marked."""
    series, by_pixels = [], False
    fails_in = {criterion.world for lacks, criterion, _ in lacking(results) if lacks == model}
    for world in dict.fromkeys((*BALLS, *SOLIDS, *OTHER_TESTS)):
        name = f"{world} {FAILED}" if world in fails_in else world
        for measured in results.of(model, recipe_of(model, world)):
            if points := measured.about.get("curve"):
                _, minutes, errors = zip(*points, strict=True)
                if min(errors) > UNTRAINED:
                    continue  # nothing would be drawn
                series.append((world, Series(name, errors, COLORS[world], at=minutes)))
                by_pixels |= measured.boxes_from == "masks"
    if not series:
        return None
    lines = [line for _, line in series]
    if by_pixels:
        return Chart(model, lines, "minutes", "mean squared error")
    lines = [*said(model, dict(series)), *lines]
    return Chart(model, lines, "minutes", "frame sides", top=1.0, roof=UNTRAINED)


def said(model: str, series: Mapping[str, Series]) -> list[Series]:
    """The paper's errors of a model as horizontal lines, one for each world that has a curve.

    Dashes of neighboring lines alternate, since some lines nearly coincide.
    """
    places = [place for s in series.values() for place in s.places]
    ends = min(places), max(places)
    theirs = {world: CENTER_ERROR.get((world, model)) for world in series}
    means = sorted((error.mean, world) for world, error in theirs.items() if error is not None)
    return [
        Series("", (mean, mean), COLORS[world], width=1.0, at=ends, dash=True, late=rank % 2 == 1)
        for rank, (mean, world) in enumerate(means)
    ]
