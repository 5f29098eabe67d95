"""Detects known failures of training from its metrics, and suggests remedies."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from gswm.core.errors import UserError
from gswm.core.schedule import Anneal
from gswm.models.base import ModelConfig

Test = Callable[["Diagnostics", dict[str, float]], bool]
PATIENCE = 3
"""Number of consecutive reports that must show a problem before a warning."""
VALIDATIONS = 2
"""The same for validations, which are much rarer."""
MOST = 200
"""Largest number of reports that are kept."""


class NonFiniteError(UserError):
    """The loss is no longer finite."""

    code = 3


@dataclass
class Diagnostics:
    """Watches the metrics of a run, and warns once about each lasting problem."""

    max_objects: int
    begin: int = 1_000
    """The step after which objects should have been found."""
    model: ModelConfig | None = None
    """The model's settings; advice names only settings that it has."""
    history: list[dict[str, float]] = field(default_factory=list)
    """Reports of the whole run, thinned out towards its beginning."""
    validations: list[dict[str, float]] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    phase: Any = None
    even_since: float = 0
    """The first report after a change that makes losses jump; some of its steps may be older."""

    def look(self, line: dict[str, float]) -> list[str]:
        """New warnings for a line of metrics, from a report or a validation."""
        self.remember(line)
        found = [c for c in CHECKS if c.name not in self.said and self.lasting(c)]
        self.said |= {check.name for check in found}
        return [check.sentence(self.model) for check in found]

    def remember(self, line: Mapping[str, int | float | None]) -> None:
        """Record a line, such as one that was written before the run was stopped."""
        known = {name: float(value) for name, value in line.items() if value is not None}
        if "loss" not in known:
            self.validations = [*self.validations, known][-VALIDATIONS:]
            return
        phase = phase_at(self.model, int(known["step"]))
        if not self.history or phase != self.phase:
            self.phase, self.even_since = phase, known["step"]
        self.history.append(known)
        if len(self.history) > MOST:
            self.history = self.history[: MOST // 2 : 2] + self.history[MOST // 2 :]

    def lasting(self, check: "Check") -> bool:
        """Whether a check fails in each of the last lines."""
        lines = self.validations if check.validated else self.history
        times = VALIDATIONS if check.validated else PATIENCE
        recent = lines[-times:]
        return len(recent) == times and all(check.wrong(self, line) for line in recent)

    def check_finite(self, means: dict[str, float], step: int, saved: int) -> None:
        """Raise NonFiniteError if training cannot continue."""
        wrong = [name for name, value in means.items() if not math.isfinite(value)]
        if wrong:
            kept = f"the last good checkpoint, of step {saved}, is kept"
            kept = kept if saved else "there is no checkpoint yet"
            remedy, wider = "a lower --train.lr", "--model.schedule.likelihood-std.*"
            if has(self.model, wider.removesuffix("*")):
                remedy += f", or a larger {wider}"
            raise NonFiniteError(
                f"{wrong[0]} is not finite at step {step}: {kept}; start a new run with {remedy}"
            )


def phase_at(model: ModelConfig | None, step: int) -> Any:
    """The settings whose changes make losses jump: the stage, including T, and σ of the pixels."""
    if model is None:
        return None
    sigma = getattr(model.schedule, "likelihood_std", None)
    now = sigma.at(torch.tensor(step)).item() if isinstance(sigma, Anneal) else sigma
    return model.schedule.stage(step), now


def no_foreground(state: Diagnostics, report: dict[str, float]) -> bool:
    """No object is found, long after the first steps."""
    return report["step"] > state.begin and finds_nothing(report) and not carries_much(report)


def background_explains_all(state: Diagnostics, report: dict[str, float]) -> bool:
    """No object is found, because the context explains the frames."""
    return report["step"] > state.begin and finds_nothing(report) and carries_much(report)


def finds_nothing(report: dict[str, float]) -> bool:
    """Whether a model that counts objects finds none."""
    return report.get("objects", 1) < 0.05


def carries_much(report: dict[str, float]) -> bool:
    """Whether the context distinguishes frames."""
    return report.get("kl_context", 0) > 1


def slots_full(state: Diagnostics, report: dict[str, float]) -> bool:
    """As many objects as slots, for a model that counts objects."""
    return report["step"] > state.begin and report.get("objects", 0) > 0.95 * state.max_objects


def settled(state: Diagnostics, report: dict[str, float]) -> list[dict[str, float]]:
    """The reports after the first steps, if they and `report` have objects and a squared error."""
    compared = {"objects", "squared_error"}
    if report["step"] <= state.begin or not compared <= report.keys():
        return []
    return [r for r in state.history if r["step"] > state.begin and compared <= r.keys()]


def drifting(state: Diagnostics, report: dict[str, float]) -> bool:
    """More than 1.5 times as many objects as once sufficed for a picture that was not much worse.

    A newly found object improves the picture; one that is found twice does not.
    """
    return any(
        r["objects"] > 1
        and report["objects"] > 1.5 * r["objects"] + 0.5
        and report["squared_error"] > r["squared_error"] / 1.5
        for r in settled(state, report)
    )


def losing(state: Diagnostics, report: dict[str, float]) -> bool:
    """Less than half of the earlier number of objects, without a better picture."""
    return not finds_nothing(report) and any(
        r["objects"] > 2 * report["objects"] + 0.2 and r["squared_error"] <= report["squared_error"]
        for r in settled(state, report)
    )


def exploding(state: Diagnostics, report: dict[str, float]) -> bool:
    """A loss or a picture far worse than before, though objects are not missing."""
    if report["step"] <= state.begin or losing(state, report) or finds_nothing(report):
        return False
    errors = [r["squared_error"] for r in settled(state, report)]
    return loss_explodes(state, report) or (
        bool(errors) and report["squared_error"] > 4 * min(errors) + 0.002
    )


def loss_explodes(state: Diagnostics, report: dict[str, float]) -> bool:
    """A loss that has risen, at the same T and σ, by half of its earlier maximum."""
    even = [r["loss"] for r in state.history[:-PATIENCE] if r["step"] > state.even_since]
    if not even or report["step"] <= state.even_since:
        return False
    return report["loss"] - min(even) > max(abs(loss) for loss in even) / 2


def found_twice(state: Diagnostics, line: dict[str, float]) -> bool:
    """Many more objects than there really are."""
    return line["step"] > state.begin and share_found(line) > 1.3


def missed(state: Diagnostics, line: dict[str, float]) -> bool:
    """Many fewer objects than there really are, unless another warning covers it."""
    new = not state.said & {"foreground", "background", "lost"}
    return new and line["step"] > state.begin and share_found(line) < 0.7


def share_found(line: dict[str, float]) -> float:
    """Number of found objects divided by the true number; 1 if unknown."""
    true = line.get("validation_true_objects")
    return line.get("validation_objects", true) / true if true else 1.0


@dataclass(frozen=True)
class Check:
    """One kind of failure."""

    name: str
    wrong: Test
    symptom: str
    remedies: tuple[str, ...]
    validated: bool = False
    """Whether it shows in validations instead of reports."""

    def sentence(self, model: ModelConfig | None = None) -> str:
        """The warning as a sentence, with advice for `model`, or for any model."""
        flags = {each: re.findall(r"--model[\w.-]+", each) for each in self.remedies}
        fitting = [each for each in flags if all(has(model, flag) for flag in flags[each])]
        return f"{self.symptom}: {', or '.join(fitting)}" if fitting else self.symptom


def has(model: Any, flag: str) -> bool:
    """Whether the model has such a setting."""
    for name in flag.removeprefix("--model.").rstrip(".").replace("-", "_").split("."):
        if model is None:
            return True
        if not hasattr(model, name):
            return False
        model = getattr(model, name)
    return True


FIND = (
    "lower --model.schedule.likelihood-std.*",
    "set --model.schedule.hw-prior-mean.* closer to the size of the objects",
    "set --model.boxes.size closer to the size of the objects",
    "set --model.priors.hw-mean closer to the size of the objects",
)
FIND_ONCE = (
    "keep --model.discovery.rivals and --model.aux-pres on",
    "lower --model.discovery.rejection and --model.discovery.rival-rejection",
    "lower --model.schedule.count.end",
)
CHECKS = [
    Check(
        "background",
        background_explains_all,
        "the background explains everything and no object is found",
        ("lower --model.sizes.context", "lower --model.schedule.likelihood-std.*"),
    ),
    Check(
        "foreground",
        no_foreground,
        "no objects are found",
        (
            *FIND,
            "lengthen the first stage of --model.schedule.lengths",
        ),
    ),
    Check(
        "slots",
        slots_full,
        "every slot holds an object, so most are duplicates or background",
        (
            "raise --model.num-objects if the videos have that many objects",
            "keep --model.aux-pres on",
            "lower --model.schedule.pres-prior.*",
        ),
    ),
    Check(
        "drift",
        drifting,
        "the number of objects drifts upwards: objects are found twice",
        FIND_ONCE,
    ),
    Check(
        "lost",
        losing,
        "objects that were found are lost",
        ("lower --model.schedule.likelihood-std.*", "lower --train.lr"),
    ),
    Check(
        "exploding",
        exploding,
        "the loss explodes, or reconstructions get much worse",
        ("lower --train.lr", "lower --train.clip"),
    ),
    Check(
        "twice",
        found_twice,
        "validation shows many more objects than there are: objects are found twice",
        (*FIND_ONCE, "lower --model.num-objects"),
        validated=True,
    ),
    Check(
        "missed",
        missed,
        "validation shows many fewer objects than there are: objects are missed",
        (*FIND, "raise --model.num-objects if the videos have more objects"),
        validated=True,
    ),
]
