"""Settings derived from measurements of a video, each with its reason.

A model sees the video as a square with sides of 1: a share is a length in that square. Its
settings are in other units (see `models.objects` and `core.geometry`):

    hw      fractions of the square: a box of share s has hw = s, and the prior is for logit(s)
    xy      from -1 to 1: a step of share v changes xy by 2 v
    s_prop  hw and a margin: to see an object after a step of v, the margin must be 2 v
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from gswm.core.errors import UserError
from gswm.core.networks import Trunk
from gswm.core.schedule import Anneal
from gswm.core.words import ordinal
from gswm.data.looking.facts import Quantiles, VideoFacts
from gswm.data.looking.verdicts import verdicts_on
from gswm.fitting.recipe import TUNING
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.gswm.recipes import any_video

MARGIN = 1.1
"""Ratio of a model's box to an object's size; objects fade out towards the edges of the box."""
STEP, FASTEST = 0.03, 0.10
"""Steps per frame of a typical and of a fast object, as fractions of the side."""
LONGEST = 0.13
"""Largest time between frames in seconds; slow objects may become fast."""
LEAST_FRAMES = 200
"""Smallest number of frames to keep of a video."""
SLOTS = (4, 24)
GRIDS = (4, 8, 16)
STDS = (0.05, 0.2)
"""Bounds of the pixels' σ."""
THRESHOLDS = (0.06, 0.2)
"""Bounds of the difference from the background that counts as motion."""
SIGMAS = 3.0
"""Difference of an object from the background, in σ."""
PRESENT = (0.1, 0.3)
"""Bounds of the initial prior of presence."""
TEN = 1.2816
"""The 90 % quantile of a standard normal distribution."""
REACH = math.tanh(1)
"""Largest fraction of c_xy that a step should need, since tanh saturates beyond it."""
NEW = "none"
"""Stands for new weights."""
OWN = "as requested"
"""The reason for a value that the user set."""

T = TypeVar("T")


@dataclass(frozen=True)
class Decision(Generic[T]):
    """A setting and why it has its value."""

    value: T
    reason: str


@dataclass(frozen=True)
class TrainedStart:
    """Trained weights to start from."""

    name: str
    """A file, a run folder, or the name of a shipped model."""
    model: GSWMConfig


FROM_SCRATCH: Decision[TrainedStart | None] = Decision(None, "no trained weights are given")


@dataclass(frozen=True)
class Decisions:
    """All settings that follow from a video."""

    start: Decision[str]
    """The name of the initial weights, or `NEW`."""
    stride: Decision[int]
    """Use every n-th frame."""
    fps: Decision[float | None]
    """Frames per second to import; None for every frame."""
    image_size: Decision[int]
    num_objects: Decision[int]
    """K."""
    grid: Decision[int]
    hw_prior_mean: Decision[float]
    """Mean of z_hw, before its sigmoid."""
    hw_std: Decision[float]
    update_xy: Decision[float]
    """c_xy."""
    update_hw: Decision[float]
    """c_hw."""
    proposal_range: Decision[tuple[float, float]]
    likelihood_std: Decision[float]
    """σ."""
    motion_threshold: Decision[float]
    """Difference from the background used by the motion loss in the first steps."""
    pres_prior: Decision[float]
    """Probability of an object per cell, at the start of training."""
    trained: GSWMConfig | None = None
    """The settings of the initial weights, which are not a decision; None for new weights."""

    def items(self) -> list[tuple[str, Decision[Any]]]:
        """Each decision with its name."""
        found = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return [(name, value) for name, value in found if isinstance(value, Decision)]

    def model(self) -> GSWMConfig:
        """The settings of a model for the video."""
        model = self.base()
        mean, std = self.hw_prior_mean.value, self.likelihood_std.value
        present = self.pres_prior.value
        update = replace(model.propagation.update, xy=self.update_xy.value, hw=self.update_hw.value)
        return replace(
            model,
            motion_threshold=self.motion_threshold.value,
            num_objects=self.num_objects.value,
            propagation=replace(
                model.propagation, proposal_range=self.proposal_range.value, update=update
            ),
            discovery=replace(
                model.discovery,
                grid=self.grid.value,
                hw_std=self.hw_std.value,
            ),
            schedule=replace(
                model.schedule,
                likelihood_std=Anneal(std, std),
                hw_prior_mean=Anneal(mean, mean),
                pres_prior=Anneal(present, present),
            ),
        )

    def base(self) -> GSWMConfig:
        """The settings before any decision, with the networks of the initial weights."""
        plain = any_video(self.image_size.value)
        if (trained := self.trained) is None:
            return plain
        at_prior = plain.discovery.start_at_prior
        return replace(
            plain,
            sizes=trained.sizes,
            boxes_by_label=trained.boxes_by_label,
            propagation=trained.propagation,
            discovery=replace(trained.discovery, start_at_prior=at_prior, doubt=None),
        )


