"""Results: files of `gswm eval --json`, found by model and recipe, and of `gswm bench train`."""

import json
import math
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from gswm.core.errors import UserError
from gswm.core.files import check_regular
from gswm.core.words import model_name
from gswm.data.worlds.base import Style, World
from gswm.data.worlds.registry import WORLDS, base_name
from gswm.eval.protocols import Posterior, protocol, usual
from gswm.report import shapes
from gswm.report.paper import FIGURED, MODELS, OTHER_TESTS, SOLIDS
from gswm.weights.finding import OF_RUNS, names

FAIL = 0.5
"""Models with a lower MOTA are marked as failed: more than one error for two true objects."""

SMALL = "-cpu"
"""The end of the name of a recipe's variant for a CPU."""
HERE = Path("docs/results")
"""The results of a clone."""
MAIN = {
    "f1_all": "detection F1 ↑",
    "in_corridor_50": "in corridor after 50 frames ↑",
    "on_mode": "futures at a true end ↑",
    "center_error": "center error ↓",
    "count_right": "right number of objects ↑",
}
"""Main scores and their names: that of a model is the first one that its evaluation has."""
COUNTED = ("digits",)
"""The worlds whose main score is the share of frames with the right number of objects."""
PAPERS = (*FIGURED, *OTHER_TESTS, "single-ball-d", "maze-no-mu", "maze-no-aoe", "maze-no-sa")
"""Recipes of the paper's experiments and of our additional tests, without model names."""


@dataclass(frozen=True)
class ResultFile:
    """The content of one result file."""

    model: str
    """The model's name in the paper; a baseline has its own name."""
    recipe: str
    """The recipe it was trained with; the world, for a baseline."""
    world: str
    """The name of the world, or of the file that the model was evaluated on."""
    of: str
    """The world stored in that file."""
    trained_on: str
    """The world; empty for a baseline."""
    split: str
    command: str
    train: str
    """The training command; empty for a baseline."""
    about: dict[str, Any]
    """Facts about the training, from the header of the weights."""
    trained_seed: int
    """Seed of the training."""
    commit: str
    """Commit of the evaluating code."""
    device: str
    episodes: int
    seed: int
    """Seed of the evaluation."""
    protocol: str
    """Name of the protocol."""
    given: int
    posterior: Posterior
    """Whether the posterior's mean or samples were used in given frames."""
    scores: dict[str, float | None]
    per_episode: dict[str, list[float | None]]
    """Scores of each episode; empty in older files."""
    curves: dict[str, list[float | int | None]]
    examples: list[dict[str, Any]]
    boxes_from: str
    """See `WorldModel.boxes_from`; with "masks", validation errors are errors of pixels."""
    is_own: bool = False
    """Whether this is about a model of the user, instead of one whose results ship."""

    @property
    def style(self) -> Style:
        """The drawing style of its scenes."""
        return style_of(self.of)

    @property
    def is_rule(self) -> bool:
        """Whether this is a baseline without training."""
        return not self.train

    @property
    def is_partial(self) -> bool:
        """Whether only some episodes of the world's split were measured."""
        there = WORLDS.get(self.of)
        if there is None or self.world != self.of:
            return False
        return self.episodes < {name: s.episodes for name, s in there.splits.items()}.get(
            self.split, 0
        )

    @property
    def is_of_paper(self) -> bool:
        """Whether the recipe belongs to the paper's tables and figures."""
        name = self.recipe.removeprefix(f"{self.model.lower()}-")
        return name in PAPERS

    def is_by(self, name: str | None) -> bool:
        """Whether it was measured by a protocol, on the split that the protocol prescribes.

        Default: the usual protocol of the world.
        """
        rules = usual(self.of) if name is None else protocol(name)
        return (self.protocol, self.split) == (rules.name, rules.split)


@dataclass(frozen=True)
class StepTime:
    """The time of a training step, as `gswm bench train` measured it."""

    recipe: str
    setting: tuple[Any, ...]
    """Device, path, batch size and frames; only times with equal settings are comparable."""
    slots: int
    """K."""
    ms: float


