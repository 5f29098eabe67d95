"""Evaluation protocols by name: given frames, imagined frames, and metrics.

A score means little without its protocol, so each result contains it. `register_protocol` adds one
for a world whose episodes fit none of these.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from gswm.core.errors import UserError
from gswm.core.words import no_such
from gswm.data.splits import SplitName
from gswm.data.worlds.base import World
from gswm.data.worlds.registry import WORLDS
from gswm.models.base import Discover

Posterior = Literal["mean", "sample"]
Metric = Literal[
    "center", "tracking", "sizes", "counts", "corridor", "futures", "pixels", "collisions"
]
"""The metrics. `counts` covers tracked frames if the protocol lists it, else those of rollouts."""


@dataclass(frozen=True)
class Protocol:
    """An evaluation protocol."""

    name: str
    given: int
    """Number of given frames."""
    steps: int
    """Number of imagined frames."""
    metrics: tuple[Metric, ...]
    sample: bool = False
    """Use sampled rollouts instead of the mean rollout."""
    futures: int = 1
    posterior: Posterior = "mean"
    """Use the means of the posterior in given frames, or a sample, as the release of G-SWM does.
    With samples, each future has its own.
    """
    samples: int = 0
    """Number of sampled futures per episode whose center error is also measured."""
    discover: Discover = "first"
    """The given frames in which objects are discovered: the first, as in the paper, or all."""
    split: SplitName = "test"
    """The split that the protocol's authors report."""

    @property
    def frames(self) -> int:
        """Number of frames of an episode that the protocol uses."""
        return self.given + self.steps

    @property
    def can_sample(self) -> bool:
        """Whether sampled futures can be measured in addition to the means."""
        return "center" in self.metrics and not self.sample and self.futures == 1

    def check(self) -> None:
        """Raise a UserError for settings that do not fit together."""
        if isinstance(self.metrics, str) or not isinstance(self.metrics, tuple):
            raise UserError(f"metrics of '{self.name}' must be a tuple, not {self.metrics!r}")
        if unknown := [metric for metric in self.metrics if metric not in get_args(Metric)]:
            known = ", ".join(get_args(Metric))
            raise UserError(
                f"'{self.name}' has an unknown metric {unknown[0]}; choose from {known}"
            )
        if min(self.given, self.steps, self.futures) < 1:
            raise UserError(f"given, steps and futures of '{self.name}' must be at least 1")
        if self.samples < 0 or (self.samples and not self.can_sample):
            raise UserError(
                f"samples of '{self.name}' must be 0, or more if it measures center of one mean "
                "future"
            )
        if self.posterior not in get_args(Posterior):
            choices = " or ".join(map(repr, get_args(Posterior)))
            raise UserError(f"posterior of '{self.name}' must be {choices}, not {self.posterior!r}")


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("gswm-10-90", 10, 90, ("center", "tracking"), samples=10),
        Protocol(
            name="gswm-3d-10-90",
            given=10,
            steps=90,
            metrics=("center", "tracking", "pixels", "collisions"),
            discover="always",
        ),
        Protocol("gswm-5-4", 5, 4, ("futures",), sample=True, futures=100),
        Protocol("gswm-maze-5", 5, 94, ("corridor", "futures"), sample=True, futures=10),
        Protocol("gswm-clips-8-16", 8, 16, ("center", "tracking", "sizes")),
        Protocol("sqair-10-10", 10, 10, ("center", "tracking", "counts"), discover="always"),
        Protocol("slotformer-6-44", 6, 44, ("pixels",), discover="always", split="val"),
        Protocol("ocvp-5-25", 5, 25, ("pixels",)),
    )
}


def register_protocol(rules: Protocol) -> None:
    """Register a protocol, so that worlds can refer to it."""
    if not isinstance(rules, Protocol):
        raise UserError(f"register a Protocol, not {type(rules).__name__}")
    if PROTOCOLS.get(rules.name, rules) != rules:
        raise UserError(f"protocol '{rules.name}' already exists: choose another name")
    rules.check()
    PROTOCOLS[rules.name] = rules


def protocol(name: str) -> Protocol:
    """Return a protocol by name."""
    WORLDS.load()  # installed packages may register some beside their worlds
    if name not in PROTOCOLS:
        raise UserError(no_such("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]


def usual(world: str) -> Protocol:
    """Return the protocol of a world, or the default if the world is not installed."""
    return protocol(WORLDS.get(world, World).protocol)
