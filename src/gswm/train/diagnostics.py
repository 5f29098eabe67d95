"""Known ways in which training fails, seen in its metrics, and what usually mends them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gswm.errors import UserError

Check = Callable[["Diagnostics", dict[str, float]], bool]
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
    history: list[dict[str, float]] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    def look(self, report: dict[str, float]) -> list[str]:
        """What is wrong now and was not said before."""
        self.history = [*self.history[-20:], report]
        found = [
            (name, text)
            for name, wrong, text in CHECKS
            if name not in self.said and self.lasting(wrong)
        ]
        self.said |= {name for name, _ in found}
        return [text for _, text in found]

    def lasting(self, wrong: Check) -> bool:
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


CHECKS = [
    (
        "background",
        background_explains_all,
        "the background explains everything and no object is found: lower --model.sizes.context, "
        "or lower --model.schedule.likelihood-std.*",
    ),
    (
        "foreground",
        no_foreground,
        "no objects are found: lower --model.schedule.likelihood-std.*, set "
        "--model.schedule.hw-prior-mean.* nearer to the objects' size, or make the first stage of "
        "--model.schedule.lengths longer",
    ),
    (
        "slots",
        slots_full,
        "every slot holds an object, so most are duplicates or background: raise "
        "--model.num-objects if there may be so many, else keep --model.aux-pres on",
    ),
    (
        "drift",
        drifting,
        "the number of objects drifts upwards: objects are found twice; keep "
        "--model.discovery.rivals and --model.aux-pres on, or lower --model.discovery.rejection",
    ),
    (
        "exploding",
        exploding,
        "the loss explodes: lower --train.lr, or --train.clip",
    ),
]