@dataclass(frozen=True)
class Results:
    """All results of a report."""

    all: tuple[ResultFile, ...]
    steps: tuple[StepTime, ...] = ()

    def of(
        self,
        model: str,
        recipe: str,
        protocol: str | None = None,
        posterior: Posterior = "mean",
    ) -> list[ResultFile]:
        """The results of a model in the world of its recipe, one for each training seed.

        Only results of `protocol` on its own split count. Default: the usual protocol of the
        world. For each seed, the result with the most episodes is used. The user's own results
        count only without shipped ones. Results on videos without ground truth are excluded. If
        there are none of the recipe, shipped ones of its variant for a CPU count.
        """
        there = [m for m in self.all if (m.model, m.recipe) == (model, recipe) and m.of != "video"]
        small = f"{recipe}{SMALL}"
        there = there or [m for m in self.all if m.recipe == small and not m.is_own]
        there = [m for m in there if m.is_by(protocol) and m.trained_on in (m.world, "")]
        there = [m for m in there if m.posterior == posterior]
        most: dict[int, ResultFile] = {}
        for m in [m for m in there if not m.is_own] or there:
            seed = m.trained_seed
            if seed not in most or m.episodes > most[seed].episodes:
                most[seed] = m
        return [most[seed] for seed in sorted(most)]

    def of_other_worlds(self) -> list[ResultFile]:
        """Results with examples that belong to no figure of the paper."""
        known, all_of = {*FIGURED, *SOLIDS}, [m for m in self.all if m.examples and not m.is_own]
        return [m for m in all_of if not (m.of in known and (m.is_of_paper or self.stands_in(m)))]

    def stands_in(self, m: ResultFile) -> bool:
        """Whether a result of a variant for a CPU is shown instead of its recipe's; see `of`."""
        return m in self.of(m.model, recipe_of(m.model, m.of))

    def own(self) -> list[ResultFile]:
        """The results of the user's models that have examples."""
        return [m for m in self.all if m.is_own and m.examples]

    def models(self, world: str, protocol: str | None = None) -> dict[str, list[ResultFile]]:
        """The results of each trained model in a world; see `of`."""
        found = {model: self.of(model, recipe_of(model, world), protocol) for model in MODELS}
        return {model: measured for model, measured in found.items() if measured}


def style_of(world: str) -> Style:
    """The drawing style of a world; for unknown worlds paths, which need only positions."""
    return WORLDS.get(world, World).style


def fails(results: Sequence[ResultFile]) -> bool:
    """Whether a model loses its objects even in given frames; see `FAIL`."""
    found = mean_and_spread([m.scores.get("mota") for m in results])
    return found is not None and found[0] < FAIL


def main_score(scores: Mapping[str, float | None], world: str) -> str | None:
    """The name of the main score in a world among these; see `MAIN`."""
    if world in COUNTED and scores.get("count_right") is not None:
        return "count_right"
    return next((name for name in MAIN if scores.get(name) is not None), None)


def recipe_of(model: str, world: str) -> str:
    """The recipe of a model in a world; G-SWM's recipes are named after the world alone."""
    return f"{model.lower()}-{world}" if model in MODELS[1:] else world


def model_of(recipe: str) -> str:
    """The name of the model that a recipe trains."""
    return next((m for m in MODELS[1:] if recipe.startswith(f"{m.lower()}-")), MODELS[0])


def read(paths: Sequence[Path]) -> Results:
    """Read result files, and all *.json files of folders."""
    files = [file for path in paths for file in found(path)]
    held = {file: loaded(file) for file in dict.fromkeys(files)}
    timed = [file for file in held if is_benchmark(held[file])]
    return Results(
        tuple(one(file, held[file]) for file in files if file not in timed),
        tuple(step for file in timed for step in step_times(file, held[file])),
    )


def found(path: Path) -> Iterable[Path]:
    """The result files at a path."""
    if path.is_dir():
        if any((path / name).is_file() for name in OF_RUNS):
            name = shlex.quote(str(path))
            raise UserError(
                f"{path} is the folder of a run or a fit: write its results with `gswm eval {name} "
                "--json result.json`, and report result.json"
            )
        return sorted(path.glob("*.json"))
    check_regular(path)
    if not path.is_file():
        raise UserError(f"there is no file or folder {path}")
    return [path]


def loaded(path: Path) -> dict[str, Any]:
    """The values in a file."""
    check_regular(path)
    try:
        held = json.loads(path.read_text(), parse_constant=lambda _: None)  # NaN is unknown
        if not isinstance(held, dict):
            raise ValueError("it is not an object")
    except (OSError, ValueError) as error:
        raise not_written(path, "gswm eval --json", error) from error
    return held


