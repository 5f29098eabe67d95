"""A recipe for one video: its settings, and a schedule as long as there is time.

Shares of the training, by step:

    T          2 ───────── 4 ─────── 8 ─────── 12 ────────────
    motion     teaches ─── less and less ─ 0
    presence   prior stays high ─────── falls ─── small
    auxiliary  0 ─────────────────────── rises ─ 1
"""

from dataclasses import dataclass, replace

from gswm.core.schedule import Anneal
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.gswm.schedule import Schedule
from gswm.models.recipe import DataConfig, Recipe, TrainConfig

LENGTHS = ((0.0, 2), (0.3, 4), (0.5, 8), (0.7, 12))
"""The curriculum: (from which share of the steps, T)."""
GIVEN = 6
"""Frames given when validating."""
VALIDATIONS = 3


@dataclass(frozen=True)
class Teaching:
    """How objects are kept alive. Shares of the training are of its steps."""

    motion: float = 2.0
    """Weight of each pixel of the motion loss at first."""
    taught: tuple[float, float] = (0.25, 0.5)
    """When the motion loss begins to fade, and when it is gone."""
    pres_start: float = 0.1
    pres_end: float = 1e-3
    fall: tuple[float, float] = (0.45, 0.75)
    """When the prior of presence begins to fall, and when it is at its end."""
    auxiliary: tuple[float, float] = (0.6, 0.8)

    def stronger(self) -> "Teaching":
        """For another attempt, after objects were lost."""
        return Teaching(
            motion=2 * self.motion,
            taught=(0.4, 0.7),
            pres_start=min(0.5, 3 * self.pres_start),
            pres_end=min(0.1, 10 * self.pres_end),
            fall=(0.6, 0.9),
            auxiliary=(0.8, 1.0),
        )


@dataclass(frozen=True)
class Length:
    """How long to train, and how fast to learn."""

    steps: int
    batch: int = 16
    lr: float = 4e-4
    longest: int = 12
    """The largest T that the episodes have frames for."""


STANDARD = Teaching()


def recipe_for(
    name: str,
    file: str,
    settings: GSWMConfig,
    length: Length,
    teaching: Teaching = STANDARD,
    *,
    start: str | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe that fits a video, whose frames and background are in `file`.

    `settings` are the model's, as they follow from the video: see `decisions`.
    """
    model = replace(settings, schedule=schedule_for(settings.schedule, length, teaching))
    train = TrainConfig(
        steps=length.steps,
        batch=length.batch,
        lr=length.lr,
        warmup=min(300, max(1, length.steps // 20)),
        last_lr=0.02,
        clip_by="part",
        start=start,
        validate_every=max(1, length.steps // VALIDATIONS),
        validation_episodes=16,
    )
    data = DataConfig(file, given=min(GIVEN, length.longest - 2))
    return Recipe(name, data, model, train, seed)


def schedule_for(schedule: Schedule, length: Length, teaching: Teaching) -> Schedule:
    """All that changes, stretched over the steps there are."""

    def at(share: float) -> int:
        return round(share * length.steps)

    lengths = {at(share): min(frames, length.longest) for share, frames in LENGTHS}
    fall, taught, aux = teaching.fall, teaching.taught, teaching.auxiliary
    start = max(teaching.pres_start, schedule.pres_prior.start)
    return replace(
        schedule,
        lengths=tuple(sorted(lengths.items())),
        pres_prior=Anneal(start, teaching.pres_end, at(fall[0]), at(fall[1]), geometric=True),
        motion_weight=Anneal(teaching.motion, 0.0, at(taught[0]), at(taught[1])),
        aux_weight=Anneal(0.0, 1.0, at(aux[0]), at(aux[1])),
    )