@dataclass(frozen=True)
class SquareFacts:
    """Sizes and speeds as fractions of the square that a model sees."""

    heights: Quantiles
    widths: Quantiles
    speed: float
    """Speed of a typical object, per frame of the video."""
    fastest: float

    def size(self, which: str) -> float:
        """Side of a square with the area of a low, median or high box."""
        return math.sqrt(getattr(self.heights, which) * getattr(self.widths, which))

    def smaller(self, which: str) -> float:
        """The smaller side."""
        return min(getattr(self.heights, which), getattr(self.widths, which))


def settings_for(
    facts: VideoFacts,
    start: Decision[TrainedStart | None] = FROM_SCRATCH,
    image_size: int | None = None,
) -> Decisions:
    """The settings for a video; raises a UserError if nothing can be learned from it.

    Args:
        facts: Measurements of the video.
        start: The initial weights, if any; see `starting`.
        image_size: The resolution of new weights, if the user chose it.
    """
    for verdict in verdicts_on(facts):
        if verdict.fatal:
            raise UserError(verdict.line)
    square = in_square(facts)
    stride = stride_for(facts, square)
    steps = stride.value
    number = slots_for(facts)
    size = image_size_for(square) if image_size is None else Decision(image_size, OWN)
    grid = grid_for(square, number.value, size.value)
    mean, std = size_prior_for(square)
    usual, fast = steps * square.speed, steps * square.fastest
    found = Decisions(
        Decision(NEW, start.reason),
        stride,
        fps_for(facts, stride),
        size,
        number,
        grid,
        mean,
        std,
        update_xy_for(fast),
        update_hw_for(square),
        proposal_range_for(usual, fast),
        std_for(facts),
        threshold_for(facts),
        pres_prior_for(facts, grid.value),
    )
    return found if start.value is None else tuned(found, start.value, start.reason, fast)


def tuned(found: Decisions, start: TrainedStart, reason: str, fast: float) -> Decisions:
    """Decisions for trained weights.

    Resolution and grid are those of the weights. So are c_xy, c_hw and s_prop, which determine the
    meaning of the networks' outputs, unless the fastest objects are out of reach.
    """
    trained = start.model
    theirs, step = trained.propagation, 2 * fast
    alike = f"as {start.name} was trained"
    reached = f"{alike}, and the fastest objects are within reach"
    update_xy, proposal_range = found.update_xy, found.proposal_range
    if theirs.relative or step <= REACH * theirs.update.xy:
        update_xy = Decision(theirs.update.xy, alike if theirs.relative else reached)
    if step <= theirs.proposal_range[1]:
        proposal_range = Decision(theirs.proposal_range, reached)
    elif theirs.relative:
        proposal_range = Decision((step, step), found.proposal_range.reason)
    return replace(
        found,
        start=Decision(start.name, reason),
        image_size=Decision(trained.image_size, f"{alike}; {found.image_size.reason}"),
        grid=Decision(trained.discovery.grid, alike),
        update_xy=update_xy,
        update_hw=Decision(theirs.update.hw, alike),
        proposal_range=proposal_range,
        pres_prior=Decision(TUNING.pres_start, f"{start.name} has learned where objects are"),
        trained=trained,
    )


def in_square(facts: VideoFacts) -> SquareFacts:
    """Lengths in the letterboxed square of a frame."""
    share = 1 / facts.side
    return SquareFacts(
        facts.heights * share,
        facts.widths * share,
        facts.speeds.median * share,
        facts.speeds.top * share,
    )


