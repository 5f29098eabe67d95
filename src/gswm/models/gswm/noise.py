"""All random numbers of a step, drawn in advance, so that the model itself is deterministic."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gswm.core.distributions import logistic_noise, normal_noise
from gswm.core.records import frames, map_tensors
from gswm.data.batches.augment import AugmentNoise
from gswm.models.base import Noise
from gswm.models.gswm.discovery import DiscoveryNoise
from gswm.models.gswm.propagation import PropagationNoise
from gswm.models.objects import Sizes


@dataclass(frozen=True)
class RolloutNoise:
    """Random numbers of rollouts from several frames of each video."""

    start: Float[Tensor, "*batch start"]
    """The frames to start from, as fractions of the possible range."""
    propagation: PropagationNoise
    """All starts and rollouts in one batch, frame by frame."""


@dataclass(frozen=True)
class GSWMNoise(Noise):
    """Random numbers for several frames of several videos."""

    context: Float[Tensor, "*batch context"]
    propagation: PropagationNoise
    discovery: DiscoveryNoise
    keep: Bool[Tensor, "*batch"]
    """Mask of the frames with discovery."""
    kept: tuple[int, ...]
    """The number of these frames, for each video."""
    rollouts: RolloutNoise | None = None
    """Noise of the prior's rollouts beside the ELBO; None without them."""
    augment: AugmentNoise | None = None
    """Noise of data augmentation; None without it."""

    def rows(self, which: slice) -> "GSWMNoise":
        """The noise of some of the videos."""
        some = map_tensors(lambda tensor: tensor[which], self)
        return replace(some, kept=self.kept[which])

    def frames(self) -> "list[GSWMNoise]":
        """The noise of each frame."""
        return frames(replace(self, kept=(), rollouts=None, augment=None))


@dataclass(frozen=True)
class NoiseShape:
    """Shapes of the noise of a frame."""

    sizes: Sizes
    num_objects: int
    num_cells: int

    def draw(self, batch: int, time: int, dropout: float, generator: torch.Generator) -> GSWMNoise:
        """Draw noise for sampling."""
        kept = frames_kept(batch, time, dropout)
        return GSWMNoise(
            normal_noise((batch, time, self.sizes.context), generator),
            PropagationNoise(*self.of(batch, time, self.num_objects, generator)),
            DiscoveryNoise(*self.of(batch, time, self.num_cells, generator)),
            frames_to_discover_in(time, kept, generator),
            kept,
        )

    def rollouts(
        self, batch: int, starts: int, time: int, generator: torch.Generator
    ) -> RolloutNoise:
        """Noise of rollouts over `time` frames from each of `starts` frames per video."""
        start = torch.rand((batch, starts), generator=generator, device=generator.device)
        drawn = self.of(batch, starts * time, self.num_objects, generator)
        return RolloutNoise(start, PropagationNoise(*drawn))

    def of(self, batch: int, time: int, num: int, generator: torch.Generator) -> list[Tensor]:
        """Noise of state, attributes and presence for `num` objects or cells."""
        lead = (batch, time, num)
        gaussian = [(*lead, self.sizes.state), (*lead, self.sizes.z_att)]
        noise = [normal_noise(shape, generator) for shape in gaussian]
        return [*noise, logistic_noise((*lead, 1), generator)]

    def none(self, batch: int, time: int, keep: Bool[Tensor, " time"], num_kept: int) -> GSWMNoise:
        """Zero noise, with which every distribution gives its mean."""
        sizes, zero = self.sizes, torch.zeros((), device=keep.device)

        def zeros(num: int) -> list[Tensor]:
            return [zero.expand(batch, time, num, n) for n in (sizes.state, sizes.z_att, 1)]

        propagation = PropagationNoise(*zeros(self.num_objects))
        discovery = DiscoveryNoise(*zeros(self.num_cells))
        context = zero.expand(batch, time, sizes.context)
        kept = (num_kept,) * batch
        return GSWMNoise(context, propagation, discovery, keep.expand(batch, time), kept)


def frames_kept(batch: int, time: int, dropout: float) -> tuple[int, ...]:
    """The number of frames of each video with discovery: the first, and a share of the others.

    The total is fixed, so that the work of a step does not depend on the draw. Fractions are
    rounded down for some rows and up for others, by the van der Corput sequence 0, 1/2, 1/4, 3/4,
    1/8, ...
    """
    turns = (int(bin(row)[:1:-1], 2) / (1 << row.bit_length()) for row in range(batch))
    return tuple(1 + int(round((time - 1) * (1 - dropout) + turn, 9)) for turn in turns)


def frames_to_discover_in(
    time: int, kept: tuple[int, ...], generator: torch.Generator
) -> Bool[Tensor, "batch time"]:
    """Discovery dropout: draw the frames with discovery."""
    order = torch.rand((len(kept), time), generator=generator, device=generator.device)
    order[:, 0] = -1
    rank = order.argsort(dim=1).argsort(dim=1)
    return torch.stack([row < num for row, num in zip(rank, kept, strict=True)])
