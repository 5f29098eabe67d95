"""Protocols: what is given, what is asked, and what is measured, by name.

A number means little without them; a result carries all of its protocol. `register_protocol` adds
one for a world whose episodes none of these fits.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from gswm.core.errors import UserError
from gswm.data.splits import SplitName
from gswm.data.worlds.base import World
from gswm.data.worlds.registry import WORLDS

Posterior = Literal["mean", "sample"]
Metric = Literal[
    "center", "tracking", "sizes", "counts", "corridor", "futures", "pixels", "collisions"
]
"""The metrics; `counts` are of tracked frames where a protocol names them, else of imagined
ones too."""


@dataclass(frozen=True)
class Protocol:
    """One way to measure."""

    name: str
    given: int
    """Frames that the model sees; it finds its objects in the first."""
    steps: int
    """Frames that it then imagines."""
    metrics: tuple[Metric, ...]
    sample: bool = False
    """Imagine by samples, or by means."""
    futures: int = 1
    posterior: Posterior = "mean"
    """How the model infers the frames that it sees: by the means of its posterior, or by a sample,
    as the release of G-SWM does; each future then has its own."""
    samples: int = 0
    """Sampled futures of each episode, whose center error is measured beside that of the means."""
    split: SplitName = "test"
    """The split that the protocol's authors report."""

    @property
    def frames(self) -> int:
        """All that is looked at of an episode; tracking sees, and finds objects in, each."""
        return self.given + self.steps

    @property
    def can_sample(self) -> bool:
        """Whether sampled futures can be measured beside the means."""
        return "center" in self.metrics and not self.sample and self.futures == 1


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("gswm-10-90", 10, 90, ("center", "tracking"), samples=10),
        Protocol("gswm-3d-10-90", 10, 90, ("center", "tracking", "pixels", "collisions")),
        Protocol("gswm-5-4", 5, 4, ("futures",), sample=True, futures=100),
        Protocol("gswm-maze-5", 5, 94, ("corridor", "futures"), sample=True, futures=10),
        Protocol("gswm-clips-8-16", 8, 16, ("center", "tracking", "sizes")),
        Protocol("sqair-10-10", 10, 10, ("center", "tracking", "counts")),
        Protocol("slotformer-6-44", 6, 44, ("pixels",), split="val"),
        Protocol("ocvp-5-25", 5, 25, ("pixels",)),
    )
}


def register_protocol(rules: Protocol) -> None:
    """Add a protocol, which a world can then declare by its name."""
    if PROTOCOLS.get(rules.name, rules) != rules:
        raise UserError(f"there is another protocol '{rules.name}' already: choose another name")
    if unknown := [metric for metric in rules.metrics if metric not in get_args(Metric)]:
        known = ", ".join(get_args(Metric))
        raise UserError(f"'{rules.name}' asks for {unknown[0]}; the metrics are {known}")
    if min(rules.given, rules.steps, rules.futures) < 1:
        raise UserError(f"given, steps and futures of '{rules.name}' must be at least 1")
    if rules.samples < 0 or (rules.samples and not rules.can_sample):
        raise UserError(
            f"samples of '{rules.name}' must be 0, or more if it measures center of one mean future"
        )
    PROTOCOLS[rules.name] = rules


def protocol(name: str) -> Protocol:
    """The protocol of that name."""
    WORLDS.load()  # installed packages may register some beside their worlds
    if name not in PROTOCOLS:
        raise UserError(f"there is no protocol '{name}'; there are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def usual(world: str) -> Protocol:
    """The protocol that a world declares; the default one if the world is not installed."""
    return protocol(WORLDS.get(world, World).protocol)