def is_benchmark(held: dict[str, Any]) -> bool:
    """Whether a file holds step times instead of an evaluation."""
    return {"steps", "machine"} <= held.keys()


def step_times(path: Path, held: dict[str, Any]) -> list[StepTime]:
    """The step times in a file of `gswm bench train --json`."""
    for wrong in shapes.misfits(held, shapes.STEPS):
        raise not_written(path, "gswm bench train --json", wrong)
    device = held["machine"]["device"]
    return [
        StepTime(
            recipe=row["recipe"],
            setting=(device, row["path"], row["batch"], row["length"]),
            slots=row["objects"],
            ms=row["ms"],
        )
        for row in held["steps"]
    ]


def one(path: Path, held: Any) -> ResultFile:
    """The result in a file that holds these values."""
    for wrong in chain(shapes.misfits(held, shapes.RESULT), shapes.odd_examples(held)):
        raise not_written(path, "gswm eval --json", wrong)
    try:
        model, data, rules = held["model"], held["data"], held["protocol"]
        rule, about = model.get("baseline"), model.get("about", {})
        return ResultFile(
            model=rule or model_name(model["kind"]),
            recipe=base_name(data["world"]) if rule else model["recipe"],
            world=base_name(data["world"]),
            of=data.get("of", base_name(data["world"])),
            trained_on=base_name(model.get("world", "")),
            split=data["split"],
            command=held["command"],
            train=model.get("train", ""),
            about=about,
            trained_seed=model.get("seed", about.get("seed", 0)),
            commit=(held["commit"] or "")[:7],
            device=held["device"],
            episodes=held["episodes"],
            seed=held["seed"],
            protocol=rules["name"],
            given=rules["given"],
            posterior=rules.get("posterior", "mean"),
            scores=held["scores"],
            per_episode=held.get("per_episode", {}),
            curves=held["curves"],
            examples=held["examples"],
            boxes_from=held.get("boxes_from", "latents"),
            is_own=not (rule or is_shipped(path, model)),
        )
    except KeyError as error:
        raise not_written(path, "gswm eval --json", error) from error


def is_shipped(path: Path, model: dict[str, Any]) -> bool:
    """Whether a result is one of a clone's, or about weights with a name."""
    file = model.get("file", f"{model['recipe']}.safetensors")
    return path.resolve().parent.parts[-2:] == HERE.parts or Path(file).stem in names()


def not_written(path: Path, command: str, error: Exception | str) -> UserError:
    """The error for a file that a command did not write."""
    reason = f"it has no {error}" if isinstance(error, KeyError) else error
    return UserError(f"{path} is not a result of `{command}`: {reason}")


def mean_and_spread(values: Sequence[float | None]) -> tuple[float, float] | None:
    """Mean and standard deviation over seeds (0 for a single seed); None without values."""
    known = [v for v in values if v is not None]
    if not known:
        return None
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0


def standard_error(results: Sequence[ResultFile], name: str) -> float | None:
    """The standard error of a score's mean, over episodes and over seeds.

    All seeds are evaluated on the same episodes, so scores are averaged over seeds first. None if
    a result lacks the scores of its episodes, or has a different number of them.
    """
    held = [m.per_episode.get(name, []) for m in results]
    if not held or len(set(map(len, held))) > 1:
        return None
    rows = [[v for v in values if v is not None] for values in zip(*held, strict=True)]
    means = [statistics.fmean(row) for row in rows if row]
    if len(means) < 2:
        return None
    over_episodes = statistics.stdev(means) / math.sqrt(len(means))
    found = mean_and_spread([m.scores.get(name) for m in results])
    over_seeds = 0.0 if found is None else found[1] / math.sqrt(len(results))
    return math.hypot(over_episodes, over_seeds)


def curve(results: Sequence[ResultFile], name: str) -> tuple[list[float | int | None], list[float]]:
    """A curve's mean over seeds at each step, and its spread unless there is only one seed."""
    curves = [m.curves[name] for m in results if name in m.curves]
    columns = [mean_and_spread(values) for values in zip(*curves, strict=False)]
    means = [None if c is None else c[0] for c in columns]
    return means, [0.0 if c is None else c[1] for c in columns] if len(curves) > 1 else []
