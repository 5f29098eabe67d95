"""The paper's figures, from results: drawings by name. What was not measured is left out."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from gswm.data import pictures, worlds
from gswm.data.pictures import Boxes, Picture
from gswm.report import scenes
from gswm.report.charts import Series, chart
from gswm.report.drawing import Drawing, rows
from gswm.report.paper import BALLS, MODELS
from gswm.report.results import Measured, Results, curve, recipe_of

COLORS = {
    **{"G-SWM": "#3b82e6", "SCALOR": "#e08a2e", "STOVE": "#22a37f"},
    **{"maze": "#3b82e6", "maze-no-mu": "#e08a2e", "maze-no-aoe": "#22a37f"},
    **{"maze-no-sa": "#c154a8"},
    **dict(zip(BALLS, ("#3b82e6", "#22a37f", "#c154a8", "#e08a2e"), strict=True)),
}
RULES = {"stay": "stays", "walls": "no collisions"}
ABLATIONS = {
    **{"maze": "G-SWM", "maze-no-mu": "without MU"},
    **{"maze-no-aoe": "without AOE", "maze-no-sa": "without SA"},
}
SINGLE_BALL = {
    **{"G-SWM": ("G-SWM", "single-ball"), "G-SWM-D": ("G-SWM", "single-ball-d")},
    **{model: (model, recipe_of(model, "single-ball")) for model in MODELS[1:]},
}
PANELS = 6
"""Ways of balls in a row."""
SHOWN = 20
"""Generated frames of the ways of balls (Fig. 2)."""
SAMPLES = 4
AHEAD = 14
"""Generated frames of the ways in a maze (Fig. 4)."""
SCALE, FRAMES = 2, 8
"""Of tracking strips."""

CAPTIONS = {
    "error": "Center error of each imagined frame, in sides of the frame, over the test episodes. "
    "Thin: the strict error, which charges missed and surplus objects. Gray: rules to read it by.",
    "ways": f"The first {SHOWN} imagined frames after the given ones (faint), true and imagined. "
    "A dot is a frame; a circle is where the ball is at the end.",
    "futures": "All sampled futures of one episode of the single ball. It may turn left or right.",
    "maze": f"Maze: the given frames, all futures over each other, and {SAMPLES} of them, "
    f"{AHEAD} imagined frames long.",
    "corridor": "Maze: share of the true agents still in the corridor, by identity; and the count "
    "of the authors' release, which follows slots.",
    "learning": "Validation while training: strict error, summed over the first 10 imagined "
    "frames, and the minutes until it was measured; several trainings may have shared the GPU.",
    "tracking": "Tracking: what the model sees in given frames. The same id is the same object.",
}


def figures(results: Results) -> dict[str, Drawing | Picture]:
    """All that can be drawn, by name."""
    makers: dict[str, Callable[[Results], Drawing | Picture | None]] = {
        **{"error": error, "ways": ball_ways, "tracking": tracking, "learning": learning},
        **{"futures": single_ball, "maze": maze, "corridor": corridor},
    }
    made = {name: maker(results) for name, maker in makers.items()}
    return {name: figure for name, figure in made.items() if figure is not None}


def error(results: Results) -> Drawing:
    """Center error over the imagined frames (Fig. 5)."""
    panels = []
    for world in BALLS:
        series = []
        for rule, name in RULES.items():
            values, _ = curve(results.of(rule, world), "center_error")
            series.append(Series(name, values, "faint", width=1.0))
        for model, measured in (models := results.models(world)).items():
            strict, _ = curve(measured, "strict_error")
            values, spread = curve(measured, "center_error")
            series.append(Series("", strict, COLORS[model], width=0.7))
            series.append(Series(model, values, COLORS[model], spread=spread))
        note = "" if models else "not trained yet"
        panels.append(chart(world, series, "imagined frame", "frame sides", note=note, top=0.5))
    return rows(panels, columns=2)


def ball_ways(results: Results) -> Drawing | None:
    """Ways of balls, true and imagined by each model (Fig. 2)."""
    lines = []
    for world in BALLS:
        models = {name: measured[0] for name, measured in results.models(world).items()}
        panels = []
        for number in range(PANELS // (1 + len(models)) if models else 0):
            shown = {n: m.examples[number] for n, m in models.items() if len(m.examples) > number}
            for i, (model, example) in enumerate(shown.items()):
                given, title = example["given"], f"{world} {example['episode']}"
                if i == 0:
                    true = example["true"][given : given + SHOWN]
                    panels.append(scenes.ways(example, true, f"{title}: true"))
                imagined = example["futures"][0][:SHOWN]
                panels.append(scenes.ways(example, imagined, f"{title}: {model}"))
        lines += [rows(panels, columns=PANELS)] if panels else []
    return rows(lines, columns=1) if lines else None


def single_ball(results: Results) -> Drawing | None:
    """Many futures of the single ball (Fig. 3)."""
    found = {name: results.of(*which) for name, which in SINGLE_BALL.items()}
    examples = {name: measured[0].examples for name, measured in found.items() if measured}
    if not any(examples.values()):
        return None
    ends = {str(e["true"][-1]): e for each in examples.values() for e in each}
    true = [e["true"][e["given"] :] for e in ends.values()]
    panels = [scenes.many_ways(next(iter(ends.values())), true, "true", side=230)]
    for name, (example, *_) in ((n, e) for n, e in examples.items() if e):
        title = f"{name}: {len(example['futures'])} futures"
        panels.append(scenes.many_ways(example, example["futures"], title, side=230))
    return rows(panels, columns=4)


def maze(results: Results) -> Drawing | None:
    """Mazes: what is given, all futures, and some of them (Fig. 4)."""
    panels = []
    for example in (e for m in results.of("G-SWM", "maze")[:1] for e in m.examples):
        futures = [future[:AHEAD] for future in example["futures"]]
        given = example["true"][: example["given"]]
        panels.append(scenes.maze(example, given, "given", start=False))
        panels.append(scenes.many_ways(example, futures, f"{len(futures)} futures"))
        for i, future in enumerate(futures[:SAMPLES]):
            panels.append(scenes.maze(example, future, f"sample {i + 1}"))
    return rows(panels, columns=2 + SAMPLES, gap=14) if panels else None


def corridor(results: Results) -> Drawing | None:
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
        panels.append(chart(title, series, "imagined frame", top=1.0))
    return rows(panels, columns=2)


def learning(results: Results) -> Drawing | None:
    """How the error fell while the models were trained."""
    panels = []
    for model in MODELS:
        series = []
        for world in BALLS:
            for measured in results.of(model, recipe_of(model, world)):
                if points := measured.about.get("curve"):
                    _, minutes, errors = zip(*points, strict=True)
                    series.append(Series(world, errors, COLORS[world], at=minutes))
        if series:
            panels.append(chart(model, series, "GPU minutes", "frame sides", top=1.0))
    return rows(panels, columns=2) if panels else None


def tracking(results: Results) -> Picture | None:
    """Frames with the boxes that a model tracks: an example of each model and world."""
    firsts = [m[0] for world in BALLS for m in results.models(world).values()]
    shown = [m for m in firsts if m.examples and m.examples[0]["tracked"]]
    if not shown:
        return None
    labels = [f"{m.world}, {m.model}" for m in shown]
    times = [f"t = {part['frame']}" for part in some(shown[0].examples[0]["tracked"])]
    return pictures.sheet([strip(m) for m in shown], labels, times, gap=6)


def some(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as fit into a row, from the first to the last."""
    which = np.linspace(0, len(parts) - 1, min(FRAMES, len(parts))).round().astype(int)
    return [parts[i] for i in which]


def strip(measured: Measured) -> pictures.Frames:
    """The frames of the first example of which there are boxes, with the boxes."""
    episode, tracked = measured.examples[0]["episode"], some(measured.examples[0]["tracked"])
    world = worlds.WORLDS[measured.world]
    chunks = world.episodes(world.splits["test"].seed, episode + 1)
    video = torch.cat([chunk.video for chunk in chunks])[episode].permute(0, 2, 3, 1).numpy()
    frames = video[[part["frame"] for part in tracked]]
    large = pictures.enlarge(frames, SCALE)
    out = [
        pictures.draw_boxes(large[i : i + 1], boxes_of(part["boxes"], world.image_size), SCALE)
        for i, part in enumerate(tracked)
    ]
    return np.concatenate(out)


def boxes_of(boxes: Sequence[Sequence[float | int]], side: int) -> Boxes:
    """One frame's, in pixels."""
    values = np.array(boxes, float).reshape(1, -1, 5)
    there = np.ones(values.shape[:2], bool)
    return Boxes(values[..., 1:3] * side, values[..., 3:] * side, values[..., 0].astype(int), there)
