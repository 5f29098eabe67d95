"""A recipe for one video: its settings, and a schedule for the available time.

The schedule over the steps of the training, for new weights (`STANDARD`):

    T          2 ───────── 4 ─────── 8 ─────── 12 ────────────
    labels     full weight ─────────── decreasing ────────────
    motion     full weight ─ decreasing ── 0
    presence   high prior ───────────── falls ─── small
    auxiliary  0 ─────────────────────── rises ─ 1

For trained weights, which find objects from the first step on (`TUNING`):

    T          4 ───────── 8 ───────── 12 ────────────────────
    labels     full weight ── decreasing ─────────────────────
    motion     small ─── 0
    presence   low prior ───── falls ── small
    auxiliary  0 ─── rises ─── 1
"""

from dataclasses import dataclass, replace

from gswm.core.schedule import Anneal
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.gswm.schedule import Schedule
from gswm.models.recipe import DataConfig, Recipe, TrainConfig

GIVEN = 6
"""Given frames in validation."""
VALIDATIONS = 3


@dataclass(frozen=True)
class Teaching:
    """Learning rate and supervision. Shares are relative to the training's steps."""

    lr: float = 4e-4
    least: int = 100
    """Smallest useful number of steps."""
    lengths: tuple[tuple[float, int], ...] = ((0.0, 2), (0.3, 4), (0.5, 8), (0.7, 12))
    """The curriculum: (from which fraction of the steps, T)."""
    frozen: tuple[str, ...] = ()
    """Parts of the model that do not learn; see `TrainConfig`."""
    from_prior: bool = True
    """Whether discovery starts at its prior, and presence at the measured frequency."""
    motion: float = 2.0
    """Initial weight of each pixel of the motion loss."""
    taught: tuple[float, float] = (0.25, 0.5)
    """The motion loss starts to decrease, and ends, at these fractions of the steps."""
    labels: tuple[float, float] = (200.0, 50.0)
    """Initial and final weight of the boxes of moving objects, if the data have them."""
    pres_start: float = 0.1
    pres_end: float = 1e-3
    fall: tuple[float, float] = (0.45, 0.75)
    """The prior of presence starts to decrease, and ends, at these fractions of the steps."""
    auxiliary: tuple[float, float] = (0.6, 0.8)

    def stronger(self) -> "Teaching":
        """Settings for another attempt, after objects were lost."""
        return replace(
            self,
            frozen=(),
            motion=2 * self.motion,
            taught=(0.4, 0.7),
            pres_start=min(0.5, 3 * self.pres_start),
            pres_end=min(0.1, 10 * self.pres_end),
            fall=(0.6, 0.9),
            auxiliary=(0.8, 1.0),
        )


@dataclass(frozen=True)
class Length:
    """The length of a training."""

    steps: int
    batch: int = 16
    longest: int = 12
    """The largest T that the episodes have frames for."""


STANDARD = Teaching()
"""For new weights."""
TUNING = Teaching(
    lr=2e-4,
    least=20,
    lengths=((0.0, 4), (0.3, 8), (0.6, 12)),
    frozen=("discovery",),
    from_prior=False,
    motion=0.5,
    taught=(0.05, 0.15),
    pres_start=0.01,
    fall=(0.15, 0.4),
    auxiliary=(0.1, 0.3),
)
"""For trained weights: short supervision by motion, and boxes of objects that they already detect.
From pixels alone, discovery would learn to explain a shadow, or a part of an object, as a separate
object.
"""


def recipe_for(
    name: str,
    file: str,
    settings: GSWMConfig,
    length: Length,
    teaching: Teaching = STANDARD,
    *,
    labelled: bool = False,
    start: str | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe that fits a video, whose frames and background are in `file`.

    Args:
        name: The name of the recipe.
        file: The HDF5 file.
        settings: The model's settings, as derived from the video; see `decisions`.
        length: The length of the training.
        teaching: Learning rate and supervision.
        labelled: Whether the file has boxes of moving objects.
        start: Initial weights.
        seed: Seed of weights, windows and noise.
    """
    # With boxes, discovery can learn what an object is.
    labels = {"frozen": ()} if labelled else {"labels": (0.0, 0.0)}
    teaching = replace(teaching, **labels)
    model = replace(
        settings,
        discovery=replace(settings.discovery, start_at_prior=teaching.from_prior),
        schedule=schedule_for(settings.schedule, length, teaching),
    )
    train = TrainConfig(
        steps=length.steps,
        batch=length.batch,
        lr=teaching.lr,
        warmup=min(300, max(1, length.steps // 20)),
        last_lr=0.02,
        clip_by="part",
        frozen=teaching.frozen,
        start=start,
        validate_every=max(1, length.steps // VALIDATIONS),
        validation_episodes=16,
    )
    data = DataConfig(file, given=min(GIVEN, length.longest - 2))
    return Recipe(name, data, model, train, seed)


def schedule_for(schedule: Schedule, length: Length, teaching: Teaching) -> Schedule:
    """The schedule, stretched over the available steps."""

    def at(share: float) -> int:
        return round(share * length.steps)

    lengths = {at(share): min(frames, length.longest) for share, frames in teaching.lengths}
    fall, taught, aux = teaching.fall, teaching.taught, teaching.auxiliary
    measured = schedule.pres_prior.start if teaching.from_prior else 0.0
    start = max(teaching.pres_start, measured)
    return replace(
        schedule,
        lengths=tuple(sorted(lengths.items())),
        pres_prior=Anneal(start, teaching.pres_end, at(fall[0]), at(fall[1]), geometric=True),
        motion_weight=Anneal(teaching.motion, 0.0, at(taught[0]), at(taught[1])),
        label_weight=Anneal(*teaching.labels, at(fall[0]), at(fall[1])),
        aux_weight=Anneal(0.0, 1.0, at(aux[0]), at(aux[1])),
    )
