"""The training schedule of G-SWM (§3.4.2, B.1), including overshooting."""

from dataclasses import dataclass, field, replace

from gswm.core.errors import UserError
from gswm.core.schedule import Anneal, Curriculum, Stage
from gswm.models.contract import Discover

JOINT = {"joint": 0, "joint_starts": 1, "joint_horizon": 1}
"""Minimum values of these settings."""


@dataclass(frozen=True)
class Overshooting:
    """Settings of the stage in which the prior learns from its own rollouts (`overshoot`)."""

    start: int | None = None
    """The step from which only the prior learns, with a new learning-rate schedule. Default: None
    (never).
    """
    rate: float = 1.0
    """Factor on all learning rates in this stage."""
    windows: int = 24_576
    """Number of windows whose tracks are kept on the device and reused: about 0.5 KB per slot and
    frame.
    """
    batch: int = 256
    """Windows per step, rounded up to a multiple of `--train.batch`."""
    given: int = 10
    """Frames of a window that the prior is given."""
    horizon: int = 15
    """Frames of a window that the prior imagines."""
    discover: Discover = "first"
    """The given frames in which objects are discovered; "always" includes the imagined ones, and an
    object counts as long as it is tracked.
    """
    samples: int = 2
    """Rollouts of each window; 0 for one rollout by means, which is correct only if the future is
    certain.
    """
    kl: float = 1e-3
    """Weight of KL(z̃) in the given frames, which keeps long rollouts close to inferred tracks."""
    looks: float = 0.02
    """Weight of depth and what, relative to positions."""
    decay: float = 1.0
    """Factor on gradients for each imagined frame that they pass. Collisions multiply gradients;
    with a factor below 1, windows with many collisions dominate a step less.
    """
    limit: float | None = None
    """Largest gradient of an object that an imagined frame passes to the one before, relative to
    the typical gradient. Default: None (no limit).
    """
    joint: float = 0.0
    """Weight of the rollouts beside the ELBO before `start`. Default: 0 (none)."""
    joint_starts: int = 2
    """Number of random frames of each video from which these rollouts start."""
    joint_horizon: int = 8
    """Length of these rollouts, at most the number of frames after the second."""
    joint_decoder: bool = False
    """Train MLP_att on these rollouts too. The ELBO decodes only samples of the posterior. Samples
    of the prior that lie between two modes decode to a step that is a mixture of both.
    """

    def check(self) -> None:
        """Raise a UserError for invalid settings."""
        least = {"start": 0, "batch": 1, "windows": self.batch, "given": 1, "horizon": 1}
        least |= {"samples": 0, "kl": 0, "looks": 0, "decay": 0, "limit": 0, "rate": 0}
        for name, value in (least | JOINT).items():
            ours = getattr(self, name)
            if ours is not None and not ours >= value:
                flag = f"--model.schedule.overshoot.{name.replace('_', '-')}"
                raise UserError(f"{flag} is {ours}: it must be at least {value}")
        if self.decay > 1:
            raise UserError(
                f"--model.schedule.overshoot.decay is {self.decay}: it must be at most 1"
            )

    def joint_frames(self, length: int) -> int:
        """Number of frames of the rollouts beside the ELBO, in windows of `length`."""
        return min(self.joint_horizon, max(0, length - 2)) if self.joint else 0

    @property
    def stage(self) -> "OvershootStage":
        """The stage of training."""
        length, repeats = self.given + self.horizon, self.windows // self.batch
        return OvershootStage(length, repeats=repeats, batch=self.batch)


@dataclass(frozen=True)
class OvershootStage(Stage):
    """The stage in which only the prior learns, from tracks that were inferred before."""

    @property
    def through_frames(self) -> bool:
        """See `Stage`."""
        return False


@dataclass(frozen=True)
class Schedule(Curriculum):
    """The curriculum and the annealed settings."""

    lengths: tuple[tuple[int, int], ...] = ((0, 2), (1_500, 6), (4_000, 12), (9_000, 20))
    """The curriculum: (from which step, T)."""
    likelihood_std: Anneal = field(default=Anneal(0.2, 0.2))
    """σ of the pixels. The paper's table calls 0.2 a variance; it is used as a deviation."""
    pres_prior: Anneal = field(default=Anneal(1e-10, 1e-10))
    """Prior probability of an object in a cell."""
    aux_weight: Anneal = field(default=Anneal(1.0, 1.0))
    """Factor on the auxiliary loss of presence."""
    motion_weight: Anneal = field(default=Anneal(0.0, 0.0))
    """Weight of each pixel of the motion loss; 0 turns it off. Needs a static background."""
    label_weight: Anneal = field(default=Anneal(0.0, 0.0))
    """Weight of the supervision by true boxes of a world (see `labels`); 0 turns it off."""
    slack_weight: Anneal = field(default=Anneal(0.0, 0.0))
    """Weight of each empty pixel of a box; 0 turns it off."""
    hw_prior_mean: Anneal = field(default=Anneal(-1.5, -1.5))
    """Mean of the prior of z̄_hw, before its sigmoid."""
    overshoot: Overshooting = field(default_factory=Overshooting)

    def stage(self, step: int) -> Stage:
        """See `Curriculum`."""
        start = self.overshoot.start
        return super().stage(step) if start is None or step < start else self.overshoot.stage

    @property
    def anew(self) -> int | None:
        """See `Curriculum`."""
        return self.overshoot.start

    @property
    def rate_anew(self) -> float:
        """See `Curriculum`."""
        return self.overshoot.rate

    def needed(self, steps: int) -> int:
        """See `Curriculum`."""
        if self.overshoot.start is None or self.overshoot.start >= steps:
            return self.longest
        return max(self.longest, self.overshoot.stage.length)

    def steady(self, length: int) -> "Schedule":
        """See `Curriculum`; the ELBO alone."""
        return replace(super().steady(length), overshoot=Overshooting())
