"""All that is random in a step, drawn before it: the rest of the model is a function."""

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
    """Random numbers of rollouts from some frames of each video."""

    start: Float[Tensor, "*batch start"]
    """From which frames, as fractions of those that may be."""
    propagation: PropagationNoise
    """One start after the other, one rollout after the other, frame by frame."""


@dataclass(frozen=True)
class GSWMNoise(Noise):
    """For some frames of some videos."""

    context: Float[Tensor, "*batch context"]
    propagation: PropagationNoise
    discovery: DiscoveryNoise
    keep: Bool[Tensor, "*batch"]
    """In which frames there is discovery."""
    kept: tuple[int, ...]
    """In how many of them, for each video."""
    rollouts: RolloutNoise | None = None
    """Of the prior's rollouts beside the ELBO, if there are any."""
    augment: AugmentNoise | None = None
    """Of the videos themselves, if they are augmented."""

    def rows(self, which: slice) -> "GSWMNoise":
        """Of some of the videos."""
        some = map_tensors(lambda tensor: tensor[which], self)
        return replace(some, kept=self.kept[which])

    def frames(self) -> "list[GSWMNoise]":
        """Frame by frame."""
        return frames(replace(self, kept=(), rollouts=None, augment=None))


@dataclass(frozen=True)
class NoiseShape:
    """Shapes of the noise of a frame."""

    sizes: Sizes
    num_objects: int
    num_cells: int

    def draw(self, batch: int, time: int, dropout: float, generator: torch.Generator) -> GSWMNoise:
        """Noise to sample with."""
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
        """Noise of rollouts from `starts` frames of each video, `time` frames from each."""
        start = torch.rand((batch, starts), generator=generator, device=generator.device)
        drawn = self.of(batch, starts * time, self.num_objects, generator)
        return RolloutNoise(start, PropagationNoise(*drawn))

    def of(self, batch: int, time: int, num: int, generator: torch.Generator) -> list[Tensor]:
        """For `num` objects or cells: of state, attributes and presence."""
        lead = (batch, time, num)
        gaussian = [(*lead, self.sizes.state), (*lead, self.sizes.z_att)]
        noise = [normal_noise(shape, generator) for shape in gaussian]
        return [*noise, logistic_noise((*lead, 1), generator)]

    def none(self, batch: int, time: int, keep: Bool[Tensor, " time"], num_kept: int) -> GSWMNoise:
        """No noise at all: every distribution gives its mean."""
        sizes, zero = self.sizes, torch.zeros((), device=keep.device)

        def zeros(num: int) -> list[Tensor]:
            return [zero.expand(batch, time, num, n) for n in (sizes.state, sizes.z_att, 1)]

        propagation = PropagationNoise(*zeros(self.num_objects))
        discovery = DiscoveryNoise(*zeros(self.num_cells))
        context = zero.expand(batch, time, sizes.context)
        kept = (num_kept,) * batch
        return GSWMNoise(context, propagation, discovery, keep.expand(batch, time), kept)


def frames_kept(batch: int, time: int, dropout: float) -> tuple[int, ...]:
    """In how many frames of each video there is discovery: the first, and a share of the others.

    The number is fixed, so that the work of a step does not depend on the draw: rounded down for
    some rows and up for others, by van der Corput's sequence 0, 1/2, 1/4, 3/4, 1/8, ...
    """
    turns = (int(bin(row)[:1:-1], 2) / (1 << row.bit_length()) for row in range(batch))
    return tuple(1 + int(round((time - 1) * (1 - dropout) + turn, 9)) for turn in turns)


def frames_to_discover_in(
    time: int, kept: tuple[int, ...], generator: torch.Generator
) -> Bool[Tensor, "batch time"]:
    """Discovery dropout: which frames these are."""
    order = torch.rand((len(kept), time), generator=generator, device=generator.device)
    order[:, 0] = -1
    rank = order.argsort(dim=1).argsort(dim=1)
    return torch.stack([row < num for row, num in zip(rank, kept, strict=True)])
