"""A recipe for one video: its settings, and a schedule as long as there is time.

Shares of the training, by step:

    T          2 ──────── 4 ──────── 8 ───────────── 12 ──────────────
    motion     teaches ─────── less and less ─ 0
    presence   prior stays high ───────────── falls ─────── small
    auxiliary  0 ─────────────────────────── rises ─ 1
"""

from dataclasses import dataclass

from gswm.core.schedule import Anneal
from gswm.models.gswm.discovery import DiscoveryConfig
from gswm.models.gswm.gswm import GSWMConfig
from gswm.models.gswm.propagation import PropagationConfig, UpdateScales
from gswm.models.gswm.schedule import Schedule
from gswm.models.recipe import DataConfig, Recipe, TrainConfig

LENGTHS = ((0.0, 2), (0.3, 4), (0.5, 8), (0.7, 12))
"""The curriculum: (from which share of the steps, T)."""
GIVEN = 6
"""Frames given when validating."""


@dataclass(frozen=True)
class VideoSettings:
    """What a model must know about a video. Sizes and distances are shares of the frame."""

    image_size: int = 128
    num_objects: int = 8
    grid: int = 8
    size_logit: float = -2.0
    """Mean of the prior of z̄_hw."""
    size_std: float = 0.5
    step_xy: float = 0.3
    """Largest motion in a frame, in units of xy: the frame is 2 wide."""
    step_hw: float = 0.1
    proposal: tuple[float, float] = (0.05, 0.3)
    sigma: float = 0.1
    """Standard deviation of the pixels."""
    threshold: float = 0.12
    """Difference from the background that counts as motion."""


@dataclass(frozen=True)
class Teaching:
    """How objects are kept alive. Shares of the training are of its steps."""

    motion: float = 2.0
    """Weight of each pixel of the motion loss at first."""
    taught: tuple[float, float] = (0.15, 0.35)
    """When the motion loss begins to fade, and when it is gone."""
    pres_start: float = 0.1
    pres_end: float = 1e-3
    fall: tuple[float, float] = (0.35, 0.7)
    """When the prior of presence begins to fall, and when it is at its end."""
    auxiliary: tuple[float, float] = (0.5, 0.7)

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
    video: VideoSettings,
    length: Length,
    teaching: Teaching = STANDARD,
    *,
    start: str | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe that fits a video, whose frames and background are in `file`."""
    model = GSWMConfig(
        image_size=video.image_size,
        num_objects=video.num_objects,
        background="static",
        motion_threshold=video.threshold,
        discovery=DiscoveryConfig(
            grid=video.grid,
            hw_std=video.size_std,
            start_at_prior=True,
            rejection=0.2,
            rival_rejection=0.3,
        ),
        propagation=PropagationConfig(
            proposal_range=video.proposal,
            update=UpdateScales(xy=video.step_xy, hw=video.step_hw),
            position_scale=video.image_size / 2,
        ),
        schedule=schedule_for(video, length, teaching),
    )
    train = TrainConfig(
        steps=length.steps,
        batch=length.batch,
        lr=length.lr,
        warmup=min(300, max(1, length.steps // 20)),
        last_lr=0.02,
        clip_by="part",
        start=start,
        validate_every=max(1, length.steps // 4),
        validation_episodes=16,
    )
    return Recipe(name, DataConfig(file, given=GIVEN), model, train, seed)


def schedule_for(video: VideoSettings, length: Length, teaching: Teaching) -> Schedule:
    """All that changes, stretched over the steps there are."""

    def at(share: float) -> int:
        return round(share * length.steps)

    lengths = {at(share): min(frames, length.longest) for share, frames in LENGTHS}
    fall, taught, aux = teaching.fall, teaching.taught, teaching.auxiliary
    return Schedule(
        lengths=tuple(sorted(lengths.items())),
        likelihood_std=Anneal(video.sigma, video.sigma),
        hw_prior_mean=Anneal(video.size_logit, video.size_logit),
        pres_prior=Anneal(
            teaching.pres_start, teaching.pres_end, at(fall[0]), at(fall[1]), geometric=True
        ),
        motion_weight=Anneal(teaching.motion, 0.0, at(taught[0]), at(taught[1])),
        aux_weight=Anneal(0.0, 1.0, at(aux[0]), at(aux[1])),
    )
