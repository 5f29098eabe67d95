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

    def check_finite(self, report: dict[str, float]) -> None:
        """Stop where there is no way on."""
        wrong = [name for name, value in report.items() if not math.isfinite(value)]
        if wrong:
            raise NonFiniteError(
                f"{wrong[0]} is not finite at step {report.get('step', 0):.0f}: the last good "
                "checkpoint is kept; resume with a lower --train.lr, or a larger likelihood std"
            )


def no_foreground(state: Diagnostics, report: dict[str, float]) -> bool:
    """Nothing is found, long after the first steps."""
    return report["step"] > 1000 and report["objects"] < 0.05


def background_explains_all(state: Diagnostics, report: dict[str, float]) -> bool:
    """A context that carries much, and no objects."""
    return no_foreground(state, report) and report.get("kl_context", 0) > 1


def slots_full(state: Diagnostics, report: dict[str, float]) -> bool:
    """As many objects as there are slots."""
    return report["step"] > 1000 and report["objects"] > 0.95 * state.max_objects


def exploding(state: Diagnostics, report: dict[str, float]) -> bool:
    """A loss far above where it was."""
    before = [r["loss"] for r in state.history[:-PATIENCE]]
    return bool(before) and report["loss"] > min(before) + 10 * (abs(min(before)) + 1)


def drifting(state: Diagnostics, report: dict[str, float]) -> bool:
    """Half as many objects again as there were at best reconstruction."""
    before = [r for r in state.history if r["step"] > 1000 and "squared_error" in r]
    if len(before) < 8:
        return False
    best = min(before, key=lambda r: r["squared_error"])
    return report["objects"] > 1.5 * best["objects"] + 0.5


CHECKS = [
    (
        "background",
        background_explains_all,
        "the background explains everything and no object is found: lower --model.sizes.context, "
        "raise --model.schedule.background-only, or lower the likelihood std",
    ),
    (
        "foreground",
        no_foreground,
        "no objects are found: lower the likelihood std, set the mean of the size prior nearer to "
        "the objects' size, or train the first stage of the curriculum for longer",
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