def stride_for(facts: VideoFacts, square: SquareFacts) -> Decision[int]:
    """A stride that shows motion, and is small enough to follow it."""
    by_usual, by_fast = STEP / max(square.speed, 1e-6), FASTEST / max(square.fastest, 1e-6)
    longest = math.inf if facts.fps is None else LONGEST * facts.fps
    wanted = math.floor(min(by_usual, by_fast, longest))
    stride = max(1, min(wanted, facts.frames // LEAST_FRAMES))
    usual, fast = stride * square.speed, stride * square.fastest
    reason = f"objects then move {usual:.1%} of the side per frame, the fastest {fast:.1%}"
    if stride < wanted:
        reason += f", and {facts.frames // stride} frames are left"
    if fast > FASTEST:
        reason += f"; {FASTEST:.0%} would be better, but there are no frames in between"
    return Decision(stride, reason)


def fps_for(facts: VideoFacts, stride: Decision[int]) -> Decision[float | None]:
    """The frame rate for the import."""
    if stride.value == 1:
        return Decision(None, "every frame is needed")
    nth = ordinal(stride.value)
    if facts.fps is None:
        return Decision(None, f"the frames have no times: keep every {nth} of them")
    every = f"every {nth} frame of {facts.fps:.3g} per second"
    return Decision(round(facts.fps / stride.value, 3), every)


def image_size_for(square: SquareFacts) -> Decision[int]:
    """64 pixels, if they show the objects."""
    usual, low = 64 * square.smaller("median"), 64 * square.smaller("low")
    size = 64 if usual >= 8 and low >= 4 else 128
    reason = f"at 64 px, objects are {usual:.1f} px, the small ones {low:.1f} px"
    return Decision(size, reason)


def slots_for(facts: VideoFacts) -> Decision[int]:
    """K: the largest number of objects in view, and some spare slots."""
    most = round(facts.counts.top)
    least, limit = SLOTS
    value = min(limit, max(least, most + max(2, math.ceil(0.3 * most))))
    return Decision(value, f"up to {most} objects are in view at once, plus some spare slots")


def grid_for(square: SquareFacts, slots: int, image_size: int) -> Decision[int]:
    """Cells as large as small objects, at least two per slot."""
    cell = MARGIN * square.size("low")
    grid = min(GRIDS, key=lambda n: abs(math.log(n * cell)))
    enough = next(n for n in GRIDS if n * n >= 2 * slots)
    finest = image_size // Trunk.STRIDE
    value = min(finest, max(grid, enough))
    reason = f"a cell is {1 / value:.0%} of the side, a small object's box {cell:.0%}"
    if max(grid, enough) > finest:
        reason += f", and {image_size} px allow no smaller cells"
    elif enough > grid:
        reason += f", and {slots} slots need {2 * slots} cells"
    return Decision(value, reason)


def size_prior_for(square: SquareFacts) -> tuple[Decision[float], Decision[float]]:
    """Mean and standard deviation of z_hw: heights and widths have one prior."""
    logits = [
        [logit(MARGIN * value) for value in (sides.low, sides.median, sides.high)]
        for sides in (square.heights, square.widths)
    ]
    mean = (logits[0][1] + logits[1][1]) / 2
    own = sum(((high - low) / (2 * TEN)) ** 2 for low, _, high in logits) / 2
    between = ((logits[0][1] - logits[1][1]) / 2) ** 2
    std = min(0.8, max(0.1, math.sqrt(own + between)))
    high, wide = square.heights.median, square.widths.median
    small, large = sigmoid(mean - std), sigmoid(mean + std)
    return (
        Decision(round(mean, 2), f"objects are {high:.1%} high and {wide:.1%} wide in the square"),
        Decision(round(std, 2), f"most boxes are from {small:.1%} to {large:.1%} of the side"),
    )


def update_xy_for(fast: float) -> Decision[float]:
    """c_xy: twice the fastest step, since tanh saturates slowly."""
    value = min(0.8, max(0.2, 0.05 * math.ceil(2 * 2 * fast / 0.05)))
    return Decision(round(value, 2), f"the fastest objects change xy by {2 * fast:.2f} per frame")


def update_hw_for(square: SquareFacts) -> Decision[float]:
    """c_hw: half the size of an object."""
    size = square.size("median")
    value = min(0.3, max(0.05, 0.5 * size))
    return Decision(round(value, 2), f"the size of an object is {size:.1%} of the side")


def proposal_range_for(usual: float, fast: float) -> Decision[tuple[float, float]]:
    """The posterior's region: it contains the object after a typical and after a fast step."""
    low = min(0.3, max(0.05, 2 * usual))
    high = min(0.5, max(2 * fast + 0.05, low + 0.1, 0.2))
    reason = f"objects move by up to {fast:.1%} of the side per frame"
    return Decision((round(low, 2), round(high, 2)), reason)


def std_for(facts: VideoFacts) -> Decision[float]:
    """σ: a third of the contrast, and above the noise."""
    low, high = STDS
    value = min(high, max(low, facts.contrast / SIGMAS, 2 * facts.noise))
    reason = (
        f"objects differ from the background by {facts.contrast:.2f}, and its noise is "
        f"{facts.noise:.3f}"
    )
    return Decision(round(value, 3), reason)


def threshold_for(facts: VideoFacts) -> Decision[float]:
    """Below the contrast of objects, and well above the noise."""
    low, high = THRESHOLDS
    value = min(high, max(low, 0.4 * facts.contrast, 5 * facts.noise))
    reason = f"the contrast is {facts.contrast:.2f}, and the noise {facts.noise:.3f}"
    return Decision(round(value, 3), reason)


def pres_prior_for(facts: VideoFacts, grid: int) -> Decision[float]:
    """The fraction of cells with an object, but large enough that objects do not vanish at once."""
    low, high = PRESENT
    share = facts.counts.high / grid**2
    reason = f"{facts.counts.high:.0f} objects in {grid**2} cells; less than {low:g} loses them"
    return Decision(round(min(high, max(low, share)), 3), reason)


def logit(share: float) -> float:
    """The inverse of `sigmoid`, clipped to possible sizes of a box."""
    share = min(0.95, max(0.005, share))
    return math.log(share / (1 - share))


def sigmoid(value: float) -> float:
    """The logistic function."""
    return 1 / (1 + math.exp(-value))
