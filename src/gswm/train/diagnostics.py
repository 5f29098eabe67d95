"""Known ways in which training fails, seen in its metrics, and what usually mends them."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gswm.errors import UserError

Test = Callable[["Diagnostics", dict[str, float]], bool]
PATIENCE = 3
"""Reports in a row in which something must be wrong before it is said."""


class NonFiniteError(UserError):
    """The loss is no number any more."""

    code = 3


@dataclass
class Diagnostics:
    """Looks at one report after the other; says a thing once, when it has lasted."""

    max_objects: int
    begin: int = 1_000
    """The step after which objects should have been found."""
    model: Any = None
    """Its settings: what they lack is not advised."""
    history: list[dict[str, float]] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    def look(self, report: dict[str, float]) -> list[str]:
        """What is wrong now and was not said before."""
        self.history = [*self.history[-20:], report]
        found = [c for c in CHECKS if c.name not in self.said and self.lasting(c.wrong)]
        self.said |= {check.name for check in found}
        return [check.sentence(self.model) for check in found]

    def lasting(self, wrong: Test) -> bool:
        """Whether it is so in each of the last reports."""
        recent = self.history[-PATIENCE:]
        return len(recent) == PATIENCE and all(wrong(self, report) for report in recent)

    def check_finite(self, means: dict[str, float], step: int, saved: int) -> None:
        """Stop where there is no way on."""
        wrong = [name for name, value in means.items() if not math.isfinite(value)]
        if wrong:
            kept = f"the last good checkpoint, of step {saved}, is kept"
            kept = kept if saved else "there is no checkpoint yet"
            raise NonFiniteError(
                f"{wrong[0]} is not finite at step {step}: {kept}; begin a new run with a lower "
                "--train.lr, or a larger --model.schedule.likelihood-std.*"
            )


def no_foreground(state: Diagnostics, report: dict[str, float]) -> bool:
    """Nothing is found, long after the first steps."""
    nothing = report["step"] > state.begin and report.get("objects", 1) < 0.05
    return nothing and not carries_much(report)


def background_explains_all(state: Diagnostics, report: dict[str, float]) -> bool:
    """Nothing is found, for the context carries it."""
    nothing = report["step"] > state.begin and report.get("objects", 1) < 0.05
    return nothing and carries_much(report)


def carries_much(report: dict[str, float]) -> bool:
    """Whether the context tells frames apart."""
    return report.get("kl_context", 0) > 1


def slots_full(state: Diagnostics, report: dict[str, float]) -> bool:
    """As many objects as there are slots, of a model that counts them."""
    return report["step"] > state.begin and report.get("objects", 0) > 0.95 * state.max_objects


def exploding(state: Diagnostics, report: dict[str, float]) -> bool:
    """A loss far above where it was."""
    before = [r["loss"] for r in state.history[:-PATIENCE]]
    return bool(before) and report["loss"] > min(before) + 10 * (abs(min(before)) + 1)


def drifting(state: Diagnostics, report: dict[str, float]) -> bool:
    """Half as many objects again as there were at best reconstruction."""
    before = [r for r in state.history if r["step"] > state.begin and "squared_error" in r]
    if len(before) < 8:
        return False
    best = min(before, key=lambda r: r["squared_error"])
    return report["objects"] > 1.5 * best["objects"] + 0.5


@dataclass(frozen=True)
class Check:
    """One way to fail."""

    name: str
    wrong: Test
    symptom: str
    remedies: tuple[str, ...]

    def sentence(self, model: Any = None) -> str:
        """What to say of it to who trains `model`, or any model."""
        flags = {each: re.findall(r"--model[\w.-]+", each) for each in self.remedies}
        fitting = [each for each in flags if all(has(model, flag) for flag in flags[each])]
        return f"{self.symptom}: {', or '.join(fitting)}"


def has(model: Any, flag: str) -> bool:
    """Whether there is such a setting."""
    for name in flag.removeprefix("--model.").rstrip(".").replace("-", "_").split("."):
        if model is None:
            return True
        if not hasattr(model, name):
            return False
        model = getattr(model, name)
    return True


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
            "lower --model.schedule.likelihood-std.*",
            "set --model.schedule.hw-prior-mean.* nearer to the objects' size",
            "set --model.boxes.size nearer to the objects' size",
            "make the first stage of --model.schedule.lengths longer",
        ),
    ),
    Check(
        "slots",
        slots_full,
        "every slot holds an object, so most are duplicates or background",
        (
            "raise --model.num-objects if there may be so many",
            "keep --model.aux-pres on",
            "lower --model.schedule.pres-prior.*",
        ),
    ),
    Check(
        "drift",
        drifting,
        "the number of objects drifts upwards: objects are found twice",
        (
            "keep --model.discovery.rivals and --model.aux-pres on",
            "lower --model.discovery.rejection and --model.discovery.rival-rejection",
        ),
    ),
    Check("exploding", exploding, "the loss explodes", ("lower --train.lr", "lower --train.clip")),
]
